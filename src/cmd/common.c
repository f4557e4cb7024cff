/* SPDX-License-Identifier: MIT */
#include "cmd/command.h"

#include "base/write.h"
#include "job/claim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------------------------------------------ */

int uma_command_write(int fd, const char *data, size_t length) {
    /* SIGPIPE is ignored only while writing: a job started by `run` must inherit the default. */
    struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
    bool ignoring = sigaction(SIGPIPE, &ignore, &old) == 0;
    int r = uma_write_all(fd, data, length);
    if (ignoring)
        (void)sigaction(SIGPIPE, &old, NULL);
    return r;
}

int uma_command_print(const struct uma_text *text) {
    if (text->failed) {
        (void)fprintf(stderr, "umactl: out of memory while writing the answer\n");
        return -ENOMEM;
    }
    int r = uma_command_write(STDOUT_FILENO, text->data ? text->data : "", text->length);
    if (r == -EPIPE)
        return 1;
    if (r < 0)
        (void)fprintf(stderr, "umactl: writing to standard output: %s\n", strerror(-r));
    return r;
}

/* One line on stderr; the message may hold names from the machine or the command line. */
static void tell(const char *command, const char *message) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_printf(&t, "umactl %s: ", command);
    (void)uma_text_safe(&t, message, 0);
    uma_text_char(&t, '\n');
    if (!t.failed) {
        (void)uma_command_write(STDERR_FILENO, t.data, t.length);
        return;
    }
    char line[sizeof(((struct uma_error *)0)->text) + 64], plain[sizeof(((struct uma_error *)0)->text)];
    (void)uma_text_copy_plain(plain, sizeof plain, message);
    int n = snprintf(line, sizeof line, "umactl %.32s: %s\n", command, plain);
    (void)uma_command_write(STDERR_FILENO, line, (size_t)MAX_OF(n, 0));
}

int uma_command_fail(const char *command, int status, const struct uma_error *err) {
    tell(command, err && err->text[0] ? err->text : "failed for an unknown reason");
    return status;
}

int uma_command_usage_error(const struct uma_command *command, const char *format, ...) {
    struct uma_error err = { 0 };
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(err.text, sizeof err.text, format, ap);
    va_end(ap);
    tell(command->name, err.text);
    (void)fprintf(stderr, "umactl %s: `umactl %s --help` lists the options\n", command->name, command->name);
    return UMA_EXIT_USAGE;
}

/* ---- reservations ------------------------------------------------------------------------------------------- */

void uma_command_claims_read(const struct uma_common_options *options, struct uma_claims *ret_claims) {
    *ret_claims = (struct uma_claims){ 0 };
    if (options->from || (options->root && strcmp(options->root, "/") != 0))
        return;
    uma_claims_read(uma_claims_folder(), ret_claims);
}

static void tell_passed_over(const char *command, const struct uma_claims *claims) {
    static bool told;
    struct uma_error err = { 0 };
    if (!claims->n_passed_over || told)
        return;
    bool folder = strcmp(claims->passed_over, ".") == 0;
    (void)uma_error_text(&err, EUCLEAN, "%s%s%s is passed over, with what it may say of reservations: %s", uma_claims_folder(),
                         folder ? "" : "/", folder ? "" : claims->passed_over, claims->why);
    tell(command, err.text);
    told = true;
}

uint64_t uma_command_reserved(const char *command, const struct uma_claims *claims, const struct uma_snapshot *snapshot) {
    tell_passed_over(command, claims);
    struct uma_u64 total = snapshot->meminfo.mem_total;
    return uma_claims_unspent(claims, uma_usable(total.validity) ? total.value : UINT64_MAX);
}

/* ---- options ------------------------------------------------------------------------------------------------ */

static int stop(struct uma_option_reader *reader, int status) {
    reader->status = status;
    return UMA_OPTION_STOP;
}

static int print_and_stop(struct uma_option_reader *reader, const char *s) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_append(&t, s);
    return stop(reader, uma_command_print(&t) < 0 ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK);
}

static const char *option_name(const void *userdata, size_t i) {
    const struct option *options = userdata;
    return options[i].name;
}

/* The word that getopt refused: it stands just before optind, except for a letter inside "-abc", which is optopt. */
static int refused(struct uma_option_reader *reader, char **argv) {
    const char *word = argv[optind - 1];
    if (optopt && strncmp(word, "--", 2) != 0)
        return stop(reader, uma_command_usage_error(reader->command, "unknown option \"-%c\"", optopt));
    size_t n = 0, length = strcspn(word, "=");
    while (reader->options[n].name)
        n++;
    if (optopt) /* getopt_long sets it when a known option was given a value that it does not take */
        return stop(reader,
                    uma_command_usage_error(reader->command, "option \"%.*s\" takes no value", (int)MIN_OF(length, (size_t)64), word));
    char bare[64] = { 0 };
    if (length > 2 && length - 2 < sizeof bare)
        (void)memcpy(bare, word + 2, length - 2);
    const char *nearest = uma_command_nearest(bare, option_name, reader->options, n);
    if (nearest)
        return stop(reader, uma_command_usage_error(reader->command, "unknown option \"%.*s\"; did you mean \"--%s\"?",
                                                    (int)MIN_OF(length, (size_t)64), word, nearest));
    return stop(reader, uma_command_usage_error(reader->command, "unknown option \"%.*s\"", (int)MIN_OF(length, (size_t)64), word));
}

static int finish(struct uma_option_reader *reader, int argc, char **argv) {
    struct uma_common_options *common = reader->common;
    if (optind < argc && !reader->takes_arguments)
        return stop(reader, uma_command_usage_error(reader->command, "unexpected argument \"%.64s\"", argv[optind]));
    if (common->from && common->root)
        return stop(reader, uma_command_usage_error(reader->command, "--from and --root name two machines: give one of them"));
    if (!common->from && !common->root) {
        const char *root = getenv("UMACTL_ROOT");
        common->root = root && *root ? root : NULL;
    }
    return -1;
}

int uma_option_next(struct uma_option_reader *reader, int argc, char **argv) {
    opterr = 0;
    for (;;) {
        int c = getopt_long(argc, argv, reader->letters, reader->options, NULL);
        switch (c) {
        case -1:
            return finish(reader, argc, argv);
        case 'h':
            return print_and_stop(reader, reader->command->usage);
        case UMA_OPTION_VERSION:
            return print_and_stop(reader, "umactl " UMACTL_VERSION "\n");
        case UMA_OPTION_FROM:
        case UMA_OPTION_ROOT:
            if (!*optarg)
                return stop(reader,
                            uma_command_usage_error(reader->command, "--%s: the name is empty", c == UMA_OPTION_FROM ? "from" : "root"));
            *(c == UMA_OPTION_FROM ? &reader->common->from : &reader->common->root) = optarg;
            break;
        case UMA_OPTION_JSON:
            reader->common->json = true;
            break;
        case ':':
            return stop(reader, uma_command_usage_error(reader->command, "option \"%.64s\" needs a value", argv[optind - 1]));
        case '?':
            return refused(reader, argv);
        default:
            return c;
        }
    }
}
