/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "heat_machine.h"

#define CPU "sys/devices/system/cpu/cpu%d/"

static void spark_without_average(void **state) {
    struct heat_machine *m = *state;
    spark_cpus(&m->folder);
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->cpufreq.validity, UMA_KNOWN);
    assert_string_equal(heat->cpufreq_driver, "cppc_cpufreq");
    assert_string_equal(heat->cpufreq_governor, "performance");
    assert_int_equal(heat->n_cpus, 20);
    for (int i = 0; i < 20; i++) {
        bool big = i % 10 >= 5;
        assert_string_equal(heat->cpus[i].core, big ? "Cortex-X925" : "Cortex-A725");
        assert_int_equal(heat->cpus[i].midr.value, big ? 0x410fd850 : 0x410fd871);
        assert_int_equal(heat->cpus[i].max_hertz.value, big ? 3900000000 : 2860000000);
        assert_int_equal(heat->cpus[i].min_hertz.value, big ? 1378000000 : 338000000);
        assert_int_equal(heat->cpus[i].hertz.validity, UMA_ABSENT); /* 7332 MHz stands there, and is not believed */
    }
}

static void spark_average(void **state) {
    struct heat_machine *m = *state;
    spark_cpus(&m->folder);
    for (int i = 0; i < 20; i++)
        folder_text(&m->folder, "2808000\n", CPU "cpufreq/cpuinfo_avg_freq", i);
    folder_text(&m->folder, "", CPU "cpufreq/cpuinfo_avg_freq", 3); /* EAGAIN: the core is idle */
    folder_text(&m->folder, "0\n", CPU "cpufreq/cpuinfo_avg_freq", 4);
    folder_text(&m->folder, "7332000\n", CPU "cpufreq/cpuinfo_avg_freq", 5); /* less than twice 3900: not provably wrong */
    folder_text(&m->folder, "7332000\n", CPU "cpufreq/cpuinfo_avg_freq", 0);
    folder_text(&m->folder, "18446744073709551615\n", CPU "cpufreq/cpuinfo_avg_freq", 1);
    folder_text(&m->folder, "-2808000\n", CPU "cpufreq/cpuinfo_avg_freq", 2);
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->cpus[3].hertz.validity, UMA_FAILED);
    assert_int_equal(heat->cpus[3].hertz.value, 0);
    assert_int_equal(heat->cpus[4].hertz.validity, UMA_FAILED);
    assert_int_equal(heat->cpus[5].hertz.validity, UMA_KNOWN);
    assert_int_equal(heat->cpus[0].hertz.validity, UMA_MALFORMED);
    assert_int_equal(heat->cpus[1].hertz.validity, UMA_MALFORMED);
    assert_int_equal(heat->cpus[2].hertz.validity, UMA_MALFORMED);
    assert_int_equal(heat->cpus[19].hertz.value, 2808000000);
    folder_text(&m->folder, "1100000\n", CPU "cpufreq/cpuinfo_avg_freq", 3); /* it woke up */
    assert_int_equal(heat_read(m)->cpus[3].hertz.value, 1100000000);
}

/* The current clock is used with a driver that is known to be right, and only there. */
static void trust(void **state) {
    struct heat_machine *m = *state;
    static const struct {
        const char *driver, *midr, *product;
        bool trusted;
    } cases[] = {
        { "acpi-cpufreq\n", NULL, NULL, true },
        { "amd-pstate-epp\n", NULL, "To be filled by O.E.M.\n", true },
        { "tegra194\n", "0x00000000410fd421\n", NULL, true },
        { "cppc_cpufreq\n", NULL, NULL, false },
        { "cppc_cpufreq_epp\n", "0x00000000410fd4f0\n", NULL, false },
        { NULL, NULL, NULL, false },
        { "other\n", "0x00000000410fd850\n", NULL, false },
        { "other\n", "0x00000000410fd870\n", NULL, false },
        { "other\n", NULL, "NVIDIA_DGX_Spark\n", false },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        folder_drop(&m->folder, "sys");
        folder_text(&m->folder, "0\n", "sys/devices/system/cpu/online");
        folder_number(&m->folder, 3700000, CPU "cpufreq/cpuinfo_max_freq", 0);
        folder_number(&m->folder, 3100000, CPU "cpufreq/scaling_cur_freq", 0);
        if (cases[i].driver)
            folder_text(&m->folder, cases[i].driver, CPU "cpufreq/scaling_driver", 0);
        if (cases[i].midr)
            folder_text(&m->folder, cases[i].midr, CPU "regs/identification/midr_el1", 0);
        if (cases[i].product)
            folder_text(&m->folder, cases[i].product, "sys/class/dmi/id/product_name");
        void *other = NULL;
        assert_int_equal(heat_setup(&other), 0); /* a reader that has not discovered yet */
        struct heat_machine *fresh = other;
        (void)uma_heat_reader_free(fresh->reader);
        fresh->reader = uma_heat_reader_new(m->root);
        const struct uma_heat *heat = heat_read(fresh);
        assert_int_equal(heat->n_cpus, 1);
        assert_int_equal(heat->cpus[0].hertz.validity, cases[i].trusted ? UMA_KNOWN : UMA_ABSENT);
        assert_int_equal(heat->cpus[0].min_hertz.validity, UMA_ABSENT);
        assert_int_equal(heat_teardown(&other), 0);
    }
}

static void hotplug(void **state) {
    struct heat_machine *m = *state;
    spark_cpus(&m->folder);
    assert_int_equal(heat_read(m)->n_cpus, 20);
    folder_text(&m->folder, "0-9\n", "sys/devices/system/cpu/online");
    assert_int_equal(heat_read(m)->n_cpus, 10);
    folder_drop(&m->folder, "sys/devices/system/cpu/online"); /* a folder made by hand may lack the list */
    assert_int_equal(heat_read(m)->n_cpus, 20);
    assert_int_equal(heat_read(m)->cpus[19].id, 19);
}

static void only_cores(void **state) {
    struct heat_machine *m = *state;
    folder_text(&m->folder, "0-1\n", "sys/devices/system/cpu/online");
    folder_text(&m->folder, "0x00000000410fd4f0\n", CPU "regs/identification/midr_el1", 0);
    folder_text(&m->folder, "nonsense\n", CPU "regs/identification/midr_el1", 1);
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->cpufreq.validity, UMA_ABSENT); /* no clock, but the cores are known */
    assert_int_equal(heat->n_cpus, 2);
    assert_string_equal(heat->cpus[0].core, "Neoverse-V2");
    assert_int_equal(heat->cpus[0].hertz.validity, UMA_ABSENT);
    assert_null(heat->cpus[1].core);
    assert_int_equal(heat->cpus[1].midr.validity, UMA_MALFORMED);
    assert_null(heat->cpufreq_driver);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spark_without_average, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(spark_average, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(trust, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(hotplug, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(only_cores, heat_setup, heat_teardown),
    };
    return cmocka_run_group_tests_name("cpufreq", tests, NULL, NULL);
}
