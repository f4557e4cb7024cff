/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "job/gate.h"

#include <string.h>

static struct uma_u64 known(uint64_t v) {
    return (struct uma_u64){ v, UMA_KNOWN };
}

static struct uma_account account_with(struct uma_u64 budget, size_t n, struct uma_holder *holders) {
    struct uma_account account = { .n_holders = n, .holders = holders };
    account.headroom.budget = budget;
    account.headroom.total = known(120 * UMA_GIB);
    return account;
}

static struct uma_holder holder(int32_t pid, const char *name, uint64_t gpu_gib, uint64_t anon_gib) {
    return (struct uma_holder){
        .pid = pid, .name = name, .kind = "vllm", .gpu_bytes = known(gpu_gib * UMA_GIB), .anon_bytes = known(anon_gib * UMA_GIB)
    };
}

static void verdicts(void **state) {
    (void)state;
    struct uma_gate gate;
    struct uma_account account = account_with(known(10), 0, NULL);
    uma_gate_decide(&account, (struct uma_u64){ 0 }, &gate);
    assert_int_equal(gate.verdict, UMA_GATE_NO_NEED);
    uma_gate_decide(&account, known(10), &gate);
    assert_int_equal(gate.verdict, UMA_GATE_FITS);
    uma_gate_decide(&account, known(11), &gate);
    assert_int_equal(gate.verdict, UMA_GATE_REFUSED);
    assert_int_equal(gate.missing, 1);
    uma_gate_decide(&account, known(UINT64_MAX), &gate);
    assert_int_equal(gate.missing, UINT64_MAX - 10);
    /* what the whole pool less the reserve could give is waited for, one byte more is not */
    assert_true(gate.never);
    account.headroom.reserve = known(4 * UMA_GIB);
    uma_gate_decide(&account, known(116 * UMA_GIB), &gate);
    assert_int_equal(gate.verdict, UMA_GATE_REFUSED);
    assert_false(gate.never);
    uma_gate_decide(&account, known(116 * UMA_GIB + 1), &gate);
    assert_true(gate.never);
    account.headroom.reserve.validity = UMA_UNKNOWN;
    uma_gate_decide(&account, known(116 * UMA_GIB + 1), &gate);
    assert_false(gate.never);
    account.headroom.total.validity = UMA_UNKNOWN;
    uma_gate_decide(&account, known(500 * UMA_GIB), &gate);
    assert_false(gate.never);
    account.headroom.budget = (struct uma_u64){ 5, UMA_FAILED };
    uma_gate_decide(&account, known(1), &gate);
    assert_int_equal(gate.verdict, UMA_GATE_UNKNOWN);
    account.headroom.budget = (struct uma_u64){ 5, UMA_STALE };
    uma_gate_decide(&account, known(1), &gate);
    assert_int_equal(gate.verdict, UMA_GATE_FITS);
}

static void explain(uint64_t need_gib, uint64_t budget_gib, size_t n, struct uma_holder *holders, struct uma_text *text) {
    struct uma_gate gate;
    struct uma_account account = account_with(known(budget_gib * UMA_GIB), n, holders);
    uma_gate_decide(&account, known(need_gib * UMA_GIB), &gate);
    uma_gate_explain(&gate, &account, text);
    assert_false(text->failed);
}

static void texts(void **state) {
    (void)state;
    struct uma_text text = { 0 };
    struct uma_holder holders[] = { holder(1, "big", 60, 2), holder(2, "mid\n\x1b[31m", 20, 1), holder(3, "small", 5, 0) };
    /* the smallest that suffices alone */
    explain(30, 12, 3, holders, &text);
    assert_non_null(strstr(text.data, "the job needs 30.0 GiB, a new job can have 12.0 GiB: 18.0 GiB short"));
    assert_non_null(strstr(text.data, "would have to go: pid 2 "));
    assert_null(strchr(text.data, '\x1b'));
    assert_non_null(strstr(text.data, "gpu 60.0 GiB, anon 2.0 GiB"));
    uma_text_reset(&text);
    /* several */
    explain(90, 12, 3, holders, &text);
    assert_non_null(strstr(text.data, "would have to go: pid 1 big, pid 2 "));
    assert_null(strstr(text.data, "would have to go: pid 1 big, pid 2 mid\\n\\x1b[31m, pid 3"));
    uma_text_reset(&text);
    /* all are not enough; nobody is there */
    explain(110, 12, 3, holders, &text);
    assert_non_null(strstr(text.data, "ending all of them would not be enough"));
    uma_text_reset(&text);
    explain(121, 12, 3, holders, &text);
    assert_non_null(strstr(text.data, "it can never fit: the whole pool is 120 GiB"));
    uma_text_reset(&text);
    explain(20, 12, 0, NULL, &text);
    assert_null(strstr(text.data, "held by"));
    uma_text_done(&text);
}

static void huge_pages(void **state) {
    (void)state;
    struct uma_text text = { 0 };
    struct uma_gate gate;
    struct uma_account account = account_with(known(80 * UMA_GIB), 0, NULL);
    account.headroom.hugetlb_rule = true;
    account.views.free_available = known(15 * UMA_GIB);
    uma_gate_decide(&account, known(90 * UMA_GIB), &gate);
    uma_gate_explain(&gate, &account, &text);
    assert_non_null(strstr(text.data, "can have 80.0 GiB in huge pages (ordinary allocations have 15.0 GiB available): 10.0 GiB short"));
    uma_text_done(&text);
}

static void many(void **state) {
    (void)state;
    struct uma_text text = { 0 };
    struct uma_holder holders[50];
    for (int i = 0; i < 50; i++)
        holders[i] = holder(100 + i, NULL, 1, 0);
    explain(60, 12, 50, holders, &text);
    assert_non_null(strstr(text.data, "and 42 more with 42.0 GiB"));
    assert_non_null(strstr(text.data, "and 40 more\n"));
    uma_text_done(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(verdicts), cmocka_unit_test(texts), cmocka_unit_test(huge_pages),
                                        cmocka_unit_test(many) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
