/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "job/load_text.h"

#include <string.h>

static struct uma_u64 u(uint64_t v) {
    return (struct uma_u64){ v, UMA_KNOWN };
}

static void says(const struct uma_run_load *load, const char *expected) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_load_text(load, &text);
    assert_string_equal(text.data, expected);
}

static struct uma_run_load whole(void) {
    return (struct uma_run_load){ .asked = true,
                                  .ended = true,
                                  .loaded = true,
                                  .seconds = 12.3,
                                  .files = 2,
                                  .file_bytes = 4 * UMA_GIB,
                                  .read_bytes = 4 * UMA_GIB,
                                  .peak = u(43 * UMA_GIB / 10),
                                  .peak_without = u(8 * UMA_GIB),
                                  .lowest_free = u(91 * UMA_GIB / 10) };
}

static void loaded(void **state) {
    (void)state;
    struct uma_run_load load = whole();
    says(&load, "4.0 GiB of weights read in 12.3 s, peak 4.3 GiB (8.0 GiB without), lowest free 9.1 GiB");
    load.read_bytes = 3 * UMA_GIB; /* the rest is of no use to this job: a second format of the same weights in one file */
    says(&load, "3.0 GiB of weights read in 12.3 s, peak 4.3 GiB (8.0 GiB without), lowest free 9.1 GiB");
}

static void not_to_the_end(void **state) {
    (void)state;
    struct uma_run_load load = whole();
    load.loaded = false;
    load.read_bytes = UMA_GIB;
    load.evicted_again_bytes = 5 * UMA_MIB;
    load.kept_free_bytes = 3 * UMA_GIB;
    (void)strcpy(load.note, "no rights");
    says(
        &load,
        "1.0 GiB of 4.0 GiB of weights read in 12.3 s, peak 4.3 GiB (8.0 GiB without), lowest free 9.1 GiB; 5.0 MiB were read twice; 3.0 GiB "
        "of other weights evicted; no rights");
    load = whole();
    load.loaded = false;
    load.in_place = true;
    says(&load,
         "4.0 GiB of weights read in 12.3 s, peak 4.3 GiB (8.0 GiB without), lowest free 9.1 GiB; the job uses its weights where they are "
         "mapped, so they stay");
}

static void unknown(void **state) {
    (void)state;
    struct uma_run_load load = { .asked = true };
    says(&load, "loading was not over");
    load = whole();
    load.peak = load.peak_without = load.lowest_free = (struct uma_u64){ 0, UMA_UNKNOWN };
    says(&load, "4.0 GiB of weights read in 12.3 s, peak ? (? without), lowest free ?");
}

static void nothing(void **state) {
    (void)state;
    struct uma_run_load load = { .asked = true, .ended = true };
    says(&load, "no weight file was opened");
    load.kept_free_bytes = UMA_GIB;
    says(&load, "no weight file was opened; 1.0 GiB of other weights evicted");
    (void)strcpy(load.note, "out of memory");
    says(&load, "no weight file was opened; 1.0 GiB of other weights evicted; out of memory");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(loaded), cmocka_unit_test(not_to_the_end), cmocka_unit_test(unknown),
                                        cmocka_unit_test(nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
