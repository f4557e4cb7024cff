/* SPDX-License-Identifier: MIT */
/*
 * cache.h - what the files of `umactl cache` share: its sub-commands, the reading they begin with, and its faces as text and JSON, which are functions of
 * what was read alone. Each sub-command ends in one struct like any command; its name is "cache WORD", so that what it refuses is said in its name.
 */
#pragma once

#include "base/json_write.h"
#include "cmd/command.h"
#include "cmd/status.h"
#include "observe/files/page_cache.h"

/* Found by their second word in cache.c; argv[0] of their run() is that word. */
extern const struct uma_command uma_command_cache_evict, uma_command_cache_follow, uma_command_cache_advise;

/* ---- the listing (cache_list.c) ----------------------------------------------------------------------------- */

struct uma_cache_listing {
    struct uma_snapshot snapshot; /* page_cache is what is listed; meminfo and the names of processes beside it */
    struct uma_account account;   /* of it */
    struct uma_page_cache_counts counts;
    bool recorded;  /* from a snapshot or a folder: counts are zero */
    double seconds; /* that the search took */
};

/* Read what `request` asks for (--from and --root: what is recorded there). Freed by uma_cache_listing_done(). */
int uma_cache_listing_read(const struct uma_common_options *common, const struct uma_page_cache_request *request,
                           struct uma_cache_listing *ret_listing, struct uma_error *err);
void uma_cache_listing_done(struct uma_cache_listing *listing);

/* How it is shown. */
struct uma_cache_view {
    bool files;       /* files, not models */
    bool privileged;  /* the reader is root: no other user would be told more */
    bool interrupted; /* Ctrl-C ended the search */
    uint64_t limit;   /* rows of text, 0: all */
    double timeout;   /* of the search, 0: none */
};
void uma_cache_text(struct uma_text *text, const struct uma_cache_listing *listing, const struct uma_cache_view *view,
                    const struct uma_status_style *style);
/* The whole document, schema umactl.cache/1. */
void uma_cache_json(struct uma_json *json, const struct uma_cache_listing *listing, const struct uma_cache_view *view);
/* One file's object, left open for what else is known of it. */
void uma_cache_file_json(struct uma_json *json, const struct uma_cached_file *file);

/* ---- following a load (cache_follow.c) ------------------------------------------------------------------------ */

/* The report's members, for an object that is open. */
struct uma_follow_report;
void uma_follow_report_json(struct uma_json *json, const struct uma_follow_report *report);

/* ---- words (cache_words.c) ---------------------------------------------------------------------------------- */

/* A path with every byte that is not UTF-8 as \xHH: how documents hold it. Into `text`, which is reset first; its data, or "". */
const char *uma_cache_utf8(struct uma_text *text, const char *path);
/* Its bytes in hexadecimal digits where it is not UTF-8, so that no two names have one text; else null. */
void uma_cache_bytes_json(struct uma_json *json, const char *key, const char *path);
/* "vllm 4242, python3 77 +2": as many as fit into `columns` (0: all), at least one and how many more. Escaped. */
void uma_cache_users_text(struct uma_text *text, const struct uma_processes *processes, const int32_t *pids, size_t n, size_t columns);
/* A path or a model's name in at most `columns` (0: whole): of one too long the end stays, which tells files apart. Escaped. */
void uma_cache_name_text(struct uma_text *text, const char *name, size_t columns);
/* "5 min", "3 h", "12 d": at most 6 columns; "?" unknown. */
void uma_cache_age_text(struct uma_text *text, int64_t used_ns, int64_t now_ns);
/* "14 ms", "3.2 s": how long work took. */
void uma_cache_seconds_text(struct uma_text *text, double seconds);
/* "100", "<1", "37": a percentage without its sign; "?" where either is unknown, "-" of nothing. */
void uma_cache_percent_text(struct uma_text *text, struct uma_u64 part, struct uma_u64 whole);
/* Why residency is unknown; NULL when it is known. Static. */
const char *uma_cache_unknown_reason(enum uma_validity validity);

/* ---- a line of progress on stderr (cache_progress.c) -------------------------------------------------------- */

/* Only where stderr is a terminal. `text` is not escaped yet. */
void uma_cache_progress(const char *text);
void uma_cache_progress_end(void);
/* progress() of a struct uma_page_cache_request: a line, and whether to go on. `userdata`: what stands before the numbers, a string; or NULL. */
bool uma_cache_search_progress(void *userdata, uint64_t files, uint64_t resident_bytes, const char *at);
/* SIGINT and SIGTERM are only noted from here on; a second one ends the program. */
void uma_cache_catch_signals(void);
/* The signal that was noted, or 0. */
int uma_cache_signal(void);
/* stop() of whatever asks: was one noted? */
bool uma_cache_is_stopped(void *userdata);
