/* SPDX-License-Identifier: MIT */
#include "guard/message.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "test.h"

static struct uma_guard_message good(void) {
    struct uma_guard_message m = {
        .magic = UMA_GUARD_MESSAGE_MAGIC,
        .time = 1,
        .order = -1,
        .action = { .kind = UMA_GUARD_KILL, .reason = UMA_GUARD_DID_NOT_END, .pid = 77, .start = 5, .bytes = 1 << 30, .order = -1 },
        .whom = { .pid = 77, .start = 5, .score = 3.5, .gpu_known = true, .name = "python" },
        .evidence = { .rate = -1e9, .time_to_floor = INFINITY, .psi_some = NAN, .psi_full = 0, .allocstall = 12 },
    };
    return m;
}

static void accepted(void **state) {
    (void)state;
    struct uma_guard_message m = good();
    assert_true(uma_guard_message_fine(&m, sizeof(m)));
    m.action = (struct uma_guard_action){ .order = 9 };
    m.whom = (struct uma_guard_candidate){ 0 };
    m.result = -ESRCH;
    m.dry_run = 1;
    m.evidence.rate = NAN; /* not known */
    assert_true(uma_guard_message_fine(&m, sizeof(m)));
    memset(m.whom.name, 'x', sizeof(m.whom.name) - 1); /* the longest name */
    assert_true(uma_guard_message_fine(&m, sizeof(m)));
    unsigned char unaligned[sizeof(m) + 1];
    memcpy(unaligned + 1, &m, sizeof(m));
    assert_true(uma_guard_message_fine(unaligned + 1, sizeof(m)));
}

static void wrong_length(void **state) {
    (void)state;
    struct uma_guard_message m = good();
    assert_false(uma_guard_message_fine(&m, 0));
    assert_false(uma_guard_message_fine(&m, sizeof(m) - 1));
    assert_false(uma_guard_message_fine(&m, sizeof(m) + 1));
}

#define REFUSED(change)                                                                                                                    \
    do {                                                                                                                                   \
        struct uma_guard_message m = good();                                                                                               \
        change;                                                                                                                            \
        assert_false(uma_guard_message_fine(&m, sizeof(m)));                                                                               \
    } while (0)

static void wrong_fields(void **state) {
    (void)state;
    REFUSED(m.magic++);
    REFUSED(m.time = -1);
    REFUSED(m.dry_run = 2);
    REFUSED(m.reserved_ = 1);
    REFUSED(m.result = 1);
    REFUSED(m.result = -4096);
    REFUSED(m.order = -2);
    REFUSED(m.order = UMA_GUARD_ORDERS);
    REFUSED(m.action.kind = (enum uma_guard_action_kind)(UMA_GUARD_LAST_RESORT + 1));
    REFUSED(m.action.kind = (enum uma_guard_action_kind) - 1);
    REFUSED(m.action.reason = (enum uma_guard_reason)(UMA_GUARD_NOT_RELEASED + 1));
    REFUSED(m.action.pid = -1);
    REFUSED(m.action.order = 99);
    REFUSED(m.whom.pid = -77); /* kill(2) of a negative number is a whole group's end */
    REFUSED(m.whom.score = NAN);
    REFUSED(m.whom.score = INFINITY);
    REFUSED(memset(m.whom.name, 'x', sizeof(m.whom.name))); /* no end */
    REFUSED(m.evidence.rate = -INFINITY);
    REFUSED(m.evidence.time_to_floor = -1);
    REFUSED(m.evidence.psi_full = -0.5);
    REFUSED(m.evidence.allocstall = INFINITY);
    REFUSED(memset((char *)&m + offsetof(struct uma_guard_message, whom.gpu_known), 2, 1)); /* a bool that is none */
}

static void noise(void **state) {
    (void)state;
    unsigned char bytes[sizeof(struct uma_guard_message)];
    srand(6);
    for (int i = 0; i < 10000; i++) {
        for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] = (unsigned char)rand();
        assert_false(uma_guard_message_fine(bytes, sizeof(bytes)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),
        cmocka_unit_test(wrong_length),
        cmocka_unit_test(wrong_fields),
        cmocka_unit_test(noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
