/* SPDX-License-Identifier: MIT */
#include "guard/act.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

/* A tree is looked at again until nobody new is in it. Each round finds what was being forked while the one before went out; a process with a pending signal starts none (copy_process gives
 * ERESTARTNOINTR), so two rounds are the rule, and eight mean that it is a storm of forks from outside the tree. */
enum { ROUNDS = 8, ROUND_PAUSE_NS = 500000 };

int uma_guard_actor_open(struct uma_guard_actor *actor, const struct uma_guard_processes *processes, const char *prefix, bool dry_run) {
    actor->dry_run = dry_run;
    actor->self = (int32_t)getpid();
    actor->parent = (int32_t)getppid();
    actor->processes = processes;
    actor->stopped.n = actor->ended.n = 0;
    uma_guard_spare_fill(&actor->spare);
    uma_guard_groups_open(&actor->groups);
    return uma_guard_scan_open(&actor->scan, prefix);
}

void uma_guard_actor_close(struct uma_guard_actor *actor) {
    (void)uma_guard_spare_give(&actor->spare, -EMFILE);
    uma_guard_groups_close(&actor->groups);
    uma_guard_scan_close(&actor->scan);
}

/* ---- lists --------------------------------------------------------------------------------------------------- */

static bool holds(const struct uma_guard_held_list *held, int32_t pid, uint64_t start) {
    for (uint32_t i = 0; i < held->n; i++)
        if (held->list[i].pid == pid && held->list[i].start == start)
            return true;
    return false;
}

static void hold(struct uma_guard_held_list *held, int32_t root, int32_t pid, uint64_t start) {
    if (held->n < UMA_GUARD_HELD_MAX && !holds(held, pid, start))
        held->list[held->n++] = (struct uma_guard_held){ .pid = pid, .root = root, .start = start };
}

static void forget(struct uma_guard_held_list *held, int32_t root) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < held->n; i++)
        if (held->list[i].root != root)
            held->list[kept++] = held->list[i];
    held->n = kept;
}

/* ---- one signal ---------------------------------------------------------------------------------------------- */

/* A pidfd of that process and no other: what has the number now is compared after the pidfd was opened. While it lives the number is its own, so what was read is of it; and when it is gone no signal goes out. */
static int open_process(struct uma_guard_actor *actor, int32_t pid, uint64_t start) {
    struct uma_guard_seen seen;
    if (pid <= 1 || pid == actor->self || pid == actor->parent)
        return -EPERM;
    int opened = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (opened < 0 && uma_guard_spare_give(&actor->spare, -errno))
        opened = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (opened < 0)
        return -errno;
    _cleanup_close_ int fd = opened;
    int r = uma_guard_scan_one(&actor->scan, pid, &seen);
    if (r < 0 && uma_guard_spare_give(&actor->spare, r))
        r = uma_guard_scan_one(&actor->scan, pid, &seen);
    if (r < 0)
        return r;
    if (seen.start != start)
        return -ESRCH;
    return TAKE_FD(fd);
}

static int send_signal(struct uma_guard_actor *actor, int32_t pid, uint64_t start, int signal_number) {
    if (actor->dry_run)
        return 0;
    _cleanup_close_ int fd = open_process(actor, pid, start);
    if (fd < 0)
        return fd;
    return syscall(SYS_pidfd_send_signal, fd, signal_number, NULL, 0u) == 0 ? 0 : -errno;
}

/* The same, counted. */
static int tell(struct uma_guard_actor *actor, struct uma_guard_acted *acted, int32_t pid, uint64_t start, int signal_number) {
    int r = send_signal(actor, pid, start, signal_number);
    if (r == 0)
        acted->n++;
    else if (acted->result == 0 || acted->result == -ESRCH)
        acted->result = r;
    return r;
}

/* One that came through makes it a success: who was gone meanwhile is no failure. */
static struct uma_guard_acted conclude(struct uma_guard_acted acted) {
    if (acted.n > 0)
        acted.result = 0;
    else if (acted.result == 0)
        acted.result = -ESRCH;
    if (acted.at == 0)
        acted.at = uma_monotonic_ns();
    return acted;
}

/* ---- trees --------------------------------------------------------------------------------------------------- */

struct tree {
    const struct uma_guard_actor *actor;
    int32_t root;
    uint64_t start;
};

/* Whoever the table knows, and does not count to this tree, stays out, and all below it: it is protected, or the root of another. */
static bool stays_out(const struct uma_guard_seen *seen, void *userdata) {
    const struct tree *tree = userdata;
    const struct uma_guard_processes *table = tree->actor->processes;
    if (seen->pid <= 1 || seen->pid == tree->actor->self || seen->pid == tree->actor->parent)
        return true;
    int32_t at = uma_guard_processes_find(table, seen->pid, seen->start);
    if (at < 0)
        return false;
    const struct uma_guard_process *process = &table->list[at];
    if ((process->flags & UMA_GUARD_PROTECTED) || process->tree < 0 || (size_t)process->tree >= table->n)
        return true;
    const struct uma_guard_process *root = &table->list[process->tree];
    return root->pid != tree->root || root->start != tree->start;
}

static void mark(struct uma_guard_actor *actor, int32_t pid, uint64_t start) {
    struct uma_guard_seen *seen = uma_guard_scan_find(&actor->scan, pid);
    if (seen != NULL && seen->start == start)
        seen->in = true;
}

static bool of_tree(const struct uma_guard_processes *table, size_t i, int32_t root_index) {
    return table->list[i].tree == root_index && (table->list[i].flags & UMA_GUARD_PROTECTED) == 0;
}

static void mark_held(struct uma_guard_actor *actor, const struct uma_guard_held_list *held, int32_t root) {
    for (uint32_t i = 0; i < held->n; i++)
        if (held->list[i].root == root)
            mark(actor, held->list[i].pid, held->list[i].start);
}

int uma_guard_mark_tree(struct uma_guard_actor *actor, int32_t pid, uint64_t start) {
    struct tree tree = { .actor = actor, .root = pid, .start = start };
    int32_t root = uma_guard_processes_find(actor->processes, pid, start);
    int r = uma_guard_scan_take(&actor->scan);
    if (r < 0 && uma_guard_spare_give(&actor->spare, r))
        r = uma_guard_scan_take(&actor->scan);
    if (r < 0)
        return r;
    uma_guard_scan_clear(&actor->scan);
    mark(actor, pid, start);
    /* those whose parent is gone meanwhile are init's now, and were of it */
    for (size_t i = 0; root >= 0 && i < actor->processes->n; i++)
        if (of_tree(actor->processes, i, root))
            mark(actor, actor->processes->list[i].pid, actor->processes->list[i].start);
    mark_held(actor, &actor->stopped, pid);
    mark_held(actor, &actor->ended, pid);
    return (int)uma_guard_scan_spread(&actor->scan, stays_out, &tree);
}

/* ---- stopping ------------------------------------------------------------------------------------------------ */

static bool is_stopped(char state) {
    return state == 'T' || state == 't';
}

/* Who was stopped before by somebody else is not ours to let go again. */
static void stop_one(struct uma_guard_actor *actor, struct uma_guard_acted *acted, int32_t root, int32_t pid, uint64_t start) {
    if (tell(actor, acted, pid, start, SIGSTOP) == 0)
        hold(&actor->stopped, root, pid, start);
}

/* Those that the table knows, at once: its root first, before it can start more. */
static void stop_known(struct uma_guard_actor *actor, struct uma_guard_acted *acted, int32_t pid, uint64_t start) {
    const struct uma_guard_processes *table = actor->processes;
    int32_t root = uma_guard_processes_find(table, pid, start);
    if (root < 0 || (table->list[root].flags & UMA_GUARD_STOPPED) == 0)
        stop_one(actor, acted, pid, pid, start);
    for (size_t i = 0; root >= 0 && i < table->n; i++) {
        const struct uma_guard_process *process = &table->list[i];
        if ((int32_t)i != root && of_tree(table, i, root) && (process->flags & (UMA_GUARD_STOPPED | UMA_GUARD_EXITING)) == 0)
            stop_one(actor, acted, pid, process->pid, process->start);
    }
}

/* One look: stops who was missed, and counts who was told and still runs. How many were missed. */
static uint32_t stop_missed(struct uma_guard_actor *actor, struct uma_guard_acted *acted, int32_t pid) {
    uint32_t missed = 0;
    acted->left = 0;
    for (uint32_t i = 0; i < actor->scan.n; i++) {
        const struct uma_guard_seen *seen = &actor->scan.list[i];
        if (!seen->in || is_stopped(seen->state) || seen->state == 'Z' || seen->state == 'X')
            continue;
        if (holds(&actor->stopped, seen->pid, seen->start) && seen->state != 'R' && seen->state != 'S') {
            acted->left++; /* in the kernel (D): the signal waits for it */
            continue;
        }
        if (!holds(&actor->stopped, seen->pid, seen->start)) {
            missed++;
            stop_one(actor, acted, pid, seen->pid, seen->start);
        } else
            acted->left++;
    }
    return missed;
}

struct uma_guard_acted uma_guard_stop_tree(struct uma_guard_actor *actor, int32_t pid, uint64_t start) {
    const struct timespec pause = { .tv_nsec = ROUND_PAUSE_NS };
    struct uma_guard_acted acted = { 0 };
    stop_known(actor, &acted, pid, start);
    acted.at = uma_monotonic_ns();
    for (unsigned round = 0; round < ROUNDS && !actor->dry_run; round++) {
        if (uma_guard_mark_tree(actor, pid, start) <= 0)
            break;
        if (stop_missed(actor, &acted, pid) == 0 && acted.left == 0)
            break;
        (void)nanosleep(&pause, NULL);
    }
    return conclude(acted);
}

struct uma_guard_acted uma_guard_continue_tree(struct uma_guard_actor *actor, int32_t pid) {
    struct uma_guard_acted acted = { 0 };
    struct uma_guard_held_list *held = &actor->stopped;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < held->n; i++) {
        int r = 0;
        if (pid == 0 || held->list[i].root == pid)
            r = tell(actor, &acted, held->list[i].pid, held->list[i].start, SIGCONT);
        /* gone, or another user's now: nothing can be done. With no descriptor or no memory it would stay stopped for ever: once more, later */
        if ((pid != 0 && held->list[i].root != pid) || (r < 0 && r != -ESRCH && r != -EPERM))
            held->list[kept++] = held->list[i];
    }
    held->n = kept;
    return conclude(acted);
}

uint32_t uma_guard_adopt_tree(struct uma_guard_actor *actor, int32_t pid, uint64_t start) {
    uint32_t before = actor->stopped.n;
    if (uma_guard_mark_tree(actor, pid, start) <= 0)
        return 0;
    for (uint32_t i = 0; i < actor->scan.n; i++) {
        const struct uma_guard_seen *seen = &actor->scan.list[i];
        if (seen->in && seen->state == 'T') /* 't' is a debugger's */
            hold(&actor->stopped, pid, seen->pid, seen->start);
    }
    return actor->stopped.n - before;
}

/* ---- ending -------------------------------------------------------------------------------------------------- */

static void reap(struct uma_guard_actor *actor, int32_t pid, uint64_t start) {
    int fd = actor->dry_run ? -1 : open_process(actor, pid, start);
    if (fd >= 0)
        uma_guard_reaper_give(&actor->reaper, fd);
}

/* Of the table's processes of this tree, those with the most that the call can give back. */
static void reap_largest(struct uma_guard_actor *actor, int32_t pid, uint64_t start) {
    const struct uma_guard_processes *table = actor->processes;
    int32_t root = uma_guard_processes_find(table, pid, start);
    uint64_t below = UINT64_MAX;
    reap(actor, pid, start);
    for (unsigned given = 1; root >= 0 && given < UMA_GUARD_REAPED_MAX; given++) {
        const struct uma_guard_process *largest = NULL;
        for (size_t i = 0; i < table->n; i++)
            if ((int32_t)i != root && of_tree(table, i, root) && table->list[i].anon < below &&
                (largest == NULL || table->list[i].anon > largest->anon))
                largest = &table->list[i];
        if (largest == NULL || largest->anon == 0)
            return;
        below = largest->anon;
        reap(actor, largest->pid, largest->start);
    }
}

static uint32_t end_marked(struct uma_guard_actor *actor, struct uma_guard_acted *acted, int32_t root, int signal_number, bool again) {
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < actor->scan.n; i++) {
        const struct uma_guard_seen *seen = &actor->scan.list[i];
        if (!seen->in || uma_guard_seen_gone(seen) || (!again && holds(&actor->ended, seen->pid, seen->start)))
            continue;
        fresh++;
        if (tell(actor, acted, seen->pid, seen->start, signal_number) == 0)
            hold(&actor->ended, root, seen->pid, seen->start);
    }
    return fresh;
}

struct uma_guard_acted uma_guard_end_tree(struct uma_guard_actor *actor, int32_t pid, uint64_t start, int signal_number) {
    struct uma_guard_acted acted = { 0 };
    bool killing = signal_number == SIGKILL;
    if (actor->ended.n > 0 && actor->ended.list[0].root != pid) /* another victim: the one before is done with */
        actor->ended.n = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        int n = uma_guard_mark_tree(actor, pid, start);
        if (n <= 0) {
            if (n < 0 && acted.result == 0)
                acted.result = n;
            break;
        }
        if (killing && round == 0)
            acted.by_group = uma_guard_groups_kill(&actor->groups, &actor->scan, pid, actor->dry_run) == 1;
        uint32_t fresh = end_marked(actor, &acted, pid, signal_number, round == 0);
        if (acted.at == 0) {
            acted.at = uma_monotonic_ns();
            if (killing) /* at once: a moment later it may have ended, and a large one is what takes long to */
                reap_largest(actor, pid, start);
        }
        /* one round of TERM: a process that answers it by starting a helper (a save, a log) may have it */
        if (fresh == 0 || !killing || actor->dry_run)
            break;
    }
    /* a stopped process never hears of SIGTERM; one that is killed ends all the same */
    if (!killing)
        (void)uma_guard_continue_tree(actor, pid);
    else
        forget(&actor->stopped, pid);
    return conclude(acted);
}

uint32_t uma_guard_victim_left(struct uma_guard_actor *actor) {
    struct uma_guard_held_list *ended = &actor->ended;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ended->n; i++) {
        struct uma_guard_seen seen;
        int r = uma_guard_scan_one(&actor->scan, ended->list[i].pid, &seen);
        bool gone = r == -ESRCH || (r == 0 && (seen.start != ended->list[i].start || uma_guard_seen_gone(&seen)));
        if (!gone)
            ended->list[kept++] = ended->list[i];
    }
    ended->n = kept;
    return kept;
}
