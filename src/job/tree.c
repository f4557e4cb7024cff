/* SPDX-License-Identifier: MIT */
#include "job/tree.h"

#include "base/units.h"
#include "base/values.h"
#include "job/high_mark.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    FILE_MAX = 8192, /* status and stat of one process; their length does not depend on the process's own choices beyond 64 bytes of name */
    PASSES_MAX = 64, /* generations of new processes resolved per reading when pids run backwards; the rest is found by the next one */
    RECHECK_READINGS = 64, /* a foreign pid that was reused by the job is found after this many readings at the latest */
};

#define SHARE_INTERVAL_NS (5 * UMA_SECOND_NS) /* smaps_rollup no more often than this, and ... */
#define SHARE_COST 100                        /* ... never for more than 1 % of the time: it walks page tables and holds the mmap lock */
#define SHARE_LEAST (16 * UMA_MIB)            /* processes below this do not move the total */

enum mark { MARK_NEW = 0, MARK_FOREIGN, MARK_JOB };

struct entry {
    pid_t pid, ppid;
    enum mark mark;
    bool in_group; /* the group's own list has it; false says nothing: it may have come since, or be in a group further below */
};

struct uma_tree {
    int proc_fd, proc_error; /* why there is none */
    pid_t root_pid, umactl_pid;
    const struct uma_cgroup_scope *scope;
    double ticks_per_second;
    /* every pid of the machine, ascending: this listing and the last one */
    struct entry *now, *last;
    size_t n_now, n_last, room_now, room_last;
    /* the job's processes, ascending */
    struct uma_tree_process *list, *before;
    size_t n_list, n_before, room_list, room_before;
    bool outside; /* one of them has left the job's group, which then does not count all of the job */
    unsigned readings;
    double share;                /* how much of the sum over processes is there once shared pages are counted once */
    struct uma_u64 proportional; /* sum of the shares, where nothing is in it twice; known only in the reading that read them */
    int64_t share_next_ns;
    uint64_t between; /* highest that the group had when it was looked at since the last reading */
};

struct uma_tree *uma_tree_new(pid_t root_pid, pid_t umactl_pid, const struct uma_cgroup_scope *scope) {
    struct uma_tree *tree = calloc(1, sizeof(*tree));
    if (!tree)
        return NULL;
    tree->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tree->proc_error = tree->proc_fd < 0 ? errno : 0;
    tree->root_pid = root_pid;
    tree->umactl_pid = umactl_pid;
    tree->scope = scope;
    tree->share = 1;
    long ticks = sysconf(_SC_CLK_TCK);
    tree->ticks_per_second = ticks > 0 ? (double)ticks : 100;
    return tree;
}

struct uma_tree *uma_tree_free(struct uma_tree *tree) {
    if (!tree)
        return NULL;
    if (tree->proc_fd >= 0)
        (void)close(tree->proc_fd);
    free(tree->now);
    free(tree->last);
    free(tree->list);
    free(tree->before);
    free(tree);
    return NULL;
}

/* Room for one more element; false (and the reading fails) when memory is out. */
static bool grow(void **array, size_t *room, size_t n, size_t size, size_t max) {
    if (n < *room)
        return true;
    size_t more = *room ? *room * 2 : 256;
    void *bigger = n < max ? reallocarray(*array, more, size) : NULL;
    if (!bigger)
        return false;
    *array = bigger;
    *room = more;
    return true;
}

static ssize_t read_file(const struct uma_tree *tree, pid_t pid, const char *file, char buffer[FILE_MAX]) {
    char path[64];
    (void)snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
    _cleanup_close_ int fd = openat(tree->proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buffer, FILE_MAX - 1) : -1;
    if (n < 0)
        return -errno;
    buffer[n] = '\0';
    return n;
}

static int compare_entries(const void *a, const void *b) {
    pid_t x = ((const struct entry *)a)->pid, y = ((const struct entry *)b)->pid;
    return (x > y) - (x < y);
}

static struct entry *find(const struct uma_tree *tree, pid_t pid) {
    return tree->n_now ? bsearch(&(struct entry){ .pid = pid }, tree->now, tree->n_now, sizeof(struct entry), compare_entries) : NULL;
}

static int list_pids(struct uma_tree *tree) {
    _cleanup_close_ int copy = openat(tree->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    bool sorted = true;
    if (!dir)
        return -errno;
    (void)TAKE_FD(copy);
    struct entry *array = tree->last;
    size_t n = 0, room = tree->room_last;
    tree->last = tree->now, tree->n_last = tree->n_now, tree->room_last = tree->room_now;
    tree->now = array, tree->n_now = 0, tree->room_now = room;
    for (struct dirent *d; errno = 0, (d = readdir(dir));) {
        uint64_t pid;
        const char *end = d->d_name + strlen(d->d_name);
        if (uma_parse_u64(d->d_name, end, &pid) != end || pid == 0 || pid > UMA_PID_MAX)
            continue;
        if (!grow((void **)&tree->now, &tree->room_now, n, sizeof(struct entry), UMA_PID_MAX))
            return -ENOMEM;
        sorted = sorted && (n == 0 || tree->now[n - 1].pid < (pid_t)pid);
        tree->now[n++] = (struct entry){ .pid = (pid_t)pid };
    }
    if (errno)
        return -errno;
    if (!sorted)
        qsort(tree->now, n, sizeof(struct entry), compare_entries);
    tree->n_now = n;
    return 0;
}

/* What the last reading knew of pids that are still there. Foreign ones are asked again now and then: their pid may have been reused. */
static void carry_marks(struct uma_tree *tree) {
    bool recheck = tree->readings % RECHECK_READINGS == 0;
    for (size_t i = 0, j = 0; i < tree->n_now; i++) {
        while (j < tree->n_last && tree->last[j].pid < tree->now[i].pid)
            j++;
        if (j == tree->n_last)
            break;
        if (tree->last[j].pid == tree->now[i].pid && tree->last[j].mark == MARK_FOREIGN && !recheck)
            tree->now[i].mark = MARK_FOREIGN;
    }
}

static void mark_from_group(void *userdata, pid_t pid) {
    struct entry *entry = find(userdata, pid);
    if (entry) {
        entry->mark = MARK_JOB;
        entry->in_group = true;
    }
}

/* Did it leave the job's group? Container runtimes and `systemd-run --scope` put their processes into groups of their own. */
static bool left_group(const struct uma_tree *tree, pid_t pid) {
    char buffer[FILE_MAX];
    size_t n = strlen(tree->scope->name);
    ssize_t length = read_file(tree, pid, "cgroup", buffer);
    if (length <= 0)
        return false; /* it ended, and holds nothing any more */
    for (const char *s = buffer; (s = strstr(s, tree->scope->name)); s += n)
        if (s > buffer && s[-1] == '/' && (s[n] == '/' || s[n] == '\n'))
            return false;
    return true;
}

/* Is a child of umactl itself one of the job's? The root is; so is an orphan that came to its subreaper. The GPU probe and a child
 * that has not yet become it are not. */
static bool child_is_job(const struct uma_tree *tree, const struct uma_tree_process *p) {
    return p->pid == tree->root_pid || (strcmp(p->name, "umactl-probe") != 0 && strcmp(p->name, "umactl") != 0);
}

static bool was_job(const struct uma_tree *tree, const struct uma_tree_process *p) {
    for (size_t low = 0, high = tree->n_before; low < high;) {
        size_t middle = (low + high) / 2;
        if (tree->before[middle].pid == p->pid)
            return tree->before[middle].start_ticks == p->start_ticks;
        if (tree->before[middle].pid < p->pid)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Parent of everything not known as foreign, and whose it is where that needs no parent. */
static void read_parents(struct uma_tree *tree) {
    char buffer[FILE_MAX];
    for (size_t i = 0; i < tree->n_now; i++) {
        struct entry *entry = &tree->now[i];
        struct uma_tree_process p;
        uint64_t ticks;
        if (entry->mark != MARK_NEW)
            continue;
        if (entry->pid == tree->umactl_pid) {
            entry->mark = MARK_FOREIGN;
            continue;
        }
        ssize_t n = read_file(tree, entry->pid, "stat", buffer);
        if (n <= 0 || uma_tree_stat_parse(buffer, (size_t)n, &p, &ticks) < 0)
            continue;
        entry->ppid = p.ppid;
        if (p.ppid == tree->umactl_pid)
            entry->mark = child_is_job(tree, &p) ? MARK_JOB : MARK_NEW;
        else if (p.pid == tree->root_pid || was_job(tree, &p))
            entry->mark = MARK_JOB;
    }
}

/* A process whose parent is the job's is the job's. Parents mostly have smaller pids, so one pass nearly always settles it. */
static void follow_parents(struct uma_tree *tree) {
    bool changed = true;
    for (int pass = 0; changed && pass < PASSES_MAX; pass++) {
        changed = false;
        for (size_t i = 0; i < tree->n_now; i++) {
            struct entry *entry = &tree->now[i];
            if (entry->mark != MARK_NEW || entry->ppid <= 1 || entry->ppid == tree->umactl_pid)
                continue;
            const struct entry *parent = find(tree, entry->ppid);
            if (parent && parent->mark == MARK_JOB) {
                entry->mark = MARK_JOB;
                changed = true;
            }
        }
    }
    for (size_t i = 0; i < tree->n_now; i++)
        if (tree->now[i].mark == MARK_NEW && tree->now[i].ppid && tree->now[i].ppid != tree->umactl_pid)
            tree->now[i].mark = MARK_FOREIGN;
}

static int read_processes(struct uma_tree *tree) {
    char buffer[FILE_MAX];
    tree->n_list = 0;
    tree->outside = false;
    for (size_t i = 0; i < tree->n_now; i++) {
        uint64_t ticks;
        if (tree->now[i].mark != MARK_JOB)
            continue;
        ssize_t n = read_file(tree, tree->now[i].pid, "stat", buffer);
        if (!grow((void **)&tree->list, &tree->room_list, tree->n_list, sizeof(*tree->list), UMA_TREE_MAX))
            return -ENOMEM;
        struct uma_tree_process *p = &tree->list[tree->n_list];
        if (n <= 0 || uma_tree_stat_parse(buffer, (size_t)n, p, &ticks) < 0)
            continue;
        if (p->state == 'Z' || p->state == 'X')
            continue;
        p->cpu_seconds = (double)ticks / tree->ticks_per_second;
        n = read_file(tree, p->pid, "status", buffer);
        if (n > 0)
            uma_tree_status_parse(buffer, (size_t)n, p);
        if (!tree->now[i].in_group && tree->scope->memory && !tree->outside)
            tree->outside = left_group(tree, p->pid);
        tree->n_list++;
    }
    return 0;
}

static void add(struct uma_u64 *sum, struct uma_u64 v) {
    if (v.validity == UMA_KNOWN)
        *sum = uma_known_u64(sum->value + v.value);
}

static uint64_t or_zero(struct uma_u64 v) {
    return v.validity == UMA_KNOWN ? v.value : 0;
}

static const struct uma_tree_process *find_process(const struct uma_tree *tree, pid_t pid) {
    for (size_t low = 0, high = tree->n_list; low < high;) {
        size_t middle = (low + high) / 2;
        if (tree->list[middle].pid == pid)
            return &tree->list[middle];
        if (tree->list[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Between vfork(2) and exec a child is its parent's memory under another pid, whose pages smaps divides by one. What looks like that is not counted twice. */
static bool may_be_its_parent(const struct uma_tree *tree, const struct uma_tree_process *p) {
    const struct uma_tree_process *parent = find_process(tree, p->ppid);
    uint64_t own = or_zero(p->rss_peak), theirs = parent ? or_zero(parent->rss_peak) : 0;
    return parent && MAX_OF(own, theirs) - MIN_OF(own, theirs) <= theirs / 50;
}

/* smaps_rollup gives each page divided by the number of processes that map it. */
static void read_share(struct uma_tree *tree) {
    int64_t start = uma_monotonic_ns();
    uint64_t sum = 0, proportional = 0, certain = 0;
    char buffer[FILE_MAX];
    tree->proportional = (struct uma_u64){ 0 };
    if (tree->n_list < 2) {
        tree->share = 1;
        return;
    }
    if (start < tree->share_next_ns)
        return;
    for (size_t i = 0; i < tree->n_list; i++) {
        const struct uma_tree_process *p = &tree->list[i];
        uint64_t own = or_zero(p->anon) + or_zero(p->shmem), kib = 0;
        if (own < SHARE_LEAST)
            continue;
        ssize_t n = read_file(tree, p->pid, "smaps_rollup", buffer);
        if (n <= 0)
            continue;
        bool found = false;
        static const char *const keys[] = { "\nPss_Anon:", "\nPss_Shmem:" }; /* since 5.4 */
        for (size_t k = 0; k < ELEMENTS(keys); k++) {
            const char *s = strstr(buffer, keys[k]);
            uint64_t v;
            if (s && uma_parse_u64(s + strlen(keys[k]) + strspn(s + strlen(keys[k]), " \t"), buffer + n, &v)) {
                kib += v;
                found = true;
            }
        }
        if (!found)
            continue;
        sum += own;
        proportional += kib * UMA_KIB;
        if (!may_be_its_parent(tree, p))
            certain += kib * UMA_KIB;
    }
    if (sum) {
        tree->share = fmin(1, (double)proportional / (double)sum);
        tree->proportional = uma_known_u64(certain);
    }
    int64_t cost = uma_monotonic_ns() - start;
    tree->share_next_ns = start + MAX_OF(SHARE_INTERVAL_NS, SHARE_COST * cost);
}

/* How much higher the tree was at some moment since the last reading: the largest fall of one process from a high mark that it set since then.
 * Falls of several processes are not added, since they need not have been at the same moment. */
static uint64_t fall_since_last(const struct uma_tree *tree) {
    uint64_t most = 0;
    for (size_t i = 0, j = 0; i < tree->n_list; i++) {
        const struct uma_tree_process *p = &tree->list[i];
        while (j < tree->n_before && tree->before[j].pid < p->pid)
            j++;
        uint64_t mark = 0;
        if (j < tree->n_before && tree->before[j].pid == p->pid && tree->before[j].start_ticks == p->start_ticks)
            mark = or_zero(tree->before[j].rss_peak);
        if (p->rss.validity == UMA_KNOWN && or_zero(p->rss_peak) > mark && p->rss_peak.value > p->rss.value)
            most = MAX_OF(most, p->rss_peak.value - p->rss.value);
    }
    return most;
}

static bool group_counts(const struct uma_cgroup_usage *usage) {
    return usage->anon.validity == UMA_KNOWN && usage->shmem.validity == UMA_KNOWN;
}

/* What was there at the highest moment since the last reading: at least, and at most. */
static void find_peak(struct uma_tree *tree, const struct uma_cgroup_usage *usage, uint64_t fall, struct uma_tree_reading *reading) {
    struct uma_high_mark mark = { .memory = reading->memory, .between = tree->between, .fall = fall };
    for (size_t i = 0; i < tree->n_list; i++) {
        uint64_t own = or_zero(tree->list[i].anon) + or_zero(tree->list[i].shmem);
        if (own > or_zero(mark.largest))
            mark.largest = uma_known_u64(own);
    }
    mark.counted = tree->proportional;
    if (group_counts(usage)) {
        uint64_t counted = usage->anon.value + usage->shmem.value;
        mark.counted = uma_known_u64(MAX_OF(counted, or_zero(tree->proportional)));
        if (!tree->outside)
            mark.group_peak = usage->peak;
    }
    reading->memory_peak = uma_high_mark_least(&mark);
    reading->memory_peak_most = uma_high_mark_most(&mark);
    reading->group_most = uma_high_mark_group_most(&mark);
    tree->between = 0;
}

void uma_tree_look(struct uma_tree *tree) {
    if (tree)
        tree->between = MAX_OF(tree->between, or_zero(uma_cgroup_scope_memory(tree->scope)));
}

static void sum_up(struct uma_tree *tree, struct uma_tree_reading *reading) {
    struct uma_cgroup_usage usage;
    for (size_t i = 0; i < tree->n_list; i++) {
        const struct uma_tree_process *p = &tree->list[i];
        add(&reading->anon, p->anon);
        add(&reading->shmem, p->shmem);
        add(&reading->swap, p->swap);
        add(&reading->rss, p->rss);
        reading->cpu_seconds += p->cpu_seconds;
    }
    reading->processes = tree->n_list;
    uma_cgroup_scope_usage(tree->scope, &usage);
    reading->cgroup = usage.current;
    reading->cgroup_peak = usage.peak;
    reading->oom_kill = usage.oom_kill;
    bool group = group_counts(&usage);
    uint64_t counted = group ? usage.anon.value + usage.shmem.value : 0;
    if (group && !(tree->outside && reading->anon.validity == UMA_KNOWN)) {
        reading->anon = usage.anon;
        reading->shmem = usage.shmem;
        reading->memory = uma_known_u64(counted);
    } else if (reading->anon.validity == UMA_KNOWN) {
        read_share(tree);
        reading->memory = uma_known_u64((uint64_t)((double)(reading->anon.value + or_zero(reading->shmem)) * tree->share));
        /* what one that left had before stays with the group, so the two overlap and cannot be added: it is at least the larger */
        reading->memory.value = MAX_OF(reading->memory.value, counted);
    }
    uint64_t fall = fall_since_last(tree);
    if (reading->rss.validity == UMA_KNOWN)
        reading->rss_peak = uma_known_u64(reading->rss.value + fall);
    find_peak(tree, &usage, fall, reading);
}

int uma_tree_read(struct uma_tree *tree, struct uma_tree_reading *ret_reading, struct uma_error *err) {
    struct uma_tree_reading reading = { 0 };
    if (!tree)
        return uma_error_set(err, ENOMEM, "following the processes of the job");
    if (tree->proc_fd < 0)
        return uma_error_set(err, tree->proc_error, "following the processes of the job: opening /proc");
    struct uma_tree_process *array = tree->before;
    size_t room = tree->room_before;
    tree->before = tree->list, tree->n_before = tree->n_list, tree->room_before = tree->room_list;
    tree->list = array, tree->n_list = 0, tree->room_list = room;
    int r = list_pids(tree);
    if (r < 0)
        return uma_error_set(err, -r, "listing /proc");
    if (!find(tree, tree->umactl_pid)) /* an empty folder, or another pid namespace's */
        return uma_error_text(err, ENOENT, "following the processes of the job: /proc does not list umactl itself: it is not mounted here");
    carry_marks(tree);
    uma_cgroup_scope_processes(tree->scope, mark_from_group, tree);
    read_parents(tree);
    follow_parents(tree);
    tree->readings++;
    r = read_processes(tree);
    if (r < 0)
        return uma_error_set(err, -r, "reading the processes of the job");
    sum_up(tree, &reading);
    *ret_reading = reading;
    return 0;
}

size_t uma_tree_processes(const struct uma_tree *tree, const struct uma_tree_process **ret_list) {
    *ret_list = tree ? tree->list : NULL;
    return tree ? tree->n_list : 0;
}

bool uma_tree_contains(const struct uma_tree *tree, pid_t pid) {
    return tree && find_process(tree, pid);
}
