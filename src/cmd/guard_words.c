/* SPDX-License-Identifier: MIT */
/* What a guard did, in words and in JSON: functions of its records alone. Names of programs are hostile and escaped here. */
#include "cmd/guard.h"

#include "base/units.h"

#include <math.h>
#include <string.h>
#include <time.h>

void uma_guard_time_text(struct uma_text *text, int64_t real_ns) {
    time_t seconds = (time_t)(real_ns / UMA_SECOND_NS);
    struct tm local;
    char stamp[32];
    if (real_ns > 0 && localtime_r(&seconds, &local) && strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &local) > 0)
        uma_text_append(text, stamp);
    else
        uma_text_append(text, "?");
}

static void name_text(struct uma_text *text, const char name[UMA_GUARD_NAME_MAX]) {
    char copy[UMA_GUARD_NAME_MAX + 1];
    memcpy(copy, name, UMA_GUARD_NAME_MAX);
    copy[UMA_GUARD_NAME_MAX] = '\0';
    (void)uma_text_safe(text, copy[0] ? copy : "?", 0);
}

void uma_guard_action_text(struct uma_text *text, const struct uma_guard_action *action, const struct uma_guard_candidate *whom) {
    uma_text_append(text, action->kind == UMA_GUARD_NOTHING ? "nothing can be done" : uma_guard_action_word(action->kind));
    if (action->kind == UMA_GUARD_ROOM) {
        uma_text_append(text, " of ");
        uma_text_bytes(text, action->bytes);
        if (action->order >= 0)
            uma_text_printf(text, ", blocks of order %d", (int)action->order);
        return;
    }
    if (action->pid <= 0)
        return;
    uma_text_char(text, ' ');
    if (whom) {
        name_text(text, whom->name);
        uma_text_printf(text, " (pid %d)", (int)action->pid);
    } else
        uma_text_printf(text, "pid %d", (int)action->pid);
}

/* "9.8 GiB/s" of a rate without its sign. */
static void rate_text(struct uma_text *text, double rate) {
    uma_text_bytes(text, (uint64_t)MIN_OF(fabs(rate), 0x1p62));
    uma_text_append(text, "/s");
}

void uma_guard_evidence_text(struct uma_text *text, const struct uma_guard_evidence *evidence) {
    uma_text_bytes(text, evidence->headroom);
    uma_text_append(text, " available, the floor is ");
    uma_text_bytes(text, evidence->floor);
    if (isfinite(evidence->rate) && evidence->rate < 0) {
        uma_text_append(text, ", falling by ");
        rate_text(text, evidence->rate);
        if (isfinite(evidence->time_to_floor) && evidence->time_to_floor > 0) {
            uma_text_append(text, ": there in ");
            uma_text_fixed(text, MIN_OF(evidence->time_to_floor, 1e6), 2);
            uma_text_append(text, " s");
        }
    }
    if (isfinite(evidence->psi_full) && evidence->psi_full > 0) {
        uma_text_append(text, "; all wait for memory ");
        uma_text_fixed(text, MIN_OF(evidence->psi_full, 1.0) * 100, 0);
        uma_text_append(text, " % of the time");
    }
}

static void candidate_text(struct uma_text *text, const struct uma_guard_candidate *c) {
    name_text(text, c->name);
    uma_text_printf(text, " (pid %d): GPU ", (int)c->pid);
    if (c->gpu_known)
        uma_text_bytes(text, c->gpu);
    else
        uma_text_char(text, '?');
    uma_text_append(text, ", memory of its own ");
    uma_text_bytes(text, c->anon);
    if (c->swap) {
        uma_text_append(text, ", in swap ");
        uma_text_bytes(text, c->swap);
    }
    if (c->growth) {
        uma_text_append(text, c->growth > 0 ? ", grows by " : ", shrinks by ");
        rate_text(text, (double)c->growth);
    }
    static const struct {
        uint32_t flag;
        const char *word;
    } words[] = {
        { UMA_GUARD_PROTECTED, "protected" }, { UMA_GUARD_NO_BRAKE, "not to be stopped" }, { UMA_GUARD_AVOID, "avoided" },
        { UMA_GUARD_PREFER, "preferred" },    { UMA_GUARD_DECLARED, "declared its need" },
    };
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (c->flags & words[i].flag)
            uma_text_printf(text, ", %s", words[i].word);
}

void uma_guard_candidates_text(struct uma_text *text, const struct uma_guard_decision *decision, size_t indent) {
    for (uint32_t i = 0; i < decision->n_candidates && i < UMA_GUARD_CANDIDATES; i++) {
        uma_text_pad(text, indent);
        uma_text_printf(text, "%u. ", (unsigned)i + 1);
        candidate_text(text, &decision->candidates[i]);
        uma_text_char(text, '\n');
    }
}

const struct uma_guard_candidate *uma_guard_candidate_of(const struct uma_guard_decision *decision, const struct uma_guard_action *action) {
    for (uint32_t i = 0; i < decision->n_candidates && i < UMA_GUARD_CANDIDATES; i++)
        if (action->pid > 0 && decision->candidates[i].pid == action->pid && decision->candidates[i].start == action->start)
            return &decision->candidates[i];
    return NULL;
}

/* ---- JSON --------------------------------------------------------------------------------------------------- */

void uma_guard_evidence_json(struct uma_json *json, const char *key, const struct uma_guard_evidence *evidence) {
    uma_json_begin_object(json, key, false);
    uma_json_unsigned(json, "headroom", evidence->headroom);
    uma_json_unsigned(json, "floor", evidence->floor);
    uma_json_unsigned(json, "hard_floor", evidence->hard_floor);
    uma_json_u64(json, "steady", (struct uma_u64){ evidence->steady, evidence->steady ? UMA_KNOWN : UMA_UNKNOWN });
    uma_json_double(json, "rate", evidence->rate);
    uma_json_double(json, "time_to_floor", evidence->time_to_floor);
    uma_json_double(json, "psi_some", evidence->psi_some);
    uma_json_double(json, "psi_full", evidence->psi_full);
    uma_json_double(json, "allocstall", evidence->allocstall);
    uma_json_end_object(json);
}

void uma_guard_action_json(struct uma_json *json, const char *key, const struct uma_guard_action *action) {
    uma_json_begin_object(json, key, true);
    uma_json_string(json, "do", uma_guard_action_word(action->kind));
    uma_json_string(json, "reason", uma_guard_reason_word(action->reason));
    uma_json_u64(json, "pid", (struct uma_u64){ (uint64_t)action->pid, action->pid > 0 ? UMA_KNOWN : UMA_UNKNOWN });
    uma_json_unsigned(json, "bytes", action->bytes);
    uma_json_end_object(json);
}

void uma_guard_candidate_json(struct uma_json *json, const char *key, const struct uma_guard_candidate *c) {
    uma_json_begin_object(json, key, true);
    uma_json_signed(json, "pid", c->pid);
    uma_json_string_n(json, "name", c->name, strnlen(c->name, UMA_GUARD_NAME_MAX));
    uma_json_u64(json, "gpu_bytes", (struct uma_u64){ c->gpu, c->gpu_known ? UMA_KNOWN : UMA_UNKNOWN });
    uma_json_unsigned(json, "anon_bytes", c->anon);
    uma_json_unsigned(json, "swap_bytes", c->swap);
    uma_json_signed(json, "growth", c->growth);
    uma_json_double(json, "score", c->score);
    uma_json_bool(json, "preferred", (c->flags & UMA_GUARD_PREFER) != 0);
    uma_json_bool(json, "avoided", (c->flags & UMA_GUARD_AVOID) != 0);
    uma_json_bool(json, "declared", (c->flags & UMA_GUARD_DECLARED) != 0);
    uma_json_end_object(json);
}
