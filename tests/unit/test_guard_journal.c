/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"
#include "guard/journal.h"

#include <errno.h>
#include <math.h>
#include <sys/socket.h>
#include <sys/un.h>

struct field {
    char name[64], value[512];
    size_t length;
};
static struct field fields[64];

/* The journal's side of the protocol. */
static size_t take_apart(const char *data, size_t n) {
    size_t count = 0;
    for (const char *at = data, *end = data + n; at < end; count++) {
        assert_true(count < 64);
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        assert_non_null(newline);
        const char *equals = memchr(at, '=', (size_t)(newline - at)), *name_end = equals ? equals : newline;
        assert_in_range(name_end - at, 1, 63);
        memset(&fields[count], 0, sizeof(fields[count]));
        memcpy(fields[count].name, at, (size_t)(name_end - at));
        const char *value = name_end + 1;
        size_t length = (size_t)(newline - value);
        if (!equals) {
            length = 0;
            for (int i = 7; i >= 0; i--)
                length = length << 8 | (uint8_t)value[i];
            value += 8;
        }
        assert_true(length < sizeof(fields[0].value) && length < (size_t)(end - value));
        memcpy(fields[count].value, value, length);
        fields[count].length = length;
        assert_int_equal(value[length], '\n');
        at = value + length + 1;
    }
    return count;
}

static const char *value_of(size_t n, const char *name) {
    const char *value = NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0) {
            assert_null(value); /* once: nobody put in a field of his own */
            value = fields[i].value;
        }
    return value;
}

static struct uma_guard_action action = { .kind = UMA_GUARD_BRAKE, .reason = UMA_GUARD_WILL_REACH_FLOOR, .pid = 42, .bytes = UINT64_MAX };
static struct uma_guard_candidate whom = { .pid = 42, .gpu = 5, .gpu_known = true, .anon = 7, .growth = -9 };
static struct uma_guard_evidence evidence = { .headroom = 123, .floor = 456, .rate = -7.9e9, .time_to_floor = 0.25 };
static struct uma_guard_journal_entry entry(void) {
    return (struct uma_guard_journal_entry){ .message = "stopped python3 (42)",
                                             .priority = 4,
                                             .action = &action,
                                             .whom = &whom,
                                             .evidence = &evidence,
                                             .n_processes = 3,
                                             .took_ns = 4567000 };
}

static void plain(void **state) {
    (void)state;
    char buffer[UMA_GUARD_JOURNAL_MOST];
    memcpy(whom.name, "python3", sizeof("python3"));
    struct uma_guard_journal_entry e = entry();
    size_t n = take_apart(buffer, uma_guard_journal_format(buffer, sizeof(buffer), &e));
    assert_string_equal(value_of(n, "MESSAGE"), "stopped python3 (42)");
    assert_string_equal(value_of(n, "PRIORITY"), "4");
    assert_string_equal(value_of(n, "SYSLOG_IDENTIFIER"), "uma-guard");
    assert_string_equal(value_of(n, "UMA_GUARD_ACTION"), "brake");
    assert_string_equal(value_of(n, "UMA_GUARD_REASON"), "will reach the floor");
    assert_string_equal(value_of(n, "UMA_GUARD_PID"), "42");
    assert_string_equal(value_of(n, "UMA_GUARD_NAME"), "python3");
    assert_string_equal(value_of(n, "UMA_GUARD_BYTES"), "18446744073709551615");
    assert_string_equal(value_of(n, "UMA_GUARD_GROWTH"), "-9");
    assert_string_equal(value_of(n, "UMA_GUARD_GPU"), "5");
    assert_string_equal(value_of(n, "UMA_GUARD_RATE"), "-7900000000");
    assert_string_equal(value_of(n, "UMA_GUARD_TIME_TO_FLOOR_USEC"), "250000");
    assert_string_equal(value_of(n, "UMA_GUARD_TOOK_USEC"), "4567");
    assert_string_equal(value_of(n, "UMA_GUARD_DRY_RUN"), "0");
}

/* A name that would be fields of its own, one without an end, numbers that are none, and nobody. */
static void hostile(void **state) {
    (void)state;
    char buffer[UMA_GUARD_JOURNAL_MOST];
    struct uma_guard_journal_entry e = entry();
    memcpy(whom.name, "a\nPRIORITY=0\n\x1b\xff", 16);
    e.message = "one\nUMA_GUARD_PID=1";
    evidence.time_to_floor = INFINITY;
    evidence.rate = NAN;
    size_t n = take_apart(buffer, uma_guard_journal_format(buffer, sizeof(buffer), &e));
    assert_string_equal(value_of(n, "PRIORITY"), "4");
    assert_string_equal(value_of(n, "UMA_GUARD_PID"), "42");
    assert_string_equal(value_of(n, "MESSAGE"), e.message);
    assert_memory_equal(value_of(n, "UMA_GUARD_NAME"), whom.name, 15);
    assert_null(value_of(n, "UMA_GUARD_RATE"));
    assert_null(value_of(n, "UMA_GUARD_TIME_TO_FLOOR_USEC"));
    e.whom = NULL;
    e.priority = 99;
    action.pid = 0;
    n = take_apart(buffer, uma_guard_journal_format(buffer, sizeof(buffer), &e));
    assert_null(value_of(n, "UMA_GUARD_NAME"));
    assert_null(value_of(n, "UMA_GUARD_PID"));
    assert_string_equal(value_of(n, "PRIORITY"), "4");
    action.pid = 42;
    size_t whole = uma_guard_journal_format(buffer, sizeof(buffer), &e);
    for (size_t size = 0; size < whole; size++) {
        _cleanup_free_
        char *exact = malloc(size ? size : 1);
        assert_int_equal(uma_guard_journal_format(exact, size, &e), 0);
    }
}

/* A journal that is not there, that is, that does not read, and that comes back. */
static void over_a_socket(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/socket", f.path);
    struct uma_guard_journal_entry e = entry();
    int fd = uma_guard_journal_open();
    assert_true(fd >= 0);
    assert_int_equal(uma_guard_journal_send(fd, address.sun_path, &e), -ENOENT);
    for (int life = 0; life < 2; life++) {
        int journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = 0;
        assert_true(journal >= 0 && bind(journal, (const struct sockaddr *)&address, sizeof(address)) == 0);
        assert_int_equal(uma_guard_journal_send(fd, address.sun_path, &e), 0);
        char buffer[4096];
        ssize_t n = recv(journal, buffer, sizeof(buffer), 0);
        assert_true(n > 0);
        assert_string_equal(value_of(take_apart(buffer, (size_t)n), "UMA_GUARD_ACTION"), "brake");
        for (int i = 0; i < 100000 && r == 0; i++) /* nobody reads: it is lost, not waited for */
            r = uma_guard_journal_send(fd, address.sun_path, &e);
        assert_int_equal(r, -EAGAIN);
        assert_int_equal(close(journal), 0);
        assert_int_equal(uma_guard_journal_send(fd, address.sun_path, &e), -ECONNREFUSED);
        assert_int_equal(unlink(address.sun_path), 0);
    }
    assert_int_equal(close(fd), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(plain), cmocka_unit_test(hostile), cmocka_unit_test(over_a_socket) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
