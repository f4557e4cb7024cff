/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "heat_machine.h"

static const int idle[] = { 39800, 39900, 40100, 40400, 41000, 41700, 41800 };
static const int loaded[] = { 63600, 48700, 49800, 49600, 63600, 50700, 52800 };

static void spark(void **state) {
    struct heat_machine *m = *state;
    spark_zones(&m->folder, idle);
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->thermal.validity, UMA_KNOWN);
    assert_string_equal(heat->thermal.path, "sys/class/thermal");
    assert_int_equal(heat->n_zones, 7); /* the cooling device beside them is no zone */
    assert_true(heat->zones[0].celsius.value == 39.8);
    spark_zones(&m->folder, loaded);
    heat = heat_read(m);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(heat->zones[i].id, i);
        assert_string_equal(heat->zones[i].type, "acpitz");
        assert_int_equal(heat->zones[i].celsius.validity, UMA_KNOWN);
        assert_true(heat->zones[i].celsius.value == loaded[i] / 1000.0);
        assert_true(heat->zones[i].critical_celsius.value == 104.8);
    }
}

static void trips(void **state) {
    struct heat_machine *m = *state;
    static const struct {
        const char *type;
        int milli;
    } list[] = { { "passive", 85000 }, { "critical", 110000 }, { "critical", 105000 }, { "hot", 95000 }, { "critical", -273200 } };
    folder_text(&m->folder, "tj-thermal\n", "sys/class/thermal/thermal_zone10/type");
    folder_number(&m->folder, 51468, "sys/class/thermal/thermal_zone10/temp");
    for (size_t i = 0; i < ELEMENTS(list); i++) {
        folder_text(&m->folder, list[i].type, "sys/class/thermal/thermal_zone10/trip_point_%zu_type", i);
        folder_number(&m->folder, list[i].milli, "sys/class/thermal/thermal_zone10/trip_point_%zu_temp", i);
    }
    folder_text(&m->folder, "no trips\n", "sys/class/thermal/thermal_zone2/type");
    folder_number(&m->folder, 30000, "sys/class/thermal/thermal_zone2/temp");
    folder_text(&m->folder, "absurd\n", "sys/class/thermal/thermal_zone3/type");
    folder_number(&m->folder, 30000, "sys/class/thermal/thermal_zone3/temp");
    folder_text(&m->folder, "critical\n", "sys/class/thermal/thermal_zone3/trip_point_0_type");
    folder_number(&m->folder, 2147483647, "sys/class/thermal/thermal_zone3/trip_point_0_temp");
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->n_zones, 3);
    assert_int_equal(heat->zones[0].id, 2); /* by number, not by name: 2, 3, 10 */
    assert_int_equal(heat->zones[0].critical_celsius.validity, UMA_ABSENT);
    assert_int_equal(heat->zones[1].critical_celsius.validity, UMA_MALFORMED);
    assert_int_equal(heat->zones[2].id, 10);
    assert_int_equal(heat->zones[2].critical_celsius.validity, UMA_KNOWN);
    assert_true(heat->zones[2].critical_celsius.value == 105);
}

static void not_numbers(void **state) {
    struct heat_machine *m = *state;
    static const struct {
        const char *temp;
        enum uma_validity validity;
    } list[] = { { "45000\n", UMA_KNOWN },
                 { "-5000\r\n", UMA_KNOWN },
                 { "", UMA_FAILED },             /* how a capture keeps EAGAIN and ENODATA */
                 { "-256000\n", UMA_MALFORMED }, /* a Tegra zone whose block is switched off */
                 { "65261850\n", UMA_MALFORMED },
                 { "9223372036854775807\n", UMA_MALFORMED },
                 { "99999999999999999999\n", UMA_MALFORMED },
                 { "45.0\n", UMA_MALFORMED },
                 { "warm\n", UMA_MALFORMED } };
    for (size_t i = 0; i < ELEMENTS(list); i++) {
        folder_text(&m->folder, "acpitz\n", "sys/class/thermal/thermal_zone%zu/type", i);
        folder_text(&m->folder, list[i].temp, "sys/class/thermal/thermal_zone%zu/temp", i);
    }
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->n_zones, ELEMENTS(list));
    for (size_t i = 0; i < ELEMENTS(list); i++) {
        assert_int_equal(heat->zones[i].celsius.validity, list[i].validity);
        if (list[i].validity != UMA_KNOWN)
            assert_true(heat->zones[i].celsius.value == 0);
    }
}

static void incomplete(void **state) {
    struct heat_machine *m = *state;
    folder_text(&m->folder, "no temp\n", "sys/class/thermal/thermal_zone0/type");
    folder_number(&m->folder, 40000, "sys/class/thermal/thermal_zone1/temp");
    folder_text(&m->folder, "x", "sys/class/thermal/thermal_zone2/other");
    folder_text(&m->folder, "x", "sys/class/thermal/thermal_zone03/type");
    folder_text(&m->folder, "x", "sys/class/thermal/thermal_zone/type");
    folder_text(&m->folder, "x", "sys/class/thermal/thermal_zone99999999999999999999/type");
    for (int again = 0; again < 2; again++) {
        const struct uma_heat *heat = heat_read(m);
        assert_int_equal(heat->n_zones, 2);
        assert_string_equal(heat->zones[0].type, "no temp");
        assert_int_equal(heat->zones[0].celsius.validity, UMA_ABSENT);
        assert_null(heat->zones[1].type);
        assert_true(heat->zones[1].celsius.value == 40);
    }
}

static void hostile_type(void **state) {
    struct heat_machine *m = *state;
    char huge[5000];
    (void)memset(huge, 'x', sizeof(huge));
    folder_put_n(&m->folder, "sys/class/thermal/thermal_zone0/type", huge, sizeof(huge));
    folder_number(&m->folder, 40000, "sys/class/thermal/thermal_zone0/temp");
    folder_put_n(&m->folder, "sys/class/thermal/thermal_zone1/type", "a\xff\nsecond line\n", 15);
    folder_number(&m->folder, 40000, "sys/class/thermal/thermal_zone1/temp");
    for (int again = 0; again < 2; again++) {
        const struct uma_heat *heat = heat_read(m);
        assert_int_equal(heat->n_zones, 2);
        assert_int_equal(strlen(heat->zones[0].type), 64);
        assert_string_equal(heat->zones[1].type, "a\\xff");
        assert_true(heat->zones[1].celsius.value == 40);
    }
}

static void changes(void **state) {
    struct heat_machine *m = *state;
    spark_zones(&m->folder, idle);
    assert_int_equal(heat_read(m)->n_zones, 7);
    folder_drop(&m->folder, "sys/class/thermal/thermal_zone6");
    assert_int_equal(heat_read(m)->n_zones, 6);
    folder_text(&m->folder, "x86_pkg_temp\n", "sys/class/thermal/thermal_zone0/type"); /* renumbered: 0 is another zone now */
    folder_drop(&m->folder, "sys/class/thermal/thermal_zone0/trip_point_0_type");
    const struct uma_heat *heat = heat_read(m);
    assert_string_equal(heat->zones[0].type, "x86_pkg_temp");
    assert_int_equal(heat->zones[0].critical_celsius.validity, UMA_ABSENT); /* not the limit of the zone before */
    folder_drop(&m->folder, "sys");
    heat = heat_read(m);
    assert_int_equal(heat->n_zones, 0);
    assert_int_equal(heat->thermal.validity, UMA_ABSENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spark, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(trips, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(not_numbers, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(incomplete, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(hostile_type, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(changes, heat_setup, heat_teardown),
    };
    return cmocka_run_group_tests_name("thermal", tests, NULL, NULL);
}
