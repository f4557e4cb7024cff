/* SPDX-License-Identifier: MIT */
#include "job/valve.h"

#include "base/text.h"
#include "base/units.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test.h"

static void words(void **state) {
    (void)state;
    const char *report = NULL;
    struct uma_error err = { 0 };
    assert_int_equal(uma_job_valve_report_parse("raw", &report, &err), 0);
    assert_string_equal(report, "raw");
    assert_int_equal(uma_job_valve_report_parse("Raw", &report, &err), -EINVAL);
    assert_non_null(strstr(err.text, "Raw"));
    static const struct {
        struct uma_job_valve_options options;
        const char *text;
    } cases[] = {
        { { 0 }, "report:auto" },
        { { .limit = 96 * UMA_GIB, .report = "pool" }, "report:pool,ceiling:103079215104" },
        { { .has_floor = true }, "report:auto,floor:0" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_text_ struct uma_text text = { 0 };
        uma_job_valve_settings(&cases[i].options, &text);
        assert_string_equal(text.data, cases[i].text);
    }
}

static void told(void **state) {
    (void)state;
    static const struct {
        struct uma_valve_event event;
        const char *text;
    } cases[] = {
        { { .kind = UMA_VALVE_REFUSED_CEILING, .pid = 7, .size = 8 * UMA_GIB, .used = 91 * UMA_GIB, .ceiling = 96 * UMA_GIB },
          "8.0 GiB refused to pid 7: the job has 91.0 GiB of its limit of 96.0 GiB" },
        { { .kind = UMA_VALVE_REFUSED_FLOOR,
            .pid = 7,
            .size = UMA_GIB,
            .used = 3 * UMA_GIB,
            .available = 4 * UMA_GIB,
            .floor = 4 * UMA_GIB },
          "1.0 GiB refused to pid 7: the machine has 4.0 GiB available, of which 4.0 GiB stay with it; the job has 3.0 GiB" },
        { { .kind = UMA_VALVE_REFUSED_FLOOR,
            .pid = 7,
            .size = UMA_GIB,
            .used = 3 * UMA_GIB,
            .available = 6 * UMA_GIB,
            .floor = 4 * UMA_GIB,
            .reserved = 2 * UMA_GIB },
          "1.0 GiB refused to pid 7: the machine has 6.0 GiB available, of which 4.0 GiB stay with it and 2.0 GiB are reserved by others; the job has 3.0 GiB" },
        { { .kind = UMA_VALVE_MADE_ROOM, .pid = 7, .size = UMA_GIB, .evicted = 2 * UMA_GIB },
          "2.0 GiB of page cache evicted for 1.0 GiB of pid 7" },
        { { .kind = UMA_VALVE_RETRIED, .pid = 7, .size = UMA_GIB }, "pid 7 asked the driver again for 1.0 GiB" },
        { { .kind = 99, .pid = 7 }, "pid 7: event 99" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_text_ struct uma_text text = { 0 };
        uma_job_valve_event_text(&cases[i].event, &text);
        assert_string_equal(text.data, cases[i].text);
    }
}

/* As a process of the job opens it: through the descriptor of whoever the variable names. */
static struct uma_valve_account *open_account(const struct uma_job_environment *environment) {
    unsigned pid = 0;
    unsigned long long start = 0, inode = 0;
    int fd = -1;
    const char *place = uma_job_environment_get(environment, UMA_VALVE_ACCOUNT_VARIABLE);
    assert_non_null(place);
    assert_int_equal(sscanf(place, "%u:%llu:%d:%llu", &pid, &start, &fd, &inode), 4);
    assert_int_equal(pid, getpid());
    assert_int_equal(start, uma_valve_start_time(pid));
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
    int own = open(path, O_RDWR | O_CLOEXEC);
    assert_true(own >= 0);
    void *at = mmap(NULL, sizeof(struct uma_valve_account), PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    (void)close(own);
    return at;
}

/* The node's helper answers whoever asks, whatever there is to evict. */
static void ask(struct uma_valve_account *account) {
    assert_int_equal(atomic_load(&account->helper), 1);
    atomic_store(&account->wanted, UINT64_C(4096));
    uint32_t question = atomic_fetch_add(&account->asked, 1) + 1;
    (void)syscall(SYS_futex, &account->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    for (int i = 0; i < 3000 && atomic_load(&account->answered) != question; i++)
        (void)usleep(10000);
    assert_int_equal(atomic_load(&account->answered), question);
}

static void of_a_job(void **state) {
    (void)state;
    struct uma_job_environment environment = { 0 };
    const struct uma_job_valve_options wanted = { .when = UMA_JOB_VALVE_ALWAYS, .limit = 96 * UMA_GIB };
    struct uma_job_valve *valve = uma_job_valve_prepare(&wanted, 64 * UMA_GIB, &environment);
    assert_non_null(valve);
    assert_non_null(strstr(uma_job_environment_get(&environment, "LD_PRELOAD"), "libuma-valve.so"));
    const char *settings = uma_job_environment_get(&environment, "UMACTL_VALVE"), *words = "report:auto,ceiling:103079215104,token:";
    assert_int_equal(strncmp(settings, words, strlen(words)), 0);
    assert_int_equal(strspn(settings + strlen(words), "0123456789abcdef"), 16);
    assert_int_equal(strlen(settings), strlen(words) + 16);
    struct uma_valve_account *account = open_account(&environment);
    assert_true(uma_valve_account_valid(account, sizeof(*account)));
    assert_int_equal(account->ceiling, 96 * UMA_GIB);
    assert_int_equal(account->floor, 2 * UMA_GIB); /* a thirty-second of 64 */
    uma_job_valve_start(valve);
    ask(account);
    ask(account);
    assert_null(uma_job_valve_stop(valve, NULL));
    assert_int_equal(atomic_load(&account->helper), 0);
    (void)munmap(account, sizeof(*account));
    uma_job_environment_done(&environment);
}

/* What cannot be had is told, and the job runs as it is. */
static void without_library(void **state) {
    (void)state;
    struct uma_job_environment environment = { 0 };
    const struct uma_job_valve_options wanted = { .when = UMA_JOB_VALVE_ALWAYS };
    const char *library = getenv("UMACTL_VALVE_LIBRARY");
    char before[4096];
    (void)snprintf(before, sizeof(before), "%s", library ? library : "");
    assert_int_equal(setenv("UMACTL_VALVE_LIBRARY", "/nonexistent/x.so", 1), 0);
    assert_null(uma_job_valve_prepare(&wanted, 0, &environment));
    assert_null(environment.list);
    assert_int_equal(setenv("UMACTL_VALVE_LIBRARY", before, 1), 0);
}

/* Where an NVIDIA driver is, unless one says otherwise. */
static void by_default(void **state) {
    (void)state;
    struct uma_gpu amd = { .vendor = "amd" }, nvidia = { .vendor = "nvidia" };
    struct uma_snapshot without = { 0 }, module = { .platform.driver = "580.95.05" }, other = { .gpus = { .n = 1, .list = &amd } },
                        nvml = { .gpus = { .n = 1, .list = &nvidia } };
    struct uma_job_valve_options o = { 0 };
    assert_false(uma_job_valve_wanted(&o, &without, false));
    assert_false(uma_job_valve_wanted(&o, &other, false));
    other.platform.driver = "amdgpu of Linux 6.14";
    assert_false(uma_job_valve_wanted(&o, &other, false));
    assert_true(uma_job_valve_wanted(&o, &module, false));
    assert_true(uma_job_valve_wanted(&o, &nvml, false));
    assert_false(uma_job_valve_wanted(&o, &module, true)); /* a folder's driver is not this machine's */
    o.when = UMA_JOB_VALVE_NEVER;
    assert_false(uma_job_valve_wanted(&o, &module, false));
    o.when = UMA_JOB_VALVE_ALWAYS;
    assert_true(uma_job_valve_wanted(&o, &without, true));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(words), cmocka_unit_test(told), cmocka_unit_test(of_a_job),
                                        cmocka_unit_test(without_library), cmocka_unit_test(by_default) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
