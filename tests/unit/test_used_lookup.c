/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/files/used_lookup.h"
#include "folder.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static void uninteresting(void **state) {
    (void)state;
    static const char *const out[] = {
        "socket:[12]",
        "pipe:[12]",
        "anon_inode:[eventpoll]",
        "",
        "/dev/null",
        "/dev/zero (deleted)",
        "/dev/nvidia0",
        "/proc/1/maps",
        "/sys/x",
        "/[aio] (deleted)",
        "/anon_hugepage (deleted)",
    };
    static const char *const in[] = {
        "/",       "/devel/x",      "/dev/shm/x",         "/dev/hugepages/x",        "/process",
        "/system", "/models/[aio]", "/memfd:x (deleted)", "/SYSV00000000 (deleted)",
    };
    for (size_t i = 0; i < ELEMENTS(out); i++)
        if (!uma_used_is_uninteresting(out[i]))
            fail_msg("taken: %s", out[i]);
    for (size_t i = 0; i < ELEMENTS(in); i++)
        if (uma_used_is_uninteresting(in[i]))
            fail_msg("left out: %s", in[i]);
}

/* This process looked at as any other. */
struct given {
    struct folder f;
    struct uma_root *root;
    struct uma_arena *arena;
    struct uma_used_lookup lookup;
    int descriptors;
};

static int set_up(void **state) {
    struct given *g = calloc(1, sizeof(*g));
    if (!g || folder_new(&g->f) < 0 || uma_root_open(NULL, NULL, &g->root, NULL) < 0)
        return -1;
    g->arena = uma_arena_new(64 * UMA_MIB);
    g->lookup = (struct uma_used_lookup){ .shm_mount = -1, .pid = getpid() };
    g->lookup.table.arena = g->arena;
    g->lookup.keys = uma_arena_new(UMA_MIB);
    g->lookup.folder = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    g->descriptors = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *state = g;
    return uma_file_views_open(g->root, g->arena, &g->lookup.views, NULL);
}

static int tear_down(void **state) {
    struct given *g = *state;
    (void)close(g->lookup.folder);
    (void)close(g->descriptors);
    uma_used_lookup_done(&g->lookup);
    (void)uma_arena_free(g->arena);
    (void)uma_root_close(g->root);
    folder_done(&g->f);
    free(g);
    return 0;
}

static int32_t look_up(struct given *g, int fd, char ret_text[4096], struct uma_fdinfo *ret_info) {
    char number[16], path[40], text[1024];
    (void)snprintf(number, sizeof(number), "%d", fd);
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    _cleanup_close_ int from = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(from, text, sizeof(text)), length = readlinkat(g->descriptors, number, ret_text, 4095);
    assert_true(n > 0 && length > 0 && uma_fdinfo_parse(text, (size_t)n, ret_info) == 0);
    ret_text[length] = '\0';
    return uma_used_lookup_open(&g->lookup, g->descriptors, number, ret_text, ret_info);
}

static void a_file_and_its_removal(void **state) {
    struct given *g = *state;
    folder_put(&g->f, "file", "content");
    char path[512], text[4096], same[4096];
    (void)snprintf(path, sizeof(path), "%s/file", g->f.path);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC), again = open(path, O_RDONLY | O_CLOEXEC);
    struct uma_fdinfo info = { 0 };
    int32_t number = look_up(g, fd, text, &info);
    assert_int_equal(number, 0);
    assert_int_equal(look_up(g, again, same, &info), 0);
    assert_string_equal(text, same);
    struct uma_used_files files = { 0 };
    assert_int_equal(uma_used_table_finish(&g->lookup.table, &files), 0);
    assert_string_equal(files.list[0].path, text);
    assert_true(files.n == 1 && files.list[0].looked_at && !files.list[0].deleted && files.list[0].size == 7 && files.list[0].mount);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(look_up(g, fd, text, &info), 0); /* the same file, by another text; the name that was known stays */
    assert_non_null(strstr(text, " (deleted)"));
    /* closed between the listing and the look: nothing is remembered of it */
    info.inode += 1;
    assert_int_equal(uma_used_lookup_open(&g->lookup, g->descriptors, "99999", text, &info), UMA_USED_GONE);
    assert_int_equal(look_up(g, fd, text, &info), 0);
}

static void no_files(void **state) {
    SKIP_UNDER_EMULATION();
    struct given *g = *state;
    char text[4096];
    struct uma_fdinfo info = { 0 };
    _cleanup_close_ int folder = open(g->f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), proc = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    assert_int_equal(look_up(g, folder, text, &info), UMA_USED_NOT_A_FILE);
    assert_int_equal(look_up(g, folder, text, &info), UMA_USED_NOT_A_FILE);
    assert_int_equal(look_up(g, proc, text, &info), UMA_USED_NOT_A_FILE);
    assert_int_equal(g->lookup.table.n, 0);
}

/* A mount that no table shows: the file is told of by its numbers, and not touched (the descriptor given does not even exist). */
static void unknown_mount(void **state) {
    struct given *g = *state;
    const struct uma_fdinfo first = { .mount_id = INT32_MAX, .inode = 5 }, second = { .mount_id = INT32_MAX - 1, .inode = 5 };
    assert_int_equal(uma_used_lookup_open(&g->lookup, g->descriptors, "99999", "/x (deleted)", &first), 0);
    assert_int_equal(uma_used_lookup_open(&g->lookup, g->descriptors, "99999", "/y", &second), 1);
    assert_int_equal(uma_used_lookup_open(&g->lookup, g->descriptors, "99999", "/x (deleted)", &first), 0);
    struct uma_used_files files = { 0 };
    assert_int_equal(uma_used_table_finish(&g->lookup.table, &files), 0);
    assert_int_equal(files.n, 2);
    const struct uma_used_file *x = &files.list[0], *y = &files.list[1];
    assert_true(x->may_hang && !x->looked_at && x->deleted && x->device == 0 && x->inode == 5 && x->mount_id == -1);
    assert_string_equal(x->shown, "/x");
    assert_non_null(strstr(x->path, "/fd/99999"));
    assert_string_equal(y->path, "/y");
    assert_false(y->deleted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uninteresting),
        cmocka_unit_test_setup_teardown(a_file_and_its_removal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_mount, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
