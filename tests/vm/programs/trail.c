/* SPDX-License-Identifier: MIT */
/*
 * trail FILE last - the number of the guard's newest record; trail FILE NUMBER - every record after that number, one line each:
 *   start NUMBER; decision NUMBER KIND REASON PID HEADROOM FLOOR RATE; receipt KIND REASON PID RESULT TOOK_NS HEADROOM_AFTER N_PROCESSES NAME; note TEXT
 * Words with blanks are joined by underscores.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard/trail.h"
#include "number.h"

static const char *word(const char *text, char *into, size_t size) {
    size_t n = 0;
    for (; *text && n + 1 < size; text++)
        into[n++] = isalnum((unsigned char)*text) || strchr("-_.:", *text) ? *text : '_';
    into[n] = '\0';
    return n ? into : "-";
}

static void print(const struct uma_guard_trail_record *r) {
    char kind[64], reason[64], name[64];
    if (r->kind == UMA_GUARD_TRAIL_RECEIPT) {
        const struct uma_guard_action *a = &r->decision.actions[0];
        (void)printf("receipt %s %s %d %d %" PRId64 " %" PRIu64 " %u %s\n", word(uma_guard_action_word(a->kind), kind, sizeof(kind)),
                     word(uma_guard_reason_word(a->reason), reason, sizeof(reason)), a->pid, r->result, r->took_ns, r->headroom_after,
                     r->n_processes, word(r->decision.candidates[0].name, name, sizeof(name)));
    } else if (r->kind == UMA_GUARD_TRAIL_DECISION) {
        for (uint32_t i = 0; i < r->decision.n && i < UMA_GUARD_ACTIONS; i++)
            (void)printf("decision %" PRIu64 " %s %s %d headroom=%" PRIu64 " floor=%" PRIu64 " rate=%.0f\n", r->number,
                         word(uma_guard_action_word(r->decision.actions[i].kind), kind, sizeof(kind)),
                         word(uma_guard_reason_word(r->decision.actions[i].reason), reason, sizeof(reason)), r->decision.actions[i].pid,
                         r->decision.evidence.headroom, r->decision.evidence.floor, r->decision.evidence.rate);
        for (uint32_t i = 0; i < r->decision.n_candidates && i < UMA_GUARD_CANDIDATES; i++) {
            const struct uma_guard_candidate *c = &r->decision.candidates[i];
            if (c->growth <= 0 && c->score <= 0)
                continue;
            (void)printf("candidate %" PRIu64 " %d %s score=%.3g gpu=%" PRIu64 " anon=%" PRIu64 " swap=%" PRIu64 " growth=%" PRId64
                         " flags=%x\n",
                         r->number, c->pid, word(c->name, name, sizeof(name)), c->score, c->gpu_known ? c->gpu : 0, c->anon, c->swap,
                         c->growth, c->flags);
        }
    } else {
        (void)printf("%s %" PRIu64 " %.95s\n", r->kind == UMA_GUARD_TRAIL_START ? "start" : "note", r->number, r->text);
    }
}

int main(int argc, char **argv) {
    struct uma_guard_trail_record *list = NULL;
    size_t n = 0, bad = 0;
    uint64_t after = 0;
    if (argc != 3 || (strcmp(argv[2], "last") != 0 && !number(argv[2], &after)))
        return (void)fprintf(stderr, "usage: trail FILE last|NUMBER\n"), 2;
    int r = uma_guard_trail_read(argv[1], UMA_GUARD_TRAIL_RECORDS, &list, &n, &bad);
    if (r < 0)
        return (void)fprintf(stderr, "trail: %s: %s\n", argv[1], strerror(-r)), 1;
    if (strcmp(argv[2], "last") == 0)
        (void)printf("%" PRIu64 "\n", n ? list[n - 1].number : 0);
    else
        for (size_t i = 0; i < n; i++)
            if (list[i].number > after)
                print(&list[i]);
    free(list);
    return 0;
}
