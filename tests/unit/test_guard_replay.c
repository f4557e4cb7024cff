/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "cmd/guard.h"
#include "guard/recording.h"

#include <time.h>

#define GIB (UINT64_C(1) << 30)
#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

/* What a disk does is in the test of the trail. */
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
    (void)fd;
    return 0;
}

/* A machine of 120 GiB: 40 of them are available, then one program takes 9 GiB a second until 2 are left, ends, and all is as before. */
struct machine {
    struct uma_guard_recording *recording;
    struct uma_guard_reading now;
    struct uma_guard_process process;
    int64_t table_time;
    bool tables;
};

static int64_t clock_ns(clockid_t id) {
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * SECOND + ts.tv_nsec;
}

static void look(struct machine *m, int64_t after, bool near) {
    m->now.time += after;
    m->now.boot = m->now.time;
    if (near && m->now.time - m->table_time >= 50 * MS) {
        m->process.grown_ns = m->now.time - m->table_time;
        m->process.grown = (int64_t)(9 * GIB) * m->process.grown_ns / SECOND;
        m->process.anon += (uint64_t)m->process.grown;
        m->table_time = m->now.time;
    }
    struct uma_guard_view view = { .now = &m->now };
    if (m->tables && near) {
        view.processes = &m->process;
        view.n_processes = 1;
        view.processes_time = m->table_time;
    }
    /* as a guard does it: tables all along, and decisions near the floor */
    uma_guard_recording_add(m->recording, &view, m->tables && near && m->table_time == m->now.time && m->now.available < 10 * GIB);
    /* two minutes are recorded within a moment: the writer is waited for here, as a guard never does */
    struct uma_guard_kept kept;
    do {
        (void)nanosleep(&(struct timespec){ .tv_nsec = near ? 50000 : 0 }, NULL);
        uma_guard_recording_kept(m->recording, &kept);
    } while (kept.waiting > 1);
}

static void record(const struct folder *f, bool tables) {
    const char *note;
    struct machine m = { .tables = tables };
    /* in the past, so that what follows has happened */
    m.now = (struct uma_guard_reading){ .time = clock_ns(CLOCK_MONOTONIC) - 300 * SECOND,
                                        .known = UMA_GUARD_KNOWS_MEMINFO,
                                        .total = 120 * GIB,
                                        .free = 40 * GIB,
                                        .available = 40 * GIB,
                                        .anon = 60 * GIB };
    m.process = (struct uma_guard_process){ .pid = 4242, .envelope = -1, .start = 77, .anon = 30 * GIB, .name = "hog" };
    m.recording = uma_guard_recording_open(f->path, &note);
    assert_non_null(m.recording);
    for (int i = 0; i < 60; i++)
        look(&m, SECOND, false);
    while (m.now.available > 2 * GIB) {
        uint64_t taken = 9 * GIB / 100;
        m.now.available -= taken;
        m.now.free -= taken;
        m.now.anon += taken;
        look(&m, 10 * MS, true);
    }
    m.now.available = m.now.free = 40 * GIB;
    m.now.anon = 60 * GIB;
    m.process.flags |= UMA_GUARD_EXITING;
    for (int i = 0; i < 60; i++)
        look(&m, SECOND, false);
    uma_guard_recording_close(m.recording);
}

static struct uma_guard_replay replay;

static void replay_with(const struct folder *f, int64_t since, uint64_t floor) {
    struct uma_guard_policy policy;
    struct uma_error err = { 0 };
    uma_guard_policy_default(&policy);
    policy.floor = floor;
    if (uma_guard_replay_run(f->path, since, &policy, &replay, &err) < 0)
        fail_msg("%s", err.text);
}

static void a_collapse(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    record(&f, true);
    replay_with(&f, 0, 0);
    assert_true(replay.readings > 500);
    assert_int_equal(replay.episodes, 1);
    assert_int_equal(replay.n, 1);
    const struct uma_guard_episode *e = &replay.list[0];
    assert_int_equal(e->action.kind, UMA_GUARD_BRAKE);
    assert_int_equal(e->action.pid, 4242);
    assert_string_equal(e->whom.name, "hog");
    assert_true(e->evidence.headroom > e->evidence.floor); /* before it is there */
    assert_true(e->lowest <= 2 * GIB && replay.lowest == e->lowest);
    assert_true(e->begin > replay.first && e->begin < e->end && e->end < replay.last);
    assert_true(replay.last - replay.first > 120 * SECOND);
    assert_true(replay.unknown < 10); /* not the two minutes in which nothing happened */
    assert_int_equal(replay.bad, 0);
    uint64_t headroom = e->evidence.headroom;

    /* a higher floor acts earlier */
    replay_with(&f, 0, 16 * GIB);
    assert_int_equal(replay.episodes, 1);
    assert_true(replay.list[0].evidence.headroom > headroom + 8 * GIB);

    /* of a later time */
    replay_with(&f, clock_ns(CLOCK_REALTIME) + 3600 * SECOND, 0);
    assert_int_equal(replay.readings, 0);
    assert_int_equal(replay.episodes, 0);
    assert_int_equal(replay.first, 0);
}

/* Without a table nobody can be accused, and that somebody was looked for is counted. */
static void nobody_recorded(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    record(&f, false);
    replay_with(&f, 0, 0);
    assert_int_equal(replay.episodes, 0);
    assert_true(replay.unknown > 10 && replay.unknown < 300);
}

static void no_recording(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_guard_policy policy;
    struct uma_error err = { 0 };
    assert_int_equal(folder_new(&f), 0);
    uma_guard_policy_default(&policy);
    assert_int_equal(uma_guard_replay_run(f.path, 0, &policy, &replay, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/readings: No such file"));
    folder_put(&f, UMA_GUARD_RING_NAME, "this is a letter\n");
    assert_int_equal(uma_guard_replay_run(f.path, 0, &policy, &replay, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "/readings: this is no recording of the guard's"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collapse),
        cmocka_unit_test(nobody_recorded),
        cmocka_unit_test(no_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
