/* SPDX-License-Identifier: MIT */
#include "cmd/command.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] = "usage: umactl snapshot [OPTION...]\n"
                            "\n"
                            "One reading of the machine as JSON; every command takes it back with --from.\n"
                            "\n"
                            "  -o, --output FILE  write it to FILE, whole or not at all, instead of standard output\n"
                            "      --folder DIR   also copy every file that was read into DIR, for --root\n"
                            "      --redact       replace host, users, paths, addresses and names by stand-ins\n"
                            "      --from FILE    a snapshot read before, instead of the machine; - is standard input\n"
                            "      --root DIR     a machine laid out as a folder (also UMACTL_ROOT)\n"
                            "      --json         nothing: the output always is JSON\n"
                            "      --version      print the version\n"
                            "  -h, --help         print this\n"
                            "\n"
                            "Exit status: 0 written, 2 usage, 3 it could not be read or written.\n";

enum { OPTION_FOLDER = UMA_OPTION_OWN, OPTION_REDACT };

/* A report is read by somebody who cannot ask again. */
#define EVERYTHING (UMA_READ_ALL | UMA_READ_PAGE_CACHE)

struct options {
    struct uma_common_options common;
    const char *output, *folder;
    bool redact;
};

static mode_t plain_mode(void) {
    mode_t mask = umask(077);
    (void)umask(mask);
    return 0666 & ~mask;
}

/* Write beside it and rename, so that a reader of `path` never sees a part. */
static int write_file(const char *path, const char *data, size_t length, struct uma_error *err) {
    struct stat st;
    _cleanup_close_ int fd = -1;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* /dev/stdout, a FIFO: nothing to replace */
        if ((fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)) < 0)
            return uma_error_set(err, errno, "%s: cannot be opened for writing", path);
        int r = uma_command_write(fd, data, length);
        return r < 0 ? uma_error_set(err, -r, "%s: cannot be written", path) : 0;
    }
    _cleanup_text_ struct uma_text temporary = { 0 };
    uma_text_printf(&temporary, "%s.XXXXXX", path);
    if (temporary.failed)
        return uma_error_set(err, ENOMEM, "%s", path);
    if ((fd = mkostemp(temporary.data, O_CLOEXEC)) < 0)
        return uma_error_set(err, errno, "%s: no file can be made beside it", path);
    int r = uma_command_write(fd, data, length);
    if (r < 0)
        (void)uma_error_set(err, -r, "%s: cannot be written", path);
    else if (fchmod(fd, plain_mode()) < 0 || fsync(fd) < 0 || rename(temporary.data, path) < 0)
        r = uma_error_set(err, errno, "%s: cannot be put in place", path);
    if (r < 0)
        (void)unlink(temporary.data);
    return r;
}

static int take(const struct options *options, struct uma_snapshot *ret_snapshot, struct uma_error *err) {
    if (!options->folder)
        return uma_command_snapshot_take(&options->common, EVERYTHING, ret_snapshot, err);
    struct uma_observe_options observe = uma_command_observe_options(&options->common);
    observe.capture = options->folder;
    return uma_command_snapshot_read(&observe, EVERYTHING, ret_snapshot, err);
}

static int write_out(const struct options *options, struct uma_snapshot *snapshot, struct uma_error *err) {
    if (options->redact) {
        int r = uma_snapshot_redact(snapshot, err);
        if (r < 0)
            return r;
    }
    _cleanup_text_ struct uma_text text = { 0 };
    int r = uma_snapshot_format(snapshot, &text.data, &text.length, err);
    if (r < 0)
        return r;
    if (options->output && strcmp(options->output, "-") != 0)
        return write_file(options->output, text.data, text.length, err);
    r = uma_command_print(&text);
    return r < 0 ? -ECANCELED : 0; /* told already */
}

static int snapshot_run(const struct options *options) {
    struct uma_error err = { 0 };
    struct uma_snapshot snapshot;
    if (take(options, &snapshot, &err) < 0)
        return uma_command_fail("snapshot", UMA_EXIT_UNKNOWN, &err);
    int r = write_out(options, &snapshot, &err);
    uma_snapshot_done(&snapshot);
    if (r == -ECANCELED && !err.text[0])
        return UMA_EXIT_UNKNOWN;
    return r < 0 ? uma_command_fail("snapshot", UMA_EXIT_UNKNOWN, &err) : UMA_EXIT_OK;
}

static int run(int argc, char **argv) {
    static const struct option table[] = { UMA_COMMON_OPTIONS,
                                           { "output", required_argument, NULL, 'o' },
                                           { "folder", required_argument, NULL, OPTION_FOLDER },
                                           { "redact", no_argument, NULL, OPTION_REDACT },
                                           { 0 } };
    struct options options = { 0 };
    struct uma_option_reader reader = { .command = &uma_command_snapshot, .options = table, .letters = ":ho:", .common = &options.common };
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        if (c == UMA_OPTION_STOP)
            return reader.status;
        if (c == 'o')
            options.output = optarg;
        else if (c == OPTION_FOLDER)
            options.folder = optarg;
        else
            options.redact = true;
    }
    /* a file at the size limit is an error to tell; the signal would leave half of one behind */
    (void)signal(SIGXFSZ, SIG_IGN);
    if (options.folder && !*options.folder)
        return uma_command_usage_error(&uma_command_snapshot, "--folder: the name is empty");
    if (options.output && !*options.output)
        return uma_command_usage_error(&uma_command_snapshot, "--output: the name is empty");
    if (options.folder && options.common.from)
        return uma_command_usage_error(&uma_command_snapshot, "--folder copies files of a machine, and --from has none: give one of them");
    if (options.folder && options.redact)
        return uma_command_usage_error(
            &uma_command_snapshot, "--redact changes the document only, the copies in --folder would keep every name: give one of them");
    return snapshot_run(&options);
}

const struct uma_command uma_command_snapshot = { "snapshot", "one reading of the machine as JSON, for --from and for bug reports", usage,
                                                  run };
