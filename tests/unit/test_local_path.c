/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/error.h"
#include "model_files.h"
#include "observe/files/local_path.h"

static void expect(const struct uma_mounts *mounts, const char *door, const char *path, int code, const char *real) {
    _cleanup_text_ struct uma_text found = { 0 };
    struct stat st = { .st_ino = 77 };
    uma_text_append(&found, "untouched");
    int r = uma_local_path(mounts, door, path, &found, &st);
    if (r != code || strcmp(found.data, r == 0 ? real : "untouched") != 0)
        fail_msg("%s: %d %s, expected %d %s", path, r, found.data, code, real ? real : "");
    if (r < 0)
        assert_int_equal(st.st_ino, 77);
}

static char *real_folder(void) {
    char *folder = files_folder(), *real = realpath(folder, NULL);
    free(folder);
    return real;
}

static void links(void **state) {
    (void)state;
    char *folder = real_folder(), path[PATH_MAX];
    files_make(folder, "a");
    files_make(folder, "a/b");
    (void)files_text(folder, "a/b/file", "x");
    assert_int_equal(symlink("a/b", files_path(folder, "relative")), 0);
    assert_int_equal(symlink(files_path(folder, "relative"), files_path(folder, "absolute")), 0);
    assert_int_equal(symlink("../relative/../b/./file", files_path(folder, "a/crooked")), 0);
    assert_int_equal(symlink("loop", files_path(folder, "loop")), 0);
    assert_int_equal(symlink("gone", files_path(folder, "dangling")), 0);
    expect(NULL, "", files_path(folder, "a//b/"), 0, files_path(folder, "a/b"));
    expect(NULL, "", files_path(folder, "absolute/file"), 0, files_path(folder, "a/b/file"));
    expect(NULL, "", files_path(folder, "a/crooked"), 0, files_path(folder, "a/b/file"));
    expect(NULL, "", files_path(folder, "a/../absolute/."), 0, files_path(folder, "a/b"));
    expect(NULL, "", files_path(folder, "loop"), -ELOOP, NULL);
    expect(NULL, "", files_path(folder, "dangling"), -ENOENT, NULL);
    expect(NULL, "", files_path(folder, "a/b/file/x"), -ENOTDIR, NULL);
    expect(NULL, "", "relative", -EINVAL, NULL);
    expect(NULL, "", "/", 0, "/");
    expect(NULL, "", "/../..", 0, "/");
    /* behind a door, absolute links begin at the door */
    assert_int_equal(symlink("/a", files_path(folder, "a/b/up")), 0);
    expect(NULL, folder, "/a/b/up/b/file", 0, "/a/b/file");
    expect(NULL, folder, "/../../relative", 0, "/a/b");
    (void)memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    expect(NULL, "", path, -ENAMETOOLONG, NULL);
    files_remove(folder);
}

/* What lies on a network mount is not touched, by whatever way it is named: nothing is there, and that is not found out. */
static void mounts(void **state) {
    (void)state;
    char *folder = real_folder();
    files_make(folder, "net");
    files_make(folder, "net/local");
    char point[PATH_MAX], inner[PATH_MAX];
    (void)snprintf(point, sizeof(point), "%s/net", folder);
    (void)snprintf(inner, sizeof(inner), "%s/net/local", folder);
    struct uma_mount list[] = {
        { .id = 1, .parent = 0, .root = "/", .point = "/", .type = "ext4", .kind = UMA_FILESYSTEM_LOCAL },
        { .id = 2, .parent = 1, .root = "/", .point = point, .type = "nfs4", .kind = UMA_FILESYSTEM_NETWORK },
        { .id = 3, .parent = 2, .root = "/", .point = inner, .type = "ext4", .kind = UMA_FILESYSTEM_LOCAL },
    };
    struct uma_mounts table = { .n = ELEMENTS(list), .list = list };
    assert_int_equal(symlink("net", files_path(folder, "link")), 0);
    assert_int_equal(symlink("link/nothing", files_path(folder, "second")), 0);
    expect(&table, "", point, -EXDEV, NULL);
    expect(&table, "", files_path(folder, "net/nothing"), -EXDEV, NULL);
    expect(&table, "", files_path(folder, "link"), -EXDEV, NULL);
    expect(&table, "", files_path(folder, "second"), -EXDEV, NULL);
    expect(&table, "", inner, -EXDEV, NULL); /* the way there leads through it */
    expect(&table, "", folder, 0, folder);
    expect(NULL, "", point, 0, point);
    files_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(links), cmocka_unit_test(mounts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
