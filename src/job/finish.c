/* SPDX-License-Identifier: MIT */
/* After the job: what it left behind, what it did not give back, why it ended. */
#include "job/job.h"

#include "base/units.h"
#include "base/values.h"
#include "job/summary.h"
#include "valve/reservations.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum {
    SHM_FILES_MAX = 4096,
    GRACE_MS = 500,      /* workers end a moment after their parent; whoever is there after this stays */
    TERMINATE_MS = 5000, /* from SIGTERM to SIGKILL for --end-left-behind */
    STEP_MS = 20,
};

int uma_job_exit_status(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

void uma_job_cause(int wait_status, bool sent_by_umactl, struct uma_u64 group_oom_kills, uint64_t machine_oom_kills, char *ret_cause,
                   size_t size) {
    char signal_name[32], evidence[160] = "";
    if (!WIFSIGNALED(wait_status)) {
        (void)snprintf(ret_cause, size, "exit %d", WEXITSTATUS(wait_status));
        return;
    }
    int signo = WTERMSIG(wait_status);
    if (sent_by_umactl)
        (void)snprintf(evidence, sizeof(evidence), " (passed on by umactl)");
    else if (signo == SIGKILL && group_oom_kills.validity == UMA_KNOWN && group_oom_kills.value > 0)
        (void)snprintf(evidence, sizeof(evidence), " (not sent by umactl; oom_kill is %" PRIu64 " in the job's own cgroup)",
                       group_oom_kills.value);
    else if (signo == SIGKILL && machine_oom_kills > 0)
        (void)snprintf(evidence, sizeof(evidence), " (not sent by umactl; the kernel's oom_kill count rose by %" PRIu64 " meanwhile)",
                       machine_oom_kills);
    else if (signo == SIGKILL)
        (void)snprintf(evidence, sizeof(evidence), " (not sent by umactl; the kernel counted no OOM kill meanwhile)");
    (void)snprintf(ret_cause, size, "killed by %s%s%s", uma_signal_name(signo, signal_name), WCOREDUMP(wait_status) ? ", core dumped" : "",
                   evidence);
}

void uma_shm_list_read(struct uma_shm_list *ret_list) {
    struct uma_shm_list list = { 0 };
    _cleanup_closedir_ DIR *dir = opendir("/dev/shm");
    list.cut = !dir && errno != ENOENT; /* a machine without it has no files there */
    *ret_list = list;
    if (!dir)
        return;
    size_t room = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        struct stat st;
        if (d->d_name[0] == '.' || fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        if (strncmp(d->d_name, UMA_RESERVATIONS_NAME, strlen(UMA_RESERVATIONS_NAME)) == 0)
            continue; /* umactl's own, which a run inside the job may have made */
        if (list.n == room) {
            room = room ? room * 2 : 64;
            void *bigger = room <= SHM_FILES_MAX ? reallocarray(list.list, room, sizeof(*list.list)) : NULL;
            list.cut = !bigger;
            if (list.cut)
                break;
            list.list = bigger;
        }
        struct uma_shm_file *file = &list.list[list.n++];
        (void)snprintf(file->name, sizeof(file->name), "%s", d->d_name);
        file->inode = st.st_ino;
        file->bytes = (uint64_t)st.st_blocks * 512; /* what is really there, not the declared size */
    }
    *ret_list = list;
}

static bool was_there(const struct uma_shm_list *before, const struct uma_shm_file *file) {
    for (size_t i = 0; i < before->n; i++)
        if (before->list[i].inode == file->inode && strcmp(before->list[i].name, file->name) == 0)
            return true;
    return false;
}

static int by_size(const void *a, const void *b) {
    uint64_t x = ((const struct uma_shm_file *)a)->bytes, y = ((const struct uma_shm_file *)b)->bytes;
    return (x < y) - (x > y);
}

static void find_shm(struct uma_job *job) {
    struct uma_shm_list now;
    struct uma_run *run = &job->run;
    uma_shm_list_read(&now);
    run->files_unknown = now.cut || job->shm_before.cut;
    if (now.n)
        qsort(now.list, now.n, sizeof(*now.list), by_size);
    for (size_t i = 0; i < now.n; i++) {
        if (was_there(&job->shm_before, &now.list[i]))
            continue;
        if (run->n_files < UMA_RUN_LEFT_MAX) {
            (void)snprintf(run->files[run->n_files].name, sizeof(run->files[0].name), "%s", now.list[i].name);
            run->files[run->n_files++].bytes = now.list[i].bytes;
        }
        run->n_files_total++;
        run->files_bytes += now.list[i].bytes;
    }
    free(now.list);
}

static void pause_ms(long milliseconds) {
    struct timespec t = { .tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000 };
    (void)nanosleep(&t, NULL);
}

/* How many of the job's processes are left after waiting at most so long for none. What cannot be listed is not known to be gone. */
static size_t wait_for_none(struct uma_job *job, int milliseconds) {
    struct uma_tree_reading reading;
    const struct uma_tree_process *list;
    for (int waited = 0;; waited += STEP_MS) {
        uma_job_reap_orphans(job);
        job->run.left_unknown = uma_tree_read(job->watch.tree, &reading, NULL) < 0;
        if (job->run.left_unknown)
            return 0;
        size_t n = uma_tree_processes(job->watch.tree, &list);
        if (n == 0 || waited >= milliseconds)
            return n;
        pause_ms(STEP_MS);
    }
}

static void signal_left(struct uma_job *job, int signo) {
    const struct uma_tree_process *list;
    size_t n = uma_tree_processes(job->watch.tree, &list);
    for (size_t i = 0; i < n; i++)
        (void)kill(list[i].pid, signo);
}

/* Returns the bytes that the left processes hold. */
static uint64_t find_processes(struct uma_job *job) {
    struct uma_run *run = &job->run;
    const struct uma_tree_process *list;
    uint64_t held = 0;
    size_t n = wait_for_none(job, GRACE_MS);
    if (n && job->options->end_left_behind) {
        signal_left(job, SIGTERM);
        signal_left(job, SIGCONT);
        n = wait_for_none(job, TERMINATE_MS);
        if (n) {
            signal_left(job, SIGKILL);
            n = wait_for_none(job, TERMINATE_MS);
        }
    }
    n = MIN_OF(n, uma_tree_processes(job->watch.tree, &list));
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes =
            (list[i].anon.validity == UMA_KNOWN ? list[i].anon.value : 0) + (list[i].shmem.validity == UMA_KNOWN ? list[i].shmem.value : 0);
        held += bytes;
        if (run->n_left < UMA_RUN_LEFT_MAX) {
            struct uma_left_process *left = &run->left[run->n_left++];
            left->pid = list[i].pid;
            (void)snprintf(left->name, sizeof(left->name), "%s", list[i].name);
            left->bytes = (struct uma_u64){ bytes, list[i].anon.validity };
        }
        run->n_left_total++;
    }
    return held;
}

/* Available memory with the free pages that wait in per-CPU lists, which MemAvailable leaves out. */
static struct uma_u64 available_with_lists(const struct uma_snapshot *snapshot) {
    struct uma_u64 available = snapshot->meminfo.mem_available;
    if (available.validity != UMA_KNOWN || !uma_usable(snapshot->zones.page_size.validity))
        return available;
    for (size_t i = 0; i < snapshot->zones.n_zones; i++)
        if (snapshot->zones.zones[i].pcp_pages.validity == UMA_KNOWN)
            available.value += snapshot->zones.zones[i].pcp_pages.value * snapshot->zones.page_size.value;
    return available;
}

/* The last growth before the end falls between two samples; the kernel's own mark of the ended process knows it (getrusage(2), ru_maxrss in KiB), with
 * the files that it mapped. */
static void last_peak(struct uma_job *job) {
    struct uma_run *run = &job->run;
    uint64_t most = (uint64_t)MAX_OF(job->usage.ru_maxrss, 0L) * 1024;
    uint64_t seen = run->peak_process_rss.validity == UMA_KNOWN ? run->peak_process_rss.value : 0;
    struct uma_u64 *memory = &run->peak_memory_most, limit = job->watch.last_tree.group_most;
    if (most <= seen)
        return;
    run->peak_process_rss = uma_known_u64(most);
    run->peak_rss = uma_known_u64(run->peak_rss.validity == UMA_KNOWN ? run->peak_rss.value + (most - seen) : most);
    uint64_t before = memory->validity == UMA_KNOWN ? memory->value : 0, raised = before + (most - seen);
    if (limit.validity == UMA_KNOWN)
        raised = MAX_OF(before, MIN_OF(raised, limit.value));
    *memory = uma_known_u64(raised);
}

static void read_after(struct uma_job *job, uint64_t held) {
    struct uma_snapshot after = { 0 };
    _cleanup_free_
    char *text = NULL;
    size_t length;
    /* a probe that hangs has been told of already: nobody waits for it again */
    unsigned what = UMA_READ_ALL & ~(job->watch.reading.hung ? UMA_READ_GPU : 0u);
    job->run.unwritten |= UMA_RUN_FILE_AFTER;
    if (uma_snapshot_init(&after) < 0)
        return;
    if (uma_observer_read(job->observer, what, &after, NULL) >= 0) {
        struct uma_u64 before = available_with_lists(&job->before), now = available_with_lists(&after);
        if (before.validity == UMA_KNOWN && now.validity == UMA_KNOWN)
            job->run.not_returned =
                (struct uma_i64){ (int64_t)before.value - (int64_t)now.value - (int64_t)held - (int64_t)job->run.files_bytes, UMA_KNOWN };
        if (job->folder.dir_fd >= 0 && uma_snapshot_format(&after, &text, &length, NULL) >= 0 &&
            uma_run_folder_put(&job->folder, "after.json", text, length, false, NULL) >= 0)
            job->run.unwritten &= ~(unsigned)UMA_RUN_FILE_AFTER;
    }
    uma_snapshot_done(&after);
}

static void end_group(struct uma_job *job) {
    int limited = uma_job_limit_end(TAKE_PTR(job->limit));
    if (uma_cgroup_scope_remove(&job->scope) < 0 || limited < 0)
        (void)snprintf(job->run.cgroup_note, sizeof(job->run.cgroup_note), "kept: it holds processes that the job left behind");
}

void uma_job_finish(struct uma_job *job) {
    struct uma_run *run = &job->run;
    struct uma_u64 kills_before = job->before.vmstat.oom_kill, kills = job->watch.snapshot.vmstat.oom_kill;
    run->end_ns = uma_now_ns();
    bool shared_interrupt =
        job->terminal.given && job->terminal.shared && WIFSIGNALED(job->wait_status) && WTERMSIG(job->wait_status) == SIGINT;
    uma_terminal_take(&job->terminal, job->launched.pid);
    if (shared_interrupt)
        (void)kill(0, SIGINT); /* Ctrl-C is for the whole pipeline or script; the terminal told only the job */
    if (job->watch.tree) {
        job->watch.row_due_ns = INT64_MAX; /* the last row is written below, with the end in it */
        uma_watch_sample(&job->watch);
        kills = job->watch.snapshot.vmstat.oom_kill;
    }
    last_peak(job);
    job->load = uma_load_window_stop(job->load, &job->watch);
    job->valve = uma_job_valve_stop(job->valve, &job->watch);
    uint64_t rose = kills.validity == UMA_KNOWN && kills_before.validity == UMA_KNOWN && kills.value > kills_before.value
                        ? kills.value - kills_before.value
                        : 0;
    int signo = WIFSIGNALED(job->wait_status) ? WTERMSIG(job->wait_status) : 0;
    bool sent = signo > 0 && signo < 32 && (job->forwarded_mask_low & 1u << signo);
    uma_job_cause(job->wait_status, sent, job->watch.last_tree.oom_kill, rose, run->cause, sizeof(run->cause));
    run->exited = true;
    run->state = UMA_RUN_ENDED;
    run->exit_status = uma_job_exit_status(job->wait_status);
    run->signal = signo;
    run->core = signo && WCOREDUMP(job->wait_status);
    run->cpu_seconds = (double)(job->usage.ru_utime.tv_sec + job->usage.ru_stime.tv_sec) +
                       (double)(job->usage.ru_utime.tv_usec + job->usage.ru_stime.tv_usec) / 1e6;
    uma_detect_end(&job->watch.detector, uma_monotonic_ns());
    uma_watch_event(&job->watch, "job_end", run->cause);
    uma_watch_flush(&job->watch);
    /* the record says how it ended before anything that may take time */
    uma_watch_save(&job->watch, false);
    uint64_t held = find_processes(job);
    find_shm(job);
    job->watch.gpu = uma_gpu_watch_stop(job->watch.gpu);
    read_after(job, held);
    end_group(job);
    uma_watch_save(&job->watch, true);
    if (!job->options->quiet) {
        _cleanup_text_ struct uma_text text = { 0 };
        uma_run_summary(run, job->folder.dir_fd >= 0 ? job->folder.path : NULL, &text);
        if (!text.failed)
            (void)!write(STDERR_FILENO, text.data, text.length);
    }
}
