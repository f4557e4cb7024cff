/* SPDX-License-Identifier: MIT */
/*
 * csv.h - the sample log for scripts that people already have. Existing files are appended to, never truncated: their header decides which
 * columns are written and in which order, so that a file never holds rows of two widths. A row is one write(2) on an O_APPEND descriptor.
 * docs/csv.md is the contract.
 */
#pragma once

#include "base/error.h"
#include "record/sample.h"

#include <stdbool.h>

enum {
    UMA_CSV_TIMESTAMP = -1, /* in `column`: the time */
    UMA_CSV_EVENTS = -2,    /* the names of the events of this row */
    UMA_CSV_WIDTH_MAX = 64,
    UMA_CSV_HEADER_MAX = 8192, /* bytes of a first line that is looked at; our own is under 1 KiB */
};

struct uma_csv_layout {
    unsigned n;
    int column[UMA_CSV_WIDTH_MAX];
    bool plain;
};

/* All columns. */
void uma_csv_layout_full(bool plain, struct uma_csv_layout *ret_layout);
/*
 * The layout of an existing file from its first lines. Unit suffixes of nvidia-smi's own header ("power.draw [W]") are accepted. The style
 * (plain or not) is read from the first data row when there is one, else `plain`. -EINVAL names what is not ours.
 */
int uma_csv_layout_parse(const char *text, size_t length, bool plain, const char *file, struct uma_csv_layout *ret_layout,
                         struct uma_error *err);
void uma_csv_header_format(struct uma_text *text, const struct uma_csv_layout *layout);
/* `events`: names separated by spaces, or NULL. Local time in nvidia-smi's form, or Unix seconds when plain. */
void uma_csv_row_format(struct uma_text *text, const struct uma_csv_layout *layout, const struct uma_sample *row, const char *events);

struct uma_csv {
    int fd;
    struct uma_csv_layout layout;
    bool narrowed;   /* the existing header has fewer columns than we know */
    bool restyled;   /* the existing rows are of the other style than asked for */
    bool appended;   /* there was a header already */
    bool header_due; /* a new file whose header could not be written yet */
    bool torn;       /* the last write was cut off: the next one begins with a newline */
    uint64_t rows, failed_rows;
    struct uma_text line;
};

/* Open or create `path`. Nothing is written but a missing header or a missing last newline. */
int uma_csv_open(const char *path, bool plain, struct uma_csv *ret_csv, struct uma_error *err);
/* 0, or -errno (ENOSPC, EIO, EAGAIN of a full FIFO): the row is lost, later ones are tried again. */
int uma_csv_write(struct uma_csv *csv, const struct uma_sample *row, const char *events);
void uma_csv_close(struct uma_csv *csv);
