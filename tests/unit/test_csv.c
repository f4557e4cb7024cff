/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "record/csv.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct uma_f64 known(double v) {
    return (struct uma_f64){ v, UMA_KNOWN };
}

static void value(enum uma_column column, struct uma_f64 v, bool plain, const char *expected) {
    struct uma_text text = { 0 };
    uma_column_format(&text, column, v, plain);
    assert_string_equal(text.data ? text.data : "", expected);
    uma_text_done(&text);
}

static void values(void **state) {
    (void)state;
    value(UMA_COL_GPU_CELSIUS, known(65), false, "65");
    value(UMA_COL_GPU_CELSIUS, known(65), true, "65");
    value(UMA_COL_GPU_WATTS, known(45.12), false, "45.12 W");
    value(UMA_COL_GPU_WATTS, known(45.12), true, "45.12");
    value(UMA_COL_GPU_WATTS, known(3), false, "3.00 W");
    value(UMA_COL_GPU_WATTS, known(0.999), false, "1.00 W");
    value(UMA_COL_GPU_MARGIN, known(-5), false, "-5");
    value(UMA_COL_GPU_MARGIN, known(-0.2), false, "0");
    value(UMA_COL_SM_HERTZ, known(2223e6), false, "2223 MHz");
    value(UMA_COL_SM_HERTZ, known(2223e6), true, "2223000000");
    value(UMA_COL_UTILIZATION, known(0.96), false, "96 %");
    value(UMA_COL_UTILIZATION, known(0.96), true, "0.96");
    value(UMA_COL_PSTATE, known(8), false, "P8");
    value(UMA_COL_REASONS, known(4), false, "0x0000000000000004");
    value(UMA_COL_THROTTLE_SW_THERMAL, known(0.0005), false, "0.001 s");
    value(UMA_COL_THROTTLE_SW_THERMAL, known(0.1 + 0.2), true, "0.3");
    value(UMA_COL_JOB_MEMORY, known(1262485504), false, "1204 MiB");
    value(UMA_COL_JOB_MEMORY, known(1262485504), true, "1262485504");
    value(UMA_COL_GPU_WATTS, (struct uma_f64){ 45, UMA_STALE }, false, "[N/A]");
    value(UMA_COL_GPU_WATTS, (struct uma_f64){ 0, UMA_UNSUPPORTED }, true, "");
    value(UMA_COL_GPU_WATTS, known(1e300), false, "[N/A]");
    value(UMA_COL_GPU_WATTS, known(0.0 / 0.0), true, "");
}

static void rows(void **state) {
    (void)state;
    struct uma_sample row = { 0 }, s = { .time_ns = 1 };
    uma_sample_set(&s, UMA_COL_GPU_CELSIUS, 60);
    uma_sample_set(&s, UMA_COL_GPU_CELSIUS_MAX, 60);
    uma_sample_set(&s, UMA_COL_POOL_AVAILABLE_MIN, 100);
    uma_sample_set(&s, UMA_COL_THROTTLE_SW_THERMAL, 0.25);
    uma_row_add(&row, &s);
    s = (struct uma_sample){ .time_ns = 2 };
    uma_sample_set(&s, UMA_COL_GPU_CELSIUS_MAX, 50);
    uma_sample_set(&s, UMA_COL_POOL_AVAILABLE_MIN, 70);
    uma_sample_set(&s, UMA_COL_THROTTLE_SW_THERMAL, 0.5);
    uma_row_add(&row, &s);
    assert_int_equal(row.time_ns, 2);
    /* the gauge was unknown at the row's own time: the older sample does not stand in for it */
    assert_int_equal(row.value[UMA_COL_GPU_CELSIUS].validity, UMA_UNKNOWN);
    assert_true(row.value[UMA_COL_GPU_CELSIUS_MAX].value == 60);
    assert_true(row.value[UMA_COL_POOL_AVAILABLE_MIN].value == 70);
    assert_true(row.value[UMA_COL_THROTTLE_SW_THERMAL].value == 0.75);
}

/* The three columns that temperature scripts have, exactly as nvidia-smi --format=csv,noheader prints them. */
static void contract(void **state) {
    (void)state;
    struct uma_csv_layout layout;
    struct uma_text text = { 0 };
    struct uma_sample row = { .time_ns = 1772446272123999000 };
    uma_sample_set(&row, UMA_COL_GPU_CELSIUS, 65);
    uma_sample_set(&row, UMA_COL_GPU_WATTS, 45.12);
    assert_int_equal(uma_csv_layout_parse("timestamp,temperature.gpu,power.draw\n", 37, false, "f", &layout, NULL), 0);
    uma_csv_row_format(&text, &layout, &row, "job_start");
    assert_string_equal(text.data, "2026/03/02 10:11:12.123, 65, 45.12 W\n");
    uma_text_reset(&text);
    row.value[UMA_COL_GPU_WATTS].validity = UMA_UNSUPPORTED;
    uma_csv_row_format(&text, &layout, &row, NULL);
    assert_string_equal(text.data, "2026/03/02 10:11:12.123, 65, [N/A]\n");
    uma_text_reset(&text);
    layout.plain = true;
    uma_csv_row_format(&text, &layout, &row, NULL);
    assert_string_equal(text.data, "1772446272.123,65,\n");
    uma_text_done(&text);
}

static void full_layout(void **state) {
    (void)state;
    struct uma_csv_layout layout, again;
    struct uma_text text = { 0 };
    uma_csv_layout_full(false, &layout);
    assert_int_equal(layout.n, UMA_COLUMN_COUNT + 2);
    uma_csv_header_format(&text, &layout);
    assert_int_equal(strncmp(text.data, "timestamp,temperature.gpu,power.draw,", 37), 0);
    assert_true(text.length < UMA_CSV_HEADER_MAX / 4);
    assert_int_equal(uma_csv_layout_parse(text.data, text.length, false, "f", &again, NULL), 0);
    assert_memory_equal(&layout, &again, sizeof(layout));
    uma_text_done(&text);
}

static int parse(const char *text, struct uma_csv_layout *layout, struct uma_error *err) {
    return uma_csv_layout_parse(text, strlen(text), false, "f", layout, err);
}

static void layouts(void **state) {
    (void)state;
    struct uma_csv_layout layout = { 0 };
    struct uma_error err = { 0 };
    /* nvidia-smi's own header, with units and spaces, other order, CRLF */
    assert_int_equal(parse("timestamp, power.draw [W], temperature.gpu\r\n", &layout, NULL), 0);
    assert_int_equal(layout.n, 3);
    assert_int_equal(layout.column[1], UMA_COL_GPU_WATTS);
    assert_int_equal(layout.column[2], UMA_COL_GPU_CELSIUS);
    /* a header without its newline is one all the same */
    assert_int_equal(parse("timestamp,pool.free", &layout, NULL), 0);
    assert_int_equal(layout.n, 2);
    /* the style of the rows decides */
    assert_int_equal(parse("timestamp,pool.free\n1772446272.1,5\n", &layout, NULL), 0);
    assert_true(layout.plain);
    assert_int_equal(parse("timestamp,pool.free\n2026/03/02 10:11:12.123, 5 MiB\n", &layout, NULL), 0);
    assert_false(layout.plain);

    struct uma_csv_layout untouched = { .n = 77 };
    static const char *const bad[] = {
        "", "\n", "step,loss\n", "temperature.gpu,timestamp\n", "timestamp,\n", "timestamp,temperature.gpu,what\n"
    };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        assert_int_equal(parse(bad[i], &untouched, &err), -EINVAL);
        assert_int_equal(untouched.n, 77);
        assert_non_null(strstr(err.text, "f:1: "));
    }
    assert_int_equal(parse("timestamp,temperature.gpu,what\n", &untouched, &err), -EINVAL);
    assert_non_null(strstr(err.text, "column 3 is \"what\""));
    char many[2048] = "timestamp";
    for (int i = 0; i < UMA_CSV_WIDTH_MAX; i++)
        (void)strcat(many, ",pstate");
    assert_int_equal(parse(many, &untouched, &err), -EINVAL);
    static char wide[UMA_CSV_HEADER_MAX + 10];
    memset(wide, 'x', sizeof(wide));
    assert_int_equal(uma_csv_layout_parse(wide, sizeof(wide), false, "f", &untouched, &err), -EINVAL);
}

static void files(void **state) {
    (void)state;
    char folder[] = "/tmp/uma-test-csv-XXXXXX", path[64], text[4096];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    struct uma_csv csv;
    struct uma_sample row = { .time_ns = 1772446272123999000 };
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    static const char torn[] = "timestamp,temperature.gpu,power.draw\n2026/03/02 10:11:11.123, 6";
    assert_int_equal(write(fd, torn, strlen(torn)), (ssize_t)strlen(torn));
    (void)close(fd);
    assert_int_equal(uma_csv_open(path, true, &csv, NULL), 0);
    assert_true(csv.appended && csv.narrowed && csv.restyled && csv.torn);
    assert_int_equal(uma_csv_write(&csv, &row, "job_start"), 0);
    assert_int_equal(uma_csv_write(&csv, &row, NULL), 0);
    assert_int_equal(csv.rows, 2);
    uma_csv_close(&csv);
    fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    text[n] = '\0';
    assert_string_equal(text, "timestamp,temperature.gpu,power.draw\n2026/03/02 10:11:11.123, 6\n"
                              "2026/03/02 10:11:12.123, [N/A], [N/A]\n2026/03/02 10:11:12.123, [N/A], [N/A]\n");
    /* a full device: each row fails, none stops the next; the header comes with the first row that can be written */
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(uma_csv_open("/dev/full", false, &csv, NULL), 0);
        assert_int_equal(uma_csv_write(&csv, &row, NULL), -ENOSPC);
        assert_int_equal(uma_csv_write(&csv, &row, NULL), -ENOSPC);
        assert_int_equal(csv.failed_rows, 2);
        assert_true(csv.header_due);
        uma_csv_close(&csv);
    }
    (void)unlink(path);
    (void)rmdir(folder);
}

/* Who opens it while another one does waits for that one's header; but not for one that never lets go. */
static void one_header(void **state) {
    (void)state;
    char path[] = "/tmp/uma-csv-XXXXXX";
    int held = mkostemp(path, O_CLOEXEC);
    assert_true(held >= 0);
    assert_int_equal(flock(held, LOCK_EX), 0);
    struct uma_csv csv = { 0 };
    struct uma_error err = { 0 };
    struct timespec begin, end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(uma_csv_open(path, true, &csv, &err), 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    uma_csv_close(&csv);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    assert_true(seconds > 0.4 && seconds < 10);
    assert_int_equal(flock(held, LOCK_UN), 0);
    assert_int_equal(ftruncate(held, 0), 0);
    /* many at once: one header */
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(uma_csv_open(path, true, &csv, NULL) == 0 ? 0 : 1);
    }
    for (int status, i = 0; i < 8; i++)
        assert_true(wait(&status) > 0 && status == 0);
    char text[4096];
    ssize_t n = pread(held, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    /* the lock is not kept: it is for the moment of opening */
    assert_int_equal(uma_csv_open(path, true, &csv, NULL), 0);
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
    uma_csv_close(&csv);
    (void)close(held);
    (void)unlink(path);
}

int main(void) {
    (void)setenv("TZ", "UTC", 1);
    tzset();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),  cmocka_unit_test(rows),  cmocka_unit_test(contract),   cmocka_unit_test(full_layout),
        cmocka_unit_test(layouts), cmocka_unit_test(files), cmocka_unit_test(one_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
