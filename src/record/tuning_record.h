/* SPDX-License-Identifier: MIT */
/*
 * tuning_record.h - what settings were before umactl changed them: tuning.json in the state folder of the machine, and its lock. The record is on the disk
 * before the first change, and is replaced whole, so that it can be read at any moment, also after a kill or a power cut.
 *
 * Settings live until a restart, so a record is worth something only in the boot that it names. What is read here comes from a file that only root may
 * write; it is checked all the same: paths and values as act/tunable.h allows them, and bounded.
 */
#pragma once

#include "act/tunable.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define UMA_TUNING_SCHEMA "umactl.tuning/1"
enum { UMA_TUNING_CHANGES_MAX = 128, UMA_TUNING_ID_MAX = 96, UMA_TUNING_BOOT_MAX = 64 };

struct uma_tuning_change {
    char id[UMA_TUNING_ID_MAX];         /* of the advice: "dirty-background" */
    char path[UMA_TUNABLE_PATH_MAX];    /* "proc/sys/vm/dirty_background_bytes" */
    char before[UMA_TUNABLE_VALUE_MAX]; /* of path, at the first change */
    char set[UMA_TUNABLE_VALUE_MAX];    /* what umactl set last */
    char earlier
        [UMA_TUNABLE_VALUE_MAX]; /* what it had set before that, "" when that was the first: which of both was reached is not known after a kill */
    char restore_path[UMA_TUNABLE_PATH_MAX]; /* what takes it back: path, or its counterpart */
    char restore[UMA_TUNABLE_VALUE_MAX];
    int64_t time_ns; /* of the first change */
};

struct uma_tuning_record {
    char boot_id[UMA_TUNING_BOOT_MAX];
    size_t n;
    struct uma_tuning_change changes[UMA_TUNING_CHANGES_MAX];
};

/* The state folder of the machine: UMACTL_STATE, else /var/lib/umactl. Not the user's: the settings are not, either. */
const char *uma_tuning_state(void);

/* Pure. -EINVAL names the place and what was expected. */
int uma_tuning_record_parse(const char *text, size_t length, const char *file, struct uma_tuning_record *ret_record, struct uma_error *err);
void uma_tuning_record_format(const struct uma_tuning_record *record, struct uma_text *text);

struct uma_tuning_store {
    int dir_fd, lock_fd;
    char path[4000]; /* of the folder */
};
/*
 * Open `folder`, made (0755) when `create`, and take its lock, waiting some seconds for another umactl. -ENOENT when there is no such folder,
 * -EWOULDBLOCK when it stays locked.
 */
int uma_tuning_store_open(const char *folder, bool create, struct uma_tuning_store *ret_store, struct uma_error *err);
void uma_tuning_store_close(struct uma_tuning_store *store);
/* 1: read, 0: there is no record; -EINVAL: it is not one (cut off, foreign, tampered with): then nothing may be changed. */
int uma_tuning_store_load(struct uma_tuning_store *store, struct uma_tuning_record *ret_record, struct uma_error *err);
/* The same without the lock, for looking: a record is replaced whole. 0 also when there is no folder. */
int uma_tuning_record_peek(const char *folder, struct uma_tuning_record *ret_record, struct uma_error *err);
/* Replace it, on the disk when this returns; remove it when it holds no change. */
int uma_tuning_store_save(struct uma_tuning_store *store, const struct uma_tuning_record *record, struct uma_error *err);

static inline void uma_cleanup_tuning_store(struct uma_tuning_store *store) {
    uma_tuning_store_close(store);
}
