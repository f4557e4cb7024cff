/* SPDX-License-Identifier: MIT */
/* The reader as a whole: absence (real on machines without sensors), captures, shared helpers. */
#include "test.h"

#include "heat_machine.h"
#include "observe/heat_parts.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

static void empty_folder(void **state) {
    struct heat_machine *m = *state;
    const struct uma_heat *heat = heat_read(m);
    assert_int_equal(heat->thermal.validity, UMA_ABSENT);
    assert_int_equal(heat->hwmon.validity, UMA_ABSENT);
    assert_int_equal(heat->cpufreq.validity, UMA_ABSENT);
    assert_true(heat->n_zones == 0 && heat->n_sensors == 0 && heat->n_cpus == 0);
    assert_non_null(heat->thermal.detail);
    assert_true(heat->thermal.time_ns > 0);
}

/* On this machine, whatever it has: a source is known with something in it, or absent with nothing; and twice the same things. */
static void this_machine(void **state) {
    (void)state;
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(NULL, NULL, &root, NULL), 0);
    struct uma_heat_reader *reader = uma_heat_reader_new(root);
    struct uma_snapshot s;
    assert_int_equal(uma_snapshot_init(&s), 0);
    size_t zones = 0, sensors = 0, cpus = 0;
    for (int i = 0; i < 3; i++) {
        uma_snapshot_reset(&s);
        uma_heat_read(reader, &s);
        assert_int_equal(s.heat.thermal.validity, s.heat.n_zones ? UMA_KNOWN : UMA_ABSENT);
        assert_int_equal(s.heat.hwmon.validity, s.heat.n_sensors ? UMA_KNOWN : UMA_ABSENT);
        assert_true(s.heat.cpufreq.validity == UMA_ABSENT || s.heat.n_cpus > 0);
        if (i > 0)
            assert_true(zones == s.heat.n_zones && sensors == s.heat.n_sensors && cpus == s.heat.n_cpus);
        zones = s.heat.n_zones;
        sensors = s.heat.n_sensors;
        cpus = s.heat.n_cpus;
    }
    uma_snapshot_done(&s);
    (void)uma_heat_reader_free(reader);
}

static size_t open_descriptors(void) {
    size_t n = 0;
    _cleanup_closedir_ DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    return n;
}

/*
 * A Spark's folders mounted over this machine's, in a mount namespace of our own: the live path, where files stay open. Returns the number
 * of the check that failed, 0 for none, 77 where mounting is not allowed.
 */
static int live_spark(struct heat_machine *m) {
    char from[256];
    (void)snprintf(from, sizeof(from), "%s/sys/class", m->folder.path);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(from, "/sys/class", NULL, MS_BIND, NULL) < 0)
        return 77;
    (void)snprintf(from, sizeof(from), "%s/sys/devices/system/cpu", m->folder.path);
    if (mount(from, "/sys/devices/system/cpu", NULL, MS_BIND, NULL) < 0)
        return 77;
    (void)uma_heat_reader_free(m->reader);
    (void)uma_root_close(m->root);
    if (uma_root_open(NULL, NULL, &m->root, NULL) < 0)
        return 1;
    size_t before = open_descriptors();
    m->reader = uma_heat_reader_new(m->root);
    const struct uma_heat *heat = heat_read(m);
    if (heat->n_zones != 7 || heat->n_sensors != 2 || heat->n_cpus != 20 || heat->zones[6].celsius.value != 41.8)
        return 2;
    size_t kept = open_descriptors();
    if (kept <= before + 20) /* they do stay open */
        return 3;
    /* sysfs changes a value in the file that is open */
    FILE *f = fopen("/sys/class/thermal/thermal_zone6/temp", "w");
    if (!f || fputs("52800\n", f) < 0 || fclose(f) != 0)
        return 4;
    heat = heat_read(m);
    if (heat->zones[6].celsius.value != 52.8 || open_descriptors() != kept)
        return 5;
    f = fopen("/sys/devices/system/cpu/online", "w");
    if (!f || fputs("0-9\n", f) < 0 || fclose(f) != 0)
        return 6;
    heat = heat_read(m);
    if (heat->n_cpus != 10 || open_descriptors() != kept - 10)
        return 7;
    m->reader = uma_heat_reader_free(m->reader);
    return open_descriptors() == before ? 0 : 8;
}

static void live(void **state) {
    struct heat_machine *m = *state;
    static const int idle[] = { 39800, 39900, 40100, 40400, 41000, 41700, 41800 };
    spark_zones(&m->folder, idle);
    spark_nvme(&m->folder, 1);
    spark_cpus(&m->folder);
    for (int i = 0; i < 20; i++)
        folder_text(&m->folder, "2808000\n", "sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_avg_freq", i);
    pid_t pid = fork();
    if (pid == 0)
        _exit(live_spark(m));
    int status = 0;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        SKIP_BECAUSE("cannot make a mount namespace here");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void same_f64(struct uma_f64 a, struct uma_f64 b) {
    assert_int_equal(a.validity, b.validity);
    assert_true(a.value == b.value);
}

/* Everything that a reading is made of is in its capture, and failures stay failures. */
static void capture(void **state) {
    struct heat_machine *m = *state;
    static const int idle[] = { 39800, 39900, 40100, 40400, 41000, 41700, 41800 };
    _cleanup_folder_ struct folder copy = { 0 };
    assert_int_equal(folder_new(&copy), 0);
    spark_zones(&m->folder, idle);
    folder_text(&m->folder, "", "sys/class/thermal/thermal_zone4/temp");
    spark_nvme(&m->folder, 1);
    folder_text(&m->folder, "k10temp\n", HWMON "device/name", 2);
    folder_number(&m->folder, 41250, HWMON "device/temp1_input", 2);
    spark_cpus(&m->folder);
    for (int i = 0; i < 20; i++)
        folder_text(&m->folder, i == 3 ? "" : "2808000\n", "sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_avg_freq", i);
    (void)uma_heat_reader_free(m->reader);
    (void)uma_root_close(m->root);
    assert_int_equal(uma_root_open(m->folder.path, copy.path, &m->root, NULL), 0);
    m->reader = uma_heat_reader_new(m->root);
    const struct uma_heat *a = heat_read(m);

    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(copy.path, NULL, &root, NULL), 0);
    struct uma_heat_reader *reader = uma_heat_reader_new(root);
    struct uma_snapshot s;
    assert_int_equal(uma_snapshot_init(&s), 0);
    uma_heat_read(reader, &s);
    const struct uma_heat *b = &s.heat;
    assert_int_equal(a->n_zones, b->n_zones);
    for (size_t i = 0; i < a->n_zones; i++) {
        same_f64(a->zones[i].celsius, b->zones[i].celsius);
        same_f64(a->zones[i].critical_celsius, b->zones[i].critical_celsius);
    }
    assert_int_equal(b->zones[4].celsius.validity, UMA_FAILED);
    assert_int_equal(a->n_sensors, b->n_sensors);
    assert_int_equal(b->n_sensors, 3);
    for (size_t i = 0; i < a->n_sensors; i++) {
        assert_string_equal(a->sensors[i].chip, b->sensors[i].chip);
        assert_string_equal(a->sensors[i].label, b->sensors[i].label);
        same_f64(a->sensors[i].value, b->sensors[i].value);
        same_f64(a->sensors[i].max, b->sensors[i].max);
        same_f64(a->sensors[i].critical, b->sensors[i].critical);
    }
    assert_int_equal(a->n_cpus, b->n_cpus);
    for (size_t i = 0; i < a->n_cpus; i++) {
        assert_string_equal(a->cpus[i].core, b->cpus[i].core);
        assert_int_equal(a->cpus[i].hertz.validity, b->cpus[i].hertz.validity);
        assert_int_equal(a->cpus[i].hertz.value, b->cpus[i].hertz.value);
    }
    /* the clock that must not be opened was not */
    char path[256];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", copy.path);
    assert_int_equal(stat(path, &st), -1);
    uma_snapshot_done(&s);
    (void)uma_heat_reader_free(reader);
}

static void values(void **state) {
    (void)state;
    static const struct {
        enum uma_sensor_kind kind;
        int64_t raw;
        double value;
        enum uma_validity validity;
    } cases[] = {
        { UMA_SENSOR_TEMPERATURE, 63600, 63.6, UMA_KNOWN },
        { UMA_SENSOR_TEMPERATURE, 0, 0, UMA_KNOWN },
        { UMA_SENSOR_TEMPERATURE, -40000, -40, UMA_KNOWN },
        { UMA_SENSOR_TEMPERATURE, 65261850, 0, UMA_MALFORMED },
        { UMA_SENSOR_TEMPERATURE, -273150, 0, UMA_MALFORMED },
        { UMA_SENSOR_TEMPERATURE, -128000, 0, UMA_MALFORMED },
        { UMA_SENSOR_TEMPERATURE, INT64_MIN, 0, UMA_MALFORMED },
        { UMA_SENSOR_POWER, 98500000, 98.5, UMA_KNOWN },
        { UMA_SENSOR_POWER, -1500000, -1.5, UMA_KNOWN },
        { UMA_SENSOR_POWER, UINT32_MAX, 0, UMA_MALFORMED },
        { UMA_SENSOR_POWER, INT32_MAX, 0, UMA_MALFORMED },
        { UMA_SENSOR_POWER, INT64_MAX, 0, UMA_MALFORMED },
        { UMA_SENSOR_ENERGY, UINT32_MAX, 4294.967295, UMA_KNOWN },
        { UMA_SENSOR_ENERGY, -1, 0, UMA_MALFORMED },
        { UMA_SENSOR_FAN, 4200, 4200, UMA_KNOWN },
        { UMA_SENSOR_FAN, 65535, 0, UMA_MALFORMED },
        { UMA_SENSOR_VOLTAGE, 787, 0.787, UMA_KNOWN },
        { UMA_SENSOR_CURRENT, 512, 0.512, UMA_KNOWN },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_f64 v = uma_heat_value(cases[i].kind, cases[i].raw);
        assert_int_equal(v.validity, cases[i].validity);
        assert_true(v.value == cases[i].value);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(empty_folder, heat_setup, heat_teardown),
        cmocka_unit_test(this_machine),
        cmocka_unit_test_setup_teardown(live, heat_setup, heat_teardown),
        cmocka_unit_test_setup_teardown(capture, heat_setup, heat_teardown),
        cmocka_unit_test(values),
    };
    return cmocka_run_group_tests_name("heat", tests, NULL, NULL);
}
