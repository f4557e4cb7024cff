/* SPDX-License-Identifier: MIT */
/* Histories of loading jobs, replayed through the decision: what is held, what is evicted and in which order, and when a file is left alone. */
#include "test.h"

#include "base/units.h"
#include "cache/follow_decide.h"

#include <stdlib.h>

#define MIB ((uint32_t)UMA_MIB)
#define WINDOW (256 * UMA_MIB)

/* A loading job and its follower: each step reads some of a file, and the follower looks and evicts. */
struct history {
    struct uma_follow_window window;
    int64_t now_ns;
    uint64_t held_most;
    bool unread_chosen;
    size_t order_errors;
};

static void begin(struct history *h, uint64_t limit) {
    *h = (struct history){ 0 };
    uma_follow_window_begin(&h->window, limit);
}

static struct uma_follow_file *file_new(struct history *h, uint64_t size) {
    struct uma_follow_file *file = NULL;
    assert_int_equal(uma_follow_file_new(&h->window, size, &file, NULL), 0);
    file->in_use = true;
    return file;
}

/* Everything chosen leaves, unless `left` says how much of each chunk stays. */
static uint64_t evict_left(struct history *h, uint64_t target, uint32_t left) {
    struct uma_follow_chunk *chunks[64];
    uint64_t sum = 0;
    for (size_t n; (n = uma_follow_choose(&h->window, target, h->now_ns, chunks, 64)) > 0;)
        for (size_t i = 0; i < n; i++) {
            h->unread_chosen = h->unread_chosen || chunks[i]->held == 0 || chunks[i]->read == 0;
            uint32_t before = chunks[i]->held;
            uma_follow_evicted(&h->window, chunks[i], left, h->now_ns);
            sum += before - chunks[i]->held;
        }
    return sum;
}

static void step(struct history *h, struct uma_follow_file *file, size_t chunk) {
    uint32_t length = uma_follow_chunk_length(&h->window, file, chunk);
    uint64_t grown = uma_follow_saw(&h->window, file, chunk, length, 0, length, h->now_ns += 2000000);
    h->held_most = h->window.held > h->held_most ? h->window.held : h->held_most;
    (void)evict_left(h, uma_follow_target(&h->window, grown), 0);
}

static void pass_over(struct history *h, struct uma_follow_file *file, size_t stride) {
    for (size_t i = 0; i < file->n_chunks; i++)
        step(h, file, i * stride % file->n_chunks);
}

static void test_sequential(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    assert_int_equal(h.window.chunk, 2 * MIB);
    struct uma_follow_file *file = file_new(&h, 4096 * UMA_MIB + 12345);
    assert_int_equal(file->n_chunks, 2049);
    pass_over(&h, file, 1);
    assert_true(h.held_most <= WINDOW);
    assert_int_equal(file->read, file->size);
    assert_int_equal(file->evicted + file->held, file->size);
    assert_true(file->held >= WINDOW - 8 * UMA_MIB && file->held <= WINDOW); /* no more is evicted than has to be */
    assert_int_equal(file->again, 0);
    assert_false(file->in_place || h.unread_chosen);
    /* The oldest went, the newest are there. */
    assert_int_equal(file->chunks[0].held, 0);
    assert_true(file->chunks[0].evicted);
    assert_int_equal(file->chunks[2047].held, 2 * MIB);
    assert_int_equal(uma_follow_file_free(&h.window, file), NULL);
    assert_int_equal(h.window.held, 0);
    assert_null(h.window.oldest);
}

static void test_random_order(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    struct uma_follow_file *file = file_new(&h, 2046 * UMA_MIB);
    pass_over(&h, file, 377); /* has no divisor in common with 1023 */
    assert_true(h.held_most <= WINDOW);
    assert_int_equal(file->read, file->size);
    assert_int_equal(file->again, 0);
    assert_false(file->in_place || h.unread_chosen);
    uma_follow_file_free(&h.window, file);
}

static void test_several_shards_share_one_window(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    struct uma_follow_file *files[8];
    for (size_t i = 0; i < 8; i++)
        files[i] = file_new(&h, 512 * UMA_MIB);
    for (size_t chunk = 0; chunk < files[0]->n_chunks; chunk++)
        for (size_t i = 0; i < 8; i++)
            step(&h, files[i], chunk);
    assert_true(h.held_most <= WINDOW);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(files[i]->read, files[i]->size);
        assert_true(files[i]->held >= 24 * UMA_MIB && files[i]->held <= 40 * UMA_MIB); /* an eighth each */
        uma_follow_file_free(&h.window, files[i]);
    }
}

static void test_two_passes_are_use_in_place(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    struct uma_follow_file *file = file_new(&h, 4096 * UMA_MIB);
    pass_over(&h, file, 1);
    uint64_t evicted = file->evicted;
    assert_false(file->in_place);
    pass_over(&h, file, 1);
    assert_true(file->in_place);
    /* It cost a tenth of what was evicted, what the second pass evicted included, and no more is evicted. */
    assert_true(file->again <= evicted / 9 + 4 * UMA_MIB);
    assert_int_equal(h.window.held, 0);
    uint64_t then = file->evicted;
    pass_over(&h, file, 1);
    assert_int_equal(file->evicted, then);
    uma_follow_file_free(&h.window, file);
}

static void test_a_new_pass_is_judged_anew(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    struct uma_follow_file *file = file_new(&h, 1024 * UMA_MIB);
    pass_over(&h, file, 1); /* a checksum */
    uma_follow_closed(&h.window, file);
    uma_follow_pass(&h.window, file); /* and the load */
    pass_over(&h, file, 1);
    assert_false(file->in_place);
    assert_int_equal(file->again, 0);
    assert_int_equal(file->read, file->size);
    assert_true(h.held_most <= WINDOW);
    /* A file that was left alone is followed again. */
    pass_over(&h, file, 1);
    assert_true(file->in_place);
    uma_follow_closed(&h.window, file);
    uma_follow_pass(&h.window, file);
    assert_false(file->in_place);
    pass_over(&h, file, 1);
    assert_false(file->in_place);
    uma_follow_file_free(&h.window, file);
}

/* Two ranks that load the same file one after the other, each every byte once; the third reading is of one of them a second time. */
static void test_readers_of_one_file_read_it_once_each(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    struct uma_follow_file *file = file_new(&h, 4096 * UMA_MIB);
    file->readers = 2;
    pass_over(&h, file, 1);
    pass_over(&h, file, 1);
    assert_false(file->in_place);
    assert_int_equal(file->read, file->size);
    assert_true(file->again >= file->size - WINDOW); /* it was read from disk again all the same, and that is told */
    pass_over(&h, file, 1);
    assert_true(file->in_place);
    file->readers = UINT32_MAX;
    uma_follow_pass(&h.window, file);
    assert_int_equal(file->readers, 0);
    uma_follow_file_free(&h.window, file);
}

/* A file that is only read: each step's bytes are counted, and every fourth chunk lay in memory before, by readahead, and left before the job came to it. */
static void read_by_count(struct history *h, struct uma_follow_file *file) {
    for (size_t i = 0; i < file->n_chunks; i++) {
        if (i % 4 == 0)
            step(h, file, (i + file->n_chunks / 2) % file->n_chunks);
        uma_follow_asked(&file, 1, uma_follow_chunk_length(&h->window, file, i));
        step(h, file, i);
    }
}

static void test_what_comes_back_is_no_second_reading(void **state) {
    (void)state;
    struct history h;
    begin(&h, 32 * UMA_MIB);
    struct uma_follow_file *file = file_new(&h, 1024 * UMA_MIB);
    file->by_count = true;
    read_by_count(&h, file);
    assert_true(file->again >= 224 * UMA_MIB);
    assert_int_equal(file->asked, file->size);
    assert_int_equal(file->read, file->size);
    assert_false(file->in_place);
    assert_true(h.held_most <= 32 * UMA_MIB); /* and the window was kept all the while */
    /* A second time: a quarter of it is let pass, more is not. */
    read_by_count(&h, file);
    assert_true(file->in_place);
    assert_true(file->asked > file->size / 4 * 5 && file->asked <= file->size * 2);
    /* The same of a file that is mapped: page tables tell that it was touched. */
    uma_follow_pass(&h.window, file);
    assert_int_equal(file->asked, 0);
    file->by_count = false;
    read_by_count(&h, file);
    assert_true(file->in_place);
    uma_follow_file_free(&h.window, file);
}

static void test_readers_may_ask_once_each(void **state) {
    (void)state;
    struct history h;
    begin(&h, 32 * UMA_MIB);
    struct uma_follow_file *file = file_new(&h, 1024 * UMA_MIB);
    file->by_count = true;
    file->readers = 2;
    read_by_count(&h, file);
    read_by_count(&h, file);
    assert_false(file->in_place);
    read_by_count(&h, file);
    assert_true(file->in_place);
    uma_follow_file_free(&h.window, file);
}

static void test_what_was_asked_is_shared(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    struct uma_follow_file *files[] = { file_new(&h, 100 * UMA_MIB), file_new(&h, 300 * UMA_MIB) };
    uma_follow_asked(files, 1, 90 * UMA_MIB); /* read before the second was opened */
    uma_follow_asked(files, 2, 40 * UMA_MIB);
    assert_int_equal(files[0]->asked, 100 * UMA_MIB);
    assert_int_equal(files[1]->asked, 30 * UMA_MIB);
    uma_follow_asked(files, 2, 270 * UMA_MIB);
    assert_int_equal(files[0]->asked, 100 * UMA_MIB); /* no more than it has before the other has all */
    assert_int_equal(files[1]->asked, 300 * UMA_MIB);
    uma_follow_asked(files, 2, 40 * UMA_MIB);
    assert_int_equal(files[0]->asked, 110 * UMA_MIB);
    assert_int_equal(files[1]->asked, 330 * UMA_MIB);
    uma_follow_asked(files, 0, UMA_MIB);
    for (int i = 0; i < 4; i++)
        uma_follow_asked(files, 2, UINT64_MAX);
    assert_true(files[1]->asked == UINT64_MAX);
    for (size_t i = 0; i < 2; i++)
        uma_follow_file_free(&h.window, files[i]);
}

/* Of a small window, a sixteenth is less than the readahead of one wrong guess. */
static void test_a_few_chunks_again_are_no_evidence(void **state) {
    (void)state;
    struct history h;
    begin(&h, 16 * UMA_MIB);
    assert_int_equal(h.window.chunk, MIB);
    struct uma_follow_file *file = file_new(&h, 256 * UMA_MIB);
    for (size_t i = 0; i < 40; i++)
        step(&h, file, i);
    for (size_t i = 0; i < 8; i++)
        step(&h, file, i);
    assert_int_equal(file->again, 8 * UMA_MIB);
    assert_false(file->in_place);
    step(&h, file, 8);
    assert_true(file->in_place);
    uma_follow_file_free(&h.window, file);
}

static void test_what_stayed_is_known(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    struct uma_follow_file *file = file_new(&h, 8 * UMA_MIB);
    assert_int_equal(uma_follow_saw(&h.window, file, 0, 2 * MIB, 0, 2 * MIB, 1), 2 * MIB);
    (void)evict_left(&h, 0, 65536);
    assert_int_equal(file->chunks[0].held, 0);
    assert_int_equal(file->chunks[0].left, 65536);
    assert_int_equal(uma_follow_saw(&h.window, file, 0, 2 * MIB, 0, 2 * MIB, 2), 2 * MIB);
    (void)evict_left(&h, 0, 0);
    assert_int_equal(file->chunks[0].left, 0);
    uma_follow_file_free(&h.window, file);
}

static void test_parts_of_a_chunk(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    struct uma_follow_file *file = file_new(&h, 8 * UMA_MIB);
    assert_int_equal(uma_follow_saw(&h.window, file, 1, MIB, 0, MIB, 1), MIB);
    assert_int_equal(uma_follow_saw(&h.window, file, 1, MIB, 0, MIB, 2), 0);
    assert_int_equal(uma_follow_saw(&h.window, file, 1, MIB / 2, 0, MIB / 2, 3), 0); /* the job unmapped some */
    /* The first half is not present any more; the second is, and it is new. */
    assert_int_equal(uma_follow_saw(&h.window, file, 1, MIB, MIB, 2 * MIB, 4), MIB);
    assert_int_equal(file->chunks[1].held, 2 * MIB);
    /* A half that is evicted before the other half is read is not read again. */
    assert_int_equal(uma_follow_saw(&h.window, file, 2, MIB, 0, MIB, 5), MIB);
    assert_int_equal(evict_left(&h, 0, 0), 3 * UMA_MIB);
    assert_int_equal(uma_follow_saw(&h.window, file, 2, MIB, MIB, 2 * MIB, 6), MIB);
    assert_int_equal(file->again, 0);
    assert_int_equal(uma_follow_saw(&h.window, file, 1, MIB, 0, MIB, 7), MIB);
    assert_int_equal(file->again, MIB);
    assert_int_equal(file->read, 4 * UMA_MIB);
    /* Nonsense is nothing. */
    assert_int_equal(uma_follow_saw(&h.window, file, 99, MIB, 0, MIB, 8), 0);
    assert_int_equal(uma_follow_saw(&h.window, file, 3, MIB, MIB, MIB, 8), 0);
    assert_int_equal(uma_follow_saw(&h.window, file, 3, UINT32_MAX, 0, UINT32_MAX, 8), 2 * MIB);
    uma_follow_file_free(&h.window, file);
}

static void test_what_would_not_leave(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    struct uma_follow_file *file = file_new(&h, 8 * UMA_MIB);
    (void)uma_follow_saw(&h.window, file, 0, 2 * MIB, 0, 2 * MIB, 0);
    int64_t due[] = { 0, 1, 3, 7 }; /* waits of 1, 2 and 4 s in between */
    for (size_t i = 0; i < 4; i++) {
        struct uma_follow_chunk *chunk = NULL;
        assert_int_equal(uma_follow_choose(&h.window, 0, due[i] * UMA_SECOND_NS - 1, &chunk, 1), 0);
        h.now_ns = due[i] * UMA_SECOND_NS;
        assert_int_equal(uma_follow_choose(&h.window, 0, h.now_ns, &chunk, 1), 1);
        uma_follow_evicted(&h.window, chunk, 2 * MIB, h.now_ns);
    }
    assert_int_equal(file->stuck, 2 * MIB);
    assert_int_equal(h.window.held, 0);
    assert_int_equal(file->evicted, 0);
    /* Once nobody maps it, it goes. */
    uma_follow_closed(&h.window, file);
    assert_int_equal(h.window.held, 2 * MIB);
    assert_int_equal(file->stuck, 0);
    assert_int_equal(evict_left(&h, 0, MIB / 8), 2 * MIB); /* ends of folios are left */
    assert_int_equal(file->held, 0);
    (void)uma_follow_saw(&h.window, file, 1, 2 * MIB, 0, 2 * MIB, 0);
    uma_follow_give_up(&h.window, &file->chunks[1]);
    assert_int_equal(h.window.held, 0);
    assert_int_equal(file->stuck, 2 * MIB);
    uma_follow_file_free(&h.window, file);
}

static void test_pressure(void **state) {
    (void)state;
    struct history h;
    begin(&h, WINDOW);
    for (int i = 0; i < 5; i++)
        uma_follow_press(&h.window, true);
    assert_int_equal(h.window.now, WINDOW / 4);
    assert_int_equal(uma_follow_target(&h.window, 0), WINDOW / 4);
    for (int i = 0; i < 6; i++)
        uma_follow_press(&h.window, false);
    assert_int_equal(h.window.now, WINDOW);
    assert_int_equal(uma_follow_target(&h.window, 0), WINDOW);
    assert_int_equal(uma_follow_target(&h.window, 32 * UMA_MIB), 208 * UMA_MIB);
    assert_int_equal(uma_follow_target(&h.window, UINT64_MAX), WINDOW / 2);
    begin(&h, 0);
    uma_follow_press(&h.window, true);
    assert_true(uma_follow_target(&h.window, UINT64_MAX) == UINT64_MAX);
}

static void test_sizes(void **state) {
    (void)state;
    struct history h;
    begin(&h, 4 * UMA_MIB);
    assert_int_equal(h.window.chunk, 256 * UMA_KIB);
    begin(&h, 1);
    assert_int_equal(h.window.chunk, UMA_FOLLOW_CHUNK_LEAST);
    begin(&h, 0);
    assert_int_equal(h.window.chunk, UMA_FOLLOW_CHUNK_MOST);
    struct uma_follow_file *file = file_new(&h, 0);
    assert_int_equal(file->n_chunks, 0);
    assert_int_equal(uma_follow_saw(&h.window, file, 0, 1, 0, 1, 0), 0);
    uma_follow_file_free(&h.window, file);
    struct uma_error err;
    assert_int_equal(uma_follow_file_new(&h.window, UMA_FOLLOW_FILE_MAX + 1, &file, &err), -EFBIG);
    assert_null(uma_follow_file_free(&h.window, NULL));
}

/* Whatever happens in whatever order: the sums are the sums of the chunks, and the list holds what it says. */
static void test_sums_hold_in_any_history(void **state) {
    (void)state;
    struct history h;
    begin(&h, 16 * UMA_MIB);
    struct uma_follow_file *files[3];
    for (size_t i = 0; i < 3; i++)
        files[i] = file_new(&h, (20 + i) * UMA_MIB + 777 * i);
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint32_t r = (uint32_t)(seed >> 33);
        struct uma_follow_file *file = files[r % 3];
        size_t chunk = r / 3 % file->n_chunks;
        uint32_t low = r / 7 % MIB, bytes = r / 11 % (MIB / 2);
        h.now_ns += 1000000;
        switch (r / 13 % 64) {
        case 0:
            uma_follow_pass(&h.window, file);
            break;
        case 1:
            uma_follow_closed(&h.window, file);
            break;
        case 2:
            uma_follow_give_up(&h.window, &file->chunks[chunk]);
            break;
        case 3:
            (void)evict_left(&h, 8 * UMA_MIB, r / 17 % MIB);
            break;
        default:
            (void)uma_follow_saw(&h.window, file, chunk, bytes, low, low + bytes, h.now_ns);
            break;
        }
    }
    uint64_t listed = 0, counted = 0;
    for (size_t i = 0; i < 3; i++) {
        uint64_t held = 0, read = 0;
        for (size_t j = 0; j < files[i]->n_chunks; j++) {
            const struct uma_follow_chunk *chunk = &files[i]->chunks[j];
            uint32_t length = uma_follow_chunk_length(&h.window, files[i], j);
            assert_true(chunk->held <= length && chunk->pass <= length && chunk->read <= length);
            assert_true(chunk->held == 0 || (chunk->low < chunk->high && chunk->high <= length));
            held += chunk->held;
            read += chunk->read;
            counted += chunk->listed ? chunk->held : 0;
        }
        assert_int_equal(held, files[i]->held);
        assert_int_equal(read, files[i]->read);
    }
    for (const struct uma_follow_chunk *chunk = h.window.oldest; chunk; chunk = chunk->newer)
        listed += chunk->held;
    assert_int_equal(listed, h.window.held);
    assert_int_equal(counted, h.window.held);
    for (size_t i = 0; i < 3; i++)
        uma_follow_file_free(&h.window, files[i]);
    assert_int_equal(h.window.held, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequential),
        cmocka_unit_test(test_random_order),
        cmocka_unit_test(test_several_shards_share_one_window),
        cmocka_unit_test(test_two_passes_are_use_in_place),
        cmocka_unit_test(test_a_new_pass_is_judged_anew),
        cmocka_unit_test(test_readers_of_one_file_read_it_once_each),
        cmocka_unit_test(test_what_comes_back_is_no_second_reading),
        cmocka_unit_test(test_readers_may_ask_once_each),
        cmocka_unit_test(test_what_was_asked_is_shared),
        cmocka_unit_test(test_a_few_chunks_again_are_no_evidence),
        cmocka_unit_test(test_what_stayed_is_known),
        cmocka_unit_test(test_parts_of_a_chunk),
        cmocka_unit_test(test_what_would_not_leave),
        cmocka_unit_test(test_pressure),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_sums_hold_in_any_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
