/* SPDX-License-Identifier: MIT */
#include "cmd/command.h"
#include "cmd/status.h"
#include "cmd/status_cache.h"

#include "account/problems.h"
#include "base/units.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char usage[] = "usage: umactl status [OPTION...]\n"
                            "\n"
                            "Where the pool's bytes are, what a new job can have, what is wrong.\n"
                            "\n"
                            "      --json             one JSON document instead of text\n"
                            "      --watch[=SECONDS]  again and again (2 s), until Ctrl-C; with --json one line each\n"
                            "      --all              fold nothing: every ledger row, holder and problem\n"
                            "      --from FILE        read a snapshot that `umactl snapshot` wrote; - is standard input\n"
                            "      --root DIR         read a machine laid out as a folder (also UMACTL_ROOT)\n"
                            "      --version          print the version\n"
                            "  -h, --help             print this\n"
                            "\n"
                            "Exit status: 0 the machine could be read, 2 usage, 3 it could not.\n";

enum { OPTION_WATCH = UMA_OPTION_OWN, OPTION_ALL };

/* 2 s: fast enough to see a load phase, slow enough to read. At least 0.1 s, where the reading itself begins to show. */
#define WATCH_DEFAULT_SECONDS 2.0
#define WATCH_LEAST_SECONDS 0.1
/* A person who waits for an answer notices more; what is found by then is named. */
#define PAGE_CACHE_SECONDS 0.5

struct options {
    struct uma_common_options common;
    bool watch, all;
    double interval;
};

static volatile sig_atomic_t stop_asked;

static void on_stop(int signal_number) {
    (void)signal_number;
    stop_asked = 1;
}

static void make_text(struct uma_text *text, const struct options *options, const struct uma_snapshot *snapshot,
                      const struct uma_account *account, const struct uma_claims *claims) {
    if (options->common.json) {
        struct uma_json json = { .text = text, .compact = options->watch };
        uma_status_json(&json, snapshot, account, claims);
        return;
    }
    struct uma_status_style style = uma_status_style_of(STDOUT_FILENO);
    style.all = options->all;
    uma_status_text(text, snapshot, account, claims, &style);
}

static bool cache_starves(const struct uma_account *account) {
    for (size_t i = 0; i < account->n_problems; i++)
        if (strcmp(account->problems[i].id, UMA_PROBLEM_CACHE_STARVES_CUDA) == 0)
            return true;
    return false;
}

/*
 * Which models fill the cache is asked only when the cache is a problem: at any other moment nobody pays for it. `observer`: NULL for a saved snapshot, which
 * has what it has. `cache`: what was found before, for a status that is shown again.
 */
static int account_of(struct uma_observer *observer, struct uma_status_cache *cache, struct uma_snapshot *snapshot, uint64_t reserved,
                      struct uma_account *ret_account, struct uma_error *err) {
    int r = uma_account_build(snapshot, reserved, ret_account, err);
    if (r < 0 || !observer || !cache_starves(ret_account))
        return r;
    uma_account_done(ret_account);
    r = uma_status_cache_read(cache, observer, PAGE_CACHE_SECONDS, uma_monotonic_ns(), snapshot, err);
    return r < 0 ? r : uma_account_build(snapshot, reserved, ret_account, err);
}

/* Account and render one snapshot. *ret_known: whether MemTotal was there. */
static int render(const struct options *options, struct uma_observer *observer, struct uma_status_cache *cache,
                  struct uma_snapshot *snapshot, const struct uma_claims *claims, struct uma_text *text, bool *ret_known,
                  struct uma_error *err) {
    struct uma_account account;
    int r = account_of(observer, cache, snapshot, uma_command_reserved("status", claims, snapshot), &account, err);
    if (r < 0)
        return r;
    make_text(text, options, snapshot, &account, claims);
    *ret_known = uma_usable(account.headroom.total.validity);
    uma_account_done(&account);
    return 0;
}

static int render_file(const struct options *options, struct uma_text *text, bool *ret_known, struct uma_error *err) {
    struct uma_snapshot snapshot;
    int r = uma_command_snapshot_take(&options->common, UMA_READ_ALL, &snapshot, err);
    if (r < 0)
        return r;
    const struct uma_claims none = { 0 };
    r = render(options, NULL, NULL, &snapshot, &none, text, ret_known, err);
    uma_snapshot_done(&snapshot);
    return r;
}

static int render_machine(const struct options *options, struct uma_text *text, bool *ret_known, struct uma_error *err) {
    struct uma_observe_options observe = uma_command_observe_options(&options->common);
    struct uma_observer *observer = NULL;
    int r = uma_observer_open(&observe, &observer, err);
    if (r < 0)
        return r;
    struct uma_snapshot snapshot;
    struct uma_status_cache cache = { 0 };
    r = uma_snapshot_init(&snapshot);
    if (r < 0)
        (void)uma_error_set(err, -r, "taking a snapshot");
    else {
        struct uma_claims claims;
        uma_command_claims_read(&options->common, &claims);
        r = uma_observer_read(observer, UMA_READ_ALL, &snapshot, err);
        if (r >= 0)
            r = render(options, observer, &cache, &snapshot, &claims, text, ret_known, err);
        uma_claims_done(&claims);
        uma_status_cache_done(&cache);
        uma_snapshot_done(&snapshot);
    }
    (void)uma_observer_close(observer);
    return r;
}

static int once(const struct options *options) {
    struct uma_error err = { 0 };
    _cleanup_text_ struct uma_text text = { 0 };
    bool known = false;
    int r = options->common.from ? render_file(options, &text, &known, &err) : render_machine(options, &text, &known, &err);
    if (r < 0)
        return uma_command_fail("status", UMA_EXIT_UNKNOWN, &err);
    if (uma_command_print(&text) < 0)
        return UMA_EXIT_UNKNOWN;
    return known ? UMA_EXIT_OK : UMA_EXIT_UNKNOWN;
}

/* ---- --watch ------------------------------------------------------------------------------------------------ */

/* On a terminal: home, every line cleared to its end, the rest of the screen cleared; one write, so that nothing flickers. */
static void frame(struct uma_text *out, const struct uma_text *text, bool first, unsigned rows) {
    uma_text_append(out, first ? "\033[2J\033[H" : "\033[H");
    unsigned line = 0;
    const char *s = text->data ? text->data : "";
    while (*s && (rows == 0 || line + 1 < rows)) { /* never the last row: it would scroll */
        size_t n = strcspn(s, "\n");
        uma_text_append_n(out, s, n);
        uma_text_append(out, "\033[0m\033[K\n");
        s += n + (s[n] == '\n');
        line++;
    }
    uma_text_append(out, "\033[J");
}

/* Sleep to the next tick of an absolute schedule; a missed tick is skipped, not made up for. */
static void sleep_until_next(int64_t *tick, int64_t interval) {
    int64_t now = uma_monotonic_ns();
    *tick += interval;
    if (*tick < now)
        *tick = now + interval - (now - *tick) % interval;
    struct timespec t = { .tv_sec = *tick / 1000000000, .tv_nsec = *tick % 1000000000 };
    if (!stop_asked)
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int watch_loop(const struct options *options, struct uma_observer *observer, struct uma_status_cache *cache,
                      struct uma_snapshot *snapshot) {
    bool terminal = isatty(STDOUT_FILENO) == 1 && !options->common.json, known = true;
    int64_t tick = uma_monotonic_ns();
    for (bool first = true; !stop_asked; first = false) {
        struct uma_error err = { 0 };
        _cleanup_text_ struct uma_text text = { 0 }, out = { 0 };
        struct uma_claims claims;
        uma_command_claims_read(&options->common, &claims);
        int r = uma_observer_read(observer, UMA_READ_ALL, snapshot, &err);
        if (r >= 0)
            r = render(options, observer, cache, snapshot, &claims, &text, &known, &err);
        uma_claims_done(&claims);
        if (r < 0)
            return uma_command_fail("status", UMA_EXIT_UNKNOWN, &err);
        if (terminal)
            frame(&out, &text, first, uma_status_style_of(STDOUT_FILENO).rows);
        else {
            uma_text_append(&out, first || options->common.json ? "" : "\n");
            uma_text_append_n(&out, text.data ? text.data : "", text.length);
        }
        if (stop_asked)
            break;
        r = uma_command_print(&out);
        if (r != 0)
            return r > 0 ? UMA_EXIT_OK : UMA_EXIT_UNKNOWN;
        sleep_until_next(&tick, (int64_t)(options->interval * 1e9));
    }
    if (terminal) /* the prompt must not stand behind the "^C" that the terminal echoed */
        (void)uma_command_write(STDOUT_FILENO, "\n", 1);
    return known ? UMA_EXIT_OK : UMA_EXIT_UNKNOWN;
}

static int watch(const struct options *options) {
    /* No SA_RESTART: the sleep must end. The default comes back after the first, so that a second Ctrl-C always works. */
    struct sigaction act = { .sa_handler = on_stop, .sa_flags = (int)SA_RESETHAND };
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    struct uma_error err = { 0 };
    struct uma_observe_options observe = uma_command_observe_options(&options->common);
    observe.keep_probe = true;
    struct uma_observer *observer = NULL;
    if (uma_observer_open(&observe, &observer, &err) < 0)
        return uma_command_fail("status", UMA_EXIT_UNKNOWN, &err);
    struct uma_snapshot snapshot;
    int status = UMA_EXIT_UNKNOWN, r = uma_snapshot_init(&snapshot);
    if (r < 0) {
        (void)uma_error_set(&err, -r, "taking a snapshot");
        (void)uma_command_fail("status", UMA_EXIT_UNKNOWN, &err);
    } else {
        struct uma_status_cache cache = { 0 };
        status = watch_loop(options, observer, &cache, &snapshot);
        uma_status_cache_done(&cache);
        uma_snapshot_done(&snapshot);
    }
    (void)uma_observer_close(observer);
    return status;
}

/* ---- the command -------------------------------------------------------------------------------------------- */

static int set_interval(struct options *options, const char *value) {
    struct uma_error err = { 0 };
    options->watch = true;
    if (!value)
        return 0;
    if (uma_parse_duration(value, &options->interval, &err) < 0)
        return uma_command_usage_error(&uma_command_status, "--watch: %s", err.text);
    if (options->interval < WATCH_LEAST_SECONDS || options->interval > 86400)
        return uma_command_usage_error(&uma_command_status, "--watch: \"%.32s\" is out of range, expected 0.1 s to 1 d", value);
    return 0;
}

static int run(int argc, char **argv) {
    static const struct option table[] = {
        UMA_COMMON_OPTIONS, { "watch", optional_argument, NULL, OPTION_WATCH }, { "all", no_argument, NULL, OPTION_ALL }, { 0 }
    };
    struct options options = { .interval = WATCH_DEFAULT_SECONDS };
    struct uma_option_reader reader = { .command = &uma_command_status, .options = table, .letters = ":h", .common = &options.common };
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        if (c == UMA_OPTION_STOP)
            return reader.status;
        if (c == OPTION_ALL)
            options.all = true;
        else if (c == OPTION_WATCH) {
            /* "--watch 5" as well as "--watch=5" */
            const char *value = optarg;
            if (!value && optind < argc && argv[optind][0] >= '0' && argv[optind][0] <= '9')
                value = argv[optind++];
            int status = set_interval(&options, value);
            if (status)
                return status;
        }
    }
    if (options.watch && options.common.from)
        return uma_command_usage_error(&uma_command_status, "--watch reads again and again, --from is one reading: give one of them");
    return options.watch ? watch(&options) : once(&options);
}

const struct uma_command uma_command_status = { "status", "where the pool's bytes are, what a new job can have, what is wrong", usage,
                                                run };
