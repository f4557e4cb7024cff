/* SPDX-License-Identifier: MIT */
#include "guard/notify_policy.h"
#include "guard/warn_marker.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static char folder[64];
static int dir = -1;

static int begin(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/umactl-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? -1 : 0;
}

static int end(void **state) {
    (void)state;
    (void)close(dir);
    return rmdir(folder); /* each case leaves it empty */
}

static uint64_t start_of(pid_t pid) {
    char path[64], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    uint64_t start = 0;
    assert_int_equal(
        sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64, &start), 1);
    return start;
}

static void made_and_read(void **state) {
    (void)state;
    struct uma_guard_warn_made made;
    struct uma_guard_warn_mark mark;
    struct uma_error err = { 0 };
    struct stat st;
    uint64_t start = start_of(getpid());
    mode_t before = umask(077);
    assert_int_equal(uma_guard_warn_mark_make(folder, start, uma_guard_warn_signal(), &made, &err), 0);
    (void)umask(before);
    assert_int_equal(stat(made.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_true(uma_guard_warn_marked(dir, getpid(), start, geteuid(), &mark));
    assert_int_equal(mark.signal, uma_guard_warn_signal());
    assert_true(uma_guard_warn_marked(dir, getpid(), start, geteuid(), NULL));
    assert_false(uma_guard_warn_marked(dir, getpid(), start + 1, geteuid(), NULL)); /* another that has its number */
    assert_false(uma_guard_warn_marked(dir, getppid(), start, geteuid(), NULL));
    assert_false(uma_guard_warn_marked(dir, getpid(), start, geteuid() + 1, NULL)); /* not the user of that process */
    struct uma_guard_warn_made again;                                               /* in its own place */
    assert_int_equal(uma_guard_warn_mark_make(folder, start, uma_guard_warn_signal(), &again, &err), 0);
    uma_guard_warn_mark_remove(&again);
    (void)close(made.fd);
}

static void reading_allocates_nothing(void **state) {
    (void)state;
    struct uma_guard_warn_made made;
    uint64_t start = start_of(getpid());
    assert_int_equal(uma_guard_warn_mark_make(folder, start, uma_guard_warn_signal(), &made, NULL), 0);
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 100; i++) {
        assert_true(uma_guard_warn_marked(dir, getpid(), start, geteuid(), NULL));
        (void)uma_guard_signal_if_awaited(getpid(), start, SIGURG); /* nothing waits for it */
    }
    assert_int_equal(mallinfo2().uordblks, before.uordblks);
    uma_guard_warn_mark_remove(&made);
    assert_false(uma_guard_warn_marked(dir, getpid(), start, geteuid(), NULL));
}

/* Of a umactl that was killed: gone with the next mark; one whose owner lives stays. */
static void dead_ones_are_swept(void **state) {
    (void)state;
    SKIP_UNDER_EMULATION(); /* a process's own stat is made up there: its start is not what others see */
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct uma_guard_warn_made made;
        int r = uma_guard_warn_mark_make(folder, start_of(getpid()), uma_guard_warn_signal(), &made, NULL);
        (void)!write(ready[1], &r, sizeof(r));
        (void)pause();
        _exit(0);
    }
    int r = -1;
    assert_int_equal(read(ready[0], &r, sizeof(r)), sizeof(r));
    assert_int_equal(r, 0);
    uint64_t start = start_of(child);
    struct uma_guard_warn_made made;
    assert_int_equal(uma_guard_warn_mark_make(folder, start_of(getpid()), uma_guard_warn_signal(), &made, NULL), 0);
    assert_true(uma_guard_warn_marked(dir, child, start, geteuid(), NULL));
    uma_guard_warn_mark_remove(&made);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    assert_true(uma_guard_warn_marked(dir, child, start, geteuid(), NULL));
    assert_int_equal(uma_guard_warn_mark_make(folder, start_of(getpid()), uma_guard_warn_signal(), &made, NULL), 0);
    assert_false(uma_guard_warn_marked(dir, child, start, geteuid(), NULL));
    uma_guard_warn_mark_remove(&made);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void put(const char *path, const void *data, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    (void)close(fd);
}

/* Links, other names of the same file, FIFOs, files of another length or of somebody else's words. */
static void hostile_files(void **state) {
    (void)state;
    char path[128], other[128];
    struct uma_guard_warn_mark mark = { .magic = UMA_GUARD_WARN_MAGIC, .pid = 77, .signal = 45, .start = 5 };
    (void)snprintf(path, sizeof(path), "%s/" UMA_GUARD_WARN_NAME "77-5", folder);
    (void)snprintf(other, sizeof(other), "%s/other", folder);
    put(path, &mark, sizeof(mark));
    assert_true(uma_guard_warn_marked(dir, 77, 5, geteuid(), NULL));
    assert_int_equal(link(path, other), 0);
    assert_false(uma_guard_warn_marked(dir, 77, 5, geteuid(), NULL));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("other", path), 0);
    assert_false(uma_guard_warn_marked(dir, 77, 5, geteuid(), NULL));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_false(uma_guard_warn_marked(dir, 77, 5, geteuid(), NULL));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_false(uma_guard_warn_marked(dir, 77, 5, geteuid(), NULL));
    assert_int_equal(rmdir(path), 0);
    put(path, &mark, sizeof(mark) - 1);
    assert_false(uma_guard_warn_marked(dir, 77, 5, geteuid(), NULL));
    put(path, "", 0);
    assert_false(uma_guard_warn_marked(dir, 77, 5, geteuid(), NULL));
    char longer[sizeof(mark) + 1] = { 0 };
    memcpy(longer, &mark, sizeof(mark));
    put(path, longer, sizeof(longer));
    assert_false(uma_guard_warn_marked(dir, 77, 5, geteuid(), NULL));
    mark.signal = 9; /* no realtime signal */
    put(path, &mark, sizeof(mark));
    assert_false(uma_guard_warn_marked(dir, 77, 5, geteuid(), NULL));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(other), 0);
    assert_false(uma_guard_warn_marked(dir, 0, 5, geteuid(), NULL));
    assert_false(uma_guard_warn_marked(-1, 77, 5, geteuid(), NULL));
}

static void names(void **state) {
    (void)state;
    int32_t pid = 0;
    uint64_t start = 0;
    assert_true(uma_guard_warn_name_parse("umactl-warn-77-18446744073709551615", &pid, &start));
    assert_int_equal(pid, 77);
    assert_true(start == UINT64_MAX);
    static const char *const bad[] = { "",
                                       "umactl-warn-",
                                       "umactl-warn-77",
                                       "umactl-warn-77-",
                                       "umactl-warn--77-1",
                                       "umactl-warn-077-1",
                                       "umactl-warn-0-1",
                                       "umactl-warn-77-01",
                                       "umactl-warn-77-1 ",
                                       "umactl-warn-2147483648-1",
                                       "umactl-warn-77-18446744073709551616",
                                       "umactl-warm-77-1" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(uma_guard_warn_name_parse(bad[i], &pid, &start));
}

static void status_text(void **state) {
    (void)state;
    static const char status[] =
        "Name:\tSigBlk\nUmask:\t0022\nSigPnd:\tffffffffffffffff\nSigBlk:\t0000100000000200\nSigIgn:\t0000000000000001\nSigCgt:\t8000000000000002\n";
    assert_true(uma_guard_signal_awaited(status, sizeof(status) - 1, 10)); /* blocked: a signalfd */
    assert_true(uma_guard_signal_awaited(status, sizeof(status) - 1, 45));
    assert_true(uma_guard_signal_awaited(status, sizeof(status) - 1, 2)); /* caught */
    assert_true(uma_guard_signal_awaited(status, sizeof(status) - 1, 64));
    assert_false(uma_guard_signal_awaited(status, sizeof(status) - 1, 1)); /* ignored */
    assert_false(uma_guard_signal_awaited(status, sizeof(status) - 1, 12));
    assert_false(uma_guard_signal_awaited(status, sizeof(status) - 1, 0));
    assert_false(uma_guard_signal_awaited(status, sizeof(status) - 1, 65));
    for (size_t n = 0; n < 70; n++) /* cut before the first of the two masks */
        assert_false(uma_guard_signal_awaited(status, n, 10));
    assert_false(uma_guard_signal_awaited("SigBlk:\tzzzzzzzzzzzzzzzz\n", 25, 10));
}

/* A process that would be ended by the signal lives on. */
static void only_to_who_waits(void **state) {
    (void)state;
    SKIP_UNDER_EMULATION();
    int signo = uma_guard_warn_signal(), ready[2];
    for (int waits = 0; waits < 2; waits++) {
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0) {
            sigset_t set;
            (void)sigemptyset(&set);
            if (waits)
                (void)sigaddset(&set, signo);
            (void)sigprocmask(SIG_BLOCK, &set, NULL);
            (void)sigaddset(&set, SIGTERM);
            (void)sigprocmask(SIG_BLOCK, &set, NULL);
            (void)!write(ready[1], "", 1);
            struct signalfd_siginfo info = { 0 }; /* as umactl run waits; who is inside of sigwait(3) does not block meanwhile */
            (void)!read(signalfd(-1, &set, 0), &info, sizeof(info));
            _exit((int)info.ssi_signo == signo ? 3 : 4);
        }
        char c;
        int status;
        assert_int_equal(read(ready[0], &c, 1), 1);
        uint64_t start = start_of(child);
        assert_int_equal(uma_guard_signal_if_awaited(child, start + 1, signo), -ESRCH);
        assert_int_equal(uma_guard_signal_if_awaited(child, start, signo), waits ? 0 : -ENOTSUP);
        (void)kill(child, SIGTERM);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (!waits)
            assert_int_equal(WEXITSTATUS(status), 4);
        assert_int_equal(uma_guard_signal_if_awaited(child, start, signo), -ESRCH);
        (void)close(ready[0]);
        (void)close(ready[1]);
    }
    assert_int_equal(uma_guard_signal_if_awaited(-1, 1, signo), -ESRCH);
    assert_int_equal(uma_guard_signal_if_awaited(0, 1, signo), -ESRCH);
}

static void no_folder(void **state) {
    (void)state;
    struct uma_guard_warn_made made;
    struct uma_error err = { 0 };
    assert_true(uma_guard_warn_mark_make("/nonexistent/folder", 1, uma_guard_warn_signal(), &made, &err) < 0);
    assert_non_null(strstr(err.text, "/nonexistent/folder"));
    uma_guard_warn_mark_remove(&made);
}

static void notify_words(void **state) {
    (void)state;
    assert_true(uma_guard_notify_command_fine(""));
    assert_true(uma_guard_notify_command_fine("/usr/local/bin/tell"));
    assert_false(uma_guard_notify_command_fine("tell"));
    assert_false(uma_guard_notify_command_fine("/bin/sh -c x"));
    assert_false(uma_guard_notify_command_fine("/"));
    assert_false(uma_guard_notify_command_fine("/a\n"));
    assert_true(uma_guard_notify_webhook_fine(""));
    assert_true(uma_guard_notify_webhook_fine("https://hooks.example/T/x?y=1&z=2"));
    assert_true(uma_guard_notify_webhook_fine("http://127.0.0.1:8080/"));
    assert_false(uma_guard_notify_webhook_fine("http://"));
    assert_false(uma_guard_notify_webhook_fine("https:///x"));
    assert_false(uma_guard_notify_webhook_fine("file:///etc/passwd"));
    assert_false(uma_guard_notify_webhook_fine("https://a/\"\noutput=/etc/x"));
    assert_false(uma_guard_notify_webhook_fine("https://a/\xc3\xa4"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_and_read, begin, end),
        cmocka_unit_test_setup_teardown(reading_allocates_nothing, begin, end),
        cmocka_unit_test_setup_teardown(dead_ones_are_swept, begin, end),
        cmocka_unit_test_setup_teardown(hostile_files, begin, end),
        cmocka_unit_test(names),
        cmocka_unit_test(status_text),
        cmocka_unit_test(only_to_who_waits),
        cmocka_unit_test(no_folder),
        cmocka_unit_test(notify_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
