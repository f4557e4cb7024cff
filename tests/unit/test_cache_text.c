/* SPDX-License-Identifier: MIT */
/* The listing and the receipt as text and JSON, from readings made by hand. */
#include "test.h"

#include "base/units.h"
#include "base/values.h"
#include "cmd/cache_evict.h"
#include "cmd/layout.h"

#include <jansson.h>
#include <string.h>

#define KNOWN(v) uma_known_u64(v)
#define NOW (INT64_C(1790000000) * UMA_SECOND_NS)

static struct uma_pid vllm[] = { { 4242 }, { 77 } };
static struct uma_process processes[] = { { .pid = 77, .name = "ray" }, { .pid = 4242, .name = "VLLM::EngineCor" } };

static int setup(void **state) {
    static struct uma_cache_listing listing;
    listing = (struct uma_cache_listing){ .seconds = 0.25 };
    *state = &listing;
    struct uma_snapshot *s = &listing.snapshot;
    if (uma_snapshot_init(s) < 0)
        return -1;
    s->time_ns = NOW;
    s->processes = (struct uma_processes){ .n = ELEMENTS(processes), .list = processes };
    s->page_cache = (struct uma_page_cache){
        .total = KNOWN(100 * UMA_GIB), .explained = KNOWN(97 * UMA_GIB), .unreadable = KNOWN(0), .complete = true
    };
    listing.account.ledger = (struct uma_ledger){ .known = true, .total = 120 * UMA_GIB };
    listing.account.ledger.bytes[UMA_LEDGER_CACHE_CLEAN] = 96 * UMA_GIB;
    listing.account.ledger.bytes[UMA_LEDGER_CACHE_DIRTY] = UMA_GIB;
    listing.account.ledger.bytes[UMA_LEDGER_CACHE_MAPPED] = 3 * UMA_GIB;
    return 0;
}

static int teardown(void **state) {
    uma_cache_listing_done(*state);
    return 0;
}

static void list(struct uma_cache_listing *listing, struct uma_cached_file *files, size_t n) {
    listing->snapshot.page_cache.files = files;
    listing->snapshot.page_cache.n_files = n;
}

static const char *text_of(const struct uma_cache_listing *listing, const struct uma_cache_view *view, unsigned columns, unsigned rows) {
    static char buffer[32768];
    _cleanup_text_ struct uma_text t = { 0 };
    struct uma_status_style style = { .columns = columns, .rows = rows, .utf8 = true };
    uma_cache_text(&t, listing, view, &style);
    assert_false(t.failed);
    (void)snprintf(buffer, sizeof buffer, "%s", t.data ? t.data : "");
    if (!rows)
        return buffer;
    for (const char *line = buffer; *line;) {
        char one[1024];
        size_t n = strcspn(line, "\n");
        (void)snprintf(one, sizeof one, "%.*s", (int)n, line);
        if (uma_text_columns(one) > columns)
            fail_msg("%zu columns of %u: %s", uma_text_columns(one), columns, one);
        line += n + (line[n] == '\n');
    }
    return buffer;
}

static void expect(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("\"%s\" is missing in:\n%s", part, text);
}

static void refuse(const char *text, const char *part) {
    if (strstr(text, part))
        fail_msg("\"%s\" stands in:\n%s", part, text);
}

#define GIB_FILE(p, m, r, s)                                                                                                               \
    {                                                                                                                                      \
        .path = (p), .model = (m), .size = { (s)*UMA_GIB, UMA_KNOWN }, .resident = { (r)*UMA_GIB, UMA_KNOWN }, .dirty = { 0, UMA_KNOWN },  \
        .used_ns = NOW - 3 * 3600 * UMA_SECOND_NS, .filesystem = "ext4"                                                                    \
    }

static void models_are_rows(void **state) {
    struct uma_cache_listing *listing = *state;
    struct uma_cached_file files[] = { GIB_FILE("/hub/1", "Qwen/Qwen3-32B", 40, 40), GIB_FILE("/hub/2", "Qwen/Qwen3-32B", 21, 42),
                                       GIB_FILE("/data/a log", NULL, 1, 2), GIB_FILE("/idle", NULL, 0, 500) };
    files[0].mapped_by = vllm;
    files[0].n_mapped_by = 2;
    files[2].dirty = KNOWN(512 * UMA_MIB);
    list(listing, files, ELEMENTS(files));
    struct uma_cache_view view = { .limit = 20, .privileged = true };
    const char *t = text_of(listing, &view, 120, 50);
    expect(t, "100 GiB of page cache: 96.0 GiB can be dropped, 1.0 GiB must be written first, 3.0 GiB mapped by processes\n");
    expect(t, "97.0 GiB (97 %) of it explained by 4 files, looked at in 250 ms");
    expect(t, "  resident    %     dirty      size  files    used  mapped by");
    expect(t, "  61.0 GiB   74       0 B  82.0 GiB      2     3 h  ray 77 +1");
    expect(t, "Qwen/Qwen3-32B\n");
    expect(t, "   1.0 GiB   50   512 MiB   2.0 GiB      1     3 h ");
    expect(t, "nothing of 1 other file (500 GiB) is in the cache");
    refuse(t, "/hub/1");
    view.files = true;
    t = text_of(listing, &view, 120, 50);
    expect(t, "/hub/1\n");
    expect(t, "/hub/2\n");
    refuse(t, "Qwen/Qwen3-32B");
    view.limit = 1;
    t = text_of(listing, &view, 120, 50);
    expect(t, "and 2 more with 22.0 GiB (--limit N, 0 for all)");
    view.limit = 0;
    refuse(text_of(listing, &view, 120, 50), "more with");
}

static void what_could_not_be_measured_is_named(void **state) {
    struct uma_cache_listing *listing = *state;
    struct uma_cached_file files[] = { GIB_FILE("/a", NULL, 40, 40),    GIB_FILE("/proc/7/fd/5", NULL, 0, 2), GIB_FILE("/b\nc", NULL, 0, 2),
                                       GIB_FILE("/denied", NULL, 0, 2), GIB_FILE("/d", NULL, 0, 2),           GIB_FILE("/e", NULL, 0, 2) };
    files[1].shown = "/mnt/share";
    files[1].why = "nobody may answer";
    files[3].resident.validity = UMA_DENIED;
    for (size_t i = 1; i < ELEMENTS(files); i++)
        files[i].resident.validity = i == 3 ? UMA_DENIED : i == 1 ? UMA_UNKNOWN : UMA_FAILED;
    list(listing, files, ELEMENTS(files));
    struct uma_cache_view view = { .limit = 1, .privileged = true };
    const char *t = text_of(listing, &view, 200, 50);
    expect(
        t,
        "?: 4 files could not be measured: /mnt/share (nobody may answer), /b\\nc (it could not be opened or measured), /d (it could not be "
        "opened or measured) and 1 more\n");
    expect(t, "?: of 1 file the kernel tells only");
    list(listing, files, 2);
    expect(text_of(listing, &view, 200, 50), "?: 1 file could not be measured: /mnt/share (nobody may answer)\n");
}

static void columns_leave_on_narrow_terminals(void **state) {
    struct uma_cache_listing *listing = *state;
    struct uma_cached_file files[] = { GIB_FILE("/home/somebody/models/a-very-long-name/model-00001-of-00002.safetensors", NULL, 40, 40),
                                       GIB_FILE("/b", NULL, 21, 42) };
    files[0].mapped_by = vllm;
    files[0].n_mapped_by = 2;
    files[1].dirty = KNOWN(1);
    list(listing, files, ELEMENTS(files));
    struct uma_cache_view view = { .limit = 20 };
    for (unsigned columns = 40; columns <= 160; columns += 5)
        expect(text_of(listing, &view, columns, 24), "40.0 GiB");
    expect(text_of(listing, &view, 80, 24), "-00001-of-00002.safetensors\n"); /* the end of a name tells files apart */
    expect(text_of(listing, &view, 40, 0),
           "/home/somebody/models/a-very-long-name/model-00001-of-00002.safetensors\n"); /* a pipe has it whole */
}

static void what_is_special_is_said(void **state) {
    struct uma_cache_listing *listing = *state;
    struct uma_cached_file files[] = {
        GIB_FILE("/proc/77/fd/5", NULL, 9, 9),    GIB_FILE("/dev/vda", NULL, 3, 200),   GIB_FILE("/proc/77/root/m/x", NULL, 2, 2),
        GIB_FILE("/dev/shm/arena", NULL, 30, 30), GIB_FILE("/m/1", "half/known", 1, 1), GIB_FILE("/m/2", "half/known", 0, 1),
        GIB_FILE("/root/secret", NULL, 0, 70),
    };
    files[0].deleted = true;
    files[0].shown = "/tmp/old\n\033[31m.bin";
    files[1].kind = UMA_CACHED_BLOCK_DEVICE;
    files[2].container = "open-webui";
    files[2].shown = "/m/x";
    files[3].kind = UMA_CACHED_MEMORY;
    files[5].resident.validity = files[6].resident.validity = UMA_DENIED;
    list(listing, files, ELEMENTS(files));
    listing->snapshot.page_cache.unreadable = KNOWN(2);
    listing->snapshot.page_cache.complete = false;
    listing->snapshot.page_cache.source.detail = "the time was over; the files of 31 processes may not be seen by this user";
    struct uma_cache_view view = { .limit = 20, .timeout = 0.2 };
    const char *t = text_of(listing, &view, 100, 50);
    expect(t, "/tmp/old\\n\\x1b[31m.bin (deleted)\n");
    expect(t, "/dev/vda (block device)\n");
    expect(t, "/m/x in open-webui\n");
    expect(t, "half/known (partly unknown)\n");
    expect(t, "         ?    ?  70.0 GiB");
    expect(t, "FILES THAT ARE MEMORY");
    expect(t, "?: of 2 files the kernel tells only the owner");
    expect(t, "owner, is told");
    expect(t, "incomplete: the time was over after 0.3 s (--timeout TIME)");
    refuse(t, "the time was over;");
    expect(t, "explained by 5 files, of 2 more the kernel does not tell this user");
    expect(t, "the files of 31 processes may not be seen");
    view.privileged = view.interrupted = true;
    t = text_of(listing, &view, 100, 50);
    expect(t, "incomplete: stopped by Ctrl-C");
    refuse(t, "owner, is told");
}

static void nothing_is_known(void **state) {
    struct uma_cache_listing *listing = *state;
    listing->account.ledger.known = false;
    listing->snapshot.page_cache = (struct uma_page_cache){ .complete = true };
    struct uma_cache_view view = { .limit = 20 };
    const char *t = text_of(listing, &view, 80, 24);
    expect(t, "? of page cache\n");
    expect(t, "? (? %) of it explained by 0 files");
}

static json_t *json_of(struct uma_text *text) {
    json_error_t error;
    json_t *document = json_loads(text->data ? text->data : "", 0, &error);
    if (!document)
        fail_msg("%s at %d: %.200s", error.text, error.position, text->data);
    return document;
}

static void document(void **state) {
    struct uma_cache_listing *listing = *state;
    struct uma_cached_file files[] = { GIB_FILE("/m/\xff\"\n\033", "Qwen/Qwen3-32B", 40, 40), GIB_FILE("/root/secret", NULL, 0, 70) };
    files[0].mapped_by = vllm;
    files[0].n_mapped_by = 2;
    files[1].resident.validity = files[1].dirty.validity = UMA_DENIED;
    list(listing, files, ELEMENTS(files));
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_json json = { .text = &text };
    struct uma_cache_view view = { .limit = 1 }; /* of text only: all files are there */
    uma_cache_json(&json, listing, &view);
    json_t *d = json_of(&text);
    assert_string_equal(json_string_value(json_object_get(d, "schema")), "umactl.cache/1");
    assert_int_equal(json_integer_value(json_object_get(d, "page_cache")), 100 * UMA_GIB);
    json_t *list_of_files = json_object_get(d, "files");
    assert_int_equal(json_array_size(list_of_files), 2);
    json_t *first = json_array_get(list_of_files, 0), *second = json_array_get(list_of_files, 1);
    assert_string_equal(json_string_value(json_object_get(first, "path")), "/m/\\xff\"\n\033");
    assert_int_equal(json_integer_value(json_object_get(first, "resident")), 40 * UMA_GIB);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(first, "mapped_by"), 1)), 77);
    assert_true(json_is_null(json_object_get(first, "unknown")));
    assert_true(json_is_null(json_object_get(second, "resident")));
    assert_true(json_is_null(json_object_get(second, "model")));
    assert_true(json_is_string(json_object_get(second, "unknown")));
    assert_int_equal(json_array_size(json_object_get(d, "models")), 1);
    json_decref(d);
}

/* ---- the receipt -------------------------------------------------------------------------------------------- */

static struct uma_evicted_file evicted(const char *path, const char *model, uint64_t before, uint64_t after) {
    return (struct uma_evicted_file){ .path = strdup(path),
                                      .model = model ? strdup(model) : NULL,
                                      .size = before,
                                      .before = KNOWN(before),
                                      .after = KNOWN(after),
                                      .evicted = KNOWN(before - after),
                                      .dirty = KNOWN(0),
                                      .written = KNOWN(0) };
}

static void receipt_add(struct uma_eviction *e, struct uma_evicted_file file) {
    e->files = realloc(e->files, (e->n + 1) * sizeof *e->files);
    assert_non_null(e->files);
    e->files[e->n++] = file;
    e->n_files++;
    e->before += file.before.value;
    e->evicted += file.evicted.value;
    e->kept += file.after.value;
    e->written += file.written.value;
    e->n_unknown += file.before.validity == UMA_DENIED;
}

static void receipt(void **state) {
    struct uma_cache_listing *listing = *state;
    struct uma_cache_evict_options options = { 0 };
    struct uma_cache_evict_answer answer = { .options = &options, .processes = listing->snapshot.processes };
    struct uma_eviction_options how = { 0 };
    assert_int_equal(uma_eviction_init(&answer.eviction, &how, NULL), 0);
    struct uma_eviction *e = &answer.eviction;
    struct uma_evicted_file mapped = evicted("/m/1", "Qwen3", 10 * UMA_GIB, 4 * UMA_GIB), dirty = evicted("/m/2", "Qwen3", UMA_GIB, 0);
    mapped.mapped_by = malloc(sizeof *mapped.mapped_by);
    assert_non_null(mapped.mapped_by);
    mapped.mapped_by[0] = 4242;
    mapped.n_mapped_by = 1;
    dirty.written = KNOWN(UMA_GIB / 2);
    receipt_add(e, mapped);
    receipt_add(e, dirty);
    receipt_add(e, evicted("/m/lo\tck", NULL, UMA_GIB, UMA_GIB / 4));
    e->mapped_known = true;
    e->seconds = 0.5;
    e->memory_files = 1;
    e->memory_bytes = UMA_GIB;
    e->walk.links_outside = 2;
    answer.before = (struct uma_cache_memory){ KNOWN(UMA_GIB), KNOWN(UMA_GIB), KNOWN(20 * UMA_GIB), KNOWN(0) };
    answer.after = (struct uma_cache_memory){ KNOWN(8 * UMA_GIB), KNOWN(UMA_GIB), KNOWN(12 * UMA_GIB), KNOWN(UMA_GIB) };
    _cleanup_text_ struct uma_text t = { 0 };
    struct uma_status_style style = { .columns = 120, .utf8 = true };
    uma_cache_evict_text(&t, &answer, &style);
    expect(t.data, "Evicted 7.8 GiB of 3 files in 500 ms\n");
    expect(t.data, "MemFree 1.0 GiB -> 8.0 GiB (+7.0 GiB), page cache 20.0 GiB -> 12.0 GiB (-8.0 GiB)");
    expect(t.data, "1.0 GiB more is free in lists of the CPUs");
    expect(t.data, "4.0 GiB kept: mapped by VLLM::EngineCor 4242\n");
    expect(t.data, "256 MiB kept: read again meanwhile, or in use by the kernel\n");
    expect(t.data, "512 MiB was dirty and was written out first");
    expect(t.data, "1 file left alone: the pages are the file");
    expect(t.data, "2 links lead out of what was named");
    expect(t.data, "  11.0 GiB   7.0 GiB   4.0 GiB      2  Qwen3\n");
    expect(t.data, "/m/lo\\tck\n");
    assert_int_equal(uma_cache_evict_status(&answer), UMA_EXIT_OK);

    int32_t locker = 77;
    e->files[0].locked_by = &locker;
    e->files[0].n_locked_by = 1;
    e->files[0].locked = UMA_GIB;
    e->users_denied = 1;
    uma_text_reset(&t);
    uma_cache_evict_text(&t, &answer, &style);
    expect(t.data, "1.0 GiB kept: locked in memory by ray 77\n");
    expect(t.data, "3.0 GiB kept: mapped by VLLM::EngineCor 4242\n");
    expect(t.data, "256 MiB kept: mapped or locked by a process that this user cannot look into, or read again meanwhile\n");
    e->files[0].locked_by = NULL;
    e->files[0].n_locked_by = 0;

    answer.before.percpu_free = (struct uma_u64){ 0, UMA_FAILED };
    uma_text_reset(&t);
    uma_cache_evict_text(&t, &answer, &style);
    assert_null(strstr(t.data, "in lists of the CPUs")); /* what was there before is not known: nothing is more than that */

    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_json json = { .text = &text };
    uma_cache_evict_json(&json, &answer);
    json_t *d = json_of(&text), *first = json_array_get(json_object_get(d, "files"), 0);
    assert_int_equal(json_integer_value(json_object_get(first, "before")), 10 * UMA_GIB);
    assert_int_equal(json_integer_value(json_object_get(first, "after")), 4 * UMA_GIB);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(first, "still_mapped_by"), 0)), 4242);
    assert_int_equal(json_integer_value(json_object_get(d, "evicted")), e->evicted);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(d, "memory"), "free_after")), 8 * UMA_GIB);
    json_decref(d);
    uma_eviction_done(e);
}

static void receipt_status(void **state) {
    (void)state;
    struct uma_cache_evict_options options = { 0 };
    static const struct {
        uint64_t n_files, evicted, kept, n_unknown, memory_files, denied, n_failed;
        int status;
    } cases[] = {
        { 0, 0, 0, 0, 0, 0, 0, UMA_EXIT_OK },                                       /* nothing was there */
        { 1, 9, 0, 0, 0, 0, 0, UMA_EXIT_OK }, { 1, 4, 5, 0, 0, 0, 0, UMA_EXIT_OK }, /* mapped is told, and no fault */
        { 1, 0, 9, 0, 0, 0, 0, UMA_EXIT_NO },                                       /* nothing could be */
        { 0, 0, 0, 0, 1, 0, 0, UMA_EXIT_NO },                                       /* memory */
        { 0, 0, 0, 0, 0, 1, 0, UMA_EXIT_NO },                                       /* not to be read */
        { 1, 0, 0, 1, 0, 1, 0, UMA_EXIT_OK },                                       /* nobody knows */
        { 2, 9, 0, 0, 0, 0, 1, UMA_EXIT_NO },                                       /* not written out */
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_cache_evict_answer answer = { .options = &options };
        struct uma_eviction *e = &answer.eviction;
        e->n_files = cases[i].n_files;
        e->evicted = cases[i].evicted;
        e->kept = cases[i].kept;
        e->n_unknown = cases[i].n_unknown;
        e->memory_files = cases[i].memory_files;
        e->denied = cases[i].denied;
        e->n_failed = cases[i].n_failed;
        if (uma_cache_evict_status(&answer) != cases[i].status)
            fail_msg("case %zu", i);
    }
    struct uma_cache_evict_answer answer = { .options = &options, .eviction.walk.links_outside = 2 };
    assert_int_equal(uma_cache_evict_status(&answer), UMA_EXIT_NO); /* all there was leads elsewhere */
    answer.eviction.n_files = 1;
    assert_int_equal(uma_cache_evict_status(&answer), UMA_EXIT_OK);
    options.dry_run = true;
    answer.eviction.kept = 9;
    assert_int_equal(uma_cache_evict_status(&answer), UMA_EXIT_OK);
}

static void flushed(void **state) {
    (void)state;
    struct uma_flush_receipt r = { .synced = true };
    for (size_t i = 0; i < UMA_FLUSH_STEPS; i++) {
        r.steps[i] = (struct uma_flush_reading){ .done = true,
                                                 .ledger = { .known = true, .total = 120 * UMA_GIB },
                                                 .free = KNOWN((3 + 40 * i) * UMA_GIB),
                                                 .available = KNOWN(100 * UMA_GIB),
                                                 .driver_pools = KNOWN((i < 2 ? 8 : 1) * UMA_GIB),
                                                 .largest_free_block = KNOWN(i < 3 ? 4096 : 4 * UMA_MIB),
                                                 .large_free = KNOWN(i * UMA_GIB) };
        r.steps[i].ledger.bytes[UMA_LEDGER_CACHE_CLEAN] = (i == 0 ? 90 : 1) * UMA_GIB;
    }
    _cleanup_text_ struct uma_text t = { 0 };
    struct uma_status_style style = { .columns = 100, .rows = 40 };
    uma_cache_flush_text(&t, &r, &style);
    expect(t.data, "MemFree 3.0 GiB -> 123 GiB");
    expect(t.data, "cache_clean                     90.0         1.0         1.0         1.0\n");
    expect(t.data, "driver pools                     8.0         8.0         1.0         1.0\n");
    expect(t.data, "largest free block 4.0 KiB -> 4.0 MiB");
    refuse(t.data, "slab_reclaimable"); /* it did not move */
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_json json = { .text = &text };
    uma_cache_flush_json(&json, &r);
    json_t *d = json_of(&text);
    assert_int_equal(json_integer_value(json_object_get(d, "evicted")), 89 * UMA_GIB);
    assert_int_equal(json_array_size(json_object_get(d, "steps")), UMA_FLUSH_STEPS);
    json_decref(d);
}

#define LISTING_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = { LISTING_TEST(models_are_rows),
                                        LISTING_TEST(what_could_not_be_measured_is_named),
                                        LISTING_TEST(columns_leave_on_narrow_terminals),
                                        LISTING_TEST(what_is_special_is_said),
                                        LISTING_TEST(nothing_is_known),
                                        LISTING_TEST(document),
                                        LISTING_TEST(receipt),
                                        cmocka_unit_test(receipt_status),
                                        cmocka_unit_test(flushed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
