/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/files/file_view.h"
#include "folder.h"

#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>

static void inner(void **state) {
    (void)state;
    const struct uma_file_view top = { .root = "" }, below = { .root = "/srv/root" };
    assert_string_equal(uma_file_view_inner(&top, "/a/b"), "/a/b");
    assert_string_equal(uma_file_view_inner(&below, "/srv/root/a"), "/a");
    assert_null(uma_file_view_inner(&below, "/srv/rootless/a"));
    assert_null(uma_file_view_inner(&below, "/srv/root"));
    assert_null(uma_file_view_inner(&below, "/a"));
}

static void safe(void **state) {
    (void)state;
    static const struct uma_mount remote = { .point = "/mnt/nas", .type = "nfs4", .kind = UMA_FILESYSTEM_NETWORK };
    static const struct uma_mount all = { .point = "/", .type = "fuse.x", .kind = UMA_FILESYSTEM_FUSE };
    const struct uma_mount *one[] = { &remote }, *whole[] = { &all };
    struct uma_file_view view = { .root = "", .hanging = one, .n_hanging = 1, .has_mounts = true };
    assert_true(uma_file_view_is_safe(&view, "/mnt/nasty/a"));
    assert_true(uma_file_view_is_safe(&view, "/mnt"));
    assert_false(uma_file_view_is_safe(&view, "/mnt/nas"));
    assert_false(uma_file_view_is_safe(&view, "/mnt/nas/a/b"));
    view.has_mounts = false; /* nothing is known of it */
    assert_false(uma_file_view_is_safe(&view, "/mnt/nasty/a"));
    view = (struct uma_file_view){ .root = "", .hanging = whole, .n_hanging = 1, .has_mounts = true };
    assert_false(uma_file_view_is_safe(&view, "/a"));
    assert_true(uma_mount_may_hang(&remote) && uma_mount_may_hang(&all));
}

static void mounts_of_views(void **state) {
    (void)state;
    struct uma_mount a[] = { { .id = 20, .minor = 1, .root = "/" }, { .id = 30, .minor = 2, .root = "/" } };
    struct uma_mount b[] = { { .id = 25, .minor = 3, .root = "/" }, { .id = 40, .minor = 2, .root = "/" } };
    const struct uma_mount *ids_a[] = { &a[0], &a[1] }, *ids_b[] = { &b[0], &b[1] };
    struct uma_file_view first = { .own = true, .root = "", .mounts = { 2, a }, .by_id = ids_a, .has_mounts = true };
    struct uma_file_view second = { .root = "", .mounts = { 2, b }, .by_id = ids_b, .has_mounts = true }, unread = { .root = "" };
    struct uma_file_view *list[] = { &first, &second, &unread };
    struct uma_file_views views = { .list = list, .n = 3 };
    int view = -7;
    assert_ptr_equal(uma_file_views_mount(&views, 0, 20, &view), &a[0]);
    assert_int_equal(view, 0);
    assert_ptr_equal(uma_file_views_mount(&views, 0, 25, &view), &b[0]);
    assert_int_equal(view, 1);
    assert_ptr_equal(uma_file_views_mount(&views, 2, 30, &view), &a[1]);
    assert_int_equal(view, 0);
    view = -7;
    assert_null(uma_file_views_mount(&views, 1, 26, &view));
    assert_null(uma_file_views_mount(&views, 1, -1, &view));
    assert_int_equal(view, -7);
    assert_ptr_equal(uma_file_views_device(&views, 0, makedev(0, 2)), &a[1]);
    assert_ptr_equal(uma_file_views_device(&views, 1, makedev(0, 2)), &b[1]);
    assert_ptr_equal(uma_file_views_device(&views, 2, makedev(0, 3)), &b[0]);
    assert_null(uma_file_views_device(&views, 2, makedev(0, 4)));
}

static void own(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    folder_put(&f, "a/file", "content");
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(NULL, NULL, &root, NULL), 0);
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(64 * UMA_MIB);
    struct uma_file_views views;
    struct uma_error err = { 0 };
    assert_int_equal(uma_file_views_open(root, arena, &views, &err), 0);
    _cleanup_close_ int folder = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(uma_file_views_of(&views, folder, getpid()), 0);
    const struct uma_file_view *view = views.list[0];
    assert_true(views.n == 1 && view->own && view->has_mounts && view->mounts.n > 0);
    char *real = realpath(f.path, NULL), path[512], link[512];
    assert_non_null(real);
    (void)snprintf(path, sizeof(path), "%s/a/file", real);
    (void)snprintf(link, sizeof(link), "%s/b", real);
    assert_int_equal(symlink("a", link), 0);
    struct stat st, expected;
    assert_int_equal(stat(path, &expected), 0);
    assert_true(uma_file_view_stat(view, folder, path, &st));
    assert_true(st.st_ino == expected.st_ino && st.st_dev == expected.st_dev);
    /* neither the last link nor one on the way is followed; the last may be looked at */
    (void)snprintf(path, sizeof(path), "%s/b/file", real);
    assert_false(uma_file_view_stat(view, folder, path, &st));
    (void)snprintf(path, sizeof(path), "%s/b", real);
    assert_true(!uma_file_view_stat(view, folder, path, &st) || S_ISLNK(st.st_mode));
    (void)snprintf(path, sizeof(path), "%s/none", real);
    assert_false(uma_file_view_stat(view, folder, path, &st));
    assert_false(uma_file_view_stat(view, folder, "/", &st));
    free(real);
    uma_file_views_done(&views);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inner),
        cmocka_unit_test(safe),
        cmocka_unit_test(mounts_of_views),
        cmocka_unit_test(own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
