/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "act/drop_caches.h"

#include <fcntl.h>
#include <string.h>

static struct folder folder;

static int set_up(void **state) {
    (void)state;
    static const char *const parts[] = { "proc", "proc/sys", "proc/sys/vm" };
    char path[256];
    if (folder_new(&folder) < 0)
        return -1;
    for (size_t i = 0; i < ELEMENTS(parts); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder.path, parts[i]);
        if (mkdir(path, 0700) < 0)
            return -1;
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    folder_done(&folder);
    return 0;
}

/* What is in the folder's switch, which is emptied for the next time. */
static void expect_written(const char *name, const char *text) {
    char path[256], found[16] = "";
    (void)snprintf(path, sizeof(path), "%s/proc/sys/vm/%s", folder.path, name);
    _cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, found, sizeof(found) - 1) >= 0);
    assert_string_equal(found, text);
    assert_int_equal(ftruncate(fd, 0), 0);
}

static void make_switch(const char *name) {
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/proc/sys/vm/%s", folder.path, name);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

static void switches(void **state) {
    (void)state;
    make_switch("drop_caches");
    make_switch("compact_memory");
    assert_int_equal(uma_drop_caches(folder.path, UMA_DROP_PAGE_CACHE, NULL), 0);
    expect_written("drop_caches", "1\n");
    assert_int_equal(uma_drop_caches(folder.path, UMA_DROP_SLAB, NULL), 0);
    expect_written("drop_caches", "2\n");
    assert_int_equal(uma_drop_caches(folder.path, UMA_DROP_PAGE_CACHE | UMA_DROP_SLAB, NULL), 0);
    expect_written("drop_caches", "3\n");
    assert_int_equal(uma_drop_caches(folder.path, (enum uma_drop)4, NULL), -EINVAL); /* 4 would silence the kernel's message */
    assert_int_equal(uma_drop_caches(folder.path, (enum uma_drop)0, NULL), -EINVAL);
    expect_written("drop_caches", "");
    assert_int_equal(uma_compact_memory(folder.path, NULL), 0);
    expect_written("compact_memory", "1\n");
    folder_drop(&folder, "proc/sys/vm/drop_caches");
    folder_drop(&folder, "proc/sys/vm/compact_memory");
}

static void missing(void **state) {
    (void)state;
    struct uma_error err = { 0 };
    assert_int_equal(uma_drop_caches(folder.path, UMA_DROP_PAGE_CACHE, &err), -ENOENT);
    assert_non_null(strstr(err.text, "drop_caches"));
    assert_int_equal(uma_compact_memory(folder.path, &err), -ENOENT);
    assert_non_null(strstr(err.text, "compact_memory"));
}

static void too_long(void **state) {
    (void)state;
    static char prefix[5000];
    memset(prefix, 'x', sizeof(prefix) - 1);
    assert_int_equal(uma_compact_memory(prefix, NULL), -ENAMETOOLONG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switches),
        cmocka_unit_test(missing),
        cmocka_unit_test(too_long),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
