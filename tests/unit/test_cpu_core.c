/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "observe/cpu_core.h"

#include <errno.h>
#include <string.h>

static void midr(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value; /* -1: refused */
        const char *core;
    } cases[] = {
        { "0x00000000410fd850\n", 0x410fd850, "Cortex-X925" },
        { "0x00000000410fd871\n", 0x410fd871, "Cortex-A725" },
        { "0x00000000410FD4F0", 0x410fd4f0, "Neoverse-V2" },
        { "0x410fd421", 0x410fd421, "Cortex-A78AE" },
        { "0x410fd830", 0x410fd830, "Neoverse-V3AE" },
        { "0x411fd420", 0x411fd420, "Cortex-A78AE" }, /* variant and revision do not count */
        { "0x000000004e0f0040", 0x4e0f0040, NULL },
        { "0x00000000610fd850", 0x610fd850, NULL }, /* another implementer's 0xd85 is another core */
        { "0x00000000410fffff", 0x410fffff, NULL },
        { "", -1, NULL },
        { "0x", -1, NULL },
        { "410fd850", -1, NULL },
        { "0x41g", -1, NULL },
        { "0x1410fd8500", -1, NULL },
        { "0x00000000000000410fd850", -1, NULL },
        { " 0x41", -1, NULL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        uint64_t value = 77;
        int r = uma_midr_parse(cases[i].text, strlen(cases[i].text), &value);
        assert_int_equal(r, cases[i].value < 0 ? -EINVAL : 0);
        assert_int_equal(value, cases[i].value < 0 ? 77 : cases[i].value);
        const char *core = r < 0 ? NULL : uma_midr_core_name(value);
        assert_true(core ? cases[i].core && strcmp(core, cases[i].core) == 0 : !cases[i].core);
    }
}

static void lists(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int n;
    } cases[] = {
        { "0\n", 1 },       { "0-19\n", 20 },  { "0-3,5,7-9\r\n", 8 },       { "65535", 1 },       { "", -EINVAL },      { "\n", -EINVAL },
        { "0-", -EINVAL },  { "-3", -EINVAL }, { "3-1", -EINVAL },           { "0,0", -EINVAL },   { "0-3,2", -EINVAL }, { "0,", -EINVAL },
        { "0 1", -EINVAL }, { "a", -EINVAL },  { "0-99999999999", -EINVAL }, { "65536", -EINVAL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        assert_int_equal(uma_cpu_list_parse(cases[i].text, strlen(cases[i].text), 0, NULL), cases[i].n);
    int32_t ids[4] = { -1, -1, -1, -1 };
    assert_int_equal(uma_cpu_list_parse("2,4-9", 5, 3, ids), 7); /* all are counted, three are stored */
    assert_true(ids[0] == 2 && ids[1] == 4 && ids[2] == 5 && ids[3] == -1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(midr), cmocka_unit_test(lists) };
    return cmocka_run_group_tests_name("cpu_core", tests, NULL, NULL);
}
