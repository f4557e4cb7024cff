/* SPDX-License-Identifier: MIT */
/* A folder given as --root may be hostile: nothing outside it is read, nothing in it blocks. */
#include "test.h"

#include "base/root.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void put(const char *path, const char *text) {
    char whole[256];
    (void)snprintf(whole, sizeof(whole), "%s/%s", folder, path);
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static char *at(const char *path) {
    static char whole[256];
    (void)snprintf(whole, sizeof(whole), "%s/%s", folder, path);
    return whole;
}

static int setup(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/umactl-test-root-XXXXXX");
    if (!mkdtemp(folder) || mkdir(at("proc"), 0700) < 0 || mkdir(at("sys"), 0700) < 0)
        return -1;
    put("proc/meminfo", "MemTotal: 1 kB\n");
    put("proc/number", " 42\n");
    put("proc/word", "fortytwo\n");
    return 0;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state) {
    (void)state;
    return nftw(folder, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static void reads_bounded(void **state) {
    (void)state;
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(folder, NULL, &root, NULL), 0);
    assert_false(uma_root_is_live(root));
    _cleanup_text_ struct uma_text t = { 0 };
    assert_int_equal(uma_root_read(root, "proc/meminfo", 4096, &t, NULL), 0);
    assert_string_equal(t.data, "MemTotal: 1 kB\n");
    assert_int_equal(uma_root_read(root, "proc/meminfo", 15, &t, NULL), 0);
    assert_int_equal(uma_root_read(root, "proc/meminfo", 8, &t, NULL), 1);
    assert_string_equal(t.data, "MemTotal");
    int kept = -1;
    assert_int_equal(uma_root_read_kept(root, "proc/meminfo", 4096, &kept, &t, NULL), 0);
    put("proc/meminfo", "MemTotal: 2 kB\n");
    assert_int_equal(uma_root_read_kept(root, "proc/meminfo", 4096, &kept, &t, NULL), 0);
    assert_string_equal(t.data, "MemTotal: 2 kB\n");
    uma_root_forget(&kept);
    int64_t v = 7;
    assert_int_equal(uma_root_read_i64(root, "proc/number", &v, NULL), 0);
    assert_int_equal(v, 42);
    struct uma_error err = { 0 };
    assert_int_equal(uma_root_read_i64(root, "proc/word", &v, &err), -EINVAL);
    assert_non_null(strstr(err.text, "proc/word"));
    assert_int_equal(v, 42);
    assert_int_equal(uma_root_read(root, "proc/none", 10, &t, &err), -ENOENT);
    assert_non_null(strstr(err.text, folder));
}

static void never_leaves_never_blocks(void **state) {
    (void)state;
    assert_int_equal(symlink("/etc/passwd", at("proc/absolute")), 0);
    assert_int_equal(symlink("../../../../../../etc/passwd", at("proc/climbing")), 0);
    assert_int_equal(symlink("/proc", at("sys/inside")), 0);
    assert_int_equal(mkfifo(at("proc/fifo"), 0600), 0);
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(folder, NULL, &root, NULL), 0);
    _cleanup_text_ struct uma_text t = { 0 };
    static const char *const outside[] = { "proc/absolute", "proc/climbing", "../../etc/passwd", "proc/../../../etc/passwd" };
    for (size_t i = 0; i < ELEMENTS(outside); i++)
        assert_true(uma_root_read(root, outside[i], 4096, &t, NULL) < 0);
    assert_true(uma_root_read(root, "proc/fifo", 4096, &t, NULL) < 0);
    assert_true(uma_root_read(root, "proc", 4096, &t, NULL) < 0);
}

static int one(void *userdata, const char *name) {
    int *n = userdata;
    (void)name;
    (*n)++;
    return 0;
}

static void capture_copies_what_was_read(void **state) {
    (void)state;
    char copy[96];
    (void)snprintf(copy, sizeof(copy), "%s/copy", folder);
    {
        _cleanup_root_ struct uma_root *root = NULL;
        assert_int_equal(uma_root_open(folder, copy, &root, NULL), 0);
        _cleanup_text_ struct uma_text t = { 0 };
        assert_int_equal(uma_root_read(root, "proc/number", 4096, &t, NULL), 0);
        assert_int_equal(uma_root_read_unrecorded(root, "proc/word", 4096, &t, NULL), 0);
        assert_int_equal(uma_root_record(root, "umactl/extra", "x", 1, NULL), 0);
        assert_int_equal(uma_root_record(root, "../escape", "x", 1, NULL), -EXDEV);
        assert_int_equal(uma_root_record(root, "a/../../escape", "x", 1, NULL), -EXDEV);
        assert_true(access(at("escape"), F_OK) < 0);
    }
    _cleanup_root_ struct uma_root *again = NULL;
    assert_int_equal(uma_root_open(copy, NULL, &again, NULL), 0);
    int64_t v = 0;
    assert_int_equal(uma_root_read_i64(again, "proc/number", &v, NULL), 0);
    assert_int_equal(v, 42);
    assert_false(uma_root_exists(again, "proc/word"));
    assert_true(uma_root_exists(again, "umactl/extra"));
    int n = 0;
    assert_int_equal(uma_root_list(again, "proc", 100, one, &n, NULL), 1);
    assert_int_equal(n, 1);
    struct uma_root *none = NULL;
    struct uma_error err = { 0 };
    assert_int_equal(uma_root_open(folder, copy, &none, &err), -ENOTEMPTY);
    assert_null(none);
    assert_int_equal(uma_root_open("/nonexistent/folder", NULL, &none, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/folder"));
}

static void attributes(void **state) {
    (void)state;
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(folder, NULL, &root, NULL), 0);
    _cleanup_text_ struct uma_text t = { 0 };
    int kept = -1;
    assert_int_equal(uma_root_read_attribute(root, "proc/word", 256, &kept, &t, NULL), 0);
    assert_string_equal(t.data, "fortytwo\n");
    int fd = kept;
    assert_true(fd >= 0);
    assert_int_equal(uma_root_read_attribute(root, "proc/word", 5, &kept, &t, NULL), 1);
    assert_string_equal(t.data, "forty");
    assert_int_equal(kept, fd);
    uma_root_forget(&kept);
    assert_int_equal(uma_root_read_attribute(root, "proc/none", 5, &kept, &t, NULL), -ENOENT);
    assert_int_equal(kept, -1);
}

/* A cgroup of our own stands for any kernel object that goes away and comes back under its old name: kernfs serves both. */
static void attribute_of_what_is_gone(void **state) {
    (void)state;
    static const char *const places[][2] = { { "sys/fs/cgroup", "cgroup.type" },
                                             { "sys/fs/cgroup/pids", "notify_on_release" },
                                             { "sys/fs/cgroup/freezer", "notify_on_release" } };
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(NULL, NULL, &root, NULL), 0);
    for (size_t i = 0; i < ELEMENTS(places); i++) {
        char object[128], path[192];
        (void)snprintf(object, sizeof(object), "/%s/umactl-test-%d", places[i][0], (int)getpid());
        (void)snprintf(path, sizeof(path), "%s/%s", object + 1, places[i][1]);
        if (mkdir(object, 0700) < 0)
            continue;
        _cleanup_text_ struct uma_text t = { 0 };
        int kept = -1, first = uma_root_read_attribute(root, path, 256, &kept, &t, NULL);
        (void)rmdir(object);
        if (first < 0) /* a plain folder: no cgroups are mounted here */
            continue;
        int gone = uma_root_read_attribute(root, path, 256, &kept, &t, NULL), kept_after = kept;
        (void)mkdir(object, 0700);
        int back = uma_root_read_attribute(root, path, 256, &kept, &t, NULL);
        uma_root_forget(&kept);
        (void)rmdir(object);
        assert_int_equal(gone, -ENODEV);
        assert_int_equal(kept_after, -1);
        assert_int_equal(back, 0);
        return;
    }
    SKIP_BECAUSE("no cgroup or device to remove here");
}

static void devices(void **state) {
    (void)state;
    _cleanup_root_ struct uma_root *live = NULL, *copy = NULL;
    assert_int_equal(uma_root_open(NULL, NULL, &live, NULL), 0);
    assert_true(uma_root_is_device(live, "dev/null", 1));
    assert_false(uma_root_is_device(live, "dev/null", 226));
    assert_false(uma_root_is_device(live, "proc/meminfo", 1));
    assert_false(uma_root_is_device(live, "nonexistent", 1));
    assert_int_equal(uma_root_open("/dev", NULL, &copy, NULL), 0); /* a folder has no devices, even where it has */
    assert_false(uma_root_is_device(copy, "null", 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(never_leaves_never_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(attributes, setup, teardown),
        cmocka_unit_test(attribute_of_what_is_gone),
        cmocka_unit_test(devices),
        cmocka_unit_test_setup_teardown(capture_copies_what_was_read, setup, teardown),
    };
    return cmocka_run_group_tests_name("root", tests, NULL, NULL);
}
