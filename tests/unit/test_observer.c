/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "observe/files/page_cache.h"
#include "observe/gpu.h"
#include "uma.h"

#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>

static char folder[] = "/tmp/uma-observer-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int remove_folder(void **state) {
    (void)state;
    return nftw(folder, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static char *path_of(const char *name) {
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
    return path;
}

static void write_file(const char *name, const char *text) {
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (size_t i = strlen(folder) + 1; path[i]; i++)
        if (path[i] == '/') {
            path[i] = '\0';
            (void)mkdir(path, 0700);
            path[i] = '/';
        }
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static int read_once(const struct uma_observe_options *options, unsigned what, struct uma_snapshot *s, struct uma_error *err) {
    struct uma_observer *o = NULL;
    int r = uma_observer_open(options, &o, err);
    if (r < 0)
        return r;
    r = uma_observer_read(o, what, s, err);
    assert_null(uma_observer_close(o));
    return r;
}

static char *format(const struct uma_snapshot *s) {
    char *text = NULL;
    size_t n;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_format(s, &text, &n, &err), 0);
    return text;
}

static void same_text(const char *a, const char *b) {
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    if (a[at] || b[at])
        fail_msg("differs at byte %zu:\n%.200s\nand\n%.200s", at, a + (at > 80 ? at - 80 : 0), b + (at > 80 ? at - 80 : 0));
}

/* This machine, captured; then the folder, twice: all the same document. */
static void test_capture(void **state) {
    (void)state;
    _cleanup_free_
    char *capture = path_of("capture");
    struct uma_snapshot live, back;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_init(&live), 0);
    assert_int_equal(uma_snapshot_init(&back), 0);
    const unsigned everything = UMA_READ_ALL | UMA_READ_PAGE_CACHE;
    if (read_once(&(struct uma_observe_options){ .capture = capture }, everything, &live, &err) < 0)
        fail_msg("%s", err.text);
    _cleanup_free_
    char *before = format(&live);
    for (int i = 0; i < 2; i++) {
        if (read_once(&(struct uma_observe_options){ .root = capture }, everything, &back, &err) < 0)
            fail_msg("%s", err.text);
        _cleanup_free_
        char *after = format(&back);
        same_text(before, after);
    }
    assert_int_equal(live.meminfo.source.time_ns, live.time_ns); /* one time for all */
    assert_int_equal(live.page_cache.source.validity, UMA_KNOWN);
    assert_int_equal(live.page_cache.source.time_ns, live.time_ns);
    /* the files' list is there, and not what it was made of */
    _cleanup_free_
    char *maps = NULL;
    assert_true(asprintf(&maps, "%s/proc/%d/maps", capture, (int)getpid()) > 0);
    assert_int_equal(access(maps, F_OK), -1);
    /* a second capture into the same folder is refused, whatever is in it */
    assert_int_equal(read_once(&(struct uma_observe_options){ .capture = capture }, UMA_READ_ALL, &back, &err), -ENOTEMPTY);
    uma_snapshot_done(&live);
    uma_snapshot_done(&back);
}

/* Only the page cache, into a snapshot that was read before; from a folder's record, into another capture. */
static void test_page_cache(void **state) {
    (void)state;
    _cleanup_free_
    char *root = path_of("cached"), *capture = path_of("cached-copy");
    write_file("cached/proc/meminfo", "MemTotal:       1000 kB\nMemFree:        400 kB\n");
    write_file("cached/" UMA_TIME_RECORD, "1790000000\n");
    write_file("cached/" UMA_PAGE_CACHE_RECORD, "{\"source\": {\"state\": \"known\", \"time\": 5, \"path\": \"cachestat\"}, \"total\": 9,"
                                                " \"files\": [{\"path\": \"/a\", \"resident\": 4096}]}");
    struct uma_snapshot s, back;
    struct uma_error err = { 0 };
    struct uma_observer *o = NULL;
    assert_int_equal(uma_snapshot_init(&s), 0);
    assert_int_equal(uma_snapshot_init(&back), 0);
    if (uma_observer_open(&(struct uma_observe_options){ .root = root, .capture = capture }, &o, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(uma_observer_read(o, UMA_READ_ALL, &s, &err), 0);
    assert_int_equal(s.page_cache.source.validity, UMA_UNKNOWN);
    assert_int_equal(s.page_cache.n_files, 0);
    assert_int_equal(uma_observer_read_page_cache(o, 0.5, &s, &err), 0);
    assert_null(uma_observer_close(o));
    assert_int_equal(s.page_cache.n_files, 1);
    assert_int_equal(s.page_cache.total.value, 9);
    assert_int_equal(s.page_cache.source.time_ns, s.time_ns);
    assert_int_equal(s.meminfo.mem_total.value, 1024000); /* the rest stays */
    if (read_once(&(struct uma_observe_options){ .root = capture }, UMA_READ_ALL | UMA_READ_PAGE_CACHE, &back, &err) < 0)
        fail_msg("%s", err.text);
    _cleanup_free_
    char *a = format(&s), *b = format(&back);
    same_text(a, b);
    uma_snapshot_done(&s);
    uma_snapshot_done(&back);
}

static void test_times(void **state) {
    (void)state;
    _cleanup_free_
    char *root = path_of("times");
    write_file("times/proc/meminfo", "MemTotal:       1000 kB\nMemFree:        400 kB\n");
    write_file("times/" UMA_GPU_RECORD, "{\"source\": {\"state\": \"stale\", \"time\": 1789999990.5, \"path\": \"nvml\"}}");
    static const struct {
        const char *text;
        int64_t time_ns; /* 0: now */
    } cases[] = {
        { "1790000000.123456\n", 1790000000123456000 },
        { "1790000000", 1790000000000000000 },
        { "1790000000.1234567891", 1790000000123456000 },
        { "1790000000.5\r\n", 1790000000500000000 },
        { "yesterday", 0 },
        { "17900000000000000000", 0 },
        { "-5", 0 },
        { "", 0 },
        { "1790000000.5x", 0 },
    };
    struct uma_snapshot s;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_init(&s), 0);
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        write_file("times/" UMA_TIME_RECORD, cases[i].text);
        int64_t now = uma_now_ns();
        if (read_once(&(struct uma_observe_options){ .root = root }, UMA_READ_ALL, &s, &err) < 0)
            fail_msg("%s", err.text);
        if (cases[i].time_ns != 0)
            assert_int_equal(s.time_ns, cases[i].time_ns);
        else
            assert_true(s.time_ns >= now && s.time_ns - now < 60000000000);
        assert_int_equal(s.meminfo.source.time_ns, s.time_ns);
        assert_int_equal(s.vmstat.source.time_ns, s.time_ns);         /* not there, and asked for then */
        assert_int_equal(s.gpus.source.time_ns, 1789999990500000000); /* how old it is, is what it says */
    }
    uma_snapshot_done(&s);
}

/* A folder's name is no part of what is said about the machine in it. */
static void test_details(void **state) {
    (void)state;
    write_file("details/proc/meminfo", "MemTotal:       1000 kB\n");
    _cleanup_free_
    char *root = path_of("details"), *slashed = path_of("details///");
    const char *const roots[] = { root, slashed };
    struct uma_snapshot s;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_init(&s), 0);
    for (size_t i = 0; i < ELEMENTS(roots); i++) {
        if (read_once(&(struct uma_observe_options){ .root = roots[i] }, UMA_READ_ALL, &s, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(s.vmstat.source.validity, UMA_ABSENT);
        assert_non_null(s.vmstat.source.detail);
        assert_null(strstr(s.vmstat.source.detail, folder));
        assert_int_equal(strncmp(s.vmstat.source.detail, "/proc/vmstat", strlen("/proc/vmstat")), 0);
        _cleanup_free_
        char *text = format(&s);
        assert_null(strstr(text, folder));
    }
    uma_snapshot_done(&s);
}

static void test_failures(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_init(&s), 0);
    _cleanup_free_
    char *missing = path_of("missing"), *file = path_of("file"), *empty = path_of("empty");
    write_file("file", "");
    (void)mkdir(empty, 0700);
    assert_int_equal(read_once(&(struct uma_observe_options){ .root = missing }, UMA_READ_ALL, &s, &err), -ENOENT);
    assert_non_null(strstr(err.text, missing));
    assert_int_equal(read_once(&(struct uma_observe_options){ .root = file }, UMA_READ_ALL, &s, &err), -ENOTDIR);
    assert_int_equal(read_once(&(struct uma_observe_options){ .root = empty }, UMA_READ_ALL, &s, &err), -ENODATA);
    assert_non_null(strstr(err.text, "nothing of a machine can be read here"));
    assert_non_null(strstr(err.text, "proc/meminfo"));
    /* only what was asked for */
    if (read_once(NULL, UMA_READ_MEMORY, &s, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(s.meminfo.mem_total.value > 0);
    assert_int_equal(s.processes.source.validity, UMA_UNKNOWN);
    assert_int_equal(s.gpus.source.validity, UMA_UNKNOWN);
    assert_null(s.platform.host);
    uma_snapshot_done(&s);
    assert_null(uma_observer_close(NULL));
}

/* One observer, many readings: nothing piles up. */
static void test_again(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_error err = { 0 };
    struct uma_observer *o = NULL;
    assert_int_equal(uma_snapshot_init(&s), 0);
    assert_int_equal(uma_observer_open(NULL, &o, &err), 0);
    int64_t before = 0;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(uma_observer_read(o, UMA_READ_ALL & ~UMA_READ_GPU, &s, &err), 0);
        assert_true(s.time_ns >= before);
        assert_true(s.processes.n > 0);
        before = s.time_ns;
    }
    assert_null(uma_observer_close(o));
    uma_snapshot_done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capture), cmocka_unit_test(test_page_cache), cmocka_unit_test(test_times),
        cmocka_unit_test(test_details), cmocka_unit_test(test_failures),   cmocka_unit_test(test_again),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
