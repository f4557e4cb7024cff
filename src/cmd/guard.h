/* SPDX-License-Identifier: MIT */
/*
 * guard.h - what the files of `umactl guard` share: its sub-commands, asking the guard that runs, and the words for what a guard did. Each sub-command ends in one struct like any command; its name is
 * "guard WORD", so that what it refuses is said in its name.
 */
#pragma once

#include "base/json_write.h"
#include "cmd/command.h"
#include "cmd/status.h"
#include "guard/control.h"
#include "guard/message.h"
#include "guard/trail.h"

#include <limits.h>

/* Found by their second word in guard.c; argv[0] of their run() is that word. */
extern const struct uma_command uma_command_guard_status, uma_command_guard_history, uma_command_guard_policy, uma_command_guard_test,
    uma_command_guard_run, uma_command_guard_release;

/* ---- options that several of them take ---------------------------------------------------------------------- */

enum {
    UMA_GUARD_OPTION_RUN_FOLDER = UMA_OPTION_OWN,
    UMA_GUARD_OPTION_STATE_FOLDER,
    UMA_GUARD_OPTION_POLICY,
    UMA_GUARD_OPTION_OWN /* a sub-command's own begin here */
};

struct uma_guard_places {
    const char *run_folder, *state_folder; /* never NULL: the standard ones, or as --root has them */
    const char *policy;                    /* NULL: the standard files */
    char below_root[2][4096];              /* where --root puts the two folders */
};

/* 1: it was one of these options, and is taken; 0: another; negative: a mistake was told, leave with UMA_EXIT_USAGE. */
int uma_guard_places_option(const struct uma_command *command, struct uma_guard_places *places, int option);
/* All options, of a command for which others of its own mean nothing: -1 to go on, else the status to leave with. */
int uma_guard_places_read(struct uma_option_reader *reader, int argc, char **argv, struct uma_guard_places *places);
/* After the last option: what was not said. `root`: NULL or "/" for this machine. 0, or -ENAMETOOLONG. */
int uma_guard_places_finish(struct uma_guard_places *places, const char *root, struct uma_error *err);

/* Where uma-guard is: the place that UMACTL_GUARD names is the only one; else beside this program, where a build has it, and in ../sbin, where it is installed. */
int uma_guard_program_find(char ret_path[PATH_MAX], struct uma_error *err);

/* ---- asking the guard (guard_ask.c) ------------------------------------------------------------------------- */

struct uma_guard_told {
    char text[UMA_GUARD_ANSWER_MAX + 1]; /* lines of key=value, as the guard said them: hostile until escaped */
};

/*
 * One question ("status", "release", "release 42") and its answer. 0; -ENOENT, -ECONNREFUSED: no guard runs there; -EACCES, -EPERM: it does not speak to this user; -ETIMEDOUT: it does not answer;
 * other -errno. The error says it all.
 */
int uma_guard_ask_it(const char *run_folder, const char *question, struct uma_guard_told *ret_told, struct uma_error *err);
/* The i-th value of a key, in `into`; false: there are not so many. Pure. */
bool uma_guard_told_value(const struct uma_guard_told *told, const char *key, unsigned i, char *into, size_t size);

/* ---- what was done, in words and in JSON (guard_words.c) ---------------------------------------------------- */

/* "2026-11-30 20:01:02": local time; "?" where there is none. */
void uma_guard_time_text(struct uma_text *text, int64_t real_ns);
/* "brake vllm (pid 42)": hostile names escaped. `whom` may be NULL. */
void uma_guard_action_text(struct uma_text *text, const struct uma_guard_action *action, const struct uma_guard_candidate *whom);
/* "5.1 GiB available, the floor is 4.0 GiB, falling by 9.8 GiB/s: there in 0.1 s". */
void uma_guard_evidence_text(struct uma_text *text, const struct uma_guard_evidence *evidence);
/* One line for each candidate, indented. */
void uma_guard_candidates_text(struct uma_text *text, const struct uma_guard_decision *decision, size_t indent);
/* Who of the candidates is meant by an action; NULL: none of them. */
const struct uma_guard_candidate *uma_guard_candidate_of(const struct uma_guard_decision *decision, const struct uma_guard_action *action);

void uma_guard_evidence_json(struct uma_json *json, const char *key, const struct uma_guard_evidence *evidence);
void uma_guard_action_json(struct uma_json *json, const char *key, const struct uma_guard_action *action);
void uma_guard_candidate_json(struct uma_json *json, const char *key, const struct uma_guard_candidate *candidate);

/* ---- the trail (guard_records.c) ---------------------------------------------------------------------------- */

/* One record for people: one line, or some; `all`: with its numbers and candidates. */
void uma_guard_record_text(struct uma_text *text, const struct uma_guard_trail_record *record, bool all);
void uma_guard_record_json(struct uma_json *json, const struct uma_guard_trail_record *record);

struct uma_guard_records {
    char path[4096];
    struct uma_guard_trail_record *list; /* in the order in which they were written */
    size_t n, bad;
};
/* The last `max` of STATE_FOLDER/trail from `since` (CLOCK_REALTIME, 0: all) on. 0; -ENOENT: nothing was ever written there; other -errno. Freed by uma_guard_records_done(). */
int uma_guard_records_read(const char *state_folder, int64_t since, size_t max, struct uma_guard_records *ret_records,
                           struct uma_error *err);
void uma_guard_records_done(struct uma_guard_records *records);

/* ---- what a policy would have done (guard_replay.c) --------------------------------------------------------- */

enum { UMA_GUARD_EPISODES = 256 }; /* that are kept; more are counted */

/*
 * From the first action on somebody until headroom is back, or the recording ends: what would have followed cannot be known, because the recorded machine is one on which nobody was stopped then.
 */
struct uma_guard_episode {
    int64_t begin, end; /* CLOCK_REALTIME */
    struct uma_guard_action action;
    struct uma_guard_candidate whom; /* name "": no table was recorded */
    struct uma_guard_evidence evidence;
    uint64_t lowest; /* headroom in the recording from there on */
};

struct uma_guard_replay {
    struct uma_guard_episode list[UMA_GUARD_EPISODES];
    size_t n;            /* of them, kept */
    size_t episodes;     /* all */
    uint64_t readings;   /* replayed */
    uint64_t room;       /* requests for room */
    uint64_t unknown;    /* readings at which somebody would have been looked for, and no table was recorded */
    int64_t first, last; /* CLOCK_REALTIME of the readings; 0: none */
    uint64_t lowest;     /* headroom of all */
    size_t bad;          /* blocks of the file that could not be used */
    bool one_took_all;   /* a series that says nothing of anybody: as if one program, UMA_GUARD_TAKER, had all that is taken */
};

enum { UMA_GUARD_TAKER = 1000 };

/* A series (guard/series.h) through the decision with this policy; times are its seconds, in nanoseconds. 0; -errno with the line that is wrong. */
int uma_guard_replay_series(const char *path, const struct uma_guard_policy *policy, struct uma_guard_replay *ret_replay,
                            struct uma_error *err);
/* STATE_FOLDER/readings from `since` on through the decision with this policy. 0; -ENOENT: nothing was recorded; other -errno. About 300 KiB are allocated. */
int uma_guard_replay_run(const char *state_folder, int64_t since, const struct uma_guard_policy *policy,
                         struct uma_guard_replay *ret_replay, struct uma_error *err);
