/* SPDX-License-Identifier: MIT */
#include "guard/release.h"

#include <string.h>

void uma_guard_release_begin(struct uma_guard_loop *loop, const struct uma_guard_action *action, const struct uma_guard_candidate *who,
                             int64_t now) {
    struct uma_guard_release *release = &loop->release;
    if (release->pid == action->pid) /* KILL after TERM: it is measured from the first */
        return;
    *release = (struct uma_guard_release){
        .pid = action->pid, .since = now, .bytes = action->bytes, .headroom = uma_guard_history_headroom(&loop->history)
    };
    memcpy(release->name, who->name, sizeof(release->name));
    uma_guard_watch_victim(&loop->watch, action->pid);
}

static void say(struct uma_guard_loop *loop, const char *what, int64_t took) {
    const struct uma_guard_release *release = &loop->release;
    uint64_t headroom = uma_guard_history_headroom(&loop->history);
    struct uma_guard_line line;
    uma_guard_line_begin(&line, UMA_GUARD_NOTICE);
    size_t prefix = line.length;
    uma_guard_line_name(&line, release->name, sizeof(release->name));
    uma_guard_line_text(&line, what);
    uma_guard_line_time(&line, took);
    uma_guard_line_text(&line, ": ");
    uma_guard_line_bytes(&line, headroom > release->headroom ? headroom - release->headroom : 0);
    uma_guard_line_text(&line, " of ");
    uma_guard_line_bytes(&line, release->bytes);
    uma_guard_line_text(&line, " back");
    loop->record = (struct uma_guard_trail_record){
        .kind = UMA_GUARD_TRAIL_NOTE, .dry_run = loop->dry_run, .took_ns = took, .headroom_after = headroom
    };
    size_t n = line.length - prefix < UMA_GUARD_RECEIPT_TEXT ? line.length - prefix : UMA_GUARD_RECEIPT_TEXT - 1;
    memcpy(loop->record.text, line.text + prefix, n);
    (void)uma_guard_trail_write(loop->trail, &loop->record, false);
    uma_guard_say(&line);
}

void uma_guard_release_look(struct uma_guard_loop *loop, int64_t now) {
    struct uma_guard_release *release = &loop->release;
    if (release->pid == 0)
        return;
    if (!release->gone && uma_guard_victim_left(&loop->actor) == 0) {
        release->gone = true;
        release->gone_at = now;
        if (loop->state.victim == release->pid)
            uma_guard_victim_gone(&loop->state);
        uma_guard_watch_victim(&loop->watch, 0);
        uma_guard_loop_keep_state(loop);
        say(loop, " ended after ", now - release->since);
    }
    if (loop->state.victim != release->pid) { /* the decision has it that its memory is back, or another's turn has come */
        if (release->gone)
            say(loop, " is done with after ", now - release->since);
        release->pid = 0;
        loop->actor.ended.n = 0;
        uma_guard_watch_victim(&loop->watch, 0);
        uma_guard_loop_keep_state(loop);
    }
}
