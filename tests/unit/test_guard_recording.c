/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"
#include "guard/checksum.h"
#include "guard/recording.h"
#include "guard/recording_code.h"
#include "guard/recording_table.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

#define GIB (UINT64_C(1) << 30)
#define SECOND INT64_C(1000000000)

/* The disk is quick here: what a slow one does is in the test of the trail, which writes by the same means. */
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
    (void)fd;
    return 0;
}

static uint32_t seed;
static uint32_t chance(void) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}
/* About +-`most`, in pages. */
static uint64_t wander(uint64_t value, uint32_t most) {
    return value + ((uint64_t)(chance() % (2 * most)) - most) * 4096;
}

/* A machine of 128 GB that runs: what a recording has to take in all day. */
static struct uma_guard_reading machine(void) {
    struct uma_guard_reading r = {
        .time = 3600 * SECOND, .boot = 3600 * SECOND + 17, .total = 119 * GIB, .free = 20 * GIB, .available = 45 * GIB
    };
    r.known = UMA_GUARD_KNOWS_MEMINFO | UMA_GUARD_KNOWS_PRESSURE;
    r.anon = 50 * GIB;
    r.cache = 25 * GIB;
    r.swap_total = r.swap_free = 16 * GIB;
    for (size_t i = 0; i < UMA_GUARD_ORDERS; i++)
        r.blocks[i] = 50000 >> i;
    return r;
}
static void step(struct uma_guard_reading *r, int64_t ns, bool near) {
    r->time += ns + chance() % 100000;
    r->boot = r->time + 17 + chance() % 64;
    r->free = wander(r->free, 8000);
    r->available = wander(r->available, 8000);
    r->anon = wander(r->anon, 4000);
    r->cache = wander(r->cache, 2000);
    r->dirty = wander(1 << 20, 100);
    r->psi_some += chance() % 8 ? 0 : chance() % 5000 * 1000;
    r->known = near ? 0x3f : UMA_GUARD_KNOWS_MEMINFO | UMA_GUARD_KNOWS_PRESSURE;
    if (near) {
        r->per_cpu = wander(1 << 28, 2000);
        r->pgscan_direct += chance() % 100;
        r->refault_file += chance() % 1000;
        for (size_t i = 0; i < UMA_GUARD_ORDERS; i++)
            r->blocks[i] += chance() % 50;
    }
}

/* What a reader is to see: groups that are not known are 0. */
static struct uma_guard_reading as_read(struct uma_guard_reading r) {
    if (!(r.known & UMA_GUARD_KNOWS_VMSTAT))
        r.allocstall = r.compact_stall = r.compact_fail = r.pgscan_direct = r.pgsteal_direct = r.pswpin = r.pswpout = r.refault_file = 0;
    if (!(r.known & UMA_GUARD_KNOWS_BLOCKS))
        memset(r.blocks, 0, sizeof(r.blocks));
    if (!(r.known & UMA_GUARD_KNOWS_LISTS))
        r.per_cpu = 0;
    return r;
}

enum { KEPT_MOST = 20000 };
struct seen {
    size_t n, tables, stop_at;
    struct uma_guard_reading list[KEPT_MOST];
    int64_t real[KEPT_MOST];
    size_t n_processes, n_envelopes;
    int64_t processes_time;
    struct uma_guard_process processes[UMA_GUARD_RECORDED_PROCESSES];
    struct uma_guard_envelope envelopes[UMA_GUARD_ENVELOPES];
};
static struct seen seen;

static int each(void *userdata, const struct uma_guard_view *view, int64_t real_time) {
    struct seen *s = userdata;
    if (s->n < KEPT_MOST) {
        s->list[s->n] = *view->now;
        s->real[s->n] = real_time;
    }
    s->n++;
    s->tables += view->processes_time != s->processes_time;
    s->n_processes = view->n_processes;
    s->processes_time = view->processes_time;
    s->n_envelopes = view->n_envelopes;
    if (view->n_processes)
        memcpy(s->processes, view->processes, view->n_processes * sizeof(s->processes[0]));
    if (view->n_envelopes)
        memcpy(s->envelopes, view->envelopes, view->n_envelopes * sizeof(s->envelopes[0]));
    return s->stop_at && s->n >= s->stop_at ? 77 : 0;
}

static const char *in(const struct folder *f, const char *name) {
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", f->path, name);
    return path;
}
static int replay(const struct folder *f, size_t *ret_bad) {
    size_t stop_at = seen.stop_at;
    memset(&seen, 0, sizeof(seen));
    seen.stop_at = stop_at;
    return uma_guard_recording_replay(in(f, "readings"), each, &seen, ret_bad);
}
static struct uma_guard_recording *open_in(const struct folder *f) {
    const char *note = "";
    struct uma_guard_recording *recording = uma_guard_recording_open(f->path, &note);
    assert_non_null(recording);
    assert_null(note);
    return recording;
}
/* A copy that was cut behind its last block is read as the whole: the rest would only take the test's time. */
static void shorten(const struct folder *f, off_t blocks) {
    assert_int_equal(truncate(in(f, "readings"), UMA_GUARD_BLOCK * blocks), 0);
}
/* The test is faster than the disk: let it catch up. */
static void breathe(struct uma_guard_recording *recording) {
    struct uma_guard_kept kept;
    for (int i = 0; i < 20000 && (uma_guard_recording_kept(recording, &kept), kept.waiting > 0); i++)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

/* All of a morning, near the floor and far from it, comes back as it was. */
static void written_and_read(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_recording *recording = open_in(&f);
    static struct uma_guard_reading given[5000];
    struct uma_guard_reading r = machine();
    seed = 1;
    for (size_t i = 0; i < 5000; i++) {
        step(&r, i % 1000 < 500 ? SECOND : SECOND / 100, i % 1000 >= 500);
        r.gap = i == 700;
        given[i] = as_read(r);
        uma_guard_recording_add(recording, &(struct uma_guard_view){ .now = &r }, false);
        if (i % 100 == 99)
            breathe(recording);
    }
    struct uma_guard_kept kept;
    uma_guard_recording_kept(recording, &kept);
    assert_true(kept.open && kept.lost == 0 && kept.failed == 0);
    uma_guard_recording_close(recording);
    size_t bad = 9;
    assert_int_equal(replay(&f, &bad), 0);
    assert_int_equal(bad, 0);
    assert_int_equal(seen.n, 5000);
    given[0].gap = 1; /* what was before it is not known */
    for (size_t i = 0; i < 5000; i++)
        assert_memory_equal(&seen.list[i], &given[i], sizeof(given[i]));
    for (size_t i = 1; i < 5000;
         i++) /* of one block they are as far apart as on the clock; two blocks begin at the same moment of this test */
        assert_true(seen.real[i] > 0);
    for (size_t i = 1; i < 100; i++) /* within a block the real times are as far apart as those of the clock that goes on in a suspend */
        assert_int_equal(seen.real[i] - seen.real[i - 1], given[i].boot - given[i - 1].boot);
    struct stat st;
    assert_int_equal(stat(in(&f, "readings"), &st), 0);
    assert_int_equal(st.st_size, UMA_GUARD_RECORDING_BYTES);
    assert_int_equal(st.st_mode & 07777, 0640);
    shorten(&f, 60);
    seen.stop_at = 10;
    assert_int_equal(replay(&f, &bad), 77);
    assert_int_equal(seen.n, 10);
    seen.stop_at = 0;
}

/* The promise of the size: bytes a reading, from the bytes that a day of them takes. */
static void three_days(void **state) {
    (void)state;
    static uint8_t buffer[UMA_GUARD_BLOCK];
    struct uma_guard_reading r = machine();
    seed = 2;
    uint64_t bytes[2] = { 0 };
    for (int near = 0; near < 2; near++) {
        struct uma_guard_reading base = { 0 };
        for (int i = 0; i < 86400; i++) {
            step(&r, SECOND, near == 1);
            struct uma_guard_into into = { .at = buffer, .end = buffer + sizeof(buffer) };
            uma_guard_put_reading(&into, &base, &r);
            assert_false(into.full);
            bytes[near] += 1 + (uint64_t)(into.at - buffer);
        }
    }
    print_message("# bytes a reading: %.1f far from the floor, %.1f near it\n", (double)bytes[0] / 86400, (double)bytes[1] / 86400);
    /* far: three days and a half of the file would be 160; near, at two a second, which is the most for long */
    assert_true(bytes[0] * 3 < UMA_GUARD_RECORDING_BYTES / 4);
    assert_true(bytes[1] * 3 * 2 < UMA_GUARD_RECORDING_BYTES * 3 / 4);
}

/* A machine that is near its floor for days does not wash the days before it away. */
static void bursts_are_bounded(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_recording *recording = open_in(&f);
    struct uma_guard_reading r = machine();
    for (int i = 0; i < 200000; i++) { /* 2,000 s */
        r.time += SECOND / 100;
        r.boot = r.time;
        r.gap = i == 150000;
        uma_guard_recording_add(recording, &(struct uma_guard_view){ .now = &r }, false);
        if (i % 2000 == 1999)
            breathe(recording);
    }
    struct uma_guard_kept kept;
    uma_guard_recording_kept(recording, &kept);
    assert_int_equal(kept.lost, 0);
    uma_guard_recording_close(recording);
    size_t bad = 9;
    assert_int_equal(replay(&f, &bad), 0);
    assert_int_equal(bad, 0);
    assert_in_range(seen.n, 60000 + 2 * 2000 - 10, 60000 + 2 * 2000 + 10);
}

static struct uma_guard_process process(int32_t pid, int32_t tree, uint64_t size) {
    struct uma_guard_process p = {
        .pid = pid, .parent = 1, .tree = tree, .envelope = -1, .uid = 1000, .start = 5000 + (uint64_t)pid, .anon = size
    };
    p.grown = -(int64_t)size / 8;
    p.grown_ns = SECOND;
    p.gpu = size * 2;
    p.gpu_known = true;
    (void)snprintf(p.name, sizeof(p.name), "worker-%d", pid % 1000000);
    return p;
}

/* A new table is kept once. Where many come, those of decisions are what there is room for. */
static void tables_and_envelopes(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_recording *recording = open_in(&f);
    struct uma_guard_reading r = machine();
    struct uma_guard_process list[3] = { process(100, 0, GIB), process(101, 0, 2 * GIB), process(200, 2, 3 * GIB) };
    memcpy(list[2].name, "\x1b[31m\xff\xff evil name", UMA_GUARD_NAME_MAX - 1);
    list[2].envelope = 1;
    list[2].flags = UMA_GUARD_DECLARED | UMA_GUARD_WARNS;
    struct uma_guard_envelope envelopes[2] = { { .id = UINT64_MAX, .pid = 50, .need = 4 * GIB, .taken = GIB },
                                               { .id = 8, .pid = 60, .need = GIB } };
    struct uma_guard_view view = {
        .now = &r, .processes = list, .n_processes = 3, .processes_time = r.time, .envelopes = envelopes, .n_envelopes = 2
    };
    uma_guard_recording_add(recording, &view, false);
    step(&r, SECOND / 10, true);
    uma_guard_recording_add(recording, &view, true);
    for (int i = 0; i < 20; i++) {
        step(&r, SECOND / 100, true);
        uma_guard_recording_add(recording, &view, true); /* the same table: it is there already */
    }
    for (int i = 0; i < 100; i++) { /* ten seconds of new tables without a decision: 30 of them, less the first */
        view.processes_time = r.time;
        step(&r, SECOND / 10, true);
        uma_guard_recording_add(recording, &view, false);
        breathe(recording);
    }
    for (int i = 0; i < 100; i++) { /* and the rest to the decisions after them */
        view.processes_time = r.time;
        step(&r, SECOND / 100, true);
        uma_guard_recording_add(recording, &view, true);
        breathe(recording);
    }
    uma_guard_recording_close(recording);
    shorten(&f, 20);
    size_t bad = 9;
    assert_int_equal(replay(&f, &bad), 0);
    assert_int_equal(bad, 0);
    assert_int_equal(seen.n, 222);
    assert_in_range(seen.tables, 59, 61);
    assert_int_equal(seen.n_processes, 3);
    assert_int_equal(seen.n_envelopes, 2);
    assert_memory_equal(seen.envelopes, envelopes, sizeof(envelopes));
    size_t found = 0;
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++) {
            if (seen.processes[i].pid != list[j].pid)
                continue;
            struct uma_guard_process want = list[j];
            want.tree = seen.processes[i].tree;
            assert_int_equal(seen.processes[want.tree].pid, list[list[j].tree].pid);
            assert_memory_equal(&seen.processes[i], &want, sizeof(want));
            found++;
        }
    assert_int_equal(found, 3);
}

/* Of a fork storm the largest are kept, and the trees weigh what they weighed. */
static void large_tables(void **state) {
    (void)state;
    static struct uma_guard_process list[UMA_GUARD_PROCESS_MAX];
    static struct uma_guard_small_table table;
    uint64_t heaviest = 0;
    for (int32_t i = 0; i < UMA_GUARD_PROCESS_MAX; i++) {
        list[i] = process(1000 + i, i % 100, (uint64_t)(i % 100 + 1) << 20); /* a hundred trees of forty */
        if (i % 100 == 99)
            heaviest += (uint64_t)100 << 20;
    }
    list[4095].flags = UMA_GUARD_NO_BRAKE; /* of tree 95 */
    size_t n = uma_guard_table_shrink(list, UMA_GUARD_PROCESS_MAX, &table);
    assert_int_equal(n, UMA_GUARD_RECORDED_PROCESSES);
    uint64_t anon = 0;
    int64_t grown = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(table.list[i].tree <= (int32_t)i);
        assert_true(table.list[i].tree < UMA_GUARD_RECORDED_TREES);
        if (table.list[table.list[i].tree].pid == 1099) {
            anon += table.list[i].anon;
            grown += table.list[i].grown;
        }
        if (table.list[i].pid == 1095)
            assert_true(table.list[i].flags & UMA_GUARD_NO_BRAKE);
    }
    assert_int_equal(anon, heaviest);
    assert_int_equal(grown, -(int64_t)heaviest / 8);

    /* and it fits a block, with whatever is in it */
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_recording *recording = open_in(&f);
    struct uma_guard_reading r = machine();
    for (int32_t i = 0; i < UMA_GUARD_PROCESS_MAX; i++) {
        list[i] = (struct uma_guard_process){ .pid = -i, .parent = INT32_MIN, .tree = i % 3 ? i : INT32_MAX, .envelope = INT32_MAX };
        list[i].start = list[i].anon = list[i].shmem = list[i].swap = list[i].gpu = UINT64_MAX - (uint64_t)i;
        list[i].uid = list[i].flags = UINT32_MAX;
        list[i].grown = INT64_MIN;
        list[i].gpu_grown = INT64_MAX;
        list[i].grown_ns = list[i].gpu_grown_ns = INT64_MAX;
        memset(list[i].name, 0xff, UMA_GUARD_NAME_MAX);
    }
    struct uma_guard_envelope envelopes[40];
    memset(envelopes, 0xff, sizeof(envelopes));
    struct uma_guard_view view = { .now = &r, .processes = list, .n_processes = 9000, .envelopes = envelopes, .n_envelopes = 40 };
    for (int i = 0; i < 20; i++) {
        step(&r, SECOND, true);
        view.processes_time = r.time;
        uma_guard_recording_add(recording, &view, true);
        breathe(recording);
    }
    memset(&r, 0xff, sizeof(r));
    uma_guard_recording_add(recording, &view, true);
    memset(&r, 0x80, sizeof(r));
    uma_guard_recording_add(recording, &view, true);
    uma_guard_recording_close(recording);
    size_t bad = 9;
    assert_int_equal(replay(&f, &bad), 0);
    assert_int_equal(bad, 0);
    assert_int_equal(seen.n, 22);
    assert_true(seen.n_processes > 30);
    assert_int_equal(seen.n_envelopes, UMA_GUARD_ENVELOPES);
}

/* Blocks of the ring, cut at each of their 512 bytes or filled with chance: the others all come back, in order, with a gap in between. */
static void cut_by_a_power_loss(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_recording *recording = open_in(&f);
    struct uma_guard_reading r = machine();
    static struct uma_guard_reading given[1000];
    seed = 3;
    for (size_t i = 0; i < 1000; i++) {
        step(&r, SECOND, i % 2);
        given[i] = as_read(r);
        uma_guard_recording_add(recording, &(struct uma_guard_view){ .now = &r }, i % 100 == 50);
        if (i % 20 == 19)
            breathe(recording);
    }
    uma_guard_recording_close(recording);
    shorten(&f, 12);
    size_t bad = 9;
    assert_int_equal(replay(&f, &bad), 0);
    assert_int_equal(seen.n, 1000);
    int fd = open(in(&f, "readings"), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (int round = 0; round < 40; round++) {
        uint8_t before[UMA_GUARD_BLOCK], cut[UMA_GUARD_BLOCK];
        off_t at = UMA_GUARD_BLOCK * 3; /* number 3, in the third place behind the head */
        size_t from = (size_t)(round % 16) * 512;
        assert_int_equal(pread(fd, before, sizeof(before), at), sizeof(before));
        memcpy(cut, before, sizeof(cut));
        for (size_t i = from; i < sizeof(cut); i++)
            cut[i] = round < 16 ? 0 : round < 32 ? (uint8_t)chance() : (uint8_t)(cut[i] ^ 0x10);
        assert_int_equal(pwrite(fd, cut, sizeof(cut), at), sizeof(cut));
        assert_int_equal(replay(&f, &bad), 0);
        assert_true(seen.n < 1000 && seen.n > 700);
        size_t gaps = 0, j = 0;
        for (size_t i = 0; i < seen.n; i++) { /* all that is told is of what was given, in order */
            while (j < 1000 && given[j].time != seen.list[i].time)
                j++;
            assert_true(j < 1000);
            struct uma_guard_reading want = given[j];
            want.gap = seen.list[i].gap;
            gaps += want.gap;
            assert_memory_equal(&seen.list[i], &want, sizeof(want));
        }
        assert_true(gaps >= 1 && gaps <= 2);
        assert_true(bad <= 1);
        assert_int_equal(pwrite(fd, before, sizeof(before), at), sizeof(before));
    }
    assert_int_equal(close(fd), 0);
    assert_int_equal(replay(&f, &bad), 0);
    assert_int_equal(seen.n, 1000);
    assert_int_equal(bad, 0);
}

/* Numbers go on after a restart; a copy that was cut anywhere is read up to there. */
static void restarts_and_cut_copies(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_reading r = machine();
    for (int life = 0; life < 5; life++) {
        struct uma_guard_recording *recording = open_in(&f);
        const char *note = NULL;
        struct uma_guard_recording *second = uma_guard_recording_open(f.path, &note);
        assert_non_null(strstr(note, "another guard"));
        uma_guard_recording_add(second, &(struct uma_guard_view){ .now = &r }, true);
        struct uma_guard_kept kept;
        uma_guard_recording_kept(second, &kept);
        assert_true(!kept.open && kept.lost == 1);
        uma_guard_recording_close(second);
        for (int i = 0; i < 10; i++) {
            step(&r, SECOND, false);
            uma_guard_recording_add(recording, &(struct uma_guard_view){ .now = &r }, false);
        }
        uma_guard_recording_close(recording);
    }
    size_t bad = 9;
    assert_int_equal(replay(&f, &bad), 0);
    assert_int_equal(bad, 0);
    assert_int_equal(seen.n, 50);
    for (size_t i = 1; i < 50; i++)
        assert_true(seen.list[i].time > seen.list[i - 1].time);
    for (off_t length = UMA_GUARD_BLOCK * 7; length >= 0; length -= length % 512 == 511 ? 511 : 1) {
        assert_int_equal(truncate(in(&f, "readings"), length), 0);
        int result = replay(&f, &bad);
        if (length < (off_t)sizeof(UMA_GUARD_RECORDING_HEAD)) {
            assert_int_equal(result, -EBADMSG);
            break;
        }
        assert_int_equal(result, 0);
        off_t whole = length / UMA_GUARD_BLOCK - 1; /* without that of the head */
        assert_int_equal(seen.n, whole < 0 ? 0 : whole > 5 ? 50 : (size_t)whole * 10);
    }
    assert_int_equal(uma_guard_recording_replay(in(&f, "none"), each, &seen, &bad), -ENOENT);
    assert_int_equal(uma_guard_recording_replay(f.path, each, &seen, &bad), -EBADMSG);
    uma_guard_recording_close(NULL);
}

static void goes_on_with(const struct folder *f, int fd, uint64_t sequence) {
    struct uma_guard_reading r = machine();
    struct uma_guard_recording *recording = open_in(f);
    uma_guard_recording_add(recording, &(struct uma_guard_view){ .now = &r }, false);
    uma_guard_recording_close(recording);
    const uint64_t blocks = UMA_GUARD_RECORDING_BYTES / UMA_GUARD_BLOCK - 1;
    struct uma_guard_block_head head;
    assert_int_equal(pread(fd, &head, sizeof(head), (off_t)(UMA_GUARD_BLOCK * (1 + (sequence - 1) % blocks))), sizeof(head));
    assert_int_equal(head.sequence, sequence);
}

/* The ring goes around: the newest 8,191 blocks are there. Blocks are made by hand, the file would take its time. */
static void goes_around(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    uma_guard_recording_close(open_in(&f));
    int fd = open(in(&f, "readings"), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    const uint64_t blocks = UMA_GUARD_RECORDING_BYTES / UMA_GUARD_BLOCK - 1, last = 2 * blocks + 5;
    for (uint64_t sequence = last - blocks + 1; sequence <= last; sequence++) {
        uint8_t block[64] = { 0 };
        struct uma_guard_block_head head = { .magic = UMA_GUARD_BLOCK_MAGIC, .sequence = sequence };
        struct uma_guard_reading base = { 0 }, r = { .time = (int64_t)sequence, .boot = (int64_t)sequence };
        memcpy(block, &head, sizeof(head));
        struct uma_guard_into into = { .at = block + sizeof(head), .end = block + sizeof(block) };
        uma_guard_put_byte(&into, UMA_GUARD_ENTRY_READING);
        uma_guard_put_reading(&into, &base, &r);
        uma_guard_put_byte(&into, UMA_GUARD_ENTRY_SEAL);
        uint32_t sum = uma_guard_checksum(0, block, (size_t)(into.at - block));
        assert_false(into.full);
        memcpy(into.at, &sum, sizeof(sum));
        assert_int_equal(pwrite(fd, block, sizeof(block), (off_t)(UMA_GUARD_BLOCK * (1 + (sequence - 1) % blocks))), sizeof(block));
    }
    /* the last two are damaged but for the very last, and so is the one where the search begins; a head that lies about a number far ahead has no seal */
    const uint8_t nothing[64] = { 0 };
    struct uma_guard_block_head liar = { .magic = UMA_GUARD_BLOCK_MAGIC, .sequence = blocks * 1000000 + 18 };
    assert_int_equal(pwrite(fd, nothing, sizeof(nothing), (off_t)(UMA_GUARD_BLOCK * (1 + (last - 2) % blocks))), sizeof(nothing));
    assert_int_equal(pwrite(fd, nothing, sizeof(nothing), (off_t)(UMA_GUARD_BLOCK * (1 + blocks / 2))), sizeof(nothing));
    assert_int_equal(pwrite(fd, &liar, sizeof(liar), UMA_GUARD_BLOCK * 18), sizeof(liar));
    /* with the first block gone all are looked at */
    for (int round = 0; round < 2; round++) {
        if (round == 1)
            assert_int_equal(pwrite(fd, nothing, sizeof(nothing), UMA_GUARD_BLOCK), sizeof(nothing));
        goes_on_with(&f, fd, last + 1 + (uint64_t)round);
    }
    assert_int_equal(close(fd), 0);
    size_t bad = 0;
    assert_int_equal(replay(&f, &bad), 0);
    assert_int_equal(seen.n, blocks - 4);
    assert_int_equal(bad, 1);
}

/* Numbers at their ends, and bytes that are none. */
static void numbers(void **state) {
    (void)state;
    const uint64_t list[] = { 0, 1, 127, 128, 16383, 16384, UINT32_MAX, INT64_MAX, UINT64_MAX };
    for (size_t i = 0; i < ELEMENTS(list); i++) {
        uint8_t bytes[10];
        struct uma_guard_into into = { .at = bytes, .end = bytes + sizeof(bytes) };
        uma_guard_put_number(&into, list[i]);
        assert_false(into.full);
        struct uma_guard_from from = { .at = bytes, .end = into.at };
        assert_int_equal(uma_guard_get_number(&from), list[i]);
        assert_true(!from.bad && from.at == from.end);
        from = (struct uma_guard_from){ .at = bytes, .end = into.at - 1 };
        assert_int_equal(uma_guard_get_number(&from), 0);
        assert_true(from.bad);
    }
    uint8_t endless[16];
    memset(endless, 0xff, sizeof(endless));
    struct uma_guard_from from = { .at = endless, .end = endless + sizeof(endless) };
    assert_int_equal(uma_guard_get_number(&from), 0);
    assert_true(from.bad);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(three_days),
        cmocka_unit_test(bursts_are_bounded),
        cmocka_unit_test(tables_and_envelopes),
        cmocka_unit_test(large_tables),
        cmocka_unit_test(cut_by_a_power_loss),
        cmocka_unit_test(restarts_and_cut_copies),
        cmocka_unit_test(goes_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
