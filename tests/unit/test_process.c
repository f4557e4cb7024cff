/* SPDX-License-Identifier: MIT */
/* The reader as a whole: on folders made here, on a capture of them, and on this machine while processes come and go. */
#include "test.h"

#include "folder.h"

#include "base/units.h"
#include "observe/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct machine {
    struct folder folder, capture;
    struct uma_root *root;
    struct uma_process_reader *reader;
    struct uma_snapshot snapshot;
};

static void use(struct machine *m, const char *path, const char *capture) {
    m->reader = uma_process_reader_free(m->reader);
    m->root = uma_root_close(m->root);
    assert_int_equal(uma_root_open(path, capture, &m->root, NULL), 0);
    m->reader = uma_process_reader_new(m->root);
    assert_non_null(m->reader);
}

static int setup(void **state) {
    struct machine *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    assert_int_equal(folder_new(&m->folder), 0);
    assert_int_equal(folder_new(&m->capture), 0);
    m->snapshot.arena = uma_arena_new(64 * UMA_MIB);
    assert_non_null(m->snapshot.arena);
    *state = m;
    return 0;
}

static int teardown(void **state) {
    struct machine *m = *state;
    (void)uma_process_reader_free(m->reader);
    (void)uma_root_close(m->root);
    (void)uma_arena_free(m->snapshot.arena);
    folder_done(&m->folder);
    folder_done(&m->capture);
    free(m);
    return 0;
}

static void read_all(struct machine *m) {
    uma_arena_reset(m->snapshot.arena);
    m->snapshot.n_cgroups = m->snapshot.n_containers = 0;
    uma_processes_read(m->reader, &m->snapshot);
}

static const struct uma_process *find(const struct machine *m, int32_t pid) {
    for (size_t i = 0; i < m->snapshot.processes.n; i++)
        if (m->snapshot.processes.list[i].pid == pid)
            return &m->snapshot.processes.list[i];
    return NULL;
}

static void put_stat(struct machine *m, int pid, const char *comm, unsigned flags) {
    char text[512], path[64];
    (void)snprintf(text, sizeof(text), "%d (%s) S 1 1 1 0 -1 %u 1 1 3 0 100 20 0 0 20 0 2 0 %d 1000 10 99 1\n", pid, comm, flags, pid * 10);
    (void)snprintf(path, sizeof(path), "proc/%d/stat", pid);
    folder_put(&m->folder, path, text);
}

static void put_process(struct machine *m, int pid, const char *comm, unsigned rss_kb, const char *cmdline, size_t cmdline_length,
                        const char *cgroup) {
    char text[512];
    put_stat(m, pid, comm, 0x400000);
    (void)snprintf(text, sizeof(text),
                   "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nVmPin:\t0 kB\nVmRSS:\t%u kB\nRssAnon:\t%u kB\nVmSwap:\t0 kB\nThreads:\t2\n",
                   rss_kb, rss_kb / 2);
    folder_text(&m->folder, text, "proc/%d/status", pid);
    char path[64];
    (void)snprintf(path, sizeof(path), "proc/%d/cmdline", pid);
    folder_put_n(&m->folder, path, cmdline, cmdline_length);
    folder_text(&m->folder, cgroup, "proc/%d/cgroup", pid);
    folder_text(&m->folder, "-500\n", "proc/%d/oom_score_adj", pid);
}

static void same_text(const char *a, const char *b) {
    assert_true((a == NULL) == (b == NULL));
    if (a)
        assert_string_equal(a, b);
}

static void same_process(const struct uma_process *a, const struct uma_process *b) {
    struct uma_process x = *a, y = *b;
    same_text(x.name, y.name);
    assert_int_equal(x.argc, y.argc);
    for (uint32_t i = 0; i < x.argc; i++)
        same_text(x.argv[i], y.argv[i]);
    assert_int_equal(x.envc, y.envc);
    for (uint32_t i = 0; i < x.envc; i++)
        same_text(x.env[i], y.env[i]);
    x.name = y.name = NULL;
    x.argv = y.argv = x.env = y.env = NULL;
    assert_memory_equal(&x, &y, sizeof(x));
}

/* A machine of all the awkward kinds; its capture, read back, is the same, and has no secret in it. */
static void folder_and_capture(void **state) {
    struct machine *m = *state;
    static char many[10 * 1000 * 1000];
    put_stat(m, 2, "kthreadd", 0x208040);
    folder_put(&m->folder, "proc/2/cmdline", "not read");
    static const char vllm[] = "python3\0-m\0vllm\0--api-key\0SECRET1\0--port=1\0";
    put_process(m, 300, "foo) Z ", 100 * 1024, vllm, sizeof(vllm) - 1, "0::/docker/0123456789abcdef\n");
    static const char environ[] = "HF_TOKEN=SECRET2\0RANK=1\0OLLAMA_HOST=http://u:SECRET3@h\0";
    folder_put_n(&m->folder, "proc/300/environ", environ, sizeof(environ) - 1);
    put_process(m, 301, "a\nb", 10, "\xff\x1b[31m", 6, "0::/user.slice\n");
    folder_put(&m->folder, "proc/301/environ", "RANK=5"); /* small and no engine: not looked at */
    (void)memset(many, 'x', sizeof(many));
    put_process(m, 302, "huge", 10, many, sizeof(many), "garbage");
    (void)memset(many, 0, 8192);
    (void)memcpy(many, "x --password=SECRET4 ", 21);
    many[9000] = 'y';
    put_process(m, 303, "empties", 10, many, sizeof(many), "0::/user.slice\n");
    put_stat(m, 304, "only stat", 0x400000);
    folder_put(&m->folder, "proc/305/stat", "305 (cut off) S 1 1");
    folder_put(&m->folder, "proc/305/status", "garbage\n:::\n");
    folder_put(&m->folder, "proc/306/stat", ""); /* ended */
    put_stat(m, 4194305, "no kernel has it", 0x400000);
    folder_put(&m->folder, "proc/0/stat", "");
    folder_put(&m->folder, "proc/99999999999/stat", "");
    folder_put(&m->folder, "proc/12x/stat", "");
    folder_put(&m->folder, "sys/fs/cgroup/docker/0123456789abcdef/memory.max", "1000000\n");
    folder_put(&m->folder, "sys/fs/cgroup/user.slice/memory.current", "12\n");
    folder_put(&m->folder, "var/lib/docker/containers/0123456789abcdef/config.v2.json",
               "{\"Name\":\"/web\",\"Config\":{\"Env\":[\"SECRET5\"]}}");

    use(m, m->folder.path, m->capture.path);
    read_all(m);
    const struct uma_processes *all = &m->snapshot.processes;
    assert_int_equal(all->source.validity, UMA_KNOWN);
    assert_int_equal(all->n, 7);
    assert_int_equal(all->vanished, 1);
    assert_int_equal(all->denied, 0);
    assert_string_equal(all->source.detail, "2 files are not what /proc has");
    assert_true(find(m, 2)->kernel_thread);
    assert_int_equal(find(m, 2)->argc, 0);
    const struct uma_process *p = find(m, 300);
    assert_string_equal(p->name, "foo) Z ");
    assert_int_equal(p->uid, 1000);
    assert_int_equal(p->rss.value, 100 * UMA_MIB);
    assert_int_equal(p->rss_shmem.validity, UMA_ABSENT);
    assert_int_equal(p->oom_score_adj.value, -500);
    assert_int_equal(p->start_ticks, 3000);
    assert_int_equal(p->envc, 2);
    assert_string_equal(p->env[0], "RANK=1");
    assert_string_equal(p->env[1], "OLLAMA_HOST=http://***@h");
    assert_string_equal(p->argv[4], "***");
    assert_string_equal(m->snapshot.cgroups[p->cgroup].path, "/docker/0123456789abcdef");
    assert_int_equal(m->snapshot.cgroups[p->cgroup].effective_max.value, 1000000);
    assert_string_equal(m->snapshot.containers[p->container].name, "web");
    p = find(m, 301);
    assert_string_equal(p->name, "a\nb");
    assert_string_equal(p->argv[0], "\\xff\x1b[31m");
    assert_int_equal(p->envc, 0);
    assert_int_equal(p->oom_score_adj.validity, UMA_UNKNOWN);
    assert_int_equal(p->container, -1);
    assert_true(find(m, 302)->cmdline_cut);
    assert_int_equal(strlen(find(m, 302)->argv[0]), UMA_CMDLINE_MAX);
    assert_int_equal(find(m, 302)->cgroup, -1);
    assert_true(find(m, 303)->cmdline_cut);
    assert_int_equal(find(m, 304)->rss.validity, UMA_ABSENT);
    assert_int_equal(find(m, 305)->majfaults.validity, UMA_MALFORMED);
    assert_int_equal(find(m, 305)->rss.validity, UMA_MALFORMED);
    assert_int_equal(find(m, 305)->uid, UINT32_MAX);

    struct machine again = { .snapshot.arena = uma_arena_new(64 * UMA_MIB) };
    use(&again, m->capture.path, NULL);
    read_all(&again);
    assert_int_equal(again.snapshot.processes.n, all->n);
    assert_int_equal(again.snapshot.processes.vanished, 1);
    same_text(again.snapshot.processes.source.detail, all->source.detail);
    for (size_t i = 0; i < all->n; i++)
        same_process(&all->list[i], &again.snapshot.processes.list[i]);
    assert_int_equal(again.snapshot.n_cgroups, m->snapshot.n_cgroups);
    assert_int_equal(again.snapshot.n_containers, m->snapshot.n_containers);
    assert_string_equal(again.snapshot.containers[0].name, "web");
    (void)uma_process_reader_free(again.reader);
    (void)uma_root_close(again.root);
    (void)uma_arena_free(again.snapshot.arena);

    char command[512];
    (void)snprintf(command, sizeof(command), "grep -r SECRET %s >/dev/null", m->capture.path);
    assert_int_equal(WEXITSTATUS(system(command)), 1);
}

static void nothing_there(void **state) {
    struct machine *m = *state;
    use(m, m->folder.path, NULL);
    read_all(m);
    assert_int_equal(m->snapshot.processes.source.validity, UMA_ABSENT);
    assert_non_null(m->snapshot.processes.source.detail);
    folder_put(&m->folder, "proc/meminfo", "");
    folder_put(&m->folder, "proc/77", "a file where a folder should be");
    read_all(m);
    assert_int_equal(m->snapshot.processes.source.validity, UMA_KNOWN);
    assert_int_equal(m->snapshot.processes.n, 1);
    assert_int_equal(m->snapshot.processes.list[0].rss.validity, UMA_ABSENT);
}

/* With too little memory as much as fits is there, and the source says that it is not all. */
static void starved(void **state) {
    struct machine *m = *state;
    for (int pid = 1; pid <= 60; pid++)
        put_process(m, pid, "some process", 100, "an\0argument", 11, pid % 2 ? "0::/a/b/c/d.service\n" : "0::/docker/0123456789abcdef\n");
    use(m, m->folder.path, NULL);
    size_t most = 0;
    for (size_t limit = 16; limit < 40000; limit += limit / 7 + 1) {
        (void)uma_arena_free(m->snapshot.arena);
        m->snapshot.arena = uma_arena_new(limit);
        assert_non_null(m->snapshot.arena);
        read_all(m);
        const struct uma_processes *all = &m->snapshot.processes;
        assert_true(all->n <= 60);
        assert_int_equal(all->vanished, 0);
        if (all->n < 60 && uma_arena_used(m->snapshot.arena) + 100 < limit)
            assert_non_null(all->source.detail);
        most = all->n > most ? all->n : most;
    }
    assert_int_equal(most, 60);
}

/* ---- this machine -------------------------------------------------------------------------------------------- */

static pid_t start(const char *const *argv, const char *const *env) {
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)execve("/bin/sleep", (char *const *)(const void *)argv, (char *const *)(const void *)env);
        _exit(127);
    }
    (void)close(ready[1]);
    char c;
    assert_int_equal(read(ready[0], &c, 1), 0); /* closed by the exec */
    (void)close(ready[0]);
    return pid;
}

static void end(pid_t pid) {
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void live(void **state) {
    struct machine *m = *state;
    static const char *const argv[] = { "vllm-in-a-test", "30", NULL };
    static const char *const env[] = { "RANK=3", "HF_TOKEN=SECRET", NULL };
    pid_t pid = start(argv, env);
    use(m, NULL, m->capture.path);
    read_all(m);
    const struct uma_process *p = find(m, pid), *self = find(m, getpid());
    assert_non_null(p);
    assert_non_null(self);
    assert_string_equal(p->name, "sleep");
    assert_int_equal(p->argc, 2);
    assert_string_equal(p->argv[0], "vllm-in-a-test");
    assert_int_equal(p->envc, 1);
    assert_string_equal(p->env[0], "RANK=3");
    assert_int_equal(p->ppid, getpid());
    assert_int_equal(p->uid, getuid());
    assert_int_equal(p->oom_score_adj.validity, UMA_KNOWN);
    assert_int_equal(self->rss.validity, UMA_KNOWN);
    assert_true(self->rss.value > 100 * UMA_KIB);
    assert_true(self->start_ticks <= p->start_ticks);
    char command[512];
    (void)snprintf(command, sizeof(command), "grep -r HF_TOKEN %s/proc/%d >/dev/null", m->capture.path, pid);
    assert_int_equal(WEXITSTATUS(system(command)), 1);
    end(pid);
    /* a child that ended and was not waited for is there, as what it is */
    pid_t zombie = fork();
    if (zombie == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT), 0);
    use(m, NULL, NULL);
    read_all(m);
    assert_null(find(m, pid));
    assert_int_equal(find(m, zombie)->state, 'Z');
    assert_int_equal(find(m, zombie)->rss.validity, UMA_ABSENT);
    assert_int_equal(waitpid(zombie, NULL, 0), zombie);
}

/* The folder of a process that ended answers for nobody else, also when its number is used again. */
static void folder_outlives(void **state) {
    struct machine *m = *state;
    use(m, NULL, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    char path[32];
    (void)snprintf(path, sizeof(path), "proc/%d", pid);
    _cleanup_close_ int folder = -1;
    _cleanup_text_ struct uma_text text = { 0 };
    assert_int_equal(uma_root_open_folder(m->root, path, &folder, NULL), 0);
    assert_int_equal(uma_root_read_in(m->root, folder, path, "stat", 4096, false, &text, NULL), 0);
    assert_true(text.length > 20);
    assert_int_equal(uma_root_read_in(m->root, folder, path, "stat", 10, false, &text, NULL), 1);
    assert_int_equal(text.length, 10);
    end(pid);
    struct uma_error err = { 0 };
    int r = uma_root_read_in(m->root, folder, path, "stat", 4096, false, &text, &err);
    assert_true(r == -ESRCH || r == -ENOENT);
    assert_non_null(strstr(err.text, "/stat"));
}

/* While processes come and go by the hundred: always in order, always whole, never an error. */
static void races(void **state) {
    struct machine *m = *state;
    pid_t spawner = fork();
    if (spawner == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when an assertion below ends the test */
        (void)alarm(60);
        for (;;) {
            pid_t children[8];
            for (size_t i = 0; i < ELEMENTS(children); i++) {
                children[i] = fork();
                if (children[i] == 0)
                    _exit(0);
            }
            for (size_t i = 0; i < ELEMENTS(children); i++)
                (void)waitpid(children[i], NULL, 0);
        }
    }
    use(m, NULL, NULL);
    uint64_t vanished = 0;
    for (int i = 0; i < 300 && (i < 20 || vanished == 0); i++) {
        read_all(m);
        const struct uma_processes *all = &m->snapshot.processes;
        assert_int_equal(all->source.validity, UMA_KNOWN);
        assert_true(!all->source.detail || !strstr(all->source.detail, "not what"));
        assert_non_null(find(m, getpid()));
        for (size_t j = 0; j < all->n; j++) {
            const struct uma_process *p = &all->list[j];
            assert_true(j == 0 || p->pid > all->list[j - 1].pid);
            assert_non_null(p->name);
            assert_true(p->state != '?');
            assert_true(p->kernel_thread || p->rss.validity == UMA_KNOWN || p->rss.validity == UMA_ABSENT);
        }
        vanished += all->vanished;
    }
    end(spawner);
    assert_true(vanished > 0); /* the test did test it */
}

/* As another user: parts of this process are not readable, which is said, and the rest is there. Needs root to change. */
static void denied(void **state) {
    struct machine *m = *state;
    if (geteuid() != 0)
        SKIP_BECAUSE("needs root to become another user");
    size_t size = 80 * UMA_MIB; /* makes this process one whose environment is wanted */
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    (void)memset(memory, 1, size); /* MAP_POPULATE alone does not populate under user-mode emulation */
    pid_t tested = getpid(), other = fork();
    if (other == 0) {
        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
            _exit(2);
        use(m, NULL, NULL);
        read_all(m);
        const struct uma_process *p = find(m, tested);
        bool good = p && p->envc == 0 && p->rss.validity == UMA_KNOWN && p->argc > 0 && m->snapshot.processes.denied > 0 &&
                    m->snapshot.processes.source.detail && strstr(m->snapshot.processes.source.detail, "may not read");
        if (!good)
            (void)fprintf(stderr, "denied %d, detail %s, argc %d, envc %d, rss %d\n", (int)m->snapshot.processes.denied,
                          m->snapshot.processes.source.detail, p ? (int)p->argc : -1, p ? (int)p->envc : -1, p ? (int)p->rss.validity : -1);
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(munmap(memory, size), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(folder_and_capture), TEST(nothing_there), TEST(starved), TEST(live), TEST(folder_outlives), TEST(races), TEST(denied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
