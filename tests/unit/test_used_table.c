/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/files/used_table.h"

#include <string.h>

struct given {
    struct uma_arena *arena;
    struct uma_used_table table;
};

static int set_up(void **state) {
    struct given *g = calloc(1, sizeof(*g));
    if (!g)
        return -1;
    g->arena = g->table.arena = uma_arena_new(64 * UMA_MIB);
    *state = g;
    return g->arena ? 0 : -1;
}

static int tear_down(void **state) {
    struct given *g = *state;
    uma_used_table_done(&g->table);
    (void)uma_arena_free(g->arena);
    free(g);
    return 0;
}

static int32_t put(struct uma_used_table *table, uint64_t device, uint64_t inode, const char *path, enum uma_used_way way) {
    char text[64]; /* gone when this returns: texts are copied */
    (void)snprintf(text, sizeof(text), "%s", path);
    struct uma_used_file file = { .device = device, .inode = inode, .path = text, .shown = text, .size = (uint64_t)way };
    return uma_used_table_put(table, device, inode, &file, way);
}

static void each_file_once(void **state) {
    struct given *g = *state;
    struct uma_used_table *t = &g->table;
    int32_t a = put(t, 1, 10, "/a", UMA_USED_BY_NAME), b = put(t, 2, 10, "/b", UMA_USED_BY_NAME), c = put(t, 1, 11, "/c", UMA_USED_BY_NAME);
    assert_true(a == 0 && b == 1 && c == 2);
    assert_int_equal(put(t, 1, 10, "/other", UMA_USED_BY_NAME), a);
    uma_used_table_use(t, a, 5, true);
    uma_used_table_use(t, c, 5, false);
    uma_used_table_use(t, a, 5, true);
    uma_used_table_use(t, a, 5, false);
    uma_used_table_use(t, a, 7, true);
    struct uma_used_files files = { 0 };
    assert_int_equal(uma_used_table_finish(t, &files), 0);
    assert_true(files.n == 3 && !files.cut);
    assert_string_equal(files.list[0].path, "/a");
    assert_ptr_equal(files.list[0].path, files.list[0].shown);
    assert_true(files.list[0].n_mapped_by == 2 && files.list[0].mapped_by[0] == 5 && files.list[0].mapped_by[1] == 7);
    assert_true(files.list[0].n_open_by == 1 && files.list[0].open_by[0] == 5);
    assert_true(files.list[1].n_mapped_by == 0 && files.list[1].n_open_by == 0);
    assert_true(files.list[2].n_mapped_by == 0 && files.list[2].n_open_by == 1 && files.list[2].open_by[0] == 5);
}

/* Whatever the order in which the ways are seen, the best stays, and the users with it. */
static void best_way(void **state) {
    struct given *g = *state;
    static const enum uma_used_way ways[] = { UMA_USED_BY_OPEN, UMA_USED_BY_NUMBERS, UMA_USED_BY_NAME, UMA_USED_BY_MAPPING,
                                              UMA_USED_BY_VIEW };
    static const char *const best[] = { "2", "2", "4", "4", "4" };
    for (size_t i = 0; i < ELEMENTS(ways); i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "%d", (int)ways[i]);
        assert_int_equal(put(&g->table, 1, 1, name, ways[i]), 0);
        uma_used_table_use(&g->table, 0, (int32_t)i + 1, i % 2);
        struct uma_used_files files = { 0 };
        assert_int_equal(uma_used_table_finish(&g->table, &files), 0);
        assert_string_equal(files.list[0].path, best[i]);
        assert_true(files.list[0].size == (uint64_t)(best[i][0] - '0') && files.list[0].n_mapped_by + files.list[0].n_open_by == i + 1);
    }
}

static void bounds(void **state) {
    struct given *g = *state;
    for (uint64_t i = 0; i < UMA_USED_FILES_MAX; i++)
        assert_int_equal(put(&g->table, 1, i, "/x", UMA_USED_BY_NUMBERS), (int32_t)i);
    assert_false(g->table.cut);
    assert_int_equal(put(&g->table, 1, 7, "/y", UMA_USED_BY_NAME), 7);
    assert_int_equal(put(&g->table, 2, 7, "/x", UMA_USED_BY_NAME), -1);
    assert_true(g->table.cut);
    struct uma_used_files files = { 0 };
    assert_int_equal(uma_used_table_finish(&g->table, &files), 0);
    assert_true(files.n == UMA_USED_FILES_MAX && files.cut);
    assert_string_equal(files.list[7].path, "/y");
}

static void without_memory(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *small = uma_arena_new(512);
    struct uma_used_table table = { .arena = small };
    char path[601];
    (void)memset(path, 'p', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    struct uma_used_file file = { .path = path, .shown = path };
    assert_int_equal(uma_used_table_put(&table, 1, 1, &file, UMA_USED_BY_NAME), -1);
    assert_true(table.cut);
    file.path = file.shown = "/short";
    assert_int_equal(uma_used_table_put(&table, 1, 2, &file, UMA_USED_BY_NAME), 1);
    struct uma_used_files files = { .n = 99 };
    int r = uma_used_table_finish(&table, &files); /* with what is left of the arena, or not: never half */
    assert_true(r == -ENOMEM ? files.n == 99 : r == 0 && files.n == 1 && files.cut && strcmp(files.list[0].path, "/short") == 0);
    uma_used_table_done(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_file_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(best_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounds, set_up, tear_down),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
