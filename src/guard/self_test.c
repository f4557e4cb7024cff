/* SPDX-License-Identifier: MIT */
#include "guard/self_test.h"

#include "base/units.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A machine that loses half its memory in a second, for the decision to look at. Only touched here, and given back. */
struct rehearsal {
    struct uma_guard_history history;
    struct uma_guard_state state;
    struct uma_guard_decision decision;
    struct uma_guard_policy policy;
};

static void fall(const struct uma_guard_loop *loop, struct rehearsal *rehearsal) {
    const uint64_t total = loop->reading.total;
    rehearsal->policy = loop->policy;
    for (int i = 0; i < 100; i++) {
        struct uma_guard_reading reading = loop->reading;
        reading.time += i * (UMA_SECOND_NS / 100);
        reading.boot += i * (UMA_SECOND_NS / 100);
        reading.gap = i == 0;
        reading.free = reading.available = total / 2 - total / 200 * (uint64_t)i;
        uma_guard_history_add(&rehearsal->history, &reading);
        const struct uma_guard_view view = {
            .now = &reading, .processes = loop->processes.list, .n_processes = loop->processes.n, .processes_time = loop->processes.time
        };
        uma_guard_decide(&rehearsal->state, &rehearsal->history, &rehearsal->policy, &view, &rehearsal->decision);
    }
}

static int rehearse_decision(const struct uma_guard_loop *loop) {
    struct rehearsal *rehearsal = mmap(NULL, sizeof(*rehearsal), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (rehearsal == MAP_FAILED)
        return -errno;
    fall(loop, rehearsal);
    (void)munmap(rehearsal, sizeof(*rehearsal));
    return 0;
}

/* The calls of a signal, on itself: signal 0 is not delivered. */
static int rehearse_signal(struct uma_guard_loop *loop) {
    struct uma_guard_seen self;
    if (loop->options.root[0] != '\0') /* other processes than here */
        return 0;
    int r = uma_guard_scan_one(&loop->actor.scan, loop->actor.self, &self);
    if (r < 0)
        return r;
    int fd = (int)syscall(SYS_pidfd_open, loop->actor.self, 0u);
    if (fd < 0)
        return -errno;
    r = syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0u) == 0 ? 0 : -errno;
    (void)close(fd);
    if (r == 0)
        r = uma_guard_mark_tree(&loop->actor, loop->actor.self, self.start);
    return r < 0 ? r : 0;
}

static bool may_signal_all(void) {
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { 0 };
    return syscall(SYS_capget, &head, caps) == 0 && (caps[CAP_TO_INDEX(CAP_KILL)].effective & CAP_TO_MASK(CAP_KILL)) != 0;
}

static int fails(const char *what, int code) {
    uma_guard_say_text(UMA_GUARD_ERROR, what, code);
    return code;
}

int uma_guard_self_test(struct uma_guard_loop *loop) {
    int r = uma_guard_loop_take_table(loop, uma_monotonic_ns());
    if (r < 0 && loop->processes.time == 0 && loop->options.root[0] == '\0')
        return fails("no table of the processes could be taken", r);
    if (r < 0)
        uma_guard_say_text(UMA_GUARD_WARNING,
                           loop->processes.time == 0   ? "no table of the processes could be taken"
                           : loop->options.within == 0 ? "the processes could not be looked at again in time"
                                                       : "no process may be touched: the one that --within names cannot be found",
                           r);
    if ((r = rehearse_decision(loop)) < 0)
        return fails("no memory to rehearse a decision", r);
    if ((r = rehearse_signal(loop)) < 0)
        return fails("no signal can be sent by pidfd (Linux 5.3 and /proc are needed)", r);
    if (!loop->dry_run && loop->options.within == 0 && !may_signal_all())
        uma_guard_loop_note(loop, UMA_GUARD_WARNING, "can stop and end processes of this user alone (root, or CAP_KILL, for all)", 0);
    loop->record =
        (struct uma_guard_trail_record){ .kind = UMA_GUARD_TRAIL_START, .dry_run = loop->dry_run, .text = "uma-guard " UMACTL_VERSION };
    r = uma_guard_trail_write(loop->trail, &loop->record, true);
    if (r < 0 && r != -ETIMEDOUT && r != -ENODEV) /* why there is none was said when it was to be opened */
        uma_guard_say_text(UMA_GUARD_WARNING, "the trail cannot be written", r);
    uma_guard_loop_keep_state(loop);
    return 0;
}

/*
 * The code is read in whole, because a page of it that was never needed yet would have to come from a disk that may hang; of the rest what has been touched stays, and what will be touched is locked then
 * (MCL_ONFAULT): the room for processes that are not there costs nothing.
 */
static void read_code(void) {
    extern const char __executable_start[], etext[];
    long page = sysconf(_SC_PAGESIZE);
    for (const volatile char *at = __executable_start; at < etext; at += page)
        (void)*at;
}

void uma_guard_lock(struct uma_guard_loop *loop) {
    /* above all that is not real-time, for its few microseconds: a machine that is short of memory is also short of processor time (reclaim). What it starts is not. */
    const struct sched_param least = { .sched_priority = 1 };
    read_code();
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
        uma_guard_loop_note(loop, UMA_GUARD_WARNING, "not locked into memory (CAP_IPC_LOCK, or a higher RLIMIT_MEMLOCK)", -errno);
    if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &least) != 0 && setpriority(PRIO_PROCESS, 0, -20) != 0)
        uma_guard_loop_note(loop, UMA_GUARD_WARNING, "runs with no priority over others (CAP_SYS_NICE)", -errno);
}
