/* SPDX-License-Identifier: MIT */
#include "cmd/require.h"

#include "account/headroom.h"
#include "base/json_write.h"
#include "base/units.h"
#include "cmd/command.h"
#include "cmd/layout.h"
#include "cmd/status.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: umactl require --bytes N [OPTION...]\n"
    "\n"
    "Exit 0 once a new job can have N bytes; name who holds them otherwise.\n"
    "\n"
    "      --bytes N        what the job needs: 60G and 60GiB are binary, 60GB is decimal\n"
    "      --contiguous N   and so much of it in one piece (as far as the kernel has such pieces)\n"
    "      --wait TIME      wait for it: 90, 90s, 5m, 2h\n"
    "      --json           one JSON document\n"
    "  -q, --quiet          no answer but the exit status\n"
    "      --from FILE      a snapshot instead of the machine; - is standard input\n"
    "      --root DIR       a machine laid out as a folder (also UMACTL_ROOT)\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: 0 met, 1 not met, 2 usage, 3 unknown (could not be read), 128+n ended by signal n while waiting.\n";

enum { OPTION_BYTES = UMA_OPTION_OWN, OPTION_CONTIGUOUS, OPTION_WAIT };

/* Heat decides nothing here; processes and GPU do: they are the evidence for driver pools, and the names. */
#define REQUIRE_READS (UMA_READ_MEMORY | UMA_READ_PROCESSES | UMA_READ_GPU | UMA_READ_PLATFORM)

enum { HOLDERS_SHOWN = 8, HOLDERS_IN_PROGRESS = 2 };

struct options {
    struct uma_common_options common;
    struct uma_requirement need;
    bool has_bytes, has_contiguous, has_wait, quiet;
    double wait;
};

static volatile sig_atomic_t stop_signal;

static void on_stop(int signal_number) {
    stop_signal = signal_number;
}

/* ---- one look ----------------------------------------------------------------------------------------------- */

struct look {
    struct uma_snapshot snapshot;
    struct uma_account account;
    struct uma_u64 contiguous_free;
    enum uma_truth met;
    bool never; /* and no wait can change it */
};

static void look_done(struct look *look) {
    uma_account_done(&look->account);
    uma_snapshot_done(&look->snapshot);
}

static int look_judge(struct look *look, const struct uma_claims *claims, const struct uma_requirement *need, struct uma_error *err) {
    int r = uma_account_build(&look->snapshot, uma_command_reserved("require", claims, &look->snapshot), &look->account, err);
    if (r < 0)
        return r;
    const struct uma_headroom *h = &look->account.headroom;
    look->met = uma_require_verdict(h, look->snapshot.zones.page_size, need);
    look->never = uma_require_never(h, need);
    if (look->never)
        look->met = UMA_NO; /* also where the budget itself is not known */
    look->contiguous_free =
        need->contiguous ? uma_contiguous_free(h, look->snapshot.zones.page_size, need->contiguous) : (struct uma_u64){ 0 };
    return 0;
}

/* ---- the answer --------------------------------------------------------------------------------------------- */

static void answer_json(struct uma_text *text, const struct options *options, const struct look *look, double waited) {
    struct uma_json json = { .text = text };
    const struct uma_headroom *h = &look->account.headroom;
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", "umactl.require/1");
    uma_json_unsigned(&json, "needed", options->need.bytes);
    uma_json_u64(&json, "budget", h->budget);
    uma_json_truth(&json, "met", look->met);
    uma_json_double(&json, "waited", waited);
    uma_holders_json(&json, "holders", &look->account);
    if (options->has_contiguous)
        uma_json_unsigned(&json, "contiguous_needed", options->need.contiguous);
    else
        uma_json_null(&json, "contiguous_needed");
    uma_json_u64(&json, "contiguous_free", look->contiguous_free);
    uma_json_u64(&json, "largest_free_block", h->largest_free_block);
    uma_json_time(&json, "time", look->snapshot.time_ns);
    uma_json_bool(&json, "never", look->never);
    uma_json_bool(&json, "huge_pages", h->hugetlb_rule);
    uma_json_u64(&json, "ordinary_available", look->account.views.free_available);
    uma_json_end_object(&json);
}

static bool short_of_pieces(const struct options *options, const struct look *look) {
    return uma_usable(look->contiguous_free.validity) && look->contiguous_free.value < options->need.contiguous;
}

/* Only the pieces are missing, or not known: the budget is there. */
static bool in_pieces(const struct options *options, const struct look *look) {
    struct uma_u64 budget = look->account.headroom.budget;
    return options->has_contiguous && look->met != UMA_YES && uma_usable(budget.validity) && budget.value >= options->need.bytes;
}

/* "100.1 GiB", or where the budget is in huge pages, that it is. */
static void budget_text(struct uma_text *text, const struct look *look) {
    uma_text_append(text, "a new job can have ");
    uma_layout_bytes(text, look->account.headroom.budget);
    _cleanup_text_ struct uma_text note = { 0 };
    if (uma_headroom_note(&note, &look->account) && note.data)
        uma_text_printf(text, " %s", note.data);
}

/* The verdict on the budget: "60.0 GiB needed, a new job can have 51.7 GiB, 8.3 GiB short". */
static void bytes_text(struct uma_text *text, const struct options *options, const struct look *look) {
    struct uma_u64 budget = look->account.headroom.budget;
    uma_text_bytes(text, options->need.bytes);
    uma_text_append(text, " needed, ");
    budget_text(text, look);
    if (uma_usable(budget.validity) && budget.value < options->need.bytes) {
        uma_text_append(text, ", ");
        uma_text_bytes(text, options->need.bytes - budget.value);
        uma_text_append(text, " short");
    }
    struct uma_u64 reserved = look->account.headroom.reserved;
    if (uma_usable(reserved.validity) && reserved.value) {
        uma_text_append(text, " (");
        uma_text_bytes(text, reserved.value);
        uma_text_append(text, " are reserved by running jobs and not taken yet)");
    }
}

static void contiguous_text(struct uma_text *text, const struct options *options, const struct look *look) {
    uma_text_bytes(text, options->need.contiguous);
    uma_text_append(text, " in one piece needed, ");
    uma_layout_bytes(text, look->contiguous_free);
    uma_text_append(text, " in free blocks that can serve it; the largest free block is ");
    uma_layout_bytes(text, look->account.headroom.largest_free_block);
}

/* The reason first: the room, or, where there is room, the pieces that it is in. */
static void verdict_text(struct uma_text *text, const struct options *options, const struct look *look, double waited) {
    bool pieces = in_pieces(options, look);
    uma_text_append(text, look->met == UMA_YES ? "met: " : look->met == UMA_NO ? "not met: " : "unknown: ");
    if (pieces)
        contiguous_text(text, options, look);
    else
        bytes_text(text, options, look);
    if (options->has_wait && !look->never) {
        uma_text_append(text, " after ");
        uma_text_duration(text, waited);
    }
    uma_text_char(text, '\n');
    if (options->has_contiguous) {
        uma_text_append(text, "  ");
        if (pieces)
            bytes_text(text, options, look);
        else
            contiguous_text(text, options, look);
        uma_text_char(text, '\n');
    }
}

static void never_text(struct uma_text *text, const struct options *options, const struct look *look) {
    const struct uma_headroom *h = &look->account.headroom;
    uma_text_append(text, "  it can never fit: the whole pool is ");
    uma_layout_bytes(text, h->total);
    uma_text_append(text, ", of which the system keeps ");
    uma_layout_bytes(text, h->reserve);
    uma_text_append(text, options->has_wait ? "; nothing was waited for\n" : "\n");
}

/* A line of those who hold it; the first has the heading before it. */
static void held_by(struct uma_text *text, size_t *n) {
    uma_text_append(text, (*n)++ == 0 ? "  held by  " : "           ");
}

static void holders_text(struct uma_text *text, const struct look *look, unsigned columns) {
    const struct uma_account *a = &look->account;
    size_t n = 0;
    _cleanup_text_ struct uma_text beside = { 0 };
    bool more = uma_gpu_beside_text(&beside, &look->snapshot, a) && beside.data;
    if (more && a->ledger.gpu_whole) { /* the device's own figure: usually more than any process shows */
        held_by(text, &n);
        uma_text_printf(text, "%s\n", beside.data);
    }
    for (size_t i = 0; i < a->n_holders && i < HOLDERS_SHOWN; i++) {
        held_by(text, &n);
        uma_holder_phrase(text, &a->holders[i], columns - 11);
        uma_text_char(text, '\n');
    }
    if (a->n_holders > HOLDERS_SHOWN)
        uma_text_printf(text, "           and %zu more: umactl status --all\n", a->n_holders - HOLDERS_SHOWN);
    if (more && !a->ledger.gpu_whole) {
        uma_text_append(text, "  ");
        (void)uma_text_safe(text, beside.data, 0);
        uma_text_char(text, '\n');
    } else if (n == 0)
        uma_text_append(text, "  no process holds a part worth a line: umactl status shows where it is\n");
}

static void answer_text(struct uma_text *text, const struct options *options, const struct look *look, double waited) {
    struct uma_status_style style = uma_status_style_of(STDOUT_FILENO);
    struct uma_u64 budget = look->account.headroom.budget;
    verdict_text(text, options, look, waited);
    if (look->never)
        never_text(text, options, look);
    else if (options->has_contiguous && short_of_pieces(options, look))
        uma_text_append(text, "  sudo sysctl vm.compact_memory=1 may put larger blocks together; where it does not, only a reboot has\n");
    if (!uma_usable(budget.validity) || budget.value < options->need.bytes)
        holders_text(text, look, style.columns);
    if (!style.utf8)
        uma_layout_ascii(text);
}

static int answer(const struct options *options, const struct look *look, double waited) {
    if (!options->quiet) {
        _cleanup_text_ struct uma_text text = { 0 };
        if (options->common.json)
            answer_json(&text, options, look, waited);
        else
            answer_text(&text, options, look, waited);
        if (uma_command_print(&text) < 0)
            return UMA_EXIT_UNKNOWN;
    }
    return look->met == UMA_YES ? UMA_EXIT_OK : look->met == UMA_NO ? UMA_EXIT_NO : UMA_EXIT_UNKNOWN;
}

/* ---- waiting ------------------------------------------------------------------------------------------------ */

/* One line on a terminal's stderr, rewritten at every look. */
static void progress(const struct options *options, const struct look *look, double waited) {
    if (options->quiet || isatty(STDERR_FILENO) != 1)
        return;
    struct uma_status_style style = uma_status_style_of(STDERR_FILENO);
    const struct uma_account *a = &look->account;
    _cleanup_text_ struct uma_text line = { 0 }, out = { 0 };
    uma_text_append(&line, "waiting ");
    uma_text_duration(&line, waited);
    uma_text_append(&line, ": ");
    uma_layout_bytes(&line, a->headroom.budget);
    uma_text_append(&line, " of ");
    uma_text_bytes(&line, options->need.bytes);
    for (size_t i = 0; i < a->n_holders && i < HOLDERS_IN_PROGRESS; i++) {
        uma_text_append(&line, i ? "; " : "; held by ");
        uma_holder_phrase(&line, &a->holders[i], 48);
    }
    uma_text_append(&out, "\r");
    (void)uma_text_cut(&out, line.data ? line.data : "", style.columns - 1); /* phrases are escaped */
    uma_text_append(&out, "\033[K");
    if (!style.utf8)
        uma_layout_ascii(&out);
    (void)uma_command_write(STDERR_FILENO, out.data ? out.data : "", out.length);
}

static void progress_end(const struct options *options) {
    if (options->has_wait && !options->quiet && isatty(STDERR_FILENO) == 1)
        (void)uma_command_write(STDERR_FILENO, "\r\033[K", 4);
}

static int interrupted(const struct options *options, const struct look *look, double waited) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_printf(&t, "umactl require: stopped by %s after ", stop_signal == SIGINT ? "Ctrl-C" : "SIGTERM");
    uma_text_duration(&t, waited);
    uma_text_append(&t, "; a new job can have ");
    uma_layout_bytes(&t, look->account.headroom.budget);
    uma_text_append(&t, " of ");
    uma_text_bytes(&t, options->need.bytes);
    uma_text_char(&t, '\n');
    (void)uma_command_write(STDERR_FILENO, t.data ? t.data : "", t.length);
    return 128 + (int)stop_signal;
}

static double elapsed(int64_t since) {
    return (double)(uma_monotonic_ns() - since) / 1e9;
}

static void sleep_seconds(double seconds) {
    struct timespec t = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    if (!stop_signal)
        (void)nanosleep(&t, NULL);
}

/* Look until it is met or the time is over. `look` holds the last look afterwards. */
static int wait_for_it(const struct options *options, struct uma_observer *observer, struct look *look, double *ret_waited,
                       struct uma_error *err) {
    int64_t start = uma_monotonic_ns();
    double delay = UMA_REQUIRE_DELAY_LEAST;
    uint64_t previous = 0;
    for (;;) {
        uma_account_done(&look->account);
        look->account = (struct uma_account){ 0 };
        struct uma_claims claims;
        uma_command_claims_read(&options->common, &claims);
        int r = uma_observer_read(observer, REQUIRE_READS, &look->snapshot, err);
        if (r >= 0)
            r = look_judge(look, &claims, &options->need, err);
        uma_claims_done(&claims);
        if (r < 0)
            return r;
        *ret_waited = elapsed(start);
        double left = options->wait - *ret_waited;
        if (look->met == UMA_YES || look->never || stop_signal || !options->has_wait || left <= 0)
            return 0;
        progress(options, look, *ret_waited);
        delay = uma_require_delay(delay, previous, look->account.headroom.budget.value);
        previous = look->account.headroom.budget.value;
        sleep_seconds(MIN_OF(delay, left));
    }
}

static int require_live(const struct options *options) {
    struct uma_error err = { 0 };
    struct uma_observe_options observe = uma_command_observe_options(&options->common);
    observe.keep_probe = options->has_wait;
    struct look look = { 0 };
    struct uma_observer *observer = NULL;
    int r = uma_snapshot_init(&look.snapshot);
    if (r < 0) {
        (void)uma_error_set(&err, -r, "taking a snapshot");
        return uma_command_fail("require", UMA_EXIT_UNKNOWN, &err);
    }
    double waited = 0;
    if (options->has_wait) {
        /* No SA_RESTART: the sleep must end. The default comes back after the first, so that a second Ctrl-C always works. */
        struct sigaction act = { .sa_handler = on_stop, .sa_flags = (int)SA_RESETHAND };
        (void)sigaction(SIGINT, &act, NULL);
        (void)sigaction(SIGTERM, &act, NULL);
    }
    r = uma_observer_open(&observe, &observer, &err);
    if (r >= 0)
        r = wait_for_it(options, observer, &look, &waited, &err);
    progress_end(options);
    int status = r < 0                                ? uma_command_fail("require", UMA_EXIT_UNKNOWN, &err)
                 : stop_signal && look.met != UMA_YES ? interrupted(options, &look, waited)
                                                      : answer(options, &look, options->has_wait ? waited : 0);
    (void)uma_observer_close(observer);
    look_done(&look);
    return status;
}

static int require_from(const struct options *options) {
    struct uma_error err = { 0 };
    struct look look = { 0 };
    if (uma_command_snapshot_take(&options->common, REQUIRE_READS, &look.snapshot, &err) < 0)
        return uma_command_fail("require", UMA_EXIT_UNKNOWN, &err);
    const struct uma_claims none = { 0 };
    int status = look_judge(&look, &none, &options->need, &err) < 0 ? uma_command_fail("require", UMA_EXIT_UNKNOWN, &err)
                                                                    : answer(options, &look, 0);
    look_done(&look);
    return status;
}

/* ---- the command -------------------------------------------------------------------------------------------- */

static int set_option(struct options *options, int c) {
    struct uma_error err = { 0 };
    int r = 0;
    const char *name = "";
    switch (c) {
    case 'q':
        options->quiet = true;
        break;
    case OPTION_BYTES:
        name = "bytes";
        r = uma_parse_size(optarg, &options->need.bytes, &err);
        options->has_bytes = true;
        break;
    case OPTION_CONTIGUOUS:
        name = "contiguous";
        r = uma_parse_size(optarg, &options->need.contiguous, &err);
        options->has_contiguous = true;
        break;
    case OPTION_WAIT:
        name = "wait";
        r = uma_parse_duration(optarg, &options->wait, &err);
        options->has_wait = true;
        break;
    default:
        break;
    }
    return r < 0 ? uma_command_usage_error(&uma_command_require, "--%s: %s", name, err.text) : 0;
}

static int run(int argc, char **argv) {
    static const struct option table[] = { UMA_COMMON_OPTIONS,
                                           { "bytes", required_argument, NULL, OPTION_BYTES },
                                           { "contiguous", required_argument, NULL, OPTION_CONTIGUOUS },
                                           { "wait", required_argument, NULL, OPTION_WAIT },
                                           { "quiet", no_argument, NULL, 'q' },
                                           { 0 } };
    struct options options = { 0 };
    struct uma_option_reader reader = { .command = &uma_command_require, .options = table, .letters = ":hq", .common = &options.common };
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        if (c == UMA_OPTION_STOP)
            return reader.status;
        int status = set_option(&options, c);
        if (status)
            return status;
    }
    if (!options.has_bytes)
        return uma_command_usage_error(&uma_command_require, "--bytes N is missing: how much must there be?");
    if (options.has_wait && options.common.from)
        return uma_command_usage_error(&uma_command_require, "--wait reads again and again, --from is one reading: give one of them");
    if (options.quiet && options.common.json)
        return uma_command_usage_error(&uma_command_require, "--quiet prints nothing, --json prints a document: give one of them");
    return options.common.from ? require_from(&options) : require_live(&options);
}

const struct uma_command uma_command_require = { "require", "exit 0 once this much memory is there; name who holds it otherwise", usage,
                                                 run };
