/* SPDX-License-Identifier: MIT */
/*
 * The files of /proc/PID as text: stat, status, cmdline, cgroup. Formats: proc(5) and the kernel's Documentation/filesystems/proc.rst.
 * The environment has its own file, process_environ.c.
 */
#include "observe/process.h"

#include "base/units.h"
#include "observe/lines.h"
#include "observe/secrets.h"
#include "observe/source.h"

#include <string.h>

/* USER_HZ, in which /proc tells times on every architecture umactl runs on (include/asm-generic/param.h). */
enum { TICKS_PER_SECOND = 100 };
/* A kernel thread: PF_KTHREAD of the `flags` field (include/linux/sched.h). Its value has not changed since it was added in 2.6.27. */
enum { FLAG_KERNEL_THREAD = 0x00200000 };
/* Kernel threads' names go up to 63 bytes (WQ_WORKER names in /proc, since 4.18), others to 15. A folder may say anything. */
enum { NAME_BYTES_MAX = 64 };

/* ---- stat --------------------------------------------------------------------------------------------------- */

/* Numbers of the fields as proc(5) counts them. */
enum {
    STAT_STATE = 3,
    STAT_PPID = 4,
    STAT_FLAGS = 9,
    STAT_MAJFLT = 12,
    STAT_UTIME = 14,
    STAT_STIME = 15,
    STAT_THREADS = 20,
    STAT_START = 22
};

static int stat_bad(const char *file, const char *text, const char *at, const char *expected, struct uma_error *err) {
    return uma_error_text(err, EINVAL, "%s: byte %zu: expected %s", file, (size_t)(at - text) + 1, expected);
}

/* The fields after the name: each is one number and one space before it; field 3 is a letter. */
static int stat_numbers(const char *text, const char *at, const char *end, const char *file, uint64_t field[STAT_START + 1],
                        char *ret_state, struct uma_error *err) {
    for (int i = STAT_STATE; i <= STAT_START; i++) {
        if (at >= end || *at != ' ')
            return stat_bad(file, text, at, "a space and the next field (is it cut off?)", err);
        at++;
        if (i == STAT_STATE) {
            if (at >= end || !((*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z')))
                return stat_bad(file, text, at, "a letter for the state", err);
            *ret_state = *at++;
            continue;
        }
        bool negative = at < end && *at == '-'; /* terminal, priority, nice: not kept */
        const char *after = uma_parse_u64(at + negative, end, &field[i]);
        if (!after)
            return stat_bad(file, text, at, "a number", err);
        if (negative)
            field[i] = 0;
        at = after;
    }
    /* the last number must end, or it may be half of one */
    return at < end && (*at == ' ' || *at == '\n') ? 0 : stat_bad(file, text, at, "the rest of the line", err);
}

int uma_process_stat_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_process *process,
                           struct uma_error *err) {
    const char *end = text + length;
    uint64_t pid, field[STAT_START + 1] = { 0 };
    char state = '?';
    const char *at = uma_parse_u64(text, end, &pid);
    if (!at || pid > UMA_PID_MAX || end - at < 2 || at[0] != ' ' || at[1] != '(')
        return stat_bad(file, text, text, "\"PID (name)\"", err);
    /* the name may hold ") Z 1": only what follows the LAST bracket is numbers alone */
    const char *name = at + 2, *name_end = memrchr(name, ')', (size_t)(end - name));
    if (!name_end)
        return stat_bad(file, text, name, "\")\" after the name", err);
    int r = stat_numbers(text, name_end + 1, end, file, field, &state, err);
    if (r < 0)
        return r;
    if (field[STAT_PPID] > UMA_PID_MAX || field[STAT_THREADS] > UINT32_MAX)
        return stat_bad(file, text, name_end, "a parent and a number of threads that are possible", err);
    const char *kept = uma_arena_utf8(arena, name, MIN_OF((size_t)(name_end - name), (size_t)NAME_BYTES_MAX));
    if (!kept)
        return uma_error_text(err, ENOMEM, "%s: no room for the name", file);
    process->pid = (int32_t)pid;
    process->name = kept;
    process->state = state;
    process->ppid = (int32_t)field[STAT_PPID];
    process->threads = (uint32_t)field[STAT_THREADS];
    process->kernel_thread = field[STAT_FLAGS] & FLAG_KERNEL_THREAD;
    process->start_ticks = field[STAT_START];
    process->majfaults = uma_known_u64(field[STAT_MAJFLT]);
    process->cpu_seconds = uma_known_f64(((double)field[STAT_UTIME] + (double)field[STAT_STIME]) / TICKS_PER_SECOND);
    return 0;
}

/* ---- status ------------------------------------------------------------------------------------------------- */

/* Lines in kB of 1024 bytes. VmPin: pinned by io_uring, RDMA and the like; may be far beyond the resident set. */
static const struct {
    const char *key;
    size_t offset;
} status_sizes[] = {
    { "VmRSS", offsetof(struct uma_process, rss) },        { "RssAnon", offsetof(struct uma_process, rss_anon) },
    { "RssFile", offsetof(struct uma_process, rss_file) }, { "RssShmem", offsetof(struct uma_process, rss_shmem) },
    { "VmSwap", offsetof(struct uma_process, swap) },      { "VmPin", offsetof(struct uma_process, pinned) },
    { "VmLck", offsetof(struct uma_process, locked) },     { "HugetlbPages", offsetof(struct uma_process, hugetlb) },
};

static struct uma_u64 *size_field(struct uma_process *process, size_t i) {
    return (struct uma_u64 *)(void *)((char *)process + status_sizes[i].offset);
}

static bool key_is(const char *line, size_t key_length, const char *key) {
    return strlen(key) == key_length && memcmp(line, key, key_length) == 0;
}

static struct uma_u64 kilobytes(const char *at, const char *end) {
    uint64_t kb;
    const char *after = uma_parse_u64(at, end, &kb);
    after = after ? uma_skip_blanks(after, end) : NULL;
    if (!after || end - after < 2 || memcmp(after, "kB", 2) != 0 || kb > UINT64_MAX / UMA_KIB)
        return uma_no_u64(UMA_MALFORMED);
    return uma_known_u64(kb * UMA_KIB);
}

/* One line; true when it is one that means something here. */
static bool status_line(const char *line, const char *end, struct uma_process *process) {
    static const char initials[] = "UTVRH";
    if (end - line < 4 || !memchr(initials, line[0], sizeof(initials) - 1)) /* five in six lines are about something else */
        return false;
    const char *colon = memchr(line, ':', (size_t)(end - line));
    if (!colon)
        return false;
    size_t key_length = (size_t)(colon - line);
    const char *value = uma_skip_blanks(colon + 1, end);
    uint64_t number;
    if (key_is(line, key_length, "Uid")) { /* real, effective, saved, file system: the real one is whose process it is */
        if (uma_parse_u64(value, end, &number) && number <= UINT32_MAX)
            process->uid = (uint32_t)number;
        return true;
    }
    if (key_is(line, key_length, "Threads")) {
        if (uma_parse_u64(value, end, &number) && number <= UINT32_MAX)
            process->threads = (uint32_t)number;
        return true;
    }
    for (size_t i = 0; i < ELEMENTS(status_sizes); i++) {
        if (key_is(line, key_length, status_sizes[i].key)) {
            *size_field(process, i) = kilobytes(value, end);
            return true;
        }
    }
    return false;
}

int uma_process_status_parse(const char *text, size_t length, const char *file, struct uma_process *process, struct uma_error *err) {
    struct uma_process found = *process;
    /* a kernel thread or a zombie has no address space and none of the lines; older kernels lack some */
    for (size_t i = 0; i < ELEMENTS(status_sizes); i++)
        *size_field(&found, i) = uma_no_u64(UMA_ABSENT);
    bool any = false;
    for (const char *line = text, *end = text + length; line < end;) {
        const char *line_end = uma_line_end(line, end);
        any |= status_line(line, line_end, &found);
        line = line_end + 1;
    }
    if (!any)
        return uma_error_text(err, EINVAL, "%s: none of the lines Uid, Threads, VmRSS is there", file);
    *process = found;
    return 0;
}

/* ---- cmdline ------------------------------------------------------------------------------------------------ */

static int cmdline_split(const char *text, size_t length, struct uma_arena *arena, struct uma_process *process) {
    /* A program that sets its title (setproctitle, postgres, Ray) leaves NULs where its arguments were; no flag ends in empty strings. */
    while (length > 0 && text[length - 1] == '\0')
        length--;
    if (length == 0)
        return 0;
    size_t argc = 1, extra = 0;
    for (size_t i = 0; i < length; i++)
        argc += text[i] == '\0';
    for (size_t i = 0; i < length;) {
        size_t step = uma_utf8_sequence(text + i, length - i);
        extra += step ? 0 : 3;
        i += step ? step : 1;
    }
    const char **argv = uma_arena_array(arena, argc, sizeof(*argv));
    if (!argv)
        return -ENOMEM;
    if (extra == 0) { /* the usual case: one block for all of them, cut where the NULs already are */
        char *block = uma_arena_alloc(arena, length + 1);
        if (!block)
            return -ENOMEM;
        (void)memcpy(block, text, length);
        for (size_t i = 0, at = 0; i < argc; i++, at += strlen(block + at) + 1)
            argv[i] = block + at;
    } else {
        for (size_t i = 0, at = 0; i < argc; i++) {
            size_t n = strnlen(text + at, length - at);
            argv[i] = uma_arena_utf8(arena, text + at, n);
            if (!argv[i])
                return -ENOMEM;
            at += n + 1;
        }
    }
    process->argv = argv;
    process->argc = (uint32_t)argc;
    return 0;
}

int uma_process_cmdline_parse(const char *text, size_t length, bool cut, struct uma_arena *arena, struct uma_process *process) {
    _cleanup_text_ struct uma_text masked = { 0 };
    cut |= length > UMA_CMDLINE_MAX;
    uma_secrets_mask(text, MIN_OF(length, (size_t)UMA_CMDLINE_MAX), &masked);
    if (masked.failed)
        return -ENOMEM;
    cut |= masked.length > UMA_CMDLINE_MAX; /* *** may be longer than what it stands for */
    int r = cmdline_split(masked.data ? masked.data : "", MIN_OF(masked.length, (size_t)UMA_CMDLINE_MAX), arena, process);
    if (r == 0)
        process->cmdline_cut = cut;
    return r;
}

/* ---- cgroup ------------------------------------------------------------------------------------------------- */

/* How good a line is: the memory controller's own hierarchy (v1), the unified one, systemd's own tree (names units and
 * containers even where memory is accounted nowhere). 0: no use. */
static int cgroup_rank(const char *controllers, size_t length) {
    if (uma_list_has(controllers, controllers + length, "memory"))
        return 3;
    if (length == 0)
        return 2;
    return key_is(controllers, length, "name=systemd") ? 1 : 0;
}

int uma_process_cgroup_parse(const char *text, size_t length, const char *file, int *ret_version, const char **ret_path,
                             size_t *ret_path_length, struct uma_error *err) {
    int best = 0;
    const char *path = NULL;
    size_t path_length = 0;
    for (const char *line = text, *end = text + length; line < end;) {
        const char *line_end = uma_line_end(line, end);
        const char *first = memchr(line, ':', (size_t)(line_end - line));
        const char *second = first ? memchr(first + 1, ':', (size_t)(line_end - first - 1)) : NULL;
        if (second && second + 1 < line_end && second[1] == '/') {
            int rank = cgroup_rank(first + 1, (size_t)(second - first - 1));
            if (rank > best) {
                best = rank;
                path = second + 1;
                path_length = (size_t)(line_end - path);
                if (path[path_length - 1] == '\r')
                    path_length--;
            }
        }
        line = line_end + 1;
    }
    if (!best)
        return uma_error_text(err, EINVAL, "%s: no line for memory, the unified hierarchy or systemd", file);
    static const int version[] = { 0, 0, 2, 1 };
    *ret_version = version[best];
    *ret_path = path;
    *ret_path_length = path_length;
    return 0;
}
