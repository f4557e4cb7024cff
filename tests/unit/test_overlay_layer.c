/* SPDX-License-Identifier: MIT */
/* Layers are folders: what the kernel would have mounted from them is not needed to find a file in them. */
#include "test.h"

#include "base/error.h"
#include "model_files.h"
#include "observe/files/overlay_layer.h"

#include <sys/sysmacros.h>

struct fixture {
    char *folder, upper[PATH_MAX], middle[PATH_MAX], bottom[PATH_MAX];
    const char *lower[2];
    struct uma_mounts own;
    struct uma_mount mount;
    struct uma_overlay_layers *layers;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    char *folder = files_folder();
    f->folder = realpath(folder, NULL);
    free(folder);
    static const char *const names[] = { "upper", "middle", "bottom", "upper/sub", "middle/sub", "bottom/sub" };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        files_make(f->folder, names[i]);
    (void)snprintf(f->upper, sizeof(f->upper), "%s/upper", f->folder);
    (void)snprintf(f->middle, sizeof(f->middle), "%s/middle", f->folder);
    (void)snprintf(f->bottom, sizeof(f->bottom), "%s/bottom", f->folder);
    f->lower[0] = f->middle;
    f->lower[1] = f->bottom;
    f->mount = (struct uma_mount){ .root = "/",
                                   .point = "/merged",
                                   .type = "overlay",
                                   .kind = UMA_FILESYSTEM_OVERLAY,
                                   .upper = f->upper,
                                   .n_lower = 2,
                                   .lower = f->lower };
    f->layers = uma_overlay_layers_new(&f->own);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    (void)uma_overlay_layers_free(f->layers);
    files_remove(f->folder);
    free(f);
    return 0;
}

/* `layer`: the file that the overlay shows, or NULL: what it shows is in no layer. */
static void expect(struct fixture *f, const char *path, const char *layer, int code) {
    _cleanup_text_ struct uma_text found = { 0 };
    struct stat shown = { .st_size = 3 }, st;
    if (layer)
        assert_int_equal(stat(files_path(f->folder, layer), &shown), 0);
    int fd = uma_overlay_layer_open(f->layers, &f->mount, path, &shown, &found, &st);
    if (code < 0) {
        if (fd != code)
            fail_msg("%s: %d, expected %d", path, fd, code);
        return;
    }
    if (fd < 0)
        fail_msg("%s: %d", path, fd);
    assert_string_equal(found.data, files_path(f->folder, layer));
    assert_int_equal(st.st_ino, shown.st_ino);
    (void)close(fd);
}

static void test_layers(void **state) {
    SKIP_UNDER_EMULATION();
    struct fixture *f = *state;
    (void)files_text(f->folder, "bottom/sub/a", "bottom");
    (void)files_text(f->folder, "middle/sub/b", "middle!");
    (void)files_text(f->folder, "bottom/sub/b", "b");
    (void)files_text(f->folder, "upper/c", "upper");
    expect(f, "/merged/sub/a", "bottom/sub/a", 0);
    expect(f, "/merged/sub/b", "middle/sub/b", 0);
    expect(f, "/merged/c", "upper/c", 0);
    expect(f, "/merged/none", NULL, -ENOENT);
    expect(f, "/other/c", NULL, -ENOENT); /* not on this mount */
    expect(f, "/merged", NULL, -ENOENT);
    /* what the mount shows is a folder of the overlay */
    f->mount.root = "/sub";
    f->mount.point = "/";
    expect(f, "/a", "bottom/sub/a", 0);
    /* a read-only overlay has no upper layer */
    struct uma_mount read_only = f->mount;
    read_only.upper = NULL;
    f->mount = read_only;
    (void)uma_overlay_layers_free(f->layers);
    f->layers = uma_overlay_layers_new(&f->own);
    expect(f, "/b", "middle/sub/b", 0);
}

/* The first that is there decides; one that shows something else is another file. */
static void test_other_files(void **state) {
    SKIP_UNDER_EMULATION();
    struct fixture *f = *state;
    (void)files_text(f->folder, "middle/a", "four");
    (void)files_text(f->folder, "bottom/a", "bottom");
    expect(f, "/merged/a", "bottom/a", -ENOENT); /* a folder that was renamed: names say nothing */
    files_make(f->folder, "middle/b");
    (void)files_text(f->folder, "bottom/b", "b");
    expect(f, "/merged/b", "bottom/b", -ENOENT);
    (void)files_text(f->folder, "secret", "secret");
    assert_int_equal(symlink("../secret", files_path(f->folder, "upper/link")),
                     0); /* no link is followed: the last is no file, others end it */
    expect(f, "/merged/link", "secret", -ENOENT);
    assert_int_equal(symlink("..", files_path(f->folder, "upper/way")), 0);
    expect(f, "/merged/way/secret", "secret", -ELOOP);
    (void)files_text(f->folder, "middle/way2", "");
    files_make(f->folder, "bottom/way2");
    (void)files_text(f->folder, "bottom/way2/c", "c");
    expect(f, "/merged/way2/c", "bottom/way2/c", 0); /* hidden in the middle and visible: a whiteout of before */
}

/* A layer that cannot be looked into may have it; what lies on a server is not looked into. */
static void test_unreachable(void **state) {
    SKIP_UNDER_EMULATION();
    struct fixture *f = *state;
    (void)files_text(f->folder, "bottom/a", "a");
    f->lower[0] = "relative";
    expect(f, "/merged/a", "bottom/a", -ENOENT);
    (void)uma_overlay_layers_free(f->layers);
    struct uma_mount net[] = { { .id = 1, .root = "/", .point = "/", .type = "ext4" },
                               { .id = 2, .parent = 1, .root = "/", .point = f->middle, .type = "nfs4", .kind = UMA_FILESYSTEM_NETWORK } };
    f->own = (struct uma_mounts){ .n = 2, .list = net };
    f->lower[0] = f->middle;
    f->layers = uma_overlay_layers_new(&f->own);
    expect(f, "/merged/a", "bottom/a", -ENOENT);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = { WITH_FIXTURE(test_layers), WITH_FIXTURE(test_other_files), WITH_FIXTURE(test_unreachable) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
