/* SPDX-License-Identifier: MIT */
/*
 * Lists /proc and reads each process. What is read of which, and why, because this is most of the time that `umactl status` takes:
 *   every process      stat (it tells kernel threads, which end there: they have no memory, command line or cgroup of interest)
 *   others             status (resident set by kind, swap, pinned), cmdline, cgroup
 *   candidates         oom_score_adj and the listed variables of environ
 * A candidate has 64 MiB, or a name or command line of an engine. 64 MiB: every process that has initialised CUDA or imported a framework
 * is far beyond it, nearly every service far below; engines by name because a daemon such as `ollama serve` is small but its environment
 * caps the runners it starts. Environments of other processes are nobody's business.
 *
 * A process may end between any two reads. Its folder is opened once and the files are read through it, so that a number which is
 * given to a new process in between cannot mix two processes: the old folder answers ESRCH. Such a process is left out and counted.
 */
#include "observe/process.h"

#include "base/units.h"
#include "observe/cgroup.h"
#include "observe/secrets.h"
#include "observe/source.h"

#include <stdio.h>
#include <string.h>

enum { STAT_MAX = 4096, STATUS_MAX = 32 * 1024, OOM_MAX = 32 };
/* A path may have 4096 bytes for each of some 14 hierarchies (v1). */
enum { CGROUP_MAX = 64 * 1024 };
/* Environments of engines are some kB; a process may have megabytes. */
enum { ENVIRON_MAX = 128 * 1024 };
/* Names in /proc that are not processes: about 60, plus what a driver adds. */
enum { OTHER_NAMES_MAX = 4096 };
static const uint64_t candidate_bytes = 64 * UMA_MIB;
/* What a captured folder says about processes that could not be captured: "vanished N denied N". */
static const char counts_record[] = "umactl/processes";

enum part { PART_STAT, PART_STATUS, PART_CMDLINE, PART_CGROUP, PART_OOM, PART_ENVIRON, PARTS };

static const struct {
    const char *name;
    size_t max;
} parts[PARTS] = {
    [PART_STAT] = { "stat", STAT_MAX },       [PART_STATUS] = { "status", STATUS_MAX },  [PART_CMDLINE] = { "cmdline", UMA_CMDLINE_MAX },
    [PART_CGROUP] = { "cgroup", CGROUP_MAX }, [PART_OOM] = { "oom_score_adj", OOM_MAX }, [PART_ENVIRON] = { "environ", ENVIRON_MAX },
};

struct uma_process_reader {
    struct uma_root *root;
    struct uma_cgroup_reader *cgroups;
    int32_t *pids;
    size_t n_pids, pids_capacity;
    bool sorted;
    struct uma_text text[PARTS]; /* kept until a process is known to be whole, so that a capture has no halves */
    struct uma_text extra;
    uint64_t malformed, starved; /* of this reading: had a file that is not what it should be; no memory for a part */
};

struct uma_process_reader *uma_process_reader_new(struct uma_root *root) {
    struct uma_process_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return NULL;
    reader->root = root;
    reader->cgroups = uma_cgroup_reader_new(root);
    return reader->cgroups ? reader : uma_process_reader_free(reader);
}

struct uma_process_reader *uma_process_reader_free(struct uma_process_reader *reader) {
    if (!reader)
        return NULL;
    (void)uma_cgroup_reader_free(reader->cgroups);
    free(reader->pids);
    for (size_t i = 0; i < PARTS; i++)
        uma_text_done(&reader->text[i]);
    uma_text_done(&reader->extra);
    free(reader);
    return NULL;
}

/* ---- list ---------------------------------------------------------------------------------------------------- */

static int add_pid(void *userdata, const char *name) {
    struct uma_process_reader *reader = userdata;
    uint64_t pid;
    const char *end = name + strlen(name), *after = uma_parse_u64(name, end, &pid);
    if (!after || after != end || pid == 0 || pid > UMA_PID_MAX || name[0] == '0')
        return 0;
    if (reader->n_pids > UMA_PROCESSES_MAX) /* one more than is kept, to know that there are more */
        return 1;
    if (reader->n_pids == reader->pids_capacity) {
        size_t capacity = reader->pids_capacity ? reader->pids_capacity * 2 : 1024;
        int32_t *pids = realloc(reader->pids, capacity * sizeof(*pids));
        if (!pids)
            return -ENOMEM;
        reader->pids = pids;
        reader->pids_capacity = capacity;
    }
    reader->sorted &= reader->n_pids == 0 || reader->pids[reader->n_pids - 1] < (int32_t)pid;
    reader->pids[reader->n_pids++] = (int32_t)pid;
    return 0;
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int list_pids(struct uma_process_reader *reader, struct uma_error *err) {
    reader->n_pids = 0;
    reader->sorted = true;
    int r = uma_root_list(reader->root, "proc", UMA_PROCESSES_MAX + OTHER_NAMES_MAX, add_pid, reader, err);
    if (r == -ENOMEM)
        return uma_error_set(err, ENOMEM, "%s/proc", uma_root_name(reader->root));
    if (r < 0)
        return r;
    if (!reader->sorted) /* /proc is, a folder need not be */
        qsort(reader->pids, reader->n_pids, sizeof(*reader->pids), by_number);
    return 0;
}

/* ---- one process --------------------------------------------------------------------------------------------- */

struct open_process {
    struct uma_process_reader *reader;
    struct uma_arena *arena;
    struct uma_process *process;
    int folder;
    char path[32];    /* "proc/123" */
    bool have[PARTS]; /* read, and to be captured */
    bool denied;
};

/* 1: it ended. In a folder a file that is not there was not captured, or is not in the fixture. */
static bool ended(const struct open_process *open, int r) {
    return r == -ESRCH || (r == -ENOENT && uma_root_is_live(open->reader->root));
}

/* 0 or 1 (cut), or the negative errno of why not. */
static int read_part(struct open_process *open, enum part part) {
    struct uma_process_reader *reader = open->reader;
    int r = uma_root_read_in(reader->root, open->folder, open->path, parts[part].name, parts[part].max, false, &reader->text[part], NULL);
    open->have[part] = r >= 0;
    open->denied |= r == -EACCES || r == -EPERM;
    return r;
}

/* A parser's answer: no memory and nonsense are counted, and the process is kept with what there is. */
static void count(struct open_process *open, int r) {
    open->reader->starved += r == -ENOMEM;
    open->reader->malformed += r == -EINVAL;
}

static void sizes_unreadable(struct uma_process *p, enum uma_validity why) {
    struct uma_u64 *const fields[] = { &p->rss, &p->rss_anon, &p->rss_file, &p->rss_shmem, &p->swap, &p->pinned, &p->locked, &p->hugetlb };
    for (size_t i = 0; i < ELEMENTS(fields); i++)
        *fields[i] = uma_no_u64(why);
}

static int read_stat(struct open_process *open) {
    struct uma_process *p = open->process;
    const struct uma_text *text = &open->reader->text[PART_STAT];
    int r = read_part(open, PART_STAT);
    if (r >= 0 && text->length == 0)
        return -ESRCH; /* how a captured folder says that it ended */
    if (r >= 0) {
        r = uma_process_stat_parse(text->data, text->length, "stat", open->arena, p, NULL);
        count(open, r);
    }
    if (r < 0 && !ended(open, r)) {
        p->majfaults = uma_no_u64(uma_validity_of_errno(r));
        p->cpu_seconds = uma_no_f64(uma_validity_of_errno(r));
    }
    return r;
}

static int read_status(struct open_process *open) {
    int r = read_part(open, PART_STATUS);
    const struct uma_text *text = &open->reader->text[PART_STATUS];
    if (r >= 0) {
        r = uma_process_status_parse(text->data, text->length, "status", open->process, NULL);
        count(open, r);
    }
    if (r < 0)
        sizes_unreadable(open->process, uma_validity_of_errno(r));
    return r;
}

static int read_cmdline(struct open_process *open) {
    int r = read_part(open, PART_CMDLINE);
    if (r < 0)
        return r;
    const struct uma_text *text = &open->reader->text[PART_CMDLINE];
    int parsed = uma_process_cmdline_parse(text->data, text->length, r == 1, open->arena, open->process);
    count(open, parsed);
    return 0;
}

static int read_cgroup(struct open_process *open) {
    int r = read_part(open, PART_CGROUP);
    if (r < 0)
        return r;
    const struct uma_text *text = &open->reader->text[PART_CGROUP];
    int version;
    const char *path;
    size_t length;
    r = uma_process_cgroup_parse(text->data, text->length, "cgroup", &version, &path, &length, NULL);
    if (r == 0)
        open->process->cgroup = uma_cgroups_add(open->reader->cgroups, version, path, length);
    return 0; /* a kernel without cgroups has an empty file */
}

static uint64_t bytes_of(const struct uma_process *p) {
    const struct uma_u64 fields[] = { p->rss, p->swap, p->pinned, p->hugetlb };
    uint64_t sum = 0;
    for (size_t i = 0; i < ELEMENTS(fields); i++)
        if (uma_usable(fields[i].validity) && __builtin_add_overflow(sum, fields[i].value, &sum))
            return UINT64_MAX;
    return sum;
}

/* Engines and launchers that may be small themselves while they decide what large ones do. */
static bool names_engine(const char *s) {
    static const char *const engines[] = { "vllm",       "sglang",    "ollama",       "llama-server", "llama.cpp",
                                           "llama-cli",  "trtllm",    "tritonserver", "torchrun",     "torch.distributed",
                                           "accelerate", "deepspeed", "ray::",        "raylet",       "gcs_server",
                                           "mistralrs",  "lmcache",   "lmdeploy",     "llamafactory" };
    for (size_t i = 0; i < ELEMENTS(engines); i++)
        if (strstr(s, engines[i]))
            return true;
    return false;
}

static bool candidate(const struct uma_process *p) {
    if (bytes_of(p) >= candidate_bytes || (p->name && names_engine(p->name)))
        return true;
    /* "python3 -u -m vllm...", "/usr/bin/python3 /opt/venv/bin/torchrun ...": the program is among the first words */
    for (uint32_t i = 0; i < p->argc && i < 5; i++)
        if (names_engine(p->argv[i]))
            return true;
    return false;
}

static int read_environ(struct open_process *open) {
    int r = read_part(open, PART_ENVIRON);
    if (r < 0)
        return r;
    struct uma_text *text = &open->reader->text[PART_ENVIRON];
    while (r == 1 && text->length > 0 && text->data[text->length - 1] != '\0') /* half a variable is not its value */
        text->length--;
    count(open, uma_process_environ_parse(text->data, text->length, open->arena, open->process));
    explicit_bzero(text->data, text->length); /* it had tokens; a core dump or swap must not */
    return 0;
}

static int read_oom(struct open_process *open) {
    int r = read_part(open, PART_OOM);
    int64_t value = 0;
    if (r >= 0 && uma_parse_i64_all(open->reader->text[PART_OOM].data, &value) < 0)
        r = -EINVAL;
    open->process->oom_score_adj = r < 0 ? (struct uma_i64){ 0, uma_validity_of_errno(r) } : uma_known_i64(value);
    return r;
}

/* The parts behind stat, in the order in which they are wanted. -ESRCH when it ended meanwhile; other failures are in the fields. */
static int read_parts(struct open_process *open) {
    static int (*const always[])(struct open_process *) = { read_status, read_cmdline, read_cgroup };
    static int (*const if_candidate[])(struct open_process *) = { read_oom, read_environ };
    for (size_t i = 0; i < ELEMENTS(always); i++)
        if (ended(open, always[i](open)))
            return -ESRCH;
    bool is_candidate = candidate(open->process);
    for (size_t i = 0; i < ELEMENTS(if_candidate) && is_candidate; i++)
        if (ended(open, if_candidate[i](open)))
            return -ESRCH;
    uma_cgroups_weigh(open->reader->cgroups, open->process->cgroup, bytes_of(open->process), is_candidate);
    return 0;
}

/* ---- capture ------------------------------------------------------------------------------------------------- */

/* Secrets replaced, and as long as it was where it was too long: so that it reads back as cut. */
static void record_cmdline(struct open_process *open, const char *path) {
    struct uma_text *masked = &open->reader->extra;
    const struct uma_text *text = &open->reader->text[PART_CMDLINE];
    uma_text_reset(masked);
    uma_secrets_mask(text->data, text->length, masked);
    if (open->process->cmdline_cut && masked->length > UMA_CMDLINE_MAX)
        masked->length = UMA_CMDLINE_MAX;
    while (open->process->cmdline_cut && masked->length <= UMA_CMDLINE_MAX && !masked->failed)
        uma_text_char(masked, '\0');
    if (!masked->failed)
        (void)uma_root_record(open->reader->root, path, masked->data ? masked->data : "", masked->length, NULL);
}

/* Only what the list keeps. */
static void record_environ(struct open_process *open, const char *path) {
    struct uma_text *kept = &open->reader->extra;
    uma_text_reset(kept);
    for (uint32_t i = 0; i < open->process->envc; i++)
        uma_text_append_n(kept, open->process->env[i], strlen(open->process->env[i]) + 1);
    if (!kept->failed)
        (void)uma_root_record(open->reader->root, path, kept->data ? kept->data : "", kept->length, NULL);
}

static void record(struct open_process *open, bool whole) {
    if (!uma_root_capture(open->reader->root))
        return;
    for (enum part part = 0; part < PARTS; part++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s/%s", open->path, parts[part].name);
        if (!whole) {
            (void)uma_root_record(open->reader->root, path, "", 0, NULL);
            return; /* an empty stat: it ended */
        }
        if (!open->have[part])
            continue;
        if (part == PART_CMDLINE)
            record_cmdline(open, path);
        else if (part == PART_ENVIRON)
            record_environ(open, path);
        else
            (void)uma_root_record(open->reader->root, path, open->reader->text[part].data, open->reader->text[part].length, NULL);
    }
}

/* Of a captured folder: those that could not be read then cannot be counted now. */
static void recorded_counts(struct uma_process_reader *reader, struct uma_processes *processes) {
    uint64_t vanished, denied;
    static const char word[] = " denied ";
    if (uma_root_is_live(reader->root) || uma_root_read(reader->root, counts_record, 128, &reader->extra, NULL) < 0)
        return;
    const char *at = reader->extra.data, *end = at + reader->extra.length;
    if (strncmp(at, "vanished ", 9) != 0 || !(at = uma_parse_u64(at + 9, end, &vanished)) || strncmp(at, word, sizeof(word) - 1) != 0 ||
        !uma_parse_u64(at + sizeof(word) - 1, end, &denied))
        return;
    processes->vanished = vanished;
    processes->denied = denied;
}

static void record_counts(struct uma_process_reader *reader, const struct uma_processes *processes) {
    uma_text_reset(&reader->extra);
    uma_text_printf(&reader->extra, "vanished %llu denied %llu\n", (unsigned long long)processes->vanished,
                    (unsigned long long)processes->denied);
    if (!reader->extra.failed)
        (void)uma_root_record(reader->root, counts_record, reader->extra.data, reader->extra.length, NULL);
}

/* ---- all ----------------------------------------------------------------------------------------------------- */

/* 1: *process is filled; 0: it ended; ret_denied: a part of it may not be read. */
static int read_process(struct uma_process_reader *reader, struct uma_arena *arena, int32_t pid, struct uma_process *process,
                        bool *ret_denied) {
    struct open_process open = { .reader = reader, .arena = arena, .process = process, .folder = -1 };
    *process = (struct uma_process){ .pid = pid, .state = '?', .uid = UINT32_MAX, .cgroup = -1, .container = -1 };
    (void)snprintf(open.path, sizeof(open.path), "proc/%d", pid);
    _cleanup_close_ int folder = -1;
    int r = uma_root_open_folder(reader->root, open.path, &folder, NULL);
    open.folder = folder;
    if (r == 0)
        r = read_stat(&open);
    else
        open.denied = r == -EACCES || r == -EPERM;
    process->pid = pid; /* what /proc calls it */
    if (process->kernel_thread) {
        process->uid = 0;
        sizes_unreadable(process, UMA_ABSENT);
    } else if (folder < 0) {
        sizes_unreadable(process, uma_validity_of_errno(r));
    } else if (!ended(&open, r) && r != -ESRCH) {
        r = read_parts(&open);
    }
    bool gone = folder < 0 ? r == -ENOENT || r == -ESRCH : r == -ESRCH || ended(&open, r);
    record(&open, !gone);
    *ret_denied = open.denied;
    return gone ? 0 : 1;
}

/* The reader keeps what it has learnt; the list is as long as there was room for. */
static struct uma_process *allocate(struct uma_arena *arena, size_t *n) {
    struct uma_process *list = uma_arena_array(arena, *n, sizeof(*list));
    while (!list && *n > 1) {
        *n /= 2;
        list = uma_arena_array(arena, *n, sizeof(*list));
    }
    return list;
}

static void describe(struct uma_process_reader *reader, struct uma_snapshot *snapshot, bool complete, bool cgroups_complete) {
    struct uma_text *text = &reader->extra;
    const struct uma_processes *processes = &snapshot->processes;
    uma_text_reset(text);
    if (processes->denied)
        uma_text_printf(text, "%llu processes have parts that this user may not read; ", (unsigned long long)processes->denied);
    if (reader->n_pids > UMA_PROCESSES_MAX)
        uma_text_printf(text, "only the first %d processes were read; ", UMA_PROCESSES_MAX);
    if (!complete || reader->starved)
        uma_text_printf(text, "not enough memory for all of them; ");
    if (reader->malformed)
        uma_text_printf(text, "%llu files are not what /proc has; ", (unsigned long long)reader->malformed);
    if (!cgroups_complete)
        uma_text_printf(text, "not all cgroups were read: too many, or not enough memory; ");
    if (text->length > 2 && !text->failed)
        snapshot->processes.source.detail = uma_arena_strndup(snapshot->arena, text->data, text->length - 2);
}

static int by_pid(const void *key, const void *process) {
    int32_t pid = *(const int32_t *)key, other = ((const struct uma_process *)process)->pid;
    return (pid > other) - (pid < other);
}

const struct uma_process *uma_processes_find(const struct uma_processes *processes, int32_t pid) {
    return processes->n == 0 ? NULL : bsearch(&pid, processes->list, processes->n, sizeof(*processes->list), by_pid);
}

void uma_processes_read(struct uma_process_reader *reader, struct uma_snapshot *snapshot) {
    struct uma_processes *processes = &snapshot->processes;
    struct uma_error err = { 0 };
    *processes = (struct uma_processes){ 0 };
    reader->malformed = reader->starved = 0;
    int r = list_pids(reader, &err);
    if (r < 0) {
        uma_source_failed(&processes->source, snapshot->arena, "proc", r, &err);
        return;
    }
    uma_source_ok(&processes->source, "proc");
    uma_cgroups_begin(reader->cgroups, snapshot);
    size_t wanted = MIN_OF(reader->n_pids, (size_t)UMA_PROCESSES_MAX), room = wanted;
    processes->list = allocate(snapshot->arena, &room);
    uint64_t vanished = 0, denied = 0;
    for (size_t i = 0; processes->list && i < wanted && processes->n < room; i++) {
        bool this_denied = false;
        if (read_process(reader, snapshot->arena, reader->pids[i], &processes->list[processes->n], &this_denied))
            processes->n++;
        else
            vanished++;
        denied += this_denied;
    }
    processes->vanished = vanished;
    processes->denied = denied;
    bool complete = processes->n + vanished == wanted, cgroups_complete = uma_cgroups_finish(reader->cgroups);
    for (size_t i = 0; processes->list && i < processes->n; i++) {
        struct uma_process *p = &processes->list[i];
        p->container = uma_cgroups_container(reader->cgroups, p->cgroup);
        if ((size_t)(p->cgroup + 1) > snapshot->n_cgroups)
            p->cgroup = -1;
    }
    recorded_counts(reader, processes);
    record_counts(reader, processes);
    describe(reader, snapshot, complete, cgroups_complete);
}
