/* SPDX-License-Identifier: MIT */
/* Recorded histories of reading with pread(2): what the kernel brings into memory, how much was asked for, and which chunks are taken for read. */
#include "test.h"

#include "base/units.h"
#include "cache/follow_arrivals.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((uint32_t)UMA_MIB)
enum { CHUNKS_MOST = 512 };

/* A page cache of chunks, a follower that looks after every few reads, and a job. */
struct machine {
    struct uma_follow_window window;
    struct uma_follow_file *file;
    uint32_t there[CHUNKS_MOST]; /* bytes of each chunk that are in memory */
    uint64_t budget, brought, cached_most;
    int64_t now_ns;
};

static void begin(struct machine *m, uint64_t window, uint64_t size) {
    (void)memset(m, 0, sizeof *m);
    uma_follow_window_begin(&m->window, window);
    assert_int_equal(uma_follow_file_new(&m->window, size, &m->file, NULL), 0);
    assert_true(m->file->n_chunks <= CHUNKS_MOST);
    m->file->in_use = m->file->by_count = true;
}

static void end(struct machine *m) {
    assert_null(uma_follow_file_free(&m->window, m->file));
}

static void bring(struct machine *m, size_t chunk) {
    if (chunk >= m->file->n_chunks)
        return;
    uint32_t length = uma_follow_chunk_length(&m->window, m->file, chunk);
    m->brought += length - m->there[chunk];
    m->there[chunk] = length;
}

static uint64_t cached(const struct machine *m) {
    uint64_t sum = 0;
    for (size_t i = 0; i < m->file->n_chunks; i++)
        sum += m->there[i];
    return sum;
}

/* The job reads `n` chunks from `from`, and the kernel reads `ahead` more. */
static void job_reads(struct machine *m, size_t from, size_t n, size_t ahead) {
    for (size_t i = from; i < from + n; i++) {
        bring(m, i);
        uint32_t length = uma_follow_chunk_length(&m->window, m->file, i);
        m->budget += length;
        uma_follow_asked(&m->file, 1, length);
    }
    for (size_t i = 0; i < ahead; i++)
        bring(m, from + n + i);
}

static uint64_t look(struct machine *m) {
    struct uma_follow_arrival list[CHUNKS_MOST];
    size_t n = 0;
    for (size_t i = m->file->n_chunks; i-- > 0;) /* any order will do */
        if (m->there[i])
            list[n++] = (struct uma_follow_arrival){ .chunk = i, .bytes = m->there[i] };
    return uma_follow_attribute(&m->window, m->file, list, n, &m->budget, ++m->now_ns);
}

static void evict(struct machine *m, uint64_t grown) {
    struct uma_follow_chunk *chunks[CHUNKS_MOST];
    uint64_t now = cached(m);
    m->cached_most = MAX_OF(m->cached_most, now);
    size_t n = uma_follow_choose(&m->window, uma_follow_target(&m->window, grown), m->now_ns, chunks, CHUNKS_MOST);
    for (size_t i = 0; i < n; i++) {
        m->there[chunks[i] - m->file->chunks] = 0;
        uma_follow_evicted(&m->window, chunks[i], 0, m->now_ns);
    }
}

/* 400 MiB, tensors of two chunks, readahead of 8 MiB behind each; in groups that are far apart, as layers 1, 10, 11 are beside each other by name. */
static void read_out_of_order(struct machine *m) {
    enum { TENSOR = 2, AHEAD = 4, GROUPS = 25 };
    size_t tensors = m->file->n_chunks / TENSOR, each = tensors / GROUPS;
    for (size_t group = 0; group < GROUPS; group++)
        for (size_t i = 0; i < each; i++) {
            size_t tensor = group * 7 % GROUPS * each + i * 3 % each;
            job_reads(m, tensor * TENSOR, TENSOR, AHEAD);
            evict(m, look(m));
        }
}

static void test_out_of_order(void **state) {
    (void)state;
    struct machine m;
    begin(&m, 32 * UMA_MIB, 400 * UMA_MIB);
    read_out_of_order(&m);
    assert_int_equal(m.file->asked, m.file->size);
    assert_true(m.brought > m.file->size / 20 * 21); /* some came again, so this history is worth replaying */
    assert_false(m.file->in_place);
    assert_int_equal(m.budget, 0);
    assert_true(m.file->read >= m.file->size / 10 * 9);
    assert_true(m.cached_most <= 112 * UMA_MIB); /* the window, and what lies there read ahead */
    /* The job goes over it again and again: that is use in place, and no more is evicted. */
    for (int i = 0; i < 2; i++)
        read_out_of_order(&m);
    assert_true(m.file->in_place);
    uint64_t evicted = m.file->evicted;
    read_out_of_order(&m);
    assert_int_equal(m.file->evicted, evicted);
    end(&m);
}

/* Another follower of the same job evicts too, half of everything at every step: that is nothing that the job did. */
static void test_somebody_else_evicts(void **state) {
    (void)state;
    struct machine m;
    begin(&m, 64 * UMA_MIB, 400 * UMA_MIB);
    for (size_t i = 0; i < m.file->n_chunks; i++) {
        job_reads(&m, i, 1, 8);
        evict(&m, look(&m));
        for (size_t j = 0; j < m.file->n_chunks; j += 2)
            m.there[j] = 0;
        evict(&m, look(&m));
    }
    assert_false(m.file->in_place);
    end(&m);
}

static void test_ahead_is_not_read(void **state) {
    (void)state;
    struct machine m;
    begin(&m, 256 * UMA_MIB, 64 * UMA_MIB);
    job_reads(&m, 10, 1, 4);
    assert_int_equal(look(&m), 2 * UMA_MIB);
    assert_int_equal(m.file->chunks[10].held, 2 * MIB);
    assert_int_equal(m.file->chunks[11].held, 0);
    assert_int_equal(look(&m), 0);
    /* What came first is taken for read first: 11, though 2 is before it in the file. */
    job_reads(&m, 2, 1, 0);
    assert_int_equal(look(&m), 2 * UMA_MIB);
    assert_int_equal(m.file->chunks[11].held, 2 * MIB);
    assert_int_equal(m.file->chunks[2].held, 0);
    /* It was evicted too early. Coming back costs no count, and what lacked one gets it. */
    struct uma_follow_chunk *early = &m.file->chunks[11];
    uma_follow_evicted(&m.window, early, 0, m.now_ns);
    m.there[11] = 0;
    assert_int_equal(early->arrived, 0);
    job_reads(&m, 11, 1, 0);
    assert_int_equal(look(&m), 4 * UMA_MIB);
    assert_int_equal(early->held, 2 * MIB);
    assert_int_equal(m.file->chunks[12].held, 2 * MIB);
    assert_int_equal(m.file->again, 2 * MIB);
    assert_int_equal(m.budget, 0);
    end(&m);
}

/* A position moved over some of a chunk; the rest of it came by pread(2). No byte is paid for twice. */
static void test_beside_what_is_known(void **state) {
    (void)state;
    struct machine m;
    begin(&m, 256 * UMA_MIB, 64 * UMA_MIB);
    (void)uma_follow_saw(&m.window, m.file, 3, MIB / 2, MIB, MIB + MIB / 2, 1);
    bring(&m, 3);
    m.budget = MIB / 2;
    assert_int_equal(look(&m), MIB / 2);
    assert_int_equal(m.file->chunks[3].held, MIB);
    m.budget = 10 * UMA_MIB;
    assert_int_equal(look(&m), MIB);
    assert_int_equal(m.file->chunks[3].held, 2 * MIB);
    assert_int_equal(m.file->chunks[3].low, 0);
    assert_int_equal(m.file->chunks[3].high, 2 * MIB);
    assert_int_equal(m.budget, 9 * UMA_MIB);
    assert_int_equal(m.file->again, 0);
    /* More than a chunk has, and nothing at all. */
    struct uma_follow_arrival much = { .chunk = 31, .bytes = UINT32_MAX };
    assert_int_equal(uma_follow_attribute(&m.window, m.file, &much, 1, &m.budget, 2), 2 * MIB);
    assert_int_equal(uma_follow_attribute(&m.window, m.file, NULL, 0, &m.budget, 3), 0);
    end(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_order),
        cmocka_unit_test(test_somebody_else_evicts),
        cmocka_unit_test(test_ahead_is_not_read),
        cmocka_unit_test(test_beside_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
