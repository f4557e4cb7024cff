/* SPDX-License-Identifier: MIT */
/* Which files are reached, and what is counted; what eviction does to pages is tested against the kernel elsewhere. */
#include "test.h"

#include "folder.h"

#include "base/units.h"
#include "base/values.h"
#include "base/text.h"
#include "cache/evict.h"

#include <fcntl.h>
#include <string.h>

struct tree {
    struct folder folder;
    unsigned stop_at, asked;
    struct uma_eviction eviction;
};

static int setup(void **state) {
    static struct tree tree;
    tree = (struct tree){ 0 };
    *state = &tree;
    if (folder_new(&tree.folder) < 0)
        return -1;
    folder_put(&tree.folder, "t/one", "1");
    folder_put(&tree.folder, "t/Qwen3-8B/model-00001-of-00002.safetensors", "2222");
    folder_put(&tree.folder, "t/Qwen3-8B/model-00002-of-00002.safetensors", "333333");
    folder_put(&tree.folder, "outside", "secret");
    return 0;
}

static int teardown(void **state) {
    struct tree *t = *state;
    uma_eviction_done(&t->eviction);
    folder_done(&t->folder);
    return 0;
}

static bool stop(void *userdata) {
    struct tree *t = userdata;
    return ++t->asked == t->stop_at;
}

/* Measured only: whether the folder is on a disk or in memory then makes no difference but for what is counted as memory. */
static void begin(struct tree *t, uint64_t larger_than) {
    struct uma_eviction_options options = { .dry_run = true, .every_file = true, .larger_than = larger_than, .stop = stop, .userdata = t };
    assert_int_equal(uma_eviction_init(&t->eviction, &options, NULL), 0);
}

static const char *whole(const struct tree *t, const char *path) {
    static char text[512];
    (void)snprintf(text, sizeof text, "%s/%s", t->folder.path, path);
    return text;
}

/* On tmpfs files are left alone, and counted as such: the sum is the same. */
static uint64_t reached(const struct uma_eviction *e) {
    return e->n_files + e->memory_files;
}

static bool in_memory(const struct uma_eviction *e) {
    return e->memory_files > 0;
}

static void a_tree(void **state) {
    struct tree *t = *state;
    begin(t, 0);
    char link_path[512];
    (void)snprintf(link_path, sizeof link_path, "%s/t/out", t->folder.path);
    assert_int_equal(symlink("../outside", link_path), 0);
    (void)snprintf(link_path, sizeof link_path, "%s/t/in", t->folder.path);
    assert_int_equal(symlink("one", link_path), 0);
    assert_int_equal(uma_eviction_path(&t->eviction, whole(t, "t"), NULL, NULL), 0);
    assert_int_equal(reached(&t->eviction), 3);
    assert_int_equal(t->eviction.walk.links_outside, 1);
    assert_int_equal(t->eviction.walk.links_inside, 1);
    if (in_memory(&t->eviction))
        SKIP_BECAUSE("the temporary folder is in memory");
    unsigned of_model = 0;
    for (size_t i = 0; i < t->eviction.n; i++) {
        const struct uma_evicted_file *f = &t->eviction.files[i];
        assert_null(strstr(f->path, "outside"));
        of_model += f->model && strcmp(f->model, "Qwen3-8B") == 0;
    }
    assert_int_equal(of_model, 2);
}

static void one_file_and_links_to_it(void **state) {
    struct tree *t = *state;
    char other[512];
    begin(t, 0);
    (void)snprintf(other, sizeof other, "%s/t/two", t->folder.path);
    assert_int_equal(link(whole(t, "t/one"), other), 0);
    assert_int_equal(symlink("t/one", whole(t, "named")), 0);
    assert_int_equal(uma_eviction_path(&t->eviction, whole(t, "named"), NULL, NULL), 0); /* what a link that is named leads to */
    assert_int_equal(reached(&t->eviction), 1);
    assert_int_equal(uma_eviction_path(&t->eviction, whole(t, "t"), NULL, NULL), 0); /* the same file by two more names: counted once */
    assert_int_equal(reached(&t->eviction), 3);
}

static void smaller_files_are_left_alone(void **state) {
    struct tree *t = *state;
    begin(t, 4);
    assert_int_equal(uma_eviction_path(&t->eviction, whole(t, "t"), NULL, NULL), 0);
    assert_int_equal(reached(&t->eviction), 1);
    assert_int_equal(t->eviction.smaller, 2);
}

/* /proc/self/fd/N of a file that has no name any more, and then of one whose old name is another file's. */
static void a_file_without_a_name(void **state) {
    struct tree *t = *state;
    char link_path[64], was[512], again[600];
    begin(t, 0);
    (void)snprintf(was, sizeof was, "%s", whole(t, "t/one"));
    _cleanup_close_ int fd = open(was, O_RDONLY | O_CLOEXEC);
    (void)snprintf(link_path, sizeof link_path, "/proc/self/fd/%d", fd);
    assert_true(fd >= 0);
    assert_int_equal(unlink(was), 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(uma_eviction_path(&t->eviction, link_path, NULL, NULL), 0);
        assert_int_equal(reached(&t->eviction), 1);
        if (!in_memory(&t->eviction)) {
            assert_string_equal(t->eviction.files[0].path, link_path);
            assert_string_equal(t->eviction.files[0].shown, was);
            assert_true(t->eviction.files[0].deleted);
        }
        if (round == 0) {
            uma_eviction_done(&t->eviction);
            begin(t, 0);
            (void)snprintf(again, sizeof again, "%.500s (deleted)", was);
            folder_put(&t->folder, "t/one (deleted)", "another");
            assert_int_equal(access(again, F_OK), 0);
        }
    }
}

/* What a snapshot's links lead to lies beside it: it is not reached, and where it is is said. */
static void a_snapshot_of_a_hub(void **state) {
    struct tree *t = *state;
    begin(t, 0);
    folder_put(&t->folder, "hub/models--Org--Name/blobs/0123", "weights");
    folder_put(&t->folder, "hub/models--Org--Name/snapshots/rev/unused", "");
    assert_int_equal(unlink(whole(t, "hub/models--Org--Name/snapshots/rev/unused")), 0);
    assert_int_equal(symlink("../../blobs/0123", whole(t, "hub/models--Org--Name/snapshots/rev/model.safetensors")), 0);
    assert_int_equal(uma_eviction_path(&t->eviction, whole(t, "hub/models--Org--Name"), NULL, NULL), 0);
    assert_int_equal(t->eviction.walk.links_outside, 0);
    assert_null(t->eviction.hub_folder);
    assert_int_equal(reached(&t->eviction), 1);
    assert_int_equal(uma_eviction_path(&t->eviction, whole(t, "hub/models--Org--Name/snapshots/rev"), NULL, NULL), 0);
    assert_int_equal(t->eviction.walk.links_outside, 1);
    assert_int_equal(reached(&t->eviction), 1);
    assert_true(uma_ends_with(t->eviction.hub_folder, "/hub/models--Org--Name"));
    assert_string_equal(t->eviction.hub_model, "Org/Name");
}

static void a_path_that_is_not(void **state) {
    struct tree *t = *state;
    struct uma_error err = { 0 };
    begin(t, 0);
    assert_int_equal(uma_eviction_path(&t->eviction, whole(t, "none"), NULL, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/none"));
}

static void stopped_in_the_middle(void **state) {
    struct tree *t = *state;
    begin(t, 0);
    t->stop_at = 3;
    assert_int_equal(uma_eviction_path(&t->eviction, whole(t, "t"), NULL, NULL), 0);
    assert_true(t->eviction.interrupted);
    assert_true(reached(&t->eviction) < 3);
}

static struct uma_cached_file listed(const struct tree *t, const char *path, char into[512]) {
    struct stat st;
    (void)snprintf(into, 512, "%s", whole(t, path));
    assert_int_equal(stat(into, &st), 0);
    return (struct uma_cached_file){ .path = into, .model = "m", .device = st.st_dev, .inode = st.st_ino };
}

static void listed_files(void **state) {
    struct tree *t = *state;
    begin(t, 0);
    char paths[2][512];
    struct uma_cached_file good = listed(t, "t/one", paths[0]), changed = listed(t, "outside", paths[1]), gone = changed;
    changed.inode++;
    gone.inode += 2;
    assert_int_equal(uma_eviction_listed(&t->eviction, &good, NULL), 0);
    assert_int_equal(reached(&t->eviction), 1);
    assert_int_equal(uma_eviction_listed(&t->eviction, &good, NULL), 0); /* twice in the list */
    assert_int_equal(reached(&t->eviction), 1);
    assert_int_equal(uma_eviction_listed(&t->eviction, &changed, NULL), 0); /* its name is another file's by now */
    assert_int_equal(t->eviction.vanished, 1);
    assert_int_equal(unlink(gone.path), 0);
    assert_int_equal(uma_eviction_listed(&t->eviction, &gone, NULL), 0);
    assert_int_equal(t->eviction.vanished, 2);
    assert_int_equal(reached(&t->eviction), 1);
}

#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = { TREE_TEST(a_tree),
                                        TREE_TEST(one_file_and_links_to_it),
                                        TREE_TEST(smaller_files_are_left_alone),
                                        TREE_TEST(a_file_without_a_name),
                                        TREE_TEST(a_snapshot_of_a_hub),
                                        TREE_TEST(a_path_that_is_not),
                                        TREE_TEST(stopped_in_the_middle),
                                        TREE_TEST(listed_files) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
