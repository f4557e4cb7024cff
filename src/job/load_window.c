/* SPDX-License-Identifier: MIT */
#include "job/load_window.h"

#include "base/thread.h"
#include "base/units.h"
#include "job/load_text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A tick of the following is a fraction of a second; a disk that hangs must not hold the job's status back. */
#define STOP_NS (2 * UMA_SECOND_NS)

struct uma_load_window {
    struct uma_load_window_options options;
    struct uma_window_helper helper;
    struct uma_thread thread;
    pid_t pid;
    atomic_bool stop;
    bool running, told; /* of the starting thread alone */
    int result;         /* from here: the thread's until it has ended */
    struct uma_follow_report report;
    struct uma_error error;
};

struct uma_load_window *uma_load_window_prepare(const struct uma_load_window_options *options, struct uma_job_environment *environment,
                                                struct uma_run *run) {
    if (!options->window && !options->keep_free)
        return NULL;
    run->load.asked = true;
    run->load.window = options->window;
    run->load.keep_free = options->keep_free;
    struct uma_load_window *load = calloc(1, sizeof(*load));
    if (!load) {
        uma_job_tell("out of memory: the job runs without a load window");
        return NULL;
    }
    load->options = *options;
    uma_window_helper_prepare(options->helper, environment, &load->helper);
    run->load.helper = load->helper.use;
    (void)snprintf(run->load.helper_note, sizeof(run->load.helper_note), "%s", load->helper.note);
    /* what it cannot do for want of a right is told when it comes to that, by the following */
    if (load->helper.failed && !options->quiet)
        uma_job_tell("load window: %s", load->helper.note);
    return load;
}

static bool stopped(void *userdata) {
    return atomic_load(&((struct uma_load_window *)userdata)->stop);
}

/* From the following thread: one write(2), with nothing of this module's. */
static void tell(void *userdata, const char *text) {
    if (!((const struct uma_load_window *)userdata)->options.quiet)
        uma_job_tell("load window: %s", text);
}

static void follow(void *userdata) {
    struct uma_load_window *load = userdata;
    struct uma_follow_options how = { .pid = load->pid,
                                      .window = load->options.window,
                                      .keep_free = load->options.keep_free,
                                      .helpers = load->helper.helpers,
                                      .stop = stopped,
                                      .tell = tell,
                                      .userdata = load };
    load->result = uma_follow(&how, &load->report, &load->error);
}

void uma_load_window_start(struct uma_load_window *load, pid_t pid) {
    if (!load)
        return;
    load->pid = pid;
    int r = uma_thread_start(&load->thread, follow, load);
    load->running = r == 0;
    if (r < 0)
        uma_job_tell("load window: no thread: %s; the job runs without it", strerror(-r));
}

static void copy_report(struct uma_run_load *to, const struct uma_load_window *load) {
    const struct uma_follow_report *r = &load->report;
    to->ended = true;
    if (load->result < 0) {
        to->end = "failed";
        (void)snprintf(to->note, sizeof(to->note), "%.250s", load->error.text);
        return;
    }
    to->end = uma_follow_end_name(r->end);
    to->loaded = r->end == UMA_FOLLOW_LOADED;
    to->in_place = r->end == UMA_FOLLOW_IN_PLACE;
    to->seconds = r->seconds;
    to->files = r->files;
    to->file_bytes = r->file_bytes;
    to->read_bytes = r->read_bytes;
    to->evicted_bytes = r->evicted_bytes;
    to->evicted_again_bytes = r->evicted_again_bytes;
    to->kept_free_bytes = r->kept_free_bytes;
    to->peak = r->peak_with;
    to->peak_without = r->peak_without;
    to->cache_peak = r->cache_peak;
    to->lowest_free = r->lowest_free;
    to->by_fadvise = r->means & UMA_FOLLOW_FADVISE;
    to->by_process_madvise = r->means & UMA_FOLLOW_PROCESS_MADVISE;
    to->by_helper = r->means & UMA_FOLLOW_HELPER;
    (void)snprintf(to->note, sizeof(to->note), "%s", r->note);
}

/* Once it has ended. */
static void tell_end(struct uma_load_window *load, struct uma_watch *watch) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_run_load *to = &watch->run->load;
    load->told = true;
    copy_report(to, load);
    uma_load_text(to, &text);
    if (text.failed)
        return;
    if (to->evicted_bytes || to->kept_free_bytes)
        uma_watch_event(watch, "evict", text.data);
    if (load->options.quiet)
        return;
    /* what the following had to say it said at once */
    struct uma_run_load shown = *to;
    if (load->result >= 0)
        shown.note[0] = '\0';
    uma_text_reset(&text);
    uma_load_text(&shown, &text);
    to->told = !text.failed;
    if (to->told)
        uma_job_tell("load window: %s", text.data);
}

void uma_load_window_check(struct uma_load_window *load, struct uma_watch *watch) {
    if (load && load->running && !load->told && uma_thread_ended(&load->thread))
        tell_end(load, watch);
}

struct uma_load_window *uma_load_window_stop(struct uma_load_window *load, struct uma_watch *watch) {
    if (!load)
        return NULL;
    atomic_store(&load->stop, true);
    if (load->running && !uma_thread_stop(&load->thread, STOP_NS)) {
        /* the thread holds `load` and its socket; all go when the process does */
        if (load->helper.helpers)
            (void)unlink(uma_follow_helpers_path(load->helper.helpers));
        uma_window_folder_remove(&load->helper.folder);
        return NULL;
    }
    if (watch && load->running && !load->told)
        tell_end(load, watch);
    uma_window_helper_done(&load->helper);
    free(load);
    return NULL;
}
