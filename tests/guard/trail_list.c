/* SPDX-License-Identifier: MIT */
/* trail_list.c - the records of a guard's trail in words that a test reads: one line each. */
#include "guard/trail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_name(const char *name) {
    for (size_t i = 0; i < UMA_GUARD_NAME_MAX && name[i]; i++)
        (void)printf(name[i] > ' ' && name[i] < 0x7f ? "%c" : "\\x%02x", (unsigned char)name[i]);
}

static void print_actions(const struct uma_guard_trail_record *r) {
    for (uint32_t k = 0; k < r->decision.n; k++) {
        const struct uma_guard_action *a = &r->decision.actions[k];
        (void)printf(" action=%s pid=%d reason=\"%s\"", uma_guard_action_word(a->kind), (int)a->pid, uma_guard_reason_word(a->reason));
    }
    if (r->decision.n_candidates > 0) {
        (void)printf(" candidates=%u first=", r->decision.n_candidates);
        print_name(r->decision.candidates[0].name);
    }
}

int main(int argc, char **argv) {
    struct uma_guard_trail_record *list = NULL;
    size_t n = 0, bad = 0;
    int r = argc == 2 ? uma_guard_trail_read(argv[1], 4096, &list, &n, &bad) : -1;
    if (r < 0)
        return 1;
    for (size_t i = 0; i < n; i++) {
        static const char *const kinds[] = { "none", "start", "decision", "receipt", "note" };
        (void)printf("%s number=%llu monotonic=%lld dry_run=%u result=%d processes=%u took_ns=%lld", kinds[list[i].kind],
                     (unsigned long long)list[i].number, (long long)list[i].monotonic, list[i].dry_run, list[i].result, list[i].n_processes,
                     (long long)list[i].took_ns);
        if (list[i].kind == UMA_GUARD_TRAIL_NOTE || list[i].kind == UMA_GUARD_TRAIL_START)
            (void)printf(" text=\"%s\"", list[i].text);
        else
            print_actions(&list[i]);
        (void)printf("\n");
    }
    (void)printf("bad=%zu\n", bad);
    free(list);
    return 0;
}
