/* SPDX-License-Identifier: MIT */
#include "guard/gpu_file.h"

#include "base/units.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#include "folder.h"

static void path_in(const struct folder *f, char path[256]) {
    (void)snprintf(path, 256, "%s/gpu", f->path);
}

static void written_and_read(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_guard_gpu_writer writer;
    struct uma_guard_gpu_reader reader;
    struct uma_guard_gpu gpu;
    char path[256];
    struct stat st;
    assert_int_equal(folder_new(&f), 0);
    path_in(&f, path);
    uma_guard_gpu_reader_open(&reader, path);
    assert_false(uma_guard_gpu_read(&reader, &gpu));
    assert_int_equal(uma_guard_gpu_writer_open(&writer, path), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_int_equal(st.st_size, sizeof(struct uma_guard_gpu_shared));
    assert_false(uma_guard_gpu_read(&reader, &gpu)); /* looked for once a second */
    reader.tried -= INT64_C(1000000000);
    uma_guard_gpu_asked(&writer, 5);
    assert_false(uma_guard_gpu_read(&reader, &gpu)); /* a question, no answer yet */
    assert_non_null(reader.shared);
    const struct uma_guard_gpu_entry list[] = { { .pid = 7, .start = 70, .bytes = 700 }, { .pid = 8, .start = 0, .bytes = 800 } };
    uma_guard_gpu_write(&writer, list, 2, 1600, 5);
    uma_guard_gpu_asked(&writer, 9);
    assert_true(uma_guard_gpu_read(&reader, &gpu));
    assert_true(gpu.known && gpu.n == 2 && gpu.total == 1600 && gpu.asked == 9 && gpu.answered == 5);
    assert_true(gpu.list[0].pid == 7 && gpu.list[0].start == 70 && gpu.list[0].bytes == 700 && gpu.list[1].bytes == 800);
    uma_guard_gpu_write(&writer, NULL, 0, 0, 9); /* nobody has any: known */
    assert_true(uma_guard_gpu_read(&reader, &gpu));
    assert_true(gpu.n == 0 && gpu.total == 0 && gpu.answered == 9);
    uma_guard_gpu_writer_close(&writer);
    assert_true(uma_guard_gpu_read(&reader, &gpu)); /* what is known has its age */
    uma_guard_gpu_reader_close(&reader);
    assert_false(uma_guard_gpu_read(&reader, &gpu));
}

static void the_largest_are_kept(void **state) {
    (void)state;
    enum { N = 3 * UMA_GUARD_GPU_MAX };
    static struct uma_guard_gpu_entry list[N];
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_guard_gpu_writer writer;
    struct uma_guard_gpu_reader reader;
    struct uma_guard_gpu gpu;
    char path[256];
    assert_int_equal(folder_new(&f), 0);
    path_in(&f, path);
    for (int i = 0; i < N; i++)
        list[i] = (struct uma_guard_gpu_entry){ .pid = i + 1, .bytes = (uint64_t)((i * 7) % N) };
    assert_int_equal(uma_guard_gpu_writer_open(&writer, path), 0);
    uma_guard_gpu_write(&writer, list, N, 1, 1);
    uma_guard_gpu_reader_open(&reader, path);
    assert_true(uma_guard_gpu_read(&reader, &gpu));
    assert_int_equal(gpu.n, UMA_GUARD_GPU_MAX);
    for (uint32_t i = 0; i < gpu.n; i++)
        assert_true(gpu.list[i].bytes >= N - UMA_GUARD_GPU_MAX);
    uma_guard_gpu_reader_close(&reader);
    uma_guard_gpu_writer_close(&writer);
}

static void refuses_others(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_guard_gpu_writer writer;
    struct uma_guard_gpu_reader reader;
    struct uma_guard_gpu gpu;
    char path[256], other[300];
    assert_int_equal(folder_new(&f), 0);
    path_in(&f, path);
    (void)snprintf(other, sizeof(other), "%s.link", path);
    const struct uma_guard_gpu_entry one = { .pid = 7, .bytes = 700 };
    assert_int_equal(uma_guard_gpu_writer_open(&writer, path), 0);
    uma_guard_gpu_write(&writer, &one, 1, 700, 5);

    assert_int_equal(chmod(path, 0666), 0); /* anybody could cut it short */
    uma_guard_gpu_reader_open(&reader, path);
    assert_false(uma_guard_gpu_read(&reader, &gpu));
    assert_int_equal(chmod(path, 0644), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        uma_guard_gpu_reader_open(&reader, path);
        assert_null(reader.shared);
        assert_int_equal(chown(path, 0, 0), 0);
    }
    assert_int_equal(symlink(path, other), 0);
    uma_guard_gpu_reader_open(&reader, other);
    assert_null(reader.shared);
    uma_guard_gpu_reader_open(&reader, path);
    assert_true(uma_guard_gpu_read(&reader, &gpu));
    uma_guard_gpu_reader_close(&reader);

    writer.shared->magic++;
    uma_guard_gpu_reader_open(&reader, path);
    assert_false(uma_guard_gpu_read(&reader, &gpu));
    uma_guard_gpu_reader_close(&reader);
    writer.shared->magic--;
    writer.shared->n = UINT32_MAX; /* damaged: bounded */
    uma_guard_gpu_reader_open(&reader, path);
    assert_true(uma_guard_gpu_read(&reader, &gpu));
    assert_int_equal(gpu.n, UMA_GUARD_GPU_MAX);
    uma_guard_gpu_reader_close(&reader);
    uma_guard_gpu_writer_close(&writer);

    assert_int_equal(truncate(path, 100), 0);
    uma_guard_gpu_reader_open(&reader, path);
    assert_null(reader.shared);
    assert_int_equal(mkfifo(strcat(other, "2"), 0600), 0); /* is not waited for */
    uma_guard_gpu_reader_open(&reader, other);
    assert_null(reader.shared);
    assert_int_equal(uma_guard_gpu_writer_open(&writer, path), 0); /* a damaged one is replaced */
    uma_guard_gpu_reader_open(&reader, path);
    assert_non_null(reader.shared);
    uma_guard_gpu_reader_close(&reader);
    uma_guard_gpu_writer_close(&writer);
    (void)snprintf(other, sizeof(other), "%s/none/gpu", f.path);
    assert_true(uma_guard_gpu_writer_open(&writer, other) < 0);
    uma_guard_gpu_write(&writer, &one, 1, 700, 5); /* without a file: nothing */
    uma_guard_gpu_writer_close(&writer);
}

static void a_writer_that_died_inside(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_guard_gpu_writer writer, next;
    struct uma_guard_gpu_reader reader;
    struct uma_guard_gpu gpu;
    char path[256];
    const struct uma_guard_gpu_entry one = { .pid = 7, .bytes = 700 }, two = { .pid = 8, .bytes = 800 };
    assert_int_equal(folder_new(&f), 0);
    path_in(&f, path);
    assert_int_equal(uma_guard_gpu_writer_open(&writer, path), 0);
    uma_guard_gpu_write(&writer, &one, 1, 700, 5);
    uma_guard_gpu_reader_open(&reader, path);
    writer.shared->sequence++;
    assert_false(uma_guard_gpu_read(&reader, &gpu));
    assert_false(gpu.known);
    uma_guard_gpu_writer_close(&writer);
    /* the next one takes the file over, and its readers go on with it; what was half written is no answer */
    assert_int_equal(uma_guard_gpu_writer_open(&next, path), 0);
    uma_guard_gpu_asked(&next, 6);
    assert_false(uma_guard_gpu_read(&reader, &gpu));
    assert_int_equal(gpu.asked, 6);
    uma_guard_gpu_write(&next, &two, 1, 800, 6);
    assert_true(uma_guard_gpu_read(&reader, &gpu));
    assert_true(gpu.n == 1 && gpu.list[0].pid == 8);
    /* a writer that hangs is in nobody's way: the file is replaced, and readers find the new one */
    assert_int_equal(uma_guard_gpu_writer_open(&writer, path), 0);
    uma_guard_gpu_write(&writer, &one, 1, 700, 7);
    assert_true(uma_guard_gpu_read(&reader, &gpu));
    assert_int_equal(gpu.answered, 6);
    reader.tried -= INT64_C(1000000000);
    assert_true(uma_guard_gpu_read(&reader, &gpu));
    assert_int_equal(gpu.answered, 7);
    uma_guard_gpu_write(&next, &two, 1, 800, 8);
    assert_true(uma_guard_gpu_read(&reader, &gpu));
    assert_int_equal(gpu.answered, 7);
    uma_guard_gpu_reader_close(&reader);
    uma_guard_gpu_writer_close(&writer);
    uma_guard_gpu_writer_close(&next);
}

/* ---- a reader and a writer at the same time: what is read is of one round -------------------------------------------------- */

static atomic_bool enough;

static void *write_rounds(void *userdata) {
    static struct uma_guard_gpu_entry list[UMA_GUARD_GPU_MAX];
    struct uma_guard_gpu_writer *writer = userdata;
    for (int64_t round = 1; !atomic_load(&enough); round++) {
        size_t n = 1 + (size_t)(round % UMA_GUARD_GPU_MAX);
        for (size_t i = 0; i < n; i++)
            list[i] = (struct uma_guard_gpu_entry){ .pid = (int32_t)(i + 1), .start = (uint64_t)round, .bytes = (uint64_t)round * 3 };
        uma_guard_gpu_write(writer, list, n, (uint64_t)round * 7, round);
        if (round % 64 == 0)
            (void)usleep(100);
    }
    return NULL;
}

static void never_two_rounds_at_once(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_guard_gpu_writer writer;
    struct uma_guard_gpu_reader reader;
    struct uma_guard_gpu gpu;
    char path[256];
    pthread_t thread;
    unsigned good = 0;
    int64_t last = 0;
    assert_int_equal(folder_new(&f), 0);
    path_in(&f, path);
    assert_int_equal(uma_guard_gpu_writer_open(&writer, path), 0);
    uma_guard_gpu_reader_open(&reader, path);
    assert_int_equal(pthread_create(&thread, NULL, write_rounds, &writer), 0);
    /* in time, not in tries: the writer may lose its processor in the middle of a round for as long as the scheduler likes */
    int64_t until = uma_monotonic_ns() + 1500 * UMA_MILLISECOND_NS;
    while (good < 20000 && uma_monotonic_ns() < until) {
        if (!uma_guard_gpu_read(&reader, &gpu)) {
            (void)sched_yield();
            continue;
        }
        good++;
        assert_true(gpu.answered >= last);
        last = gpu.answered;
        assert_int_equal(gpu.total, (uint64_t)last * 7);
        assert_int_equal(gpu.n, 1 + last % UMA_GUARD_GPU_MAX);
        for (uint32_t i = 0; i < gpu.n; i++)
            if (gpu.list[i].pid != (int32_t)i + 1 || gpu.list[i].start != (uint64_t)last || gpu.list[i].bytes != (uint64_t)last * 3)
                fail_msg("round %lld: entry %u is of another", (long long)last, i);
    }
    atomic_store(&enough, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(good > 0);
    uma_guard_gpu_reader_close(&reader);
    uma_guard_gpu_writer_close(&writer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read),          cmocka_unit_test(the_largest_are_kept),     cmocka_unit_test(refuses_others),
        cmocka_unit_test(a_writer_that_died_inside), cmocka_unit_test(never_two_rounds_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
