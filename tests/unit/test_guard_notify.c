/* SPDX-License-Identifier: MIT */
#include "guard/helper/notify.h"
#include "guard/helper/notify_text.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "test.h"

static struct uma_guard_message killed(const char *name) {
    struct uma_guard_message m = {
        .time = INT64_C(1796070063) * 1000000000,
        .order = -1,
        .action = { .kind = UMA_GUARD_KILL, .reason = UMA_GUARD_DID_NOT_END, .pid = 77, .bytes = 3ull << 30, .order = -1 },
        .whom = { .pid = 77, .gpu = 2ull << 30, .gpu_known = true, .anon = 1ull << 30, .growth = -5 },
        .evidence = { .headroom = 1ull << 30,
                      .floor = 4ull << 30,
                      .rate = -1.5e9,
                      .time_to_floor = INFINITY,
                      .psi_some = NAN,
                      .psi_full = 0.25 },
    };
    memcpy(m.whom.name, name, strnlen(name, sizeof(m.whom.name) - 1));
    return m;
}

/* Text inside of a program's output must not be markup, a line's end or a terminal's command. */
static const char hostile[] = "\x1b[1m<b>\"\n\xff&$`";

static void worth_telling(void **state) {
    (void)state;
    for (int kind = UMA_GUARD_NOTHING; kind <= UMA_GUARD_LAST_RESORT; kind++) {
        struct uma_guard_message m = killed("x");
        m.action.kind = (enum uma_guard_action_kind)kind;
        assert_int_equal(uma_helper_notify_worth(&m), kind != UMA_GUARD_NOTHING && kind != UMA_GUARD_ROOM);
        m.dry_run = 1;
        assert_false(uma_helper_notify_worth(&m));
    }
}

static void variables(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_guard_message m = killed(hostile);
    uma_helper_notify_variables(&m, 9, &text);
    assert_false(text.failed);
    unsigned n = 0;
    bool name = false, left_out = false;
    for (size_t at = 0; at < text.length; at += strlen(text.data + at) + 1, n++) {
        const char *word = text.data + at;
        assert_int_equal(strncmp(word, "UMA_GUARD_", 10), 0);
        assert_null(strpbrk(word, "\n\x1b\xff"));
        name = name || strcmp(word, "UMA_GUARD_NAME=\\x1b[1m<b>\"\\n\\xff&$`") == 0;
        left_out = left_out || strcmp(word, "UMA_GUARD_LEFT_OUT=9") == 0;
    }
    assert_true(name && left_out);
    assert_true(n <= UMA_HELPER_VARIABLES);
    assert_int_equal(text.data[text.length - 1], '\0');
}

static void document(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_guard_message m = killed(hostile);
    json_error_t why;
    uma_helper_notify_json(&m, "host\"x", 9, &text);
    assert_false(text.failed);
    assert_int_equal(text.data[text.length - 1], '\n');
    json_t *d = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &why);
    assert_non_null(d);
    assert_string_equal(json_string_value(json_object_get(d, "host")), "host\"x");
    assert_string_equal(json_string_value(json_object_get(d, "action")), "kill");
    assert_int_equal(json_integer_value(json_object_get(d, "left_out")), 9);
    json_t *process = json_object_get(d, "process"), *evidence = json_object_get(d, "evidence");
    assert_string_equal(json_string_value(json_object_get(process, "name")), "\\x1b[1m<b>\"\\n\\xff&$`");
    assert_int_equal(json_integer_value(json_object_get(process, "gpu_bytes")), 2ll << 30);
    assert_int_equal(json_integer_value(json_object_get(process, "growth")), -5);
    assert_true(json_is_null(json_object_get(evidence, "time_to_floor")));
    assert_true(json_is_null(json_object_get(evidence, "psi_some")));
    assert_true(json_real_value(json_object_get(evidence, "psi_full")) == 0.25);
    json_decref(d);
    uma_text_reset(&text);
    m.whom.gpu_known = false;
    uma_helper_notify_json(&m, "", 0, &text);
    assert_non_null(strstr(text.data, "\"gpu_bytes\":null"));
}

static void words(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text title = { 0 };
    _cleanup_text_ struct uma_text body = { 0 };
    _cleanup_text_ struct uma_text markup = { 0 };
    struct uma_guard_message m = killed("python");
    uma_helper_notify_title(&m, &title);
    assert_string_equal(title.data, "killed python (pid 77), which has 3.0 GiB");
    uma_helper_notify_body(&m, 2, &body);
    assert_string_equal(body.data, "Why: did not end. Available: 1.0 GiB, the floor is 4.0 GiB. 2 actions before were not told.");
    uma_helper_markup("<a href=\"x\">&", &markup);
    assert_string_equal(markup.data, "&lt;a href=\"x\"&gt;&amp;");
    m.result = -1;
    m.action.bytes = 0;
    m.whom.name[0] = '\0';
    uma_text_reset(&title);
    uma_helper_notify_title(&m, &title);
    assert_string_equal(title.data, "failed: killed ? (pid 77)");
}

/* Eight at once, one every ten seconds; half of the eight are for what ends something. */
static void rate(void **state) {
    (void)state;
    struct uma_helper_notify n;
    struct uma_guard_notify policy = { .desktop = true };
    int64_t now = 1000;
    uma_helper_notify_begin(&n, &policy, now);
    for (int i = 0; i < 4; i++)
        assert_true(uma_helper_notify_allow(&n, UMA_GUARD_BRAKE, now));
    assert_false(uma_helper_notify_allow(&n, UMA_GUARD_RELEASE, now));
    for (int i = 0; i < 4; i++)
        assert_true(uma_helper_notify_allow(&n, UMA_GUARD_KILL, now));
    assert_false(uma_helper_notify_allow(&n, UMA_GUARD_UNKILLABLE, now));
    assert_false(uma_helper_notify_allow(&n, UMA_GUARD_KILL, now + UMA_HELPER_RATE_NS - 1));
    assert_true(uma_helper_notify_allow(&n, UMA_GUARD_KILL, now + UMA_HELPER_RATE_NS));
    assert_false(uma_helper_notify_allow(&n, UMA_GUARD_KILL, now)); /* a clock that goes back gives nothing */
    now += 1000 * UMA_HELPER_RATE_NS;
    int told = 0;
    while (uma_helper_notify_allow(&n, UMA_GUARD_TERM, now))
        told++;
    assert_int_equal(told, UMA_HELPER_BURST);
}

/* A full queue loses the newest, and counts; nobody to tell costs nothing. */
static void queue(void **state) {
    (void)state;
    struct uma_helper_notify n;
    struct uma_guard_notify nobody = { 0 }, policy = { .command = "/bin/true" };
    struct uma_guard_message m = killed("x");
    uma_helper_notify_begin(&n, &nobody, 0);
    uma_helper_notify_add(&n, &m, 0);
    assert_int_equal(n.n, 0);
    assert_int_equal(n.left_out, 0);
    assert_true(uma_helper_notify_turn(&n, 0) == INT64_MAX);
    uma_helper_notify_change(&n, &policy);
    for (int i = 0; i < 100; i++)
        uma_helper_notify_add(&n, &m, i * UMA_HELPER_RATE_NS);
    assert_int_equal(n.n, UMA_HELPER_QUEUE);
    assert_int_equal(n.left_out, 100 - UMA_HELPER_QUEUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worth_telling), cmocka_unit_test(variables), cmocka_unit_test(document),
        cmocka_unit_test(words),         cmocka_unit_test(rate),      cmocka_unit_test(queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
