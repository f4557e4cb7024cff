/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "heat_machine.h"

static void check(const struct uma_heat *heat, const char *chip, const char *label, enum uma_sensor_kind kind, double value) {
    const struct uma_sensor *s = heat_sensor(heat, chip, label);
    if (!s)
        fail_msg("no sensor %s %s", chip, label);
    assert_int_equal(s->kind, kind);
    assert_int_equal(s->value.validity, UMA_KNOWN);
    assert_true(s->value.value == value);
}

static void spark(void **state) {
    struct heat_machine *m = *state;
    folder_text(&m->folder, "acpitz\n", HWMON "name", 0);
    for (int i = 1; i <= 7; i++)
        folder_number(&m->folder, 40000 + i * 100, HWMON "temp%d_input", 0, i);
    spark_nvme(&m->folder, 1);
    for (int i = 2; i <= 5; i++)
        spark_mlx5(&m->folder, i);
    folder_text(&m->folder, "mt7925_phy0\n", HWMON "name", 6);
    folder_number(&m->folder, 44000, HWMON "temp1_input", 6);
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->hwmon.validity, UMA_KNOWN);
    assert_int_equal(heat->n_sensors, 7 + 2 + 4 + 1);
    check(heat, "acpitz", "temp7", UMA_SENSOR_TEMPERATURE, 40.7);
    check(heat, "nvme", "Composite", UMA_SENSOR_TEMPERATURE, 38.85);
    check(heat, "mt7925_phy0", "temp1", UMA_SENSOR_TEMPERATURE, 44);
    check(heat, "mlx5", "asic", UMA_SENSOR_TEMPERATURE, 51);
    const struct uma_sensor *composite = heat_sensor(heat, "nvme", "Composite"), *sensor1 = heat_sensor(heat, "nvme", "Sensor 1");
    assert_true(composite->max.value == 82.85 && composite->critical.value == 84.85);
    assert_true(sensor1->value.value == 47.85);
    assert_int_equal(sensor1->max.validity, UMA_MALFORMED); /* 65261.85 C is no temperature */
    assert_true(sensor1->max.value == 0);
    assert_int_equal(sensor1->critical.validity, UMA_ABSENT);
    int mlx5[4], n = 0;
    for (size_t i = 0; i < heat->n_sensors; i++)
        if (strcmp(heat->sensors[i].chip, "mlx5") == 0)
            mlx5[n++] = heat->sensors[i].hwmon;
    assert_int_equal(n, 4); /* four of one name, told apart by the number */
    assert_true(mlx5[0] == 2 && mlx5[3] == 5);
}

/* The community's spark_hwmon: 14 power channels, energy counters, temperatures; the limits of pl1.. as cap and max. */
static void spbm(const struct folder *f, int hwmon, int n_power) {
    static const char *const power[] = { "sys_total", "soc_pkg", "cpu_gpu", "cpu_p", "cpu_e", "vcore",  "dc_input",
                                         "gpu",       "prereg",  "dla",     "pl1",   "pl2",   "syspl1", "syspl2" };
    folder_text(f, "spbm\n", HWMON "name", hwmon);
    for (int i = 0; i < n_power; i++) {
        folder_text(f, power[i], HWMON "power%d_label", hwmon, i + 1);
        folder_number(f, 25000000 - i * 1000000, HWMON "power%d_input", hwmon, i + 1);
    }
    if (n_power == 14) {
        folder_number(f, 30000000, HWMON "power13_cap", hwmon);
        folder_number(f, 300000000, HWMON "power13_max", hwmon);
        folder_number(f, 250000000, HWMON "power11_max", hwmon);
    }
    folder_text(f, "pkg\n", HWMON "energy1_label", hwmon);
    folder_number(f, 4294967295000, HWMON "energy1_input", hwmon);
    folder_text(f, "tj_max\n", HWMON "temp1_label", hwmon);
    folder_number(f, 61500, HWMON "temp1_input", hwmon);
}

static void spbm_present(void **state) {
    struct heat_machine *m = *state;
    spbm(&m->folder, 7, 14);
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->n_sensors, 16);
    check(heat, "spbm", "sys_total", UMA_SENSOR_POWER, 25);
    check(heat, "spbm", "gpu", UMA_SENSOR_POWER, 18);
    check(heat, "spbm", "syspl2", UMA_SENSOR_POWER, 12);
    check(heat, "spbm", "pkg", UMA_SENSOR_ENERGY, 4294967.295); /* the counter at its end: still a number */
    check(heat, "spbm", "tj_max", UMA_SENSOR_TEMPERATURE, 61.5);
    assert_true(heat_sensor(heat, "spbm", "syspl1")->max.value == 30); /* the cap in force, not the most it could be */
    assert_true(heat_sensor(heat, "spbm", "pl1")->max.value == 250);
    folder_number(&m->folder, 240000000, HWMON "power13_cap", 7);
    assert_true(heat_sensor(heat_read(m), "spbm", "syspl1")->max.value == 240);
    folder_number(&m->folder, 0, HWMON "power13_cap", 7); /* 0: none set */
    assert_true(heat_sensor(heat_read(m), "spbm", "syspl1")->max.value == 300);
}

static void spbm_poor_firmware(void **state) {
    struct heat_machine *m = *state;
    spbm(&m->folder, 7, 3);
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->n_sensors, 5);
    assert_non_null(heat_sensor(heat, "spbm", "sys_total"));
    assert_null(heat_sensor(heat, "spbm", "dc_input"));
}

static void acpi_fan(void **state) {
    struct heat_machine *m = *state;
    folder_text(&m->folder, "acpi_fan\n", HWMON "name", 0); /* ASUS GX10: states 0..3 */
    folder_number(&m->folder, 2, HWMON "fan1_input", 0);
    folder_number(&m->folder, 2, HWMON "fan1_target", 0);
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->n_sensors, 1);
    assert_int_equal(heat->sensors[0].kind, UMA_SENSOR_FAN);
    assert_int_equal(heat->sensors[0].value.validity, UMA_UNSUPPORTED);
    assert_true(heat->sensors[0].value.value == 0);
    assert_string_equal(heat->sensors[0].label, "fan1 (ACPI state)");
    folder_number(&m->folder, 1800, HWMON "fan1_input", 0); /* firmware that does as the specification says */
    heat = heat_read(m);
    check(heat, "acpi_fan", "fan1", UMA_SENSOR_FAN, 1800);
    folder_number(&m->folder, 0, HWMON "fan1_input", 0); /* and which now stands still */
    check(heat_read(m), "acpi_fan", "fan1", UMA_SENSOR_FAN, 0);
}

static void other_kinds(void **state) {
    struct heat_machine *m = *state;
    folder_text(&m->folder, "amdgpu\n", HWMON "name", 4);
    folder_text(&m->folder, "edge\n", HWMON "temp1_label", 4);
    folder_number(&m->folder, 43000, HWMON "temp1_input", 4);
    folder_text(&m->folder, "PPT\n", HWMON "power1_label", 4);
    folder_number(&m->folder, 20016000, HWMON "power1_average", 4);
    folder_number(&m->folder, 120000000, HWMON "power1_cap", 4);
    folder_text(&m->folder, "vddgfx\n", HWMON "in0_label", 4);
    folder_number(&m->folder, 787, HWMON "in0_input", 4);
    folder_number(&m->folder, 2900000000, HWMON "freq1_input", 4);
    folder_text(&m->folder, "ina3221\n", HWMON "name", 5);
    folder_text(&m->folder, "VDD_IN\n", HWMON "in1_label", 5);
    folder_number(&m->folder, 19144, HWMON "in1_input", 5);
    folder_number(&m->folder, 512, HWMON "curr1_input", 5);
    folder_number(&m->folder, 2304, HWMON "curr1_crit", 5);
    folder_text(&m->folder, "nct6798\n", HWMON "name", 6);
    folder_number(&m->folder, 1042, HWMON "fan2_input", 6);
    folder_number(&m->folder, 65535, HWMON "fan3_input", 6);
    folder_number(&m->folder, -128000, HWMON "temp3_input", 6);
    folder_number(&m->folder, 4294967295, HWMON "power1_input", 6);
    folder_text(&m->folder, "", HWMON "temp4_input", 6);
    const struct uma_heat *heat = heat_read(m);
    check(heat, "amdgpu", "PPT", UMA_SENSOR_POWER, 20.016);
    assert_true(heat_sensor(heat, "amdgpu", "PPT")->max.value == 120);
    check(heat, "amdgpu", "vddgfx", UMA_SENSOR_VOLTAGE, 0.787);
    assert_null(heat_sensor(heat, "amdgpu", "freq1"));
    check(heat, "ina3221", "VDD_IN", UMA_SENSOR_VOLTAGE, 19.144);
    check(heat, "ina3221", "curr1", UMA_SENSOR_CURRENT, 0.512);
    assert_true(heat_sensor(heat, "ina3221", "curr1")->critical.value == 2.304);
    check(heat, "nct6798", "fan2", UMA_SENSOR_FAN, 1042);
    assert_int_equal(heat_sensor(heat, "nct6798", "fan3")->value.validity, UMA_MALFORMED);
    assert_int_equal(heat_sensor(heat, "nct6798", "temp3")->value.validity, UMA_MALFORMED);
    assert_int_equal(heat_sensor(heat, "nct6798", "power1")->value.validity, UMA_MALFORMED);
    assert_int_equal(heat_sensor(heat, "nct6798", "temp4")->value.validity, UMA_FAILED);
}

static void old_kernel(void **state) {
    struct heat_machine *m = *state;
    folder_text(&m->folder, "k10temp\n", HWMON "device/name", 0);
    folder_number(&m->folder, 41250, HWMON "device/temp1_input", 0);
    folder_number(&m->folder, 70000, HWMON "device/temp1_max", 0);
    const struct uma_heat *heat = heat_read(m);
    check(heat, "k10temp", "temp1", UMA_SENSOR_TEMPERATURE, 41.25);
    assert_true(heat->sensors[0].max.value == 70);
}

static void hostile(void **state) {
    struct heat_machine *m = *state;
    char huge[100000];
    (void)memset(huge, 'y', sizeof(huge));
    folder_put_n(&m->folder, "sys/class/hwmon/hwmon0/name", huge, sizeof(huge));
    folder_number(&m->folder, 40000, HWMON "temp1_input", 0);
    folder_put_n(&m->folder, "sys/class/hwmon/hwmon0/temp1_label", "caf\xc3\xa9\xff\n\x1b[2J", 11);
    folder_number(&m->folder, 40000, HWMON "temp2_input", 0);
    (void)memset(huge, 'z', 63);
    (void)memcpy(huge + 63, "\xc3\xa9 and more\n", 12); /* the cut at 64 bytes falls into a character */
    folder_put_n(&m->folder, "sys/class/hwmon/hwmon0/temp2_label", huge, 75);
    folder_put(&m->folder, "sys/class/hwmon/hwmon0/temp3_label", "\n\n");
    folder_number(&m->folder, 40000, HWMON "temp3_input", 0);
    folder_put(&m->folder, "sys/class/hwmon/hwmon0/temp01_input", "1\n");
    folder_put(&m->folder, "sys/class/hwmon/hwmon0/temp_input", "1\n");
    folder_put(&m->folder, "sys/class/hwmon/hwmon0/temp1_input_more", "1\n");
    folder_put(&m->folder, "sys/class/hwmon/hwmon0/temp99999999999_input", "1\n");
    folder_put(&m->folder, "sys/class/hwmon/hwmon0/temp5_input/x", "a folder\n");
    folder_put(&m->folder, "sys/class/hwmon/hwmon1/temp1_input", "40000\n"); /* no name: no chip */
    for (int again = 0; again < 2; again++) {
        const struct uma_heat *heat = heat_read(m);
        assert_int_equal(heat->n_sensors, 4);
        assert_int_equal(strlen(heat->sensors[0].chip), 64);
        assert_string_equal(heat->sensors[0].label, "caf\xc3\xa9\\xff");
        assert_int_equal(strlen(heat->sensors[1].label), 63);
        assert_string_equal(heat->sensors[2].label, "temp3");
        assert_int_equal(heat->sensors[3].value.validity, UMA_FAILED);
    }
}

static void too_many(void **state) {
    struct heat_machine *m = *state;
    folder_text(&m->folder, "flood\n", HWMON "name", 0);
    for (int i = 1; i <= UMA_SENSORS_MAX + 200; i++)
        folder_number(&m->folder, 40000, HWMON "temp%d_input", 0, i);
    assert_int_equal(heat_read(m)->n_sensors, UMA_SENSORS_MAX);
}

static void renumbering(void **state) {
    struct heat_machine *m = *state;
    spark_nvme(&m->folder, 1);
    spark_mlx5(&m->folder, 2);
    check(heat_read(m), "nvme", "Composite", UMA_SENSOR_TEMPERATURE, 38.85);
    folder_drop(&m->folder, "sys/class/hwmon"); /* the driver was reloaded: same chips, other numbers, same file names */
    spark_mlx5(&m->folder, 1);
    spark_nvme(&m->folder, 2);
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->n_sensors, 3);
    check(heat, "mlx5", "asic", UMA_SENSOR_TEMPERATURE, 51);
    check(heat, "nvme", "Composite", UMA_SENSOR_TEMPERATURE, 38.85);
    assert_int_equal(heat_sensor(heat, "nvme", "Composite")->hwmon, 2);
}

static void vanishing(void **state) {
    struct heat_machine *m = *state;
    spark_nvme(&m->folder, 1);
    assert_int_equal(heat_read(m)->n_sensors, 2);
    folder_drop(&m->folder, "sys/class/hwmon/hwmon1/temp2_input");
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->n_sensors, 1);
    check(heat, "nvme", "Composite", UMA_SENSOR_TEMPERATURE, 38.85);
    folder_drop(&m->folder, "sys/class/hwmon/hwmon1");
    heat = heat_read(m);
    assert_int_equal(heat->n_sensors, 0);
    assert_int_equal(heat->hwmon.validity, UMA_ABSENT);
    assert_non_null(heat->hwmon.detail);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spark, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(spbm_present, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(spbm_poor_firmware, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(acpi_fan, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(other_kinds, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(old_kernel, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(hostile, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(too_many, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(renumbering, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(vanishing, heat_setup, heat_teardown),
    };
    return cmocka_run_group_tests_name("hwmon", tests, NULL, NULL);
}
