/* SPDX-License-Identifier: MIT */
#include "job/load_text.h"

#include "base/units.h"

static void bytes(struct uma_text *text, struct uma_u64 v) {
    if (uma_usable(v.validity))
        uma_text_bytes(text, v.value);
    else
        uma_text_char(text, '?');
}

static void read_so_far(const struct uma_run_load *load, struct uma_text *text) {
    if (!load->loaded && load->read_bytes < load->file_bytes) { /* loaded: what it did not read it did not want */
        uma_text_bytes(text, load->read_bytes);
        uma_text_append(text, " of ");
    }
    uma_text_bytes(text, load->loaded ? load->read_bytes : load->file_bytes);
    uma_text_append(text, " of weights read in ");
    uma_text_duration(text, load->seconds);
}

static void others(const struct uma_run_load *load, struct uma_text *text) {
    if (!load->kept_free_bytes)
        return;
    uma_text_append(text, "; ");
    uma_text_bytes(text, load->kept_free_bytes);
    uma_text_append(text, " of other weights evicted");
}

static void figures(const struct uma_run_load *load, struct uma_text *text) {
    uma_text_append(text, ", peak ");
    bytes(text, load->peak);
    uma_text_append(text, " (");
    bytes(text, load->peak_without);
    uma_text_append(text, " without), lowest free ");
    bytes(text, load->lowest_free);
    if (load->evicted_again_bytes) {
        uma_text_append(text, "; ");
        uma_text_bytes(text, load->evicted_again_bytes);
        uma_text_append(text, " were read twice");
    }
    others(load, text);
    if (load->in_place)
        uma_text_append(text, "; the job uses its weights where they are mapped, so they stay");
}

void uma_load_text(const struct uma_run_load *load, struct uma_text *text) {
    if (!load->ended) {
        uma_text_append(text, "loading was not over");
    } else if (load->files == 0) {
        uma_text_append(text, "no weight file was opened");
        others(load, text);
    } else {
        read_so_far(load, text);
        figures(load, text);
    }
    if (load->note[0]) {
        uma_text_append(text, "; ");
        uma_text_append(text, load->note);
    }
}
