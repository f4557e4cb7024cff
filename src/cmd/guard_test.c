/* SPDX-License-Identifier: MIT */
/* The whole path on a child of this program's own: a guard with folders and a policy of its own, that sees this machine, stops the child, lets it go on, and ends it. */
#include "cmd/guard_test.h"

#include "base/units.h"
#include "cmd/layout.h"
#include "guard/policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: umactl guard test [OPTION...]\n"
    "\n"
    "Try the whole path on this machine: start a guard of its own, with folders and a policy of its own, that may touch only a child of this\n"
    "program; have the child grow by a harmless amount; see it stopped, let go on, and ended by SIGTERM, and a second child by SIGKILL; and\n"
    "find it all written down. Takes some seconds, needs no root, and leaves the guard of the machine alone.\n"
    "\n"
    "      --json           print JSON\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: 0 all of it works, 1 a step did not, 2 usage, 3 it could not be tried, 130 ended by Ctrl-C.\n";

static const struct uma_command *const self = &uma_command_guard_test;

/* A guard begins within 0.1 s; a loaded machine is given a hundred times as long, and so is every step. */
#define PATIENCE 15.0
/* What the child takes a second: eight times what counts as jitter (a 2,048th of the memory: danger.c), so that other programs do not hide it; and at least so much that nothing would be left after half the horizon. */
#define JITTERS (8.0 / 2048)
#define SPEED_LEAST (16 * UMA_MIB)
enum { MOST_SHARE = 8 }; /* of what is available */

/* ---- steps -------------------------------------------------------------------------------------------------- */

static double seconds_since(int64_t then) {
    return (double)(uma_monotonic_ns() - then) / 1e9;
}

UMA_PRINTF(5, 6)
static bool step(struct uma_guard_test *test, const char *what, bool fine, double seconds, const char *format, ...) {
    if (test->interrupted) /* what was waited for then is no fault */
        return false;
    if (test->n_steps < UMA_GUARD_TEST_STEPS) {
        struct uma_guard_test_step *s = &test->steps[test->n_steps++];
        *s = (struct uma_guard_test_step){ .what = what, .fine = fine, .seconds = seconds };
        va_list ap;
        va_start(ap, format);
        (void)vsnprintf(s->detail, sizeof(s->detail), format, ap);
        va_end(ap);
    }
    test->failed = test->failed || !fine;
    return fine;
}

/* Until it answers; false: it ended, or does not answer. */
static bool wait_for_guard(struct uma_guard_test *test) {
    int64_t begin = uma_monotonic_ns();
    struct uma_error err = { 0 };
    while (seconds_since(begin) < PATIENCE) {
        struct uma_guard_told told;
        int status;
        if (waitpid(test->guard, &status, WNOHANG) == test->guard) {
            test->guard = 0;
            return step(test, "the guard starts", false, -1, "it ended at once, with %s %d", WIFSIGNALED(status) ? "signal" : "status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
        if (uma_guard_ask_it(test->run_folder, "status", &told, &err) >= 0)
            return step(test, "the guard starts", true, seconds_since(begin), "%s", "");
        (void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    return step(test, "the guard starts", false, -1, "%.180s", err.text);
}

/* The last action of a kind in the trail. */
static bool find_receipt(const struct uma_guard_test *test, enum uma_guard_action_kind kind, struct uma_guard_trail_record *ret_record) {
    struct uma_guard_records records;
    bool found = false;
    if (uma_guard_records_read(test->state_folder, 0, UMA_GUARD_TRAIL_RECORDS, &records, NULL) < 0)
        return false;
    for (size_t i = records.n; i > 0 && !found; i--) {
        const struct uma_guard_trail_record *r = &records.list[i - 1];
        found = r->kind == UMA_GUARD_TRAIL_RECEIPT && r->decision.actions[0].kind == kind && r->result >= 0;
        if (found)
            *ret_record = *r;
    }
    uma_guard_records_done(&records);
    return found;
}

/* What is written after the action is there a moment later. */
static bool check_receipt(struct uma_guard_test *test, const char *what, enum uma_guard_action_kind kind, pid_t pid) {
    struct uma_guard_trail_record record;
    int64_t begin = uma_monotonic_ns();
    bool found;
    while (!(found = find_receipt(test, kind, &record) && record.decision.actions[0].pid == pid) && seconds_since(begin) < 3)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    if (!found)
        return step(test, what, false, -1, "the trail has no such record");
    return step(test, what, true, -1, "%.1f ms after the reading that asked for it", (double)record.took_ns / 1e6);
}

/* The child stops and goes on. */
static bool see_brake(struct uma_guard_test *test) {
    int64_t begin = uma_monotonic_ns();
    int number;
    if (uma_guard_test_wait(test, PATIENCE, &number) != UMA_GUARD_TEST_STOPPED)
        return step(test, "it is stopped", false, -1, test->child ? "not within %.0f s" : "it ended, within %.0f s", PATIENCE);
    int64_t stopped = uma_monotonic_ns();
    (void)step(test, "it is stopped", true, (double)(stopped - begin) / 1e9, "%s", "");
    if (uma_guard_test_wait(test, PATIENCE, &number) != UMA_GUARD_TEST_GOES_ON)
        return step(test, "it goes on", false, -1, test->child ? "not within %.0f s" : "it ended, within %.0f s", PATIENCE);
    (void)step(test, "it goes on", true, seconds_since(stopped), "%s", "");
    return check_receipt(test, "the stop is written down", UMA_GUARD_BRAKE, test->child);
}

/* The child ends, after it may have been stopped some more times. */
static bool see_end(struct uma_guard_test *test, int expected, int64_t begin) {
    pid_t pid = test->child;
    for (unsigned i = 0; i < 64; i++) { /* events: more are no test any more */
        int number = 0;
        enum uma_guard_test_event event = uma_guard_test_wait(test, PATIENCE, &number);
        if (event == UMA_GUARD_TEST_NOTHING)
            return step(test, "it is ended", false, -1, "not within %.0f s", PATIENCE);
        if (event == UMA_GUARD_TEST_ENDED)
            return step(test, "it is ended", number == expected, seconds_since(begin), "by signal %d%s", number,
                        number == expected ? "" : ", not by the one that was expected") &&
                   check_receipt(test, "its end is written down", expected == SIGTERM ? UMA_GUARD_TERM : UMA_GUARD_KILL, pid);
    }
    return step(test, "it is ended", false, -1, "it is stopped and let go on again and again");
}

/* ---- the test ----------------------------------------------------------------------------------------------- */

/* The guard reads its policy again, and says that it is fine. */
static bool reload(struct uma_guard_test *test, enum uma_guard_test_rung rung, const char *what) {
    char value[16] = "";
    struct uma_guard_told told;
    struct uma_error err = { 0 };
    int64_t begin = uma_monotonic_ns();
    if (uma_guard_test_policy(test, rung, &err) < 0 || kill(test->guard, SIGHUP) < 0)
        return step(test, what, false, -1, "%.180s", err.text);
    (void)nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    if (uma_guard_ask_it(test->run_folder, "status", &told, &err) < 0)
        return step(test, what, false, -1, "%.180s", err.text);
    bool fine = uma_guard_told_value(&told, "policy", 0, value, sizeof(value)) && strcmp(value, "fine") == 0;
    return step(test, what, fine, seconds_since(begin), "%s", fine ? "" : "it calls it broken");
}

static bool begin_child(struct uma_guard_test *test, bool deaf) {
    struct uma_error err = { 0 };
    _cleanup_text_ struct uma_text text = { 0 };
    if (uma_guard_test_start_child(test, deaf, &err) < 0)
        return step(test, "a child grows", false, -1, "%.180s", err.text);
    /* it is seen once before it grows, as a job would be */
    (void)nanosleep(&(struct timespec){ .tv_sec = 1, .tv_nsec = 200000000 }, NULL);
    uma_text_bytes(&text, test->speed);
    uma_guard_test_let_grow(test);
    return step(test, deaf ? "a child grows that ignores SIGTERM" : "a child grows", true, -1, "by %.40s/s", text.data ? text.data : "?");
}

static bool end_guard(struct uma_guard_test *test) {
    int64_t begin = uma_monotonic_ns();
    int status = 0;
    (void)kill(test->guard, SIGTERM);
    while (waitpid(test->guard, &status, WNOHANG) == 0)
        if (seconds_since(begin) < PATIENCE)
            (void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
        else
            return step(test, "the guard ends", false, -1, "not within %.0f s", PATIENCE);
    test->guard = 0;
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return step(test, "the guard ends", fine, seconds_since(begin), "%s", fine ? "" : "with an error");
}

static void try_all(struct uma_guard_test *test, const char *program) {
    struct uma_error err = { 0 };
    if (uma_guard_test_policy(test, UMA_GUARD_TEST_BRAKE, &err) < 0 || uma_guard_test_start_guard(test, program, &err) < 0) {
        (void)step(test, "the guard starts", false, -1, "%.180s", err.text);
        return;
    }
    if (!wait_for_guard(test) || !begin_child(test, false) || !see_brake(test))
        return;
    int64_t begin = uma_monotonic_ns();
    if (!reload(test, UMA_GUARD_TEST_TERM, "the policy now: end it") || !see_end(test, SIGTERM, begin) ||
        !reload(test, UMA_GUARD_TEST_KILL, "the policy now: kill it") || !begin_child(test, true) ||
        !see_end(test, SIGKILL, uma_monotonic_ns()))
        return;
    (void)end_guard(test);
}

/* What it may take; 0, or -EBUSY where a child that grows would be no test but harm. */
static int measure(struct uma_guard_test *test, struct uma_error *err) {
    static const struct uma_common_options here;
    struct uma_snapshot snapshot = { 0 };
    struct uma_guard_policy policy;
    int r = uma_command_snapshot_take(&here, UMA_READ_MEMORY, &snapshot, err);
    if (r < 0)
        return r;
    bool known = uma_usable(snapshot.meminfo.mem_total.validity) && uma_usable(snapshot.meminfo.mem_available.validity);
    test->total = snapshot.meminfo.mem_total.value;
    test->headroom = snapshot.meminfo.mem_available.value;
    uma_snapshot_done(&snapshot);
    if (!known)
        return uma_error_text(err, ENODATA, "how much memory is available is not known");
    uma_guard_policy_default(&policy);
    uma_guard_policy_settle(&policy, test->total);
    if (test->headroom < 2 * policy.floor)
        return uma_error_text(err, EBUSY, "%llu MiB are available, and twice the floor (%llu MiB) is wanted for a test",
                              (unsigned long long)(test->headroom / UMA_MIB), (unsigned long long)(policy.floor / UMA_MIB));
    test->floor = test->headroom / 2;
    double speed = MAX_OF((double)test->total * JITTERS, 2 * (double)test->headroom / UMA_GUARD_TEST_HORIZON);
    test->speed = MAX_OF((uint64_t)speed, SPEED_LEAST) / UMA_MIB * UMA_MIB;
    test->most = test->headroom / MOST_SHARE;
    return 0;
}

/* ---- telling ------------------------------------------------------------------------------------------------ */

static void write_text(struct uma_text *text, const struct uma_guard_test *test) {
    for (unsigned i = 0; i < test->n_steps; i++) {
        const struct uma_guard_test_step *s = &test->steps[i];
        uma_text_printf(text, "%-6s %-36s", s->fine ? "ok" : "NOT OK", s->what);
        if (s->seconds >= 0) {
            uma_text_char(text, ' ');
            uma_text_fixed(text, s->seconds, 3);
            uma_text_append(text, " s");
        }
        if (s->detail[0]) {
            uma_text_append(text, s->seconds >= 0 ? "; " : " ");
            (void)uma_text_safe(text, s->detail, 0);
        }
        uma_text_char(text, '\n');
    }
    uma_text_append(text, test->interrupted ? "Ended before it was over.\n"
                          : test->failed    ? "Not all of it works.\n"
                                            : "All of it works.\n");
}

static void write_json(struct uma_text *text, const struct uma_guard_test *test) {
    struct uma_json json = { .text = text };
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", "umactl.guard-test/1");
    uma_json_truth(&json, "passed", test->interrupted ? UMA_MAYBE : test->failed ? UMA_NO : UMA_YES);
    uma_json_begin_array(&json, "steps", false);
    for (unsigned i = 0; i < test->n_steps; i++) {
        const struct uma_guard_test_step *s = &test->steps[i];
        uma_json_begin_object(&json, NULL, true);
        uma_json_string(&json, "step", s->what);
        uma_json_bool(&json, "fine", s->fine);
        uma_json_f64(&json, "seconds", (struct uma_f64){ s->seconds, s->seconds >= 0 ? UMA_KNOWN : UMA_UNKNOWN });
        uma_json_string(&json, "detail", s->detail[0] ? s->detail : NULL);
        uma_json_end_object(&json);
    }
    uma_json_end_array(&json);
    uma_json_end_object(&json);
}

/* What the guard said, where a step failed: its last 4 KiB, on stderr. */
static void tell_log(const struct uma_guard_test *test) {
    char data[4097];
    _cleanup_close_ int fd = open(test->log, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)lseek(fd, -4096, SEEK_END); /* EINVAL where it is shorter: from its beginning */
    ssize_t n = read(fd, data, sizeof(data) - 1);
    if (n <= 0)
        return;
    data[n] = '\0';
    _cleanup_text_ struct uma_text text = { 0 };
    for (char *line = data, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        bool more = *end != '\0';
        *end = '\0';
        uma_text_append(&text, "uma-guard said: ");
        (void)uma_text_safe(&text, line, 0);
        uma_text_char(&text, '\n');
        end += more;
    }
    (void)uma_command_write(STDERR_FILENO, text.data ? text.data : "", text.length);
}

static int try_and_tell(const char *program, bool as_json) {
    struct uma_guard_test test = { .go = -1 };
    struct uma_error err = { 0 };
    int r = measure(&test, &err);
    if (r >= 0)
        r = uma_guard_test_begin(&test, &err);
    if (r < 0) {
        uma_guard_test_end(&test);
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    }
    try_all(&test, program);
    _cleanup_text_ struct uma_text text = { 0 };
    if (as_json)
        write_json(&text, &test);
    else
        write_text(&text, &test);
    bool told = uma_command_print(&text) >= 0;
    if (test.failed && !test.interrupted)
        tell_log(&test);
    uma_guard_test_end(&test);
    return test.interrupted ? 128 + SIGINT : !told ? UMA_EXIT_UNKNOWN : test.failed ? UMA_EXIT_NO : UMA_EXIT_OK;
}

static int run(int argc, char **argv) {
    static const struct option table[] = { { "json", no_argument, NULL, UMA_OPTION_JSON },
                                           { "version", no_argument, NULL, UMA_OPTION_VERSION },
                                           { "help", no_argument, NULL, 'h' },
                                           { 0 } };
    struct uma_common_options common = { 0 };
    struct uma_option_reader reader = { self, table, ":h", &common, false, 0 };
    char program[PATH_MAX];
    struct uma_error err = { 0 };
    if (uma_option_next(&reader, argc, argv) == UMA_OPTION_STOP)
        return reader.status;
    if (uma_guard_program_find(program, &err) < 0)
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    return try_and_tell(program, common.json);
}

const struct uma_command uma_command_guard_test = { "guard test", "try the whole path on a child of its own", usage, run };
