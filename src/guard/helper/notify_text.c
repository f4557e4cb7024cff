/* SPDX-License-Identifier: MIT */
#include "guard/helper/notify_text.h"

#include "base/json_write.h"
#include "base/units.h"

#include <math.h>

bool uma_helper_notify_worth(const struct uma_guard_message *message) {
    return !message->dry_run && message->action.kind != UMA_GUARD_NOTHING && message->action.kind != UMA_GUARD_ROOM;
}

/* ---- a program's environment -------------------------------------------------------------------------------------- */

static void end(struct uma_text *into) {
    uma_text_char(into, '\0');
}

static void word(struct uma_text *into, const char *name, const char *value) {
    uma_text_printf(into, "%s=%s", name, value);
    end(into);
}

static void number(struct uma_text *into, const char *name, uint64_t value) {
    uma_text_printf(into, "%s=%llu", name, (unsigned long long)value);
    end(into);
}

void uma_helper_notify_variables(const struct uma_guard_message *m, uint64_t left_out, struct uma_text *into) {
    word(into, "UMA_GUARD_ACTION", uma_guard_action_word(m->action.kind));
    word(into, "UMA_GUARD_REASON", uma_guard_reason_word(m->action.reason));
    number(into, "UMA_GUARD_PID", (uint64_t)m->action.pid);
    uma_text_append(into, "UMA_GUARD_NAME=");
    (void)uma_text_safe(into, m->whom.name, 0);
    end(into);
    number(into, "UMA_GUARD_BYTES", m->action.bytes);
    number(into, "UMA_GUARD_HEADROOM", m->evidence.headroom);
    number(into, "UMA_GUARD_FLOOR", m->evidence.floor);
    uma_text_printf(into, "UMA_GUARD_RESULT=%d", (int)m->result);
    end(into);
    number(into, "UMA_GUARD_TIME", (uint64_t)(m->time / UMA_SECOND_NS));
    number(into, "UMA_GUARD_LEFT_OUT", left_out);
}

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

/* What JSON's readers hold: more is nothing that was measured. */
static void bytes(struct uma_json *json, const char *key, uint64_t value) {
    uma_json_u64(json, key, (struct uma_u64){ value, UMA_KNOWN });
}

void uma_helper_notify_json(const struct uma_guard_message *m, const char *host, uint64_t left_out, struct uma_text *into) {
    struct uma_json json = { .text = into, .compact = true };
    _cleanup_text_ struct uma_text name = { 0 };
    _cleanup_text_ struct uma_text title = { 0 };
    (void)uma_text_safe(&name, m->whom.name, 0);
    uma_helper_notify_title(m, &title);
    uma_json_begin_object(&json, NULL, true);
    uma_json_string(&json, "schema", "umactl.guard-notification/1");
    uma_json_string(&json, "text", title.data ? title.data : ""); /* the word under which chat servers look for what to show */
    uma_json_string(&json, "host", host);
    uma_json_time(&json, "time", m->time);
    uma_json_string(&json, "action", uma_guard_action_word(m->action.kind));
    uma_json_string(&json, "reason", uma_guard_reason_word(m->action.reason));
    uma_json_signed(&json, "result", m->result);
    uma_json_begin_object(&json, "process", true);
    uma_json_signed(&json, "pid", m->action.pid);
    uma_json_string(&json, "name", name.data ? name.data : "");
    bytes(&json, "bytes", m->action.bytes);
    uma_json_u64(&json, "gpu_bytes", (struct uma_u64){ m->whom.gpu, m->whom.gpu_known ? UMA_KNOWN : UMA_UNKNOWN });
    bytes(&json, "anon_bytes", m->whom.anon);
    bytes(&json, "swap_bytes", m->whom.swap);
    uma_json_signed(&json, "growth", m->whom.growth);
    uma_json_end_object(&json);
    uma_json_begin_object(&json, "evidence", true);
    bytes(&json, "headroom", m->evidence.headroom);
    bytes(&json, "floor", m->evidence.floor);
    bytes(&json, "hard_floor", m->evidence.hard_floor);
    uma_json_u64(&json, "steady", (struct uma_u64){ m->evidence.steady, m->evidence.steady ? UMA_KNOWN : UMA_UNKNOWN });
    uma_json_double(&json, "rate", m->evidence.rate);
    uma_json_double(&json, "time_to_floor", m->evidence.time_to_floor);
    uma_json_double(&json, "psi_some", m->evidence.psi_some);
    uma_json_double(&json, "psi_full", m->evidence.psi_full);
    uma_json_double(&json, "allocstall", m->evidence.allocstall);
    uma_json_end_object(&json);
    uma_json_unsigned(&json, "left_out", left_out);
    uma_json_end_object(&json);
    uma_text_char(into, '\n');
}

/* ---- words for people --------------------------------------------------------------------------------------------- */

static const char *past(enum uma_guard_action_kind kind) {
    switch (kind) {
    case UMA_GUARD_BRAKE:
        return "stopped";
    case UMA_GUARD_RELEASE:
        return "let go on";
    case UMA_GUARD_WARN:
        return "warned";
    case UMA_GUARD_TERM:
        return "asked to end";
    case UMA_GUARD_KILL:
        return "killed";
    case UMA_GUARD_UNKILLABLE:
        return "could not end";
    case UMA_GUARD_LAST_RESORT:
        return "restarts the machine because of";
    case UMA_GUARD_NOTHING:
    case UMA_GUARD_ROOM:
        break;
    }
    return "looked at";
}

void uma_helper_notify_title(const struct uma_guard_message *m, struct uma_text *into) {
    uma_text_append(into, m->result < 0 ? "failed: " : "");
    uma_text_printf(into, "%s ", past(m->action.kind));
    (void)uma_text_safe(into, m->whom.name[0] ? m->whom.name : "?", 0);
    uma_text_printf(into, " (pid %d)", (int)m->action.pid);
    if (m->action.bytes) {
        uma_text_append(into, ", which has ");
        uma_text_bytes(into, m->action.bytes);
    }
}

void uma_helper_markup(const char *text, struct uma_text *into) {
    for (; *text; text++)
        switch (*text) {
        case '&':
            uma_text_append(into, "&amp;");
            break;
        case '<':
            uma_text_append(into, "&lt;");
            break;
        case '>':
            uma_text_append(into, "&gt;");
            break;
        default:
            uma_text_char(into, *text);
        }
}

void uma_helper_notify_body(const struct uma_guard_message *m, uint64_t left_out, struct uma_text *into) {
    _cleanup_text_ struct uma_text plain = { 0 };
    uma_text_printf(&plain, "Why: %s. Available: ", uma_guard_reason_word(m->action.reason));
    uma_text_bytes(&plain, m->evidence.headroom);
    uma_text_append(&plain, ", the floor is ");
    uma_text_bytes(&plain, m->evidence.floor);
    uma_text_append(&plain, ".");
    if (left_out)
        uma_text_printf(&plain, " %llu actions before were not told.", (unsigned long long)left_out);
    uma_helper_markup(plain.data ? plain.data : "", into);
}
