/* SPDX-License-Identifier: MIT */
/* The rungs in their order. Whole courses of many machines are in tests/guard/vary.c. */
#include "guard_script.h"

static struct uma_guard_process *hog;

/* A server that stands still and one that grows, at `available`. */
static void two(uint64_t available) {
    script_process("server", 2 * GIB, 60 * GIB)->gpu_grown_ns = 250 * MS;
    hog = script_process("hog", GIB, 0);
    for (int i = 0; i < 3; i++)
        script_step(1000, available);
}

/* The hog takes `each` every 10 ms until somebody does something; false: nobody did before `least` was left. */
static bool take_until(enum uma_guard_action_kind kind, uint64_t each, uint64_t least) {
    while (script.now.available >= least + each) {
        hog->anon += each;
        script_step(10, script.now.available - each);
        if (script_action(kind))
            return true;
    }
    return false;
}

static void rest(int64_t ms, uint64_t available) {
    for (int64_t i = 0; i < ms; i += 10)
        script_step(10, available);
}

static void words(void **state) {
    (void)state;
    for (int i = 0; i <= UMA_GUARD_LAST_RESORT; i++)
        assert_string_not_equal(uma_guard_action_word((enum uma_guard_action_kind)i), "unknown");
    for (int i = 0; i <= UMA_GUARD_NOT_RELEASED; i++)
        assert_string_not_equal(uma_guard_reason_word((enum uma_guard_reason)i), "unknown");
    assert_string_equal(uma_guard_action_word((enum uma_guard_action_kind)99), "unknown");
    assert_string_equal(uma_guard_reason_word((enum uma_guard_reason) - 1), "unknown");
    assert_string_equal(uma_guard_action_word(UMA_GUARD_BRAKE), "brake");
}

static void far(void **state) {
    (void)state;
    two(60 * GIB);
    for (int i = 0; i < 100; i++) {
        script_step(1000, 60 * GIB + (uint64_t)(i % 5) * 100 * MIB);
        assert_int_equal(script.decision.n, 0);
        assert_true(script.decision.wake_ns >= 250 * MS);
    }
    assert_int_equal(script.decision.evidence.headroom / GIB, 60);
    assert_int_equal(script.decision.evidence.floor, script.policy.floor);
}

/* A table is asked for seldom far off, and at once in danger; what is asked for is acted on in the second call. */
static void table_of_processes(void **state) {
    (void)state;
    script_process("hog", GIB, 0);
    script.no_table = true;
    unsigned asked = 0;
    script_step(1000, 60 * GIB);
    assert_true(script.decision.want_processes);
    script.table_time = script.now.time;
    for (int i = 0; i < 60; i++) {
        script_step(1000, 60 * GIB);
        asked += script.decision.want_processes;
        if (script.decision.want_processes) {
            script.table_time = script.now.time;
            script_step(1, 60 * GIB);
        }
    }
    assert_true(asked >= 3 && asked <= 6);
    hog = &script.list[0];
    while (script.now.available > 5 * GIB) {
        hog->anon += 300 * MIB;
        script_step(10, script.now.available - 300 * MIB);
        if (script.decision.wake_ns == 0)
            break;
    }
    assert_true(script.decision.want_processes && script.decision.n == 0); /* it waits for the table, and only that long */
    script.table_time = script.now.time;
    script_step(2, script.now.available - 60 * MIB);
    assert_non_null(script_action(UMA_GUARD_BRAKE));
}

static void brake_and_release(void **state) {
    (void)state;
    two(30 * GIB);
    assert_true(take_until(UMA_GUARD_BRAKE, 100 * MIB, script.policy.floor));
    const struct uma_guard_action *a = script_action(UMA_GUARD_BRAKE);
    assert_int_equal(a->pid, hog->pid);
    assert_int_equal(a->start, hog->start);
    assert_int_equal(a->reason, UMA_GUARD_WILL_REACH_FLOOR);
    assert_int_equal(script.decision.n_candidates, 2);
    assert_string_equal(script.decision.candidates[0].name, "hog");
    assert_true(script.decision.candidates[0].growth > (int64_t)GIB);
    uint64_t left = script.now.available;
    assert_true(left > script.policy.floor);
    if (left < 3 * script.policy.floor / 2) { /* it stays, until there is room */
        rest(3000, left);
        assert_true(script.state.braked[0].stopped);
    }
    for (int i = 0; i < 50 && !script_action(UMA_GUARD_RELEASE); i++)
        script_step(10, 12 * GIB);
    assert_non_null(script_action(UMA_GUARD_RELEASE));
    assert_int_equal(script_action(UMA_GUARD_RELEASE)->reason, UMA_GUARD_HEADROOM_BACK);
    assert_false(script.state.braked[0].stopped);
}

/* Its time is over, and the machine lives: it goes on. */
static void brake_ends(void **state) {
    (void)state;
    two(12 * GIB);
    assert_true(take_until(UMA_GUARD_BRAKE, 20 * MIB, script.policy.floor));
    int64_t since = script.now.time;
    while (!script_action(UMA_GUARD_RELEASE) && script.now.time - since < 30000 * MS)
        script_step(10, script.now.available);
    assert_non_null(script_action(UMA_GUARD_RELEASE));
    assert_int_equal(script_action(UMA_GUARD_RELEASE)->reason, UMA_GUARD_BRAKED_TOO_LONG);
    assert_true(script.now.time - since >= 10000 * MS && script.now.time - since < 11000 * MS);
}

/* It grows again whenever it goes on: stopped three times, and then it is to end. TERM, KILL, and nobody else until its memory is back. */
static void to_the_end(void **state) {
    (void)state;
    unsigned stops = 0, terms = 0;
    two(12 * GIB);
    for (int i = 0; i < 60000 && terms == 0; i++) {
        bool stopped = script.state.n_braked > 0 && script.state.braked[0].stopped;
        if (!stopped)
            hog->anon += 4 * MIB;
        script_step(10, script.now.available - (stopped ? 0 : 4 * MIB));
        stops += script_action(UMA_GUARD_BRAKE) != NULL;
        if (script_action(UMA_GUARD_TERM)) {
            terms++;
            assert_int_equal(script_action(UMA_GUARD_TERM)->pid, hog->pid);
            assert_int_equal(script_action(UMA_GUARD_TERM)->reason, UMA_GUARD_BRAKED_TOO_OFTEN);
        }
        assert_null(script_action(UMA_GUARD_KILL));
    }
    assert_int_equal(terms, 1);
    assert_true(stops > script.policy.brake_times);
    assert_true(script.now.available < script.policy.floor && script.now.available > script.policy.hard_floor);
    int64_t since = script.now.time;
    while (!script_action(UMA_GUARD_KILL) && script.now.time - since < 20000 * MS)
        script_step(10, script.now.available);
    assert_non_null(script_action(UMA_GUARD_KILL));
    assert_int_equal(script_action(UMA_GUARD_KILL)->reason, UMA_GUARD_DID_NOT_END);
    assert_true(script.now.time - since >= 5000 * MS);
    uma_guard_victim_gone(&script.state); /* gone, and the driver keeps its memory for a minute */
    hog->flags = UMA_GUARD_EXITING;
    for (int i = 0; i < 6000; i++) {
        script_step(10, script.now.available);
        for (uint32_t k = 0; k < script.decision.n; k++)
            assert_int_equal(script.decision.actions[k].kind, UMA_GUARD_UNKILLABLE);
    }
    assert_int_equal(script.state.victim, hog->pid);
    script_step(10, 30 * GIB);
    assert_int_equal(script.state.victim, 0);
}

static void begin_victim(uint64_t left) { /* the hog ends as the victim, with so much left */
    two(12 * GIB);
    hog->flags |= UMA_GUARD_NO_BRAKE;
    assert_true(take_until(UMA_GUARD_TERM, 4 * MIB, left) || script_action(UMA_GUARD_KILL));
}

/* Who may not be stopped is told, and ended nearer to the hard floor. */
static void no_brake(void **state) {
    (void)state;
    begin_victim(GIB / 2);
    assert_int_equal(script_action(UMA_GUARD_TERM)->pid, hog->pid);
    assert_int_equal(script_action(UMA_GUARD_TERM)->reason, UMA_GUARD_NOBODY_TO_BRAKE);
    assert_int_equal(script.state.n_braked, 0);
    assert_true(script.now.available < script.policy.floor);
}

/* Another one stands stopped. Who grows now is neither stopped nor ended: that is no reason to end the one who stands, above the hard floor. */
static void protected_grower(void **state) {
    (void)state;
    two(12 * GIB);
    assert_true(take_until(UMA_GUARD_BRAKE, 20 * MIB, script.policy.floor));
    struct uma_guard_process *stands = hog;
    hog = script_process("sealed", GIB, 0);
    hog->flags |= UMA_GUARD_PROTECTED;
    rest(1000, script.now.available);
    assert_true(script.state.braked[0].stopped && script.state.braked[0].pid == stands->pid);
    assert_false(take_until(UMA_GUARD_TERM, 60 * MIB, script.policy.hard_floor + 100 * MIB) || script_action(UMA_GUARD_KILL));
    assert_int_equal(script.state.victim, 0);
}

/* With a long horizon whoever may not be stopped is due early: he is warned, and has his time, although he grows on. */
static void warned_in_time(void **state) {
    (void)state;
    script.policy.horizon = 600;
    two(40 * GIB);
    hog->flags |= UMA_GUARD_NO_BRAKE | UMA_GUARD_WARNS;
    assert_true(take_until(UMA_GUARD_WARN, 2 * MIB, 20 * GIB));
    assert_null(script_action(UMA_GUARD_TERM));
    int64_t since = script.now.time;
    assert_true(take_until(UMA_GUARD_TERM, 2 * MIB, 2 * GIB));
    assert_true(script.now.time - since >= (int64_t)(script.policy.warn_grace * 1000) * MS);
}

static void unkillable(void **state) {
    (void)state;
    script.policy.last_resort = true;
    begin_victim(GIB / 2);
    uint64_t left = script.policy.hard_floor - 50 * MIB;
    unsigned said = 0, last = 0, kills = 0;
    int64_t since = script.now.time;
    for (int i = 0; i < 6000; i++) {
        script_step(10, left);
        kills += script_action(UMA_GUARD_KILL) != NULL;
        said += script_action(UMA_GUARD_UNKILLABLE) != NULL;
        if (script_action(UMA_GUARD_LAST_RESORT)) {
            last++;
            assert_true(script.now.time - since >= 30000 * MS);
        }
    }
    assert_int_equal(kills, 1); /* the server stands still: it is not ended for it */
    assert_int_equal(said, 1);
    assert_int_equal(last, 1);
    assert_int_equal(script.state.n_given_up, 1);
}

static void warns(void **state) {
    (void)state;
    two(12 * GIB);
    hog->flags |= UMA_GUARD_WARNS;
    script.policy.brake_times = 1;
    for (int i = 0; i < 20000 && !script_action(UMA_GUARD_WARN); i++) {
        bool stopped = script.state.n_braked > 0 && script.state.braked[0].stopped;
        hog->anon += stopped ? 0 : 4 * MIB;
        script_step(10, script.now.available - (stopped ? 0 : 4 * MIB));
        assert_null(script_action(UMA_GUARD_TERM));
    }
    assert_non_null(script_action(UMA_GUARD_WARN));
    assert_non_null(script_action(UMA_GUARD_RELEASE)); /* a stopped one hears nothing */
    int64_t since = script.now.time;
    struct uma_guard_state warned = script.state;
    for (int i = 0; i < 1000 && !script_action(UMA_GUARD_TERM); i++)
        script_step(10, script.now.available);
    assert_non_null(script_action(UMA_GUARD_TERM)); /* it did nothing */
    assert_true(script.now.time - since >= 5000 * MS);
    script.state = warned; /* or nobody could warn it: its time is over */
    since = script.now.time;
    uma_guard_failed(&script.state, &(struct uma_guard_action){ .kind = UMA_GUARD_WARN, .pid = hog->pid, .start = hog->start });
    assert_int_equal(script.state.victim, hog->pid);
    for (int i = 0; i < 10 && !script_action(UMA_GUARD_TERM); i++)
        script_step(10, script.now.available);
    assert_non_null(script_action(UMA_GUARD_TERM));
    assert_true(script.now.time - since <= 100 * MS);
    script.state = warned; /* or it made room */
    for (int i = 0; i < 1000; i++) {
        script_step(10, 8 * GIB);
        assert_null(script_action(UMA_GUARD_TERM));
    }
    assert_int_equal(script.state.victim, 0);
}

static void declared(void **state) {
    (void)state;
    two(60 * GIB);
    hog->flags |= UMA_GUARD_DECLARED;
    hog->envelope = 0;
    script.envelope = (struct uma_guard_envelope){ .need = 50 * GIB, .taken = GIB };
    for (int i = 0; i < 490; i++) { /* 10 GB/s, to 11 GiB: as it said */
        hog->anon += 100 * MIB;
        script.envelope.taken += 100 * MIB;
        script_step(10, script.now.available - 100 * MIB);
        assert_int_equal(script.decision.n, 0);
    }
    assert_true(take_until(UMA_GUARD_BRAKE, 100 * MIB, script.policy.floor)); /* and now it takes more */
}

static void room(void **state) {
    (void)state;
    two(60 * GIB);
    script.policy.room = true;
    script.now.free = GIB;
    script_step(1000, 60 * GIB);
    const struct uma_guard_action *a = script_action(UMA_GUARD_ROOM);
    assert_non_null(a);
    assert_int_equal(a->reason, UMA_GUARD_CACHE_IN_THE_WAY);
    assert_int_equal(a->order, -1);
    assert_int_equal(a->bytes, script.policy.free_floor + script.policy.free_floor / 4 - GIB);
    for (int i = 0; i < 9; i++) { /* not again before ten seconds are over */
        script_step(1000, 60 * GIB);
        assert_int_equal(script.decision.n, 0);
    }
    script_step(1000, 60 * GIB);
    assert_non_null(script_action(UMA_GUARD_ROOM));
    rest(20000, script.now.free + 100 * MIB); /* no cache is left that could go: nothing is asked for */
    assert_null(script_action(UMA_GUARD_ROOM));
}

/* A reading that failed: nothing is decided, but a stop has its end. */
static void blind(void **state) {
    (void)state;
    two(12 * GIB);
    assert_true(take_until(UMA_GUARD_BRAKE, 20 * MIB, script.policy.floor));
    script.now.known = 0;
    bool released = false;
    for (int i = 0; i < 300; i++) {
        script_step(50, script.now.available);
        assert_true(script.decision.wake_ns <= 100 * MS && script.decision.wake_ns > 0);
        assert_null(script_action(UMA_GUARD_TERM));
        released |= script_action(UMA_GUARD_RELEASE) != NULL;
    }
    assert_true(released);
    script_begin(state);
    script.now.known = 0;
    script_step(10, 0); /* never anything known */
    assert_int_equal(script.decision.n, 0);
}

static void failures(void **state) {
    (void)state;
    two(30 * GIB);
    assert_true(take_until(UMA_GUARD_BRAKE, 100 * MIB, script.policy.floor));
    struct uma_guard_action action = *script_action(UMA_GUARD_BRAKE);
    uma_guard_failed(&script.state, &action);
    assert_int_equal(script.state.n_braked, 0);
    script_begin(state);
    begin_victim(GIB / 2);
    action = *script_action(UMA_GUARD_TERM);
    uma_guard_failed(&script.state, &action);
    assert_int_equal(script.state.victim, 0);
    assert_int_equal(script.state.n_given_up, 1);
    struct uma_guard_state none = { 0 };
    uma_guard_victim_gone(&none);
    assert_false(none.victim_gone);
    action.kind = UMA_GUARD_ROOM;
    uma_guard_failed(&none, &action);
    for (int i = 0; i < 20; i++) { /* the list of those that it failed with is bounded */
        none.victim = action.pid = i + 2;
        none.victim_start = action.start;
        action.kind = UMA_GUARD_KILL;
        uma_guard_failed(&none, &action);
    }
    assert_int_equal(none.n_given_up, UMA_GUARD_GIVEN_UP);
    assert_int_equal(none.given_up[UMA_GUARD_GIVEN_UP - 1].pid, 21);
}

/* What a file that is none may hold; its reader has looked at what must be 0 or 1. */
static void garbage(int byte) {
    memset(&script.state, byte, sizeof(script.state));
    script.state.victim_gone = script.state.unkillable = script.state.brake_measured = true;
    script.state.said = false;
    for (uint32_t i = 0; i < UMA_GUARD_BRAKED; i++)
        script.state.braked[i].stopped = true;
}

static void nonsense(void **state) {
    (void)state;
    garbage(0x7f);
    two(60 * GIB);
    for (int i = 0; i < 100; i++)
        script_step(10, 2 * GIB);
    garbage(0xff);
    for (int i = 0; i < 100; i++)
        script_step(10, 2 * GIB - (uint64_t)i * 20 * MIB);
    assert_true(script.decision.n <= UMA_GUARD_ACTIONS);
}

#define T(name) cmocka_unit_test_setup(name, script_begin)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(words),
        T(far),
        T(table_of_processes),
        T(brake_and_release),
        T(brake_ends),
        T(to_the_end),
        T(no_brake),
        T(protected_grower),
        T(warned_in_time),
        T(unkillable),
        T(warns),
        T(declared),
        T(room),
        T(blind),
        T(failures),
        T(nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
