/* SPDX-License-Identifier: MIT */
/* The two /proc files that a job's processes are read from. proc_pid_stat(5), proc_pid_status(5). */
#include "job/tree.h"

#include "base/units.h"
#include "base/values.h"
#include "observe/lines.h"

#include <string.h>

/* The field after `s`, which stands at a space. */
static const char *next_field(const char *s, const char *end) {
    return s < end && *s == ' ' ? s + 1 : NULL;
}

int uma_tree_stat_parse(const char *text, size_t length, struct uma_tree_process *ret_process, uint64_t *ret_cpu_ticks) {
    struct uma_tree_process p = { 0 };
    const char *end = text + length, *open = memchr(text, '(', length), *close = memrchr(text, ')', length);
    uint64_t pid, cpu = 0;
    int64_t value;
    if (!open || !close || close < open || end - close < 4 || !uma_parse_u64(text, open, &pid) || pid == 0 || pid > INT32_MAX)
        return -EINVAL;
    p.pid = (pid_t)pid;
    size_t n = MIN_OF((size_t)(close - open - 1), sizeof(p.name) - 1);
    memcpy(p.name, open + 1, n);
    p.state = close[2];
    const char *s = close + 3;
    /* fields are numbered as in the manual: 4 ppid, 14-17 utime stime cutime cstime, 22 starttime */
    for (int field = 4; field <= 22; field++) {
        s = next_field(s, end);
        const char *after = s ? uma_parse_i64(s, end, &value) : NULL;
        if (!after) /* larger than a signed number: addresses and limits, none of those wanted */
            return -EINVAL;
        if (field == 4)
            p.ppid = (pid_t)value;
        else if (field >= 14 && field <= 17 && value > 0)
            cpu += (uint64_t)value;
        else if (field == 22)
            p.start_ticks = (uint64_t)value;
        s = after;
    }
    *ret_process = p;
    *ret_cpu_ticks = cpu;
    return 0;
}

void uma_tree_status_parse(const char *text, size_t length, struct uma_tree_process *process) {
    static const struct {
        const char *key;
        size_t offset;
    } fields[] = {
        { "VmHWM:", offsetof(struct uma_tree_process, rss_peak) }, { "VmRSS:", offsetof(struct uma_tree_process, rss) },
        { "RssAnon:", offsetof(struct uma_tree_process, anon) },   { "RssFile:", offsetof(struct uma_tree_process, file) },
        { "RssShmem:", offsetof(struct uma_tree_process, shmem) }, { "VmSwap:", offsetof(struct uma_tree_process, swap) },
    };
    const char *end = text + length;
    for (const char *s = text; s < end;) {
        const char *line_end = uma_line_end(s, end);
        for (size_t i = 0; i < ELEMENTS(fields) && (*s == 'V' || *s == 'R'); i++) {
            size_t n = strlen(fields[i].key);
            if ((size_t)(line_end - s) <= n || memcmp(s, fields[i].key, n) != 0)
                continue;
            const char *v = s + n;
            uint64_t kib;
            while (v < line_end && (*v == ' ' || *v == '\t'))
                v++;
            if (uma_parse_u64(v, line_end, &kib) && kib <= UINT64_MAX / 1024)
                memcpy((char *)process + fields[i].offset, &(struct uma_u64){ kib * 1024, UMA_KNOWN }, sizeof(struct uma_u64));
        }
        s = line_end + 1;
    }
}
