/* SPDX-License-Identifier: MIT */
#include "cmd/guard.h"

#include "guard/policy_file.h"

#include <string.h>

static const char usage[] =
    "usage: umactl guard policy [FILE] [OPTION...]\n"
    "\n"
    "The policy in force for this machine, in the form of its file, and which file set what: /etc/umactl/guard.conf and guard.conf.d/*.conf\n"
    "(from /usr/lib/umactl what /etc does not have by that name), or FILE alone. What is 0 for \"by the machine's size\" is filled in.\n"
    "\n"
    "      --check          say only whether it can be used; a mistake is told with its file and line\n"
    "      --reasons        the reason of every key as a comment; a key that has its default is commented out\n"
    "      --json           print JSON\n"
    "      --root DIR       a machine laid out as a folder (also UMACTL_ROOT)\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: 0 it can be used, 1 it has a mistake (the guard keeps the one that it has), 2 usage, 3 a file could not be read.\n";

static const struct uma_command *const self = &uma_command_guard_policy;

enum { OPTION_CHECK = UMA_OPTION_OWN, OPTION_REASONS };

struct options {
    struct uma_common_options common;
    const char *file;
    bool check, reasons;
};

struct reading {
    struct uma_guard_policy given, policy, defaults; /* as it was read, as it is for this machine */
    struct uma_guard_policy_sources sources;
    uint64_t total; /* 0: not known, and what goes by it stays 0 */
};

/* ---- text --------------------------------------------------------------------------------------------------- */

static void print_source(const struct reading *r, unsigned i, struct uma_text *text) {
    const struct uma_guard_policy_source *source = &r->sources.list[i];
    if (source->line) {
        uma_text_append(text, "# ");
        (void)uma_text_safe(text, source->path, 0);
        uma_text_printf(text, ":%u%s\n", (unsigned)source->line,
                        uma_guard_policy_same(&r->given, &r->policy, &uma_guard_keys[i]) ? "" : ", as far as this machine allows");
    } else if (!uma_guard_policy_same(&r->policy, &r->defaults, &uma_guard_keys[i]))
        uma_text_append(text, "# by the size of this machine\n");
}

/* The helper's part: the address is a secret, and only that there is one is told. */
static void print_notify(const struct reading *r, unsigned i, struct uma_text *text) {
    const struct uma_guard_key *key = &uma_guard_keys[i];
    const char *value = (const char *)&r->sources.notify + key->offset;
    if (key->kind == UMA_GUARD_KEY_SWITCH)
        uma_text_printf(text, "%s=%s\n", key->name, r->sources.notify.desktop ? "yes" : "no");
    else if (key->kind == UMA_GUARD_KEY_URL && *value)
        uma_text_printf(text, "# %s= is set, and not shown\n", key->name);
    else
        uma_text_printf(text, "%s=%s\n", key->name, value);
}

static void print_text(const struct reading *r, struct uma_text *text) {
    for (uint32_t i = 0; i < r->sources.n_files; i++) {
        uma_text_append(text, i ? "#       " : "# from: ");
        (void)uma_text_safe(text, r->sources.files[i], 0);
        uma_text_char(text, '\n');
    }
    if (!r->sources.n_files)
        uma_text_append(text, "# from: no file; every key has its default\n");
    if (!r->total)
        uma_text_append(text, "# how much memory the machine has is not known: what goes by it is 0\n");
    for (unsigned i = 0; i < UMA_GUARD_KEYS; i++) {
        if (uma_guard_key_begins_section(i))
            uma_text_printf(text, "\n[%s]\n", uma_guard_keys[i].section);
        print_source(r, i, text);
        if (uma_guard_keys[i].of_notify)
            print_notify(r, i, text);
        else
            uma_guard_policy_print_key(&r->policy, &uma_guard_keys[i], "", text);
    }
}

/* ---- JSON --------------------------------------------------------------------------------------------------- */

static void write_value(struct uma_json *json, const struct reading *r, const struct uma_guard_key *key) {
    const char *base = key->of_notify ? (const char *)&r->sources.notify : (const char *)&r->policy;
    const void *value = base + key->offset;
    const struct uma_guard_patterns *patterns = value;
    switch (key->kind) {
    case UMA_GUARD_KEY_SIZE:
        /* 0 is left where it goes by a size that is not known */
        uma_json_u64(json, "value", (struct uma_u64){ *(const uint64_t *)value, *(const uint64_t *)value ? UMA_KNOWN : UMA_UNKNOWN });
        break;
    case UMA_GUARD_KEY_SECONDS:
    case UMA_GUARD_KEY_MULTIPLE:
        uma_json_double(json, "value", *(const double *)value);
        break;
    case UMA_GUARD_KEY_COUNT:
        uma_json_unsigned(json, "value", *(const uint32_t *)value);
        break;
    case UMA_GUARD_KEY_SWITCH:
        uma_json_bool(json, "value", *(const bool *)value);
        break;
    case UMA_GUARD_KEY_PATTERNS:
        uma_json_begin_array(json, "value", true);
        for (uint32_t i = 0; i < patterns->n && i < UMA_GUARD_PATTERNS; i++)
            uma_json_string(json, NULL, patterns->list[i]);
        uma_json_end_array(json);
        break;
    case UMA_GUARD_KEY_COMMAND:
        uma_json_string(json, "value", *(const char *)value ? value : NULL);
        break;
    case UMA_GUARD_KEY_URL: /* a secret */
        uma_json_null(json, "value");
        break;
    }
}

static void write_json(const struct reading *r, struct uma_text *text) {
    struct uma_json json = { .text = text };
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", "umactl.guard-policy/1");
    uma_json_begin_array(&json, "files", false);
    for (uint32_t i = 0; i < r->sources.n_files; i++)
        uma_json_string(&json, NULL, r->sources.files[i]);
    uma_json_end_array(&json);
    uma_json_begin_array(&json, "keys", false);
    for (unsigned i = 0; i < UMA_GUARD_KEYS; i++) {
        const struct uma_guard_policy_source *source = &r->sources.list[i];
        uma_json_begin_object(&json, NULL, false);
        uma_json_string(&json, "section", uma_guard_keys[i].section);
        uma_json_string(&json, "key", uma_guard_keys[i].name);
        write_value(&json, r, &uma_guard_keys[i]);
        uma_json_string(&json, "file", source->line ? source->path : NULL);
        uma_json_u64(&json, "line", (struct uma_u64){ source->line, source->line ? UMA_KNOWN : UMA_UNKNOWN });
        uma_json_string(&json, "reason", uma_guard_keys[i].reason);
        uma_json_end_object(&json);
    }
    uma_json_end_array(&json);
    uma_json_end_object(&json);
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static uint64_t read_total(const struct options *options) {
    struct uma_snapshot snapshot = { 0 };
    uint64_t total = 0;
    if (uma_command_snapshot_take(&options->common, UMA_READ_MEMORY, &snapshot, NULL) >= 0) {
        if (uma_usable(snapshot.meminfo.mem_total.validity))
            total = snapshot.meminfo.mem_total.value;
        uma_snapshot_done(&snapshot);
    }
    return total;
}

static int say_fine(const struct reading *r, struct uma_text *text) {
    for (uint32_t i = 0; i < r->sources.n_files; i++) {
        (void)uma_text_safe(text, r->sources.files[i], 0);
        uma_text_append(text, ": can be used\n");
    }
    if (!r->sources.n_files)
        uma_text_append(text, "no file: every key has its default\n");
    return uma_command_print(text) < 0 ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
}

static int show(const struct options *options, struct reading *r) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_error err = { 0 };
    const char *root = options->common.root && strcmp(options->common.root, "/") != 0 ? options->common.root : "";
    int result = uma_guard_policy_load_sources(root, options->file, &r->policy, &r->sources, &err);
    if (result < 0)
        return uma_command_fail(self->name, result == -EINVAL || result == -EFBIG ? UMA_EXIT_NO : UMA_EXIT_UNKNOWN, &err);
    if (options->check && !options->common.json)
        return say_fine(r, &text);
    uma_guard_policy_default(&r->defaults);
    r->given = r->policy;
    r->total = read_total(options);
    if (r->total)
        uma_guard_policy_settle(&r->policy, r->total);
    if (options->common.json)
        write_json(r, &text);
    else if (options->reasons)
        uma_guard_policy_print(&r->policy, true, &text);
    else
        print_text(r, &text);
    return uma_command_print(&text) < 0 ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
}

static int run(int argc, char **argv) {
    static const struct option table[] = { { "check", no_argument, NULL, OPTION_CHECK },
                                           { "reasons", no_argument, NULL, OPTION_REASONS },
                                           { "json", no_argument, NULL, UMA_OPTION_JSON },
                                           { "root", required_argument, NULL, UMA_OPTION_ROOT },
                                           { "version", no_argument, NULL, UMA_OPTION_VERSION },
                                           { "help", no_argument, NULL, 'h' },
                                           { 0 } };
    struct options options = { 0 };
    struct uma_error err = { 0 };
    struct uma_option_reader reader = { self, table, ":h", &options.common, true, 0 };
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        if (c == UMA_OPTION_STOP)
            return reader.status;
        if (c == OPTION_CHECK)
            options.check = true;
        else
            options.reasons = true;
    }
    if (optind < argc)
        options.file = argv[optind++];
    if (optind < argc)
        return uma_command_usage_error(self, "unexpected argument \"%.64s\": one FILE is the whole policy", argv[optind]);
    if (options.file && !*options.file)
        return uma_command_usage_error(self, "FILE: the name is empty");
    if (options.reasons && options.common.json)
        return uma_command_usage_error(self, "--reasons is for text: --json has them in any case");
    _cleanup_free_
    struct reading *reading = calloc(1, sizeof(*reading));
    if (!reading) {
        (void)uma_error_set(&err, ENOMEM, "reading the policy");
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    }
    return show(&options, reading);
}

const struct uma_command uma_command_guard_policy = { "guard policy", "the policy in force, and which file set what", usage, run };
