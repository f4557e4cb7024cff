/* SPDX-License-Identifier: MIT */
#include "guard/series.h"

#include "base/units.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { COLUMNS = 96, PROCESSES = 16, LINE_MOST = 4096 };
#define FILE_MOST (64ull * 1024 * 1024)
/* Eleven days and a half, or four pebibytes: far from where a difference or a rate would not fit. */
#define SECONDS_MOST 1e6
#define SIZE_MOST 4503599627370496.0 /* 2^52: every one is exact in a double */

enum kind { COUNT, SIZE, SECONDS, FLAG };

static const struct known {
    const char *name;
    size_t offset;
    uint32_t group; /* known where the column is there */
    enum kind kind;
} known[] = {
#define IN(name, member, group, kind)                                                                                                      \
    { name, offsetof(struct uma_guard_reading, member), group, kind }
    IN("seconds", time, 0, SECONDS),
    IN("total", total, 0, SIZE),
    IN("available", available, 0, SIZE),
    IN("free", free, 0, SIZE),
    IN("anon", anon, 0, SIZE),
    IN("shmem", shmem, 0, SIZE),
    IN("cache", cache, 0, SIZE),
    IN("dirty", dirty, 0, SIZE),
    IN("swap_total", swap_total, 0, SIZE),
    IN("swap_free", swap_free, 0, SIZE),
    IN("per_cpu", per_cpu, UMA_GUARD_KNOWS_LISTS, SIZE),
    IN("gpu", gpu_bytes, UMA_GUARD_KNOWS_GPU, SIZE),
    IN("allocstall", allocstall, UMA_GUARD_KNOWS_VMSTAT, COUNT),
    IN("compact_stall", compact_stall, UMA_GUARD_KNOWS_VMSTAT, COUNT),
    IN("compact_fail", compact_fail, UMA_GUARD_KNOWS_VMSTAT, COUNT),
    IN("pgscan_direct", pgscan_direct, UMA_GUARD_KNOWS_VMSTAT, COUNT),
    IN("pgsteal_direct", pgsteal_direct, UMA_GUARD_KNOWS_VMSTAT, COUNT),
    IN("pswpin", pswpin, UMA_GUARD_KNOWS_VMSTAT, COUNT),
    IN("pswpout", pswpout, UMA_GUARD_KNOWS_VMSTAT, COUNT),
    IN("refault_file", refault_file, UMA_GUARD_KNOWS_VMSTAT, COUNT),
    IN("psi_some", psi_some, UMA_GUARD_KNOWS_PRESSURE, SECONDS),
    IN("psi_full", psi_full, UMA_GUARD_KNOWS_PRESSURE, SECONDS),
    IN("refusals", driver_refusals, UMA_GUARD_KNOWS_REFUSALS, COUNT),
    IN("gap", gap, 0, FLAG),
#undef IN
};
enum { SECONDS_COLUMN, TOTAL_COLUMN, AVAILABLE_COLUMN, FREE_COLUMN, ANON_COLUMN, SHMEM_COLUMN, GPU_COLUMN = 11 };

static const struct {
    const char *name;
    size_t offset;
} of_process[] = {
    { "anon", offsetof(struct uma_guard_process, anon) },
    { "shmem", offsetof(struct uma_guard_process, shmem) },
    { "swap", offsetof(struct uma_guard_process, swap) },
    { "gpu", offsetof(struct uma_guard_process, gpu) },
};

struct column {
    int known;   /* index, -1: of a process */
    int process; /* index of it */
    size_t offset;
    double unit; /* of a size that says none */
};

struct series {
    const char *name;
    unsigned line;
    size_t n_columns, n_processes;
    struct column columns[COLUMNS];
    bool has_free, gpu_of_processes, any;
    struct uma_guard_reading reading;
    struct uma_guard_process processes[PROCESSES], before[PROCESSES]; /* as in the row; as in the one before */
    bool there[PROCESSES];
    struct uma_guard_process table[PROCESSES]; /* those that are there */
};

static bool is(const char *word, const char *s, size_t n) {
    return strlen(word) == n && memcmp(word, s, n) == 0;
}

/* The next field of a line, without the blanks around it; `*at` moves behind its comma, and is NULL after the last. */
static size_t next_field(const char **at, const char *end, const char **ret_field) {
    const char *from = *at, *comma = memchr(from, ',', (size_t)(end - from)), *to = comma ? comma : end;
    while (from < to && *from == ' ')
        from++;
    while (to > from && to[-1] == ' ')
        to--;
    *at = comma ? comma + 1 : NULL;
    *ret_field = from;
    return (size_t)(to - from);
}

static double unit_of(const char *s, size_t n) {
    static const struct {
        const char *word;
        double bytes;
    } units[] = { { "B", 1 }, { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 } };
    for (size_t i = 0; i < ELEMENTS(units); i++)
        if (is(units[i].word, s, n))
            return units[i].bytes;
    return 0;
}

static int refuse(const struct series *s, struct uma_error *err, const char *what, const char *field, size_t n) {
    return uma_error_text(err, EINVAL, "%.256s: line %u: %s: %.*s", s->name, s->line, what, (int)(n < 64 ? n : 64), field);
}

/* ---- the header ---- */

static int add_process(struct series *s, struct column *column, const char *field, size_t n, struct uma_error *err) {
    const char *dot = memrchr(field, '.', n);
    size_t length = dot ? (size_t)(dot - field) : 0, member = 0, rest = dot ? n - length - 1 : 0;
    while (member < ELEMENTS(of_process) && !(dot && is(of_process[member].name, dot + 1, rest)))
        member++;
    if (member == ELEMENTS(of_process) || length == 0 || length >= UMA_GUARD_NAME_MAX)
        return refuse(s, err, "no column of a series has this name", field, n);
    size_t i = 0;
    while (i < s->n_processes && !is(s->processes[i].name, field, length))
        i++;
    if (i == PROCESSES)
        return refuse(s, err, "there are more than 16 processes", field, n);
    if (i == s->n_processes) {
        struct uma_guard_process *p = &s->processes[s->n_processes++];
        *p = (struct uma_guard_process){ .pid = 1000 + (int32_t)i, .envelope = -1, .uid = 1000, .start = 1000 + i };
        memcpy(p->name, field, length);
    }
    s->gpu_of_processes |= strcmp(of_process[member].name, "gpu") == 0;
    s->processes[i].gpu_known |= strcmp(of_process[member].name, "gpu") == 0;
    *column = (struct column){ .known = -1, .process = (int)i, .offset = of_process[member].offset, .unit = column->unit };
    return 0;
}

static int add_column(struct series *s, const char *field, size_t n, struct uma_error *err) {
    if (s->n_columns == COLUMNS)
        return refuse(s, err, "there are more than 96 columns", field, n);
    struct column *column = &s->columns[s->n_columns];
    const char *unit = memrchr(field, '_', n);
    column->unit = unit ? unit_of(unit + 1, n - (size_t)(unit + 1 - field)) : 0;
    size_t whole = n;
    if (column->unit > 0)
        n = (size_t)(unit - field);
    else
        column->unit = 1;
    size_t i = 0;
    while (i < ELEMENTS(known) && !is(known[i].name, field, n))
        i++;
    if (i == ELEMENTS(known)) {
        int r = add_process(s, column, field, n, err);
        if (r < 0)
            return r;
    } else {
        if (known[i].kind != SIZE && n != whole)
            return refuse(s, err, "this column has no unit", field, whole);
        *column = (struct column){ .known = (int)i, .process = -1, .offset = known[i].offset, .unit = column->unit };
        s->reading.known |= known[i].group;
        s->has_free |= i == FREE_COLUMN;
    }
    for (size_t j = 0; j < s->n_columns; j++)
        if (s->columns[j].process == column->process && s->columns[j].offset == column->offset)
            return refuse(s, err, "this column is there twice", field, whole);
    s->n_columns++;
    return 0;
}

static bool has_column(const struct series *s, int wanted) {
    for (size_t i = 0; i < s->n_columns; i++)
        if (s->columns[i].known == wanted)
            return true;
    return false;
}

/* ---- a row ---- */

static bool parse_number(const char *field, size_t n, const struct column *column, enum kind kind, double *ret_value) {
    double value;
    const char *end = field + n, *rest = uma_parse_f64(field, end, &value);
    if (!rest)
        return false;
    while (rest < end && *rest == ' ')
        rest++;
    double unit = rest == end ? (kind == SIZE ? column->unit : 1) : kind == SIZE ? unit_of(rest, (size_t)(end - rest)) : 0;
    double most = kind == SECONDS ? SECONDS_MOST : kind == FLAG ? 1 : SIZE_MOST;
    value *= unit;
    if (unit <= 0 || !(value >= 0 && value <= most) || ((kind == COUNT || kind == FLAG) && value != floor(value)))
        return false;
    *ret_value = kind == SECONDS ? value * 1e9 : value;
    return true;
}

static int take_field(struct series *s, size_t i, const char *field, size_t n, struct uma_error *err) {
    const struct column *column = &s->columns[i];
    bool of_one = column->known < 0;
    enum kind kind = of_one ? SIZE : known[column->known].kind;
    if (of_one && n == 1 && *field == '-')
        return 0; /* unless another of its fields says otherwise it is not there */
    if (of_one)
        s->there[column->process] = true;
    if (n == 0 && (column->known == SECONDS_COLUMN || (!s->any && column->known >= 0 && column->known <= AVAILABLE_COLUMN)))
        return refuse(s, err, "a number is needed in the column", known[column->known].name, strlen(known[column->known].name));
    if (n == 0)
        return 0;
    double value;
    if (!parse_number(field, n, column, kind, &value))
        return refuse(s, err, "this is no number of its column", field, n);
    uint64_t bits = (uint64_t)(value + 0.5);
    uint32_t flag = bits != 0;
    if (kind == FLAG)
        memcpy((char *)&s->reading + column->offset, &flag, sizeof(flag));
    else
        memcpy((of_one ? (char *)&s->processes[column->process] : (char *)&s->reading) + column->offset, &bits, sizeof(bits));
    return 0;
}

/* What grew since the row before; and of those that are there a table, each its own tree. The machine has what they have, where no column says what it has. */
static size_t make_table(struct series *s, int64_t passed) {
    size_t n = 0;
    uint64_t sums[3] = { 0 };
    for (size_t i = 0; i < s->n_processes; i++) {
        struct uma_guard_process *p = &s->processes[i], *before = &s->before[i];
        bool was = before->pid != 0;
        p->grown_ns = was && s->there[i] ? passed : 0;
        p->gpu_grown_ns = p->gpu_known ? p->grown_ns : 0;
        p->gpu_grown = p->gpu_grown_ns ? (int64_t)(p->gpu - before->gpu) : 0;
        uint64_t now = p->anon + p->shmem + p->swap + p->gpu, then = before->anon + before->shmem + before->swap + before->gpu;
        p->grown = p->grown_ns ? (int64_t)(now - then) : 0;
        *before = s->there[i] ? *p : (struct uma_guard_process){ 0 };
        if (s->there[i]) {
            sums[0] += p->anon;
            sums[1] += p->shmem;
            sums[2] += p->gpu;
            s->table[n] = *p;
            s->table[n].tree = (int32_t)n;
            n++;
        }
        s->there[i] = false;
    }
    if (!has_column(s, ANON_COLUMN))
        s->reading.anon = sums[0];
    if (!has_column(s, SHMEM_COLUMN))
        s->reading.shmem = sums[1];
    if (!has_column(s, GPU_COLUMN) && s->gpu_of_processes) {
        s->reading.known |= UMA_GUARD_KNOWS_GPU;
        s->reading.gpu_bytes = sums[2];
    }
    return n;
}

static int take_row(struct series *s, const char *line, const char *end, struct uma_error *err,
                    int (*each)(void *userdata, const struct uma_guard_view *view, int64_t real_time), void *userdata) {
    int64_t before = s->reading.time;
    size_t i = 0;
    s->reading.gap = 0;
    for (const char *at = line, *field; at; i++) {
        size_t n = next_field(&at, end, &field);
        if (i == s->n_columns)
            return refuse(s, err, "there are more fields than columns", field, n);
        int r = take_field(s, i, field, n, err);
        if (r < 0)
            return r;
    }
    if (i != s->n_columns)
        return refuse(s, err, "there are fewer fields than columns", line, (size_t)(end - line));
    s->reading.time += UMA_SECOND_NS; /* a clock that shows 0 would say "none" in some places */
    if (s->any && s->reading.time <= before)
        return refuse(s, err, "it is not later than the row before", line, (size_t)(end - line));
    if (s->reading.available > s->reading.total || s->reading.free > s->reading.total)
        return refuse(s, err, "there is more available than there is", line, (size_t)(end - line));
    if (!s->has_free)
        s->reading.free = s->reading.available;
    s->reading.boot = s->reading.time;
    s->reading.known |= UMA_GUARD_KNOWS_MEMINFO;
    size_t n = make_table(s, s->any ? s->reading.time - before : 0);
    s->any = true;
    struct uma_guard_view view = { .now = &s->reading, .n_processes = n };
    if (s->n_processes) { /* also where none of them is there now */
        view.processes = s->table;
        view.processes_time = s->reading.time;
    }
    return each(userdata, &view, s->reading.time - UMA_SECOND_NS);
}

static int take_header(struct series *s, const char *line, const char *end, struct uma_error *err) {
    for (const char *at = line, *field; at;) {
        size_t n = next_field(&at, end, &field);
        int r = add_column(s, field, n, err);
        if (r < 0)
            return r;
    }
    if (!has_column(s, SECONDS_COLUMN) || !has_column(s, TOTAL_COLUMN) || !has_column(s, AVAILABLE_COLUMN))
        return refuse(s, err, "seconds, total and available are needed", line, (size_t)(end - line));
    return 0;
}

int uma_guard_series_parse(const char *text, size_t length, const char *name,
                           int (*each)(void *userdata, const struct uma_guard_view *view, int64_t real_time), void *userdata,
                           struct uma_error *err) {
    _cleanup_free_
    struct series *s = calloc(1, sizeof(*s));
    if (!s)
        return uma_error_set(err, ENOMEM, "%.256s", name);
    s->name = name;
    const char *end = text + length;
    int r = 0;
    for (const char *at = text, *next; at < end && r == 0; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        next = newline ? newline + 1 : end;
        s->line++;
        if (stop > at && stop[-1] == '\r')
            stop--;
        if (at == stop || *at == '#')
            continue;
        if (stop - at > LINE_MOST)
            r = refuse(s, err, "this line is longer than 4,096 bytes", at, 16);
        else if (s->n_columns == 0)
            r = take_header(s, at, stop, err);
        else
            r = take_row(s, at, stop, err, each, userdata);
    }
    if (r == 0 && !s->any)
        return uma_error_text(err, EINVAL, "%.256s: there is no reading in it", name);
    return r;
}

int uma_guard_series_read(const char *path, int (*each)(void *userdata, const struct uma_guard_view *view, int64_t real_time),
                          void *userdata, struct uma_error *err) {
    _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "%.256s", path);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > FILE_MOST)
        return uma_error_text(err, EFBIG, "%.256s: a series is a file of at most 64 MiB", path);
    size_t most = (size_t)st.st_size, length = 0;
    _cleanup_free_
    char *text = malloc(most + 1);
    if (!text)
        return uma_error_set(err, ENOMEM, "%.256s", path);
    while (length < most) {
        ssize_t n = read(fd, text + length, most - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return uma_error_set(err, errno, "%.256s", path);
        if (n == 0)
            break;
        length += (size_t)n;
    }
    return uma_guard_series_parse(text, length, path, each, userdata, err);
}
