/* SPDX-License-Identifier: MIT */
#include "record/csv.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

void uma_csv_layout_full(bool plain, struct uma_csv_layout *ret_layout) {
    struct uma_csv_layout layout = { .plain = plain };
    layout.column[layout.n++] = UMA_CSV_TIMESTAMP;
    for (int i = 0; i < UMA_COLUMN_COUNT; i++)
        layout.column[layout.n++] = i;
    layout.column[layout.n++] = UMA_CSV_EVENTS;
    *ret_layout = layout;
}

static const char *column_name(int column) {
    return column == UMA_CSV_TIMESTAMP ? "timestamp" : column == UMA_CSV_EVENTS ? "events" : uma_columns[column].name;
}

/* [s, end) without spaces around it, quotes, and the " [W]" that nvidia-smi puts behind a name. */
static void trim(const char **s, const char **end) {
    while (*s < *end && (**s == ' ' || **s == '\t' || **s == '"'))
        (*s)++;
    while (*end > *s && ((*end)[-1] == ' ' || (*end)[-1] == '\t' || (*end)[-1] == '\r' || (*end)[-1] == '"'))
        (*end)--;
    if (*end > *s && (*end)[-1] == ']') {
        const char *bracket = memrchr(*s, '[', (size_t)(*end - *s));
        if (bracket && bracket > *s)
            for (*end = bracket; *end > *s && (*end)[-1] == ' ';)
                (*end)--;
    }
}

static int column_find(const char *s, const char *end) {
    size_t n = (size_t)(end - s);
    for (int i = UMA_CSV_EVENTS; i < UMA_COLUMN_COUNT; i++)
        if (strlen(column_name(i)) == n && memcmp(column_name(i), s, n) == 0)
            return i;
    return UMA_COLUMN_COUNT;
}

/* nvidia-smi's rows have "[N/A]", units and a date with slashes; bare rows begin with a number and hold none of these. */
static bool row_is_plain(const char *row, const char *end) {
    const char *comma = memchr(row, ',', (size_t)(end - row));
    return !memchr(row, '/', (size_t)((comma ? comma : end) - row));
}

int uma_csv_layout_parse(const char *text, size_t length, bool plain, const char *file, struct uma_csv_layout *ret_layout,
                         struct uma_error *err) {
    struct uma_csv_layout layout = { .plain = plain };
    const char *end = text + length;
    const char *newline = memchr(text, '\n', length);
    const char *header_end = newline ? newline : end;
    if ((size_t)(header_end - text) >= UMA_CSV_HEADER_MAX)
        return uma_error_text(err, EINVAL, "%s:1: no CSV header of umactl or nvidia-smi: the first line is longer than %d bytes", file,
                              UMA_CSV_HEADER_MAX);
    for (const char *s = text; s <= header_end;) {
        const char *comma = memchr(s, ',', (size_t)(header_end - s));
        const char *name = s, *name_end = comma ? comma : header_end;
        trim(&name, &name_end);
        int column = column_find(name, name_end);
        if (column == UMA_COLUMN_COUNT)
            return uma_error_text(err, EINVAL, "%s:1: column %u is \"%.*s\", which is none that umactl writes; give another file", file,
                                  layout.n + 1, (int)MIN_OF(name_end - name, 60), name);
        if (layout.n == 0 && column != UMA_CSV_TIMESTAMP)
            return uma_error_text(err, EINVAL, "%s:1: the first column is \"%.*s\", expected \"timestamp\"; give another file", file,
                                  (int)MIN_OF(name_end - name, 60), name);
        if (layout.n == UMA_CSV_WIDTH_MAX)
            return uma_error_text(err, EINVAL, "%s:1: more than %d columns", file, UMA_CSV_WIDTH_MAX);
        layout.column[layout.n++] = column;
        s = name_end = comma ? comma + 1 : header_end + 1;
    }
    if (newline && newline + 1 < end) {
        const char *row = newline + 1, *row_end = memchr(row, '\n', (size_t)(end - row));
        layout.plain = row_is_plain(row, row_end ? row_end : end);
    }
    *ret_layout = layout;
    return 0;
}

void uma_csv_header_format(struct uma_text *text, const struct uma_csv_layout *layout) {
    for (unsigned i = 0; i < layout->n; i++) {
        if (i)
            uma_text_char(text, ',');
        uma_text_append(text, column_name(layout->column[i]));
    }
    uma_text_char(text, '\n');
}

/* "2026/03/02 10:11:12.123": nvidia-smi's timestamp, local time. Cut, not rounded, to milliseconds, as a clock does. */
static void timestamp(struct uma_text *text, int64_t time_ns, bool plain) {
    time_t seconds = (time_t)(time_ns / 1000000000);
    int milliseconds = (int)(time_ns / 1000000 % 1000);
    struct tm tm;
    if (plain)
        uma_text_printf(text, "%" PRId64 ".%03d", (int64_t)seconds, milliseconds);
    else if (localtime_r(&seconds, &tm))
        uma_text_printf(text, "%04d/%02d/%02d %02d:%02d:%02d.%03d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
                        tm.tm_sec, milliseconds);
    else
        uma_text_append(text, "[N/A]");
}

void uma_csv_row_format(struct uma_text *text, const struct uma_csv_layout *layout, const struct uma_sample *row, const char *events) {
    for (unsigned i = 0; i < layout->n; i++) {
        int column = layout->column[i];
        if (i)
            uma_text_append(text, layout->plain ? "," : ", ");
        if (column == UMA_CSV_TIMESTAMP)
            timestamp(text, row->time_ns, layout->plain);
        else if (column == UMA_CSV_EVENTS)
            uma_text_append(text, events ? events : "");
        else
            uma_column_format(text, (enum uma_column)column, row->value[column], layout->plain);
    }
    uma_text_char(text, '\n');
}

/* All of the text in one write(2). A cut-off row (disk full) is remembered, so that the next one starts on a line of its own. */
static int write_line(struct uma_csv *csv) {
    if (csv->line.failed)
        return -ENOMEM;
    ssize_t n = write(csv->fd, csv->line.data, csv->line.length);
    if (n == (ssize_t)csv->line.length) {
        csv->torn = false;
        return 0;
    }
    if (n > 0)
        csv->torn = true;
    return n < 0 ? -errno : -ENOSPC;
}

static int inspect(struct uma_csv *csv, const char *path, bool plain, struct uma_error *err) {
    _cleanup_free_
    char *head = malloc(2 * UMA_CSV_HEADER_MAX);
    if (!head)
        return uma_error_set(err, ENOMEM, "%s", path);
    ssize_t n = pread(csv->fd, head, 2 * UMA_CSV_HEADER_MAX, 0);
    if (n < 0)
        return uma_error_set(err, errno, "reading %s", path);
    if (n == 0)
        return 0;
    int r = uma_csv_layout_parse(head, (size_t)n, plain, path, &csv->layout, err);
    if (r < 0)
        return r;
    csv->appended = true;
    csv->restyled = csv->layout.plain != plain;
    csv->narrowed = csv->layout.n < UMA_COLUMN_COUNT + 2;
    off_t size = lseek(csv->fd, 0, SEEK_END);
    char last = '\n';
    if (size > 0 && pread(csv->fd, &last, 1, size - 1) == 1)
        csv->torn = last != '\n';
    return 0;
}

/*
 * Two that begin on one new file at the same moment must not both write a header. The lock is for that moment only; where there are no locks,
 * or someone holds one on and on, it goes on without.
 */
static bool lock(int fd) {
    enum { TRIES = 50, STEP_NS = 10 * 1000 * 1000 }; /* half a second: inspecting and a header take well under a millisecond */
    for (int i = 0; i < TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        (void)nanosleep(&(struct timespec){ .tv_nsec = STEP_NS }, NULL);
    }
    return false;
}

int uma_csv_open(const char *path, bool plain, struct uma_csv *ret_csv, struct uma_error *err) {
    struct uma_csv csv = { .fd = -1 };
    struct stat st;
    uma_csv_layout_full(plain, &csv.layout);
    /* O_NONBLOCK: a FIFO without a reader is an error now, and a full one loses a row later; neither may stop the job's watch. */
    bool regular = stat(path, &st) < 0 ? errno == ENOENT : S_ISREG(st.st_mode) != 0;
    _cleanup_close_ int fd = open(path, (regular ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (fd < 0)
        return uma_error_set(err, errno, "opening %s", path);
    csv.fd = fd;
    bool locked = regular && lock(fd);
    if (regular) {
        int r = inspect(&csv, path, plain, err); /* a failure closes the file, and with it the lock */
        if (r < 0)
            return r;
    }
    if (!csv.appended) {
        uma_csv_header_format(&csv.line, &csv.layout);
        /* a full disk is told with the first row, which then brings the header along */
        csv.header_due = write_line(&csv) < 0 && !csv.torn;
    }
    if (locked)
        (void)flock(fd, LOCK_UN);
    (void)TAKE_FD(fd);
    *ret_csv = csv;
    return 0;
}

int uma_csv_write(struct uma_csv *csv, const struct uma_sample *row, const char *events) {
    uma_text_reset(&csv->line);
    if (csv->torn)
        uma_text_char(&csv->line, '\n');
    if (csv->header_due)
        uma_csv_header_format(&csv->line, &csv->layout);
    uma_csv_row_format(&csv->line, &csv->layout, row, events);
    int r = write_line(csv);
    if (r < 0) {
        csv->failed_rows++;
    } else {
        csv->rows++;
        csv->header_due = false;
    }
    return r;
}

void uma_csv_close(struct uma_csv *csv) {
    uma_text_done(&csv->line);
    if (csv->fd >= 0)
        (void)close(csv->fd);
    csv->fd = -1;
}
