/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/text.h"
#include "folder.h"
#include "guard/decide.h"
#include "guard/series.h"

#include <string.h>

#define SECOND INT64_C(1000000000)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

struct seen {
    size_t n, stop_at;
    struct uma_guard_reading list[64];
    size_t n_processes[64];
    struct uma_guard_process processes[64][4];
    int64_t real[64];
};
static struct seen seen;

static int each(void *userdata, const struct uma_guard_view *view, int64_t real_time) {
    struct seen *s = userdata;
    assert_true(s->n < 64);
    s->list[s->n] = *view->now;
    s->real[s->n] = real_time;
    s->n_processes[s->n] = view->n_processes;
    if (view->n_processes) {
        assert_true(view->n_processes <= 4 && view->processes_time == view->now->time);
        memcpy(s->processes[s->n], view->processes, view->n_processes * sizeof(s->processes[0][0]));
    }
    s->n++;
    return s->stop_at == s->n ? 5 : 0;
}

static int parse(const char *text, struct uma_error *err) {
    size_t n = strlen(text), stop_at = seen.stop_at;
    _cleanup_free_
    char *exact = malloc(n ? n : 1); /* so that a look behind its end is seen */
    assert_non_null(exact);
    memcpy(exact, text, n);
    memset(&seen, 0, sizeof(seen));
    seen.stop_at = stop_at;
    *err = (struct uma_error){ 0 };
    return uma_guard_series_parse(exact, n, "x.csv", each, &seen, err);
}

static void readings(void **state) {
    (void)state;
    struct uma_error err;
    assert_int_equal(parse("# measured somewhere\r\n"
                           "seconds, total_GiB, available_GiB, anon, cache, swap_free_MiB, psi_some, allocstall, gap, per_cpu\r\n"
                           "\n"
                           "0,    121.5, 28.971, 4096, 10 MiB, 512, 0.5, 7, , 1GiB\n"
                           "2.25, ,      27.5,   ,     10,     ,    0.75, 9, 1, \n"
                           "# in between\n"
                           "4,    ,      1.5 GiB, 0, 11B, 1KiB,  0.75, 9, 0, 2 GiB",
                           &err),
                     0);
    assert_int_equal(seen.n, 3);
    const struct uma_guard_reading *r = seen.list;
    assert_int_equal(r[0].time, SECOND);
    assert_int_equal(r[1].time - r[0].time, SECOND * 9 / 4);
    assert_int_equal(seen.real[1], SECOND * 9 / 4);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(r[i].total, 243 * GIB / 2);
        assert_int_equal(r[i].free, r[i].available);
        assert_int_equal(r[i].boot, r[i].time);
        assert_int_equal(r[i].known, UMA_GUARD_KNOWS_MEMINFO | UMA_GUARD_KNOWS_PRESSURE | UMA_GUARD_KNOWS_VMSTAT | UMA_GUARD_KNOWS_LISTS);
    }
    assert_int_equal(r[0].available, (uint64_t)(28.971 * 0x1p30 + 0.5));
    assert_int_equal(r[1].available, 55 * GIB / 2);
    assert_int_equal(r[2].available, 3 * GIB / 2);
    assert_int_equal(r[0].anon, 4096);
    assert_int_equal(r[1].anon, 4096);
    assert_int_equal(r[2].anon, 0);
    assert_int_equal(r[0].cache, 10 * MIB);
    assert_int_equal(r[1].cache, 10);
    assert_int_equal(r[2].cache, 11);
    assert_int_equal(r[1].swap_free, 512 * MIB);
    assert_int_equal(r[2].swap_free, 1024);
    assert_int_equal(r[1].psi_some, 750000000);
    assert_int_equal(r[2].allocstall, 9);
    assert_true(r[0].gap == 0 && r[1].gap == 1 && r[2].gap == 0);
    assert_int_equal(r[1].per_cpu, GIB);
    seen.stop_at = 2;
    assert_int_equal(parse("seconds,total,available\n0,4,1\n1,4,1\n2,4,1\n", &err), 5);
    assert_int_equal(seen.n, 2);
    seen.stop_at = 0;
}

static void processes(void **state) {
    (void)state;
    struct uma_error err;
    assert_int_equal(parse("seconds,total_GiB,available_GiB,vllm.gpu_GiB,vllm.anon_GiB,my job.x.anon_MiB\n"
                           "0,120,30,80,4,-\n"
                           "1,120,28,82,4,100\n"
                           "2,120,27,82,5,150\n"
                           "3,120,60,-,-,140\n",
                           &err),
                     0);
    assert_int_equal(seen.n, 4);
    assert_int_equal(seen.n_processes[0], 1);
    assert_int_equal(seen.n_processes[1], 2);
    assert_int_equal(seen.n_processes[3], 1);
    struct uma_guard_process *p = seen.processes[1];
    assert_string_equal(p[0].name, "vllm");
    assert_string_equal(p[1].name, "my job.x");
    assert_true(p[0].pid != p[1].pid && p[0].tree == 0 && p[1].tree == 1);
    assert_true(p[0].gpu_known && !p[1].gpu_known);
    assert_int_equal(p[0].gpu, 82 * GIB);
    assert_int_equal(p[0].grown, 2 * (int64_t)GIB);
    assert_int_equal(p[0].grown_ns, SECOND);
    assert_int_equal(p[0].gpu_grown, 2 * (int64_t)GIB);
    assert_int_equal(p[1].grown_ns, 0); /* it was not there */
    p = seen.processes[2];
    assert_int_equal(p[0].grown, GIB);
    assert_int_equal(p[0].gpu_grown, 0);
    assert_int_equal(p[1].grown, 50 * (int64_t)MIB);
    assert_int_equal(seen.processes[3][0].grown, -10 * (int64_t)MIB);
    assert_int_equal(seen.processes[3][0].tree, 0);
}

static void refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "", "no reading" },
        { "# nothing\n", "no reading" },
        { "seconds,total,available\n", "no reading" },
        { "seconds,total\n1,2\n", "line 1: seconds, total and available" },
        { "seconds,total,available,weight\n", "no column of a series has this name: weight" },
        { "seconds,total,available,.anon\n", "no column" },
        { "seconds,total,available,a.rss\n", "no column" },
        { "seconds,total,available,averyverylongname.anon\n", "no column" },
        { "seconds,total,available,total_GiB\n", "twice" },
        { "seconds,total,available,a.gpu,a.gpu\n", "twice" },
        { "seconds_GiB,total,available\n", "no unit" },
        { "seconds,total,available\n0,4\n", "line 2: there are fewer" },
        { "seconds,total,available\n0,4,1,1\n", "more fields" },
        { "seconds,total,available\n,4,1\n", "a number is needed" },
        { "seconds,total,available\n0,,1\n", "column: total" },
        { "seconds,total,available\n0,4,x\n", "line 2: this is no number of its column: x" },
        { "seconds,total,available\n0,4,-1\n", "no number" },
        { "seconds,total,available\n0,4,1 GB\n", "no number" },
        { "seconds,total,available\n0,4,1e3\n", "no number" },
        { "seconds,total,available\n0,nan,1\n", "no number" },
        { "seconds,total,available\n0,99999999999999999999999,1\n", "no number" },
        { "seconds,total,available\n0,4194305 GiB,1\n", "no number" },
        { "seconds,total,available\n1000001,4,1\n", "no number" },
        { "seconds,total,available,allocstall\n0,4,1,1.5\n", "no number" },
        { "seconds,total,available,gap\n0,4,1,2\n", "no number" },
        { "seconds,total,available\n0,4,5\n", "more available than there is" },
        { "seconds,total,available\n1,4,1\n1,4,1\n", "line 3: it is not later" },
        { "seconds,total,available\n1,4,1\n0.5,4,1\n", "line 3: it is not later" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_error err;
        int r = parse(cases[i].text, &err);
        if (r != -EINVAL || !strstr(err.text, cases[i].says))
            print_message("# case %zu: %d: %s\n", i, r, err.text);
        assert_int_equal(r, -EINVAL);
        assert_non_null(strstr(err.text, cases[i].says));
    }
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, "seconds,total,available");
    for (int i = 0; i < 17; i++)
        uma_text_printf(&text, ",p%d.anon", i);
    struct uma_error err;
    assert_int_equal(parse(text.data, &err), -EINVAL);
    assert_non_null(strstr(err.text, "16 processes"));
    uma_text_reset(&text);
    uma_text_append(&text, "seconds,total,available");
    uma_text_pad(&text, 5000);
    assert_int_equal(parse(text.data, &err), -EINVAL);
    assert_non_null(strstr(err.text, "4,096"));
}

static void files(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    struct uma_error err = { 0 };
    char path[256];
    assert_int_equal(folder_new(&f), 0);
    folder_put(&f, "a.csv", "seconds,total,available\n0,4,1\n");
    (void)snprintf(path, sizeof(path), "%s/a.csv", f.path);
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(uma_guard_series_read(path, each, &seen, &err), 0);
    assert_int_equal(seen.n, 1);
    assert_int_equal(truncate(path, 65 << 20), 0);
    assert_int_equal(uma_guard_series_read(path, each, &seen, &err), -EFBIG);
    assert_int_equal(uma_guard_series_read(f.path, each, &seen, &err), -EFBIG);
    (void)snprintf(path, sizeof(path), "%s/none", f.path);
    assert_int_equal(uma_guard_series_read(path, each, &seen, &err), -ENOENT);
    assert_non_null(strstr(err.text, "none"));
}

/* ---- through the decision ---- */

struct run {
    struct uma_guard_policy policy;
    struct uma_guard_history history;
    struct uma_guard_state state;
    struct uma_guard_decision decision;
    size_t n, acted; /* readings; the first at which somebody was acted on, 0: none */
    struct uma_guard_action action;
};

static int decide(void *userdata, const struct uma_guard_view *view, int64_t real_time) {
    (void)real_time;
    struct run *run = userdata;
    run->n++;
    uma_guard_policy_settle(&run->policy, view->now->total);
    uma_guard_history_add(&run->history, view->now);
    uma_guard_decide(&run->state, &run->history, &run->policy, view, &run->decision);
    for (uint32_t i = 0; i < run->decision.n && !run->acted; i++)
        if (run->decision.actions[i].kind == UMA_GUARD_BRAKE || run->decision.actions[i].kind == UMA_GUARD_TERM ||
            run->decision.actions[i].kind == UMA_GUARD_KILL) {
            run->acted = run->n;
            run->action = run->decision.actions[i];
        }
    return 0;
}

static void run_through(const char *text, struct run *run) {
    struct uma_error err = { 0 };
    memset(run, 0, sizeof(*run));
    uma_guard_policy_default(&run->policy);
    int r = uma_guard_series_parse(text, strlen(text), "text", decide, run, &err);
    if (r)
        print_message("# %s\n", err.text);
    assert_int_equal(r, 0);
}

/* 22.7 GiB in some 12 s, read every 2 s (vllm-project/vllm issue 56824), and the same a fifth of a second apart: the one that grows is stopped before the floor. */
static void a_fall(void **state) {
    (void)state;
    static struct run run;
    static const double available[] = { 28.971, 28.97, 28.97, 27.311, 23.787, 10.605, 6.267, 3.0, 1.0 };
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, "seconds,total_GiB,available_GiB,sshd.anon_MiB,server.gpu_GiB,job.anon_GiB\n");
    for (int i = 0; i < 80; i++) {
        int at = i / 10, part = i % 10;
        double now = available[at] + (available[at + 1] - available[at]) * part / 10;
        uma_text_printf(&text, "%d.%d,121.7,%.3f,8,60,%.3f\n", i / 5, i % 5 * 2, now, 2 + available[0] - now);
    }
    run_through(text.data, &run);
    assert_true(run.acted > 20);
    assert_int_equal(run.action.pid, 1002);
    assert_true(run.history.n > 0);
}

/* A server that stands where it stands, and a page cache that fills what is free, are nobody's fault. */
static void no_fall(void **state) {
    (void)state;
    static struct run run;
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, "seconds,total_GiB,available_GiB,free_GiB,cache_GiB,server.gpu_GiB\n");
    for (int i = 0; i < 600; i++)
        uma_text_printf(&text, "%d,121.7,%.3f,%.3f,%.3f,100\n", i, 6.5 + (i * 7 % 11) * 0.01, i < 300 ? 6.4 - i * 0.01 : 3.4,
                        i < 300 ? i * 0.01 : 3);
    run_through(text.data, &run);
    assert_int_equal(run.n, 600);
    assert_int_equal(run.acted, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(readings), cmocka_unit_test(processes), cmocka_unit_test(refused),
                                        cmocka_unit_test(files),    cmocka_unit_test(a_fall),    cmocka_unit_test(no_fall) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
