/* SPDX-License-Identifier: MIT */
#include "guard/processes_text.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/scan.h"

/* ---- stat --------------------------------------------------------------------------------------------------------- */

/* Numbers of the fields as proc(5) counts them. */
enum { STATE = 3, PARENT = 4, SESSION = 6, TERMINAL = 7, FLAGS = 9, MINFLT = 10, MAJFLT = 12, THREADS = 20, START = 22, RESIDENT = 24 };

/* The fields after the name: one space before each; the third is a letter, the others are numbers, some of them negative (of those none is kept). */
static bool stat_numbers(const char *at, const char *end, uint64_t field[RESIDENT + 1], char *ret_state) {
    for (int i = STATE; i <= RESIDENT; i++) {
        if (at >= end || *at++ != ' ')
            return false;
        if (i == STATE) {
            if (at >= end || !((*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z')))
                return false;
            *ret_state = *at++;
            continue;
        }
        bool negative = at < end && *at == '-';
        at = uma_parse_u64(at + negative, end, &field[i]);
        if (!at)
            return false;
        if (negative)
            field[i] = 0;
    }
    return at < end && (*at == ' ' || *at == '\n'); /* or it may be half of a number */
}

bool uma_guard_stat_parse(const char *text, size_t n, struct uma_guard_stat *ret_stat) {
    const char *end = text + n;
    uint64_t pid, field[RESIDENT + 1] = { 0 };
    char state = '?';
    const char *at = uma_parse_u64(text, end, &pid);
    if (!at || pid > INT32_MAX || end - at < 2 || at[0] != ' ' || at[1] != '(')
        return false;
    /* the name may hold ") Z 1": only what follows the last bracket is numbers alone */
    const char *name = at + 2, *name_end = memrchr(name, ')', (size_t)(end - name));
    if (!name_end || !stat_numbers(name_end + 1, end, field, &state) || field[PARENT] > INT32_MAX || field[SESSION] > INT32_MAX)
        return false;
    *ret_stat = (struct uma_guard_stat){
        .pid = (int32_t)pid,
        .parent = (int32_t)field[PARENT],
        .session = (int32_t)field[SESSION],
        .state = state,
        .terminal = field[TERMINAL] != 0,
        .flags = (uint32_t)field[FLAGS],
        .faults = uma_guard_add(field[MINFLT], field[MAJFLT]),
        .threads = field[THREADS],
        .start = field[START],
        .resident = field[RESIDENT],
    };
    (void)memcpy(ret_stat->name, name, MIN_OF((size_t)(name_end - name), sizeof(ret_stat->name) - 1));
    return true;
}

/* ---- status ------------------------------------------------------------------------------------------------------- */

enum { ANON = 1, SHMEM = 2, SWAP = 4, BAD = 8 };

static const char *after_key(const char *line, const char *end, const char *key) {
    size_t n = strlen(key);
    return (size_t)(end - line) > n && memcmp(line, key, n) == 0 ? uma_guard_skip_blanks(line + n, end) : NULL;
}

/* "   123 kB". Nothing of it counts where one is not understood. */
static bool kilobytes(const char *at, const char *end, uint64_t *ret_bytes) {
    uint64_t kib;
    at = uma_parse_u64(at, end, &kib);
    at = at ? uma_guard_skip_blanks(at, end) : NULL;
    if (!at || end - at < 2 || memcmp(at, "kB", 2) != 0 || kib > UINT64_MAX / 1024)
        return false;
    *ret_bytes = kib * 1024;
    return true;
}

/* "Uid:	real	effective	saved	file system" */
static bool effective(const char *at, const char *end, uint32_t *ret_uid) {
    uint64_t uid;
    at = uma_parse_u64(at, end, &uid);
    at = at ? uma_parse_u64(uma_guard_skip_blanks(at, end), end, &uid) : NULL;
    if (!at || uid > UINT32_MAX)
        return false;
    *ret_uid = (uint32_t)uid;
    return true;
}

/* A size that is there and is none spoils them all. */
static void size_line(const char *value, const char *end, uint64_t *size, unsigned bit, unsigned *sizes) {
    *sizes |= kilobytes(value, end, size) ? bit : BAD;
}

bool uma_guard_status_parse(const char *text, size_t n, bool whole, struct uma_guard_status *ret_status) {
    struct uma_guard_status s = { 0 };
    unsigned sizes = 0;
    const char *end = text + n, *line = text;
    for (const char *line_end; (line_end = uma_guard_line_end(line, end)); line = line_end + 1) {
        const char *value;
        if (*line == 'U' && (value = after_key(line, line_end, "Uid:")))
            s.known_uid = effective(value, line_end, &s.uid);
        else if (*line == 'R' && (value = after_key(line, line_end, "RssAnon:")))
            size_line(value, line_end, &s.anon, ANON, &sizes);
        else if (*line == 'R' && (value = after_key(line, line_end, "RssShmem:")))
            size_line(value, line_end, &s.shmem, SHMEM, &sizes);
        else if (*line == 'V' && (value = after_key(line, line_end, "VmSwap:"))) /* without swap in the kernel it is not there */
            size_line(value, line_end, &s.swap, SWAP, &sizes);
    }
    s.known_memory = !(sizes & BAD) && ((sizes & (ANON | SHMEM)) == (ANON | SHMEM) || (sizes == 0 && whole && line == end && s.known_uid));
    if (!s.known_memory)
        s.anon = s.shmem = s.swap = 0;
    if (!s.known_uid && !s.known_memory)
        return false;
    *ret_status = s;
    return true;
}

/* ---- cgroup ------------------------------------------------------------------------------------------------------- */

/* "0::/system.slice/ssh.service", "4:memory:/docker/ID": the path may have colons, the list of controllers has none. */
bool uma_guard_cgroup_next(const char **at, const char *end, const char **ret_path, size_t *ret_length) {
    for (const char *line_end; (line_end = uma_guard_line_end(*at, end));) {
        const char *first = memchr(*at, ':', (size_t)(line_end - *at));
        const char *second = first ? memchr(first + 1, ':', (size_t)(line_end - first - 1)) : NULL;
        *at = line_end + 1;
        if (second && second + 1 < line_end && second[1] == '/') {
            *ret_path = second + 1;
            *ret_length = (size_t)(line_end - second - 1);
            return true;
        }
    }
    return false;
}

/* ---- cmdline ------------------------------------------------------------------------------------------------------ */

bool uma_guard_shell_sits(const char *cmdline, size_t n) {
    const char *end = cmdline + n;
    const char *at = n ? memchr(cmdline, '\0', n) : NULL; /* past its own name */
    if (!at)
        return n > 0;
    for (at++; at < end;) {
        const char *stop = memchr(at, '\0', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        bool option = length > 0 && (*at == '-' || *at == '+');
        bool one_dash = option && length > 1 && at[1] != '-';
        if (length > 0 && (!option || (one_dash && memchr(at, 'c', length)))) /* a script; -c, -lc */
            return false;
        at += length + 1;
    }
    return true;
}
