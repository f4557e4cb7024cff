/* SPDX-License-Identifier: MIT */
#include "cmd/cache_evict.h"

#include "base/units.h"
#include "cache/select.h"
#include "cmd/layout.h"

#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "usage: umactl cache evict PATH... [OPTION...]\n"
    "       umactl cache evict (--model NAME | --all-models | --larger-than N) [OPTION...]\n"
    "       umactl cache evict --all [OPTION...]\n"
    "\n"
    "Take exactly these out of the page cache, and say by measurement what that did. Data that is not on storage yet is written out first,\n"
    "or stays; pages that a process maps or locks stay. A PATH is a file or a tree, or /proc/PID/fd/N of a file that was deleted. What is\n"
    "evicted is read from storage again when it is needed.\n"
    "\n"
    "      --model NAME     a model as `umactl cache` names it; may be given again\n"
    "      --all-models     every model of that listing\n"
    "      --larger-than N  files above this size: of the listing, or of what else is named here\n"
    "      --path DIR       also look for models below this folder; may be given again\n"
    "      --all            all of the machine's clean cache, slab caches and the GPU driver's pools, and compact what is free; needs root\n"
    "      --force          with --all: also while a job trains or loads\n"
    "      --sync           write out dirty data in any case, also where the kernel does not say whether there is some\n"
    "      --no-sync        write nothing: what is dirty stays, and is told\n"
    "      --dry-run        change nothing: measure, and show what would be evicted\n"
    "      --json           one JSON document: every file, before and after\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: 0 all that could be evicted was (what is kept is told), 1 nothing could be evicted though there was something (links that\n"
    "lead out of a tree are not followed), or data could not be written out, or --all is refused, 2 usage, 3 could not be read, 130 ended by\n"
    "Ctrl-C: the receipt is of what was done by then.\n";

static const struct uma_command *const self = &uma_command_cache_evict;

enum {
    OPTION_MODEL = UMA_OPTION_OWN,
    OPTION_ALL_MODELS,
    OPTION_LARGER_THAN,
    OPTION_PATH,
    OPTION_ALL,
    OPTION_FORCE,
    OPTION_SYNC,
    OPTION_NO_SYNC,
    OPTION_DRY_RUN
};

/* Looking for models is bounded as the listing is. */
#define SEARCH_SECONDS 30.0

/* ---- evicting ----------------------------------------------------------------------------------------------- */

static void progress(void *userdata, uint64_t files, uint64_t bytes, const char *at) {
    const char *what = userdata;
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_printf(&t, "%llu files, ", (unsigned long long)files);
    uma_text_gib(&t, bytes);
    uma_text_printf(&t, " %s: %s", what, at);
    uma_cache_progress(t.data ? t.data : "");
}

/* Where everything that is named can be reached, and is a file or a folder: else nothing is done at all. */
static int paths_check(const struct uma_cache_evict_options *options, struct uma_error *err) {
    for (size_t i = 0; i < options->n_paths; i++) {
        struct stat st;
        if (stat(options->paths[i], &st) < 0)
            return uma_error_set(err, errno, "%s", options->paths[i]);
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
            return uma_error_text(err, EINVAL, "%s: neither a file nor a folder", options->paths[i]);
        if (access(options->paths[i], R_OK) < 0)
            return uma_error_set(err, errno, "%s", options->paths[i]);
    }
    return 0;
}

static int evict_paths(const struct uma_cache_evict_options *options, struct uma_root *root, struct uma_eviction *eviction,
                       struct uma_error *err) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(64 * UMA_MIB); /* the longest mount table that is read, and more */
    struct uma_mounts mounts = { 0 };
    if (!arena)
        return uma_error_set(err, ENOMEM, "evicting");
    int r = 0;
    /* without a mount table everything is taken for local: a path that was named is looked at whatever it is on */
    bool known = uma_mounts_read(root, 0, arena, &mounts, NULL) >= 0;
    for (size_t i = 0; r >= 0 && i < options->n_paths && !eviction->interrupted; i++)
        r = uma_eviction_path(eviction, options->paths[i], known ? &mounts : NULL, err);
    return r;
}

static int evict_listed(const struct uma_cache_evict_options *options, struct uma_eviction *eviction, struct uma_error *err) {
    static char before[] = "looking for models: ";
    struct uma_cache_listing listing;
    struct uma_page_cache_request request = { .processes = true,
                                              .stores = true,
                                              .paths = options->search,
                                              .n_paths = options->n_search,
                                              .seconds = SEARCH_SECONDS,
                                              .progress = uma_cache_search_progress,
                                              .userdata = before };
    struct uma_common_options here = { 0 };
    int r = uma_cache_listing_read(&here, &request, &listing, err);
    if (r < 0)
        return r;
    struct uma_cache_selection selection = { options->models, options->n_models, options->all_models, options->larger_than };
    size_t n = 0;
    const struct uma_cached_file **files = NULL;
    r = uma_cache_select(&listing.snapshot.page_cache, &selection, listing.snapshot.arena, &n, &files, err);
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = uma_eviction_listed(eviction, files[i], err);
    if (uma_cache_signal()) /* also while it was looked for them */
        eviction->interrupted = true;
    uma_cache_listing_done(&listing);
    return r;
}

int uma_cache_evict_status(const struct uma_cache_evict_answer *answer) {
    const struct uma_eviction *e = &answer->eviction;
    bool only_links = e->n_files == 0 && e->walk.links_outside > 0;
    bool something = e->kept > 0 || e->memory_files > 0 || e->denied > 0 || e->walk.denied > 0 || only_links;
    if (answer->options->dry_run)
        return UMA_EXIT_OK;
    return e->n_failed > 0 || (something && e->evicted == 0 && e->n_unknown == 0) ? UMA_EXIT_NO : UMA_EXIT_OK;
}

/* ---- the answer --------------------------------------------------------------------------------------------- */

static int print(const struct uma_cache_evict_answer *answer) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (answer->options->common.json) {
        struct uma_json json = { .text = &text };
        uma_cache_evict_json(&json, answer);
    } else {
        struct uma_status_style style = uma_status_style_of(STDOUT_FILENO);
        uma_cache_evict_text(&text, answer, &style);
        if (!style.utf8)
            uma_layout_ascii(&text);
    }
    if (uma_command_print(&text) < 0)
        return UMA_EXIT_UNKNOWN;
    return answer->eviction.interrupted ? 128 + uma_cache_signal() : uma_cache_evict_status(answer);
}

/* Who maps what was kept, and the names of those. A failure leaves it unknown: the receipt is worth more than its reason. */
static void explain(struct uma_cache_evict_answer *answer, struct uma_root *root, struct uma_snapshot *names) {
    struct uma_eviction *e = &answer->eviction;
    struct uma_observe_options observe = { 0 };
    bool mapped = false;
    (void)uma_eviction_finish(e, root, NULL);
    for (size_t i = 0; i < e->n && !mapped; i++)
        mapped = e->files[i].n_mapped_by > 0;
    if (mapped && uma_command_snapshot_read(&observe, UMA_READ_PROCESSES, names, NULL) >= 0)
        answer->processes = names->processes;
}

static int evict_and_print(const struct uma_cache_evict_options *options, struct uma_root *root, const struct uma_eviction_options *how,
                           int *ret_status, struct uma_error *err) {
    struct uma_cache_evict_answer answer = { .options = options };
    struct uma_snapshot names = { 0 };
    int r = uma_eviction_init(&answer.eviction, how, err);
    if (r < 0)
        return r;
    uma_cache_catch_signals();
    answer.before = uma_cache_memory_read(root);
    r = options->n_paths ? evict_paths(options, root, &answer.eviction, err) : evict_listed(options, &answer.eviction, err);
    answer.after = uma_cache_memory_read(root);
    uma_cache_progress_end();
    if (r >= 0) {
        explain(&answer, root, &names);
        *ret_status = print(&answer);
    }
    uma_snapshot_done(&names);
    uma_eviction_done(&answer.eviction);
    return r;
}

static int evict(const struct uma_cache_evict_options *options) {
    struct uma_error err = { 0 };
    static char evicted[] = "evicted", in_cache[] = "in the cache";
    struct uma_eviction_options how = {
        .dirty = options->sync      ? UMA_EVICT_WRITE
                 : options->no_sync ? UMA_EVICT_LEAVE_DIRTY
                                    : UMA_EVICT_WRITE_IF_DIRTY,
        .dry_run = options->dry_run,
        .every_file = options->common.json,
        .larger_than = options->larger_than,
        .stop = uma_cache_is_stopped,
        .progress = progress,
        .userdata = options->dry_run ? in_cache : evicted,
    };
    _cleanup_root_ struct uma_root *root = NULL;
    int status = UMA_EXIT_UNKNOWN, r = paths_check(options, &err);
    if (r >= 0)
        r = uma_root_open(NULL, NULL, &root, &err);
    if (r >= 0)
        r = evict_and_print(options, root, &how, &status, &err);
    if (r < 0 && options->n_models && (r == -ENOENT || r == -ENOTUNIQ)) /* uma_cache_select() */
        return uma_command_fail(self->name, r == -ENOENT ? UMA_EXIT_NO : UMA_EXIT_USAGE, &err);
    return r < 0 ? uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err) : status;
}

/* ---- the command -------------------------------------------------------------------------------------------- */

static int set(struct uma_cache_evict_options *options, int c) {
    struct uma_error err = { 0 };
    if ((c == OPTION_MODEL || c == OPTION_PATH) && !*optarg)
        return uma_command_usage_error(self, "--%s: the name is empty", c == OPTION_MODEL ? "model" : "path");
    switch (c) {
    case OPTION_MODEL:
        options->models[options->n_models++] = optarg;
        break;
    case OPTION_PATH:
        options->search[options->n_search++] = optarg;
        break;
    case OPTION_LARGER_THAN:
        if (uma_parse_size(optarg, &options->larger_than, &err) < 0)
            return uma_command_usage_error(self, "--larger-than: %s", err.text);
        options->has_larger_than = true;
        break;
    case OPTION_ALL_MODELS:
        options->all_models = true;
        break;
    case OPTION_ALL:
        options->all = true;
        break;
    case OPTION_FORCE:
        options->force = true;
        break;
    case OPTION_SYNC:
        options->sync = true;
        break;
    case OPTION_NO_SYNC:
        options->no_sync = true;
        break;
    default: /* OPTION_DRY_RUN: there is no other */
        options->dry_run = true;
        break;
    }
    return 0;
}

/* What no single option can see. 0 or the exit status. */
static int check(const struct uma_cache_evict_options *o) {
    unsigned kinds = (unsigned)(o->n_paths > 0) + (o->n_models > 0) + o->all_models + o->all;
    if (kinds > 1)
        return uma_command_usage_error(self, "PATH, --model, --all-models and --all each say what to evict: give one of them");
    if (kinds == 0 && !o->has_larger_than)
        return uma_command_usage_error(self, "say what to evict: PATH..., --model NAME, --all-models, --larger-than N or --all");
    if (o->all && o->has_larger_than)
        return uma_command_usage_error(self, "--larger-than chooses among files, --all drops everything: give one of them");
    if (o->n_search && (o->n_paths || o->all))
        return uma_command_usage_error(self, "--path says where to look for models; with %s there is nothing to look for",
                                       o->all ? "--all" : "PATH");
    if (o->sync && o->no_sync)
        return uma_command_usage_error(self, "--sync and --no-sync contradict each other: give one of them");
    if (o->all && o->no_sync)
        return uma_command_usage_error(self, "--all writes nothing out unless --sync is given: --no-sync says nothing with it");
    if (o->force && !o->all)
        return uma_command_usage_error(self, "--force is for --all alone: nothing else needs it");
    if (o->common.root)
        return uma_command_usage_error(self, "UMACTL_ROOT names another machine than this one, which is the one that would be changed");
    for (size_t i = 0; i < o->n_paths; i++)
        if (!*o->paths[i])
            return uma_command_usage_error(self, "a PATH is empty");
    return 0;
}

static int parse_and_run(struct uma_cache_evict_options *options, int argc, char **argv) {
    static const struct option table[] = { { "json", no_argument, NULL, UMA_OPTION_JSON },
                                           { "version", no_argument, NULL, UMA_OPTION_VERSION },
                                           { "help", no_argument, NULL, 'h' },
                                           { "model", required_argument, NULL, OPTION_MODEL },
                                           { "all-models", no_argument, NULL, OPTION_ALL_MODELS },
                                           { "larger-than", required_argument, NULL, OPTION_LARGER_THAN },
                                           { "path", required_argument, NULL, OPTION_PATH },
                                           { "all", no_argument, NULL, OPTION_ALL },
                                           { "force", no_argument, NULL, OPTION_FORCE },
                                           { "sync", no_argument, NULL, OPTION_SYNC },
                                           { "no-sync", no_argument, NULL, OPTION_NO_SYNC },
                                           { "dry-run", no_argument, NULL, OPTION_DRY_RUN },
                                           { 0 } };
    struct uma_option_reader reader = {
        .command = self, .options = table, .letters = ":h", .common = &options->common, .takes_arguments = true
    };
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        int status = c == UMA_OPTION_STOP ? reader.status : set(options, c);
        if (c == UMA_OPTION_STOP || status)
            return status;
    }
    options->n_paths = (size_t)MAX_OF(argc - optind, 0);
    for (size_t i = 0; i < options->n_paths; i++)
        options->paths[i] = argv[optind + (int)i];
    int status = check(options);
    return status ? status : options->all ? uma_cache_flush(options) : evict(options);
}

static int run(int argc, char **argv) {
    struct uma_error err = { 0 };
    _cleanup_free_
    const char **words = calloc(3 * (size_t)argc + 3, sizeof(*words));
    if (!words) {
        (void)uma_error_set(&err, ENOMEM, "reading the options");
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    }
    struct uma_cache_evict_options options = { .paths = words, .models = words + argc + 1, .search = words + 2 * (argc + 1) };
    return parse_and_run(&options, argc, argv);
}

const struct uma_command uma_command_cache_evict = { "cache evict", "take files, models or all of it out of the cache, with a receipt",
                                                     usage, run };
