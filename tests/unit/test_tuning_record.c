/* SPDX-License-Identifier: MIT */
/* The record of changes: read back as it was written, refused when it is anything else, replaced whole or not at all. */
#include "test.h"

#include "record/tuning_record.h"
#include "settings_folder.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const struct uma_tuning_record sample = {
    .boot_id = "5c1d0c1e-1111-2222-3333-444455556666",
    .n = 2,
    .changes = { { "dirty-limit", "proc/sys/vm/dirty_bytes", "0", "1073741824", "", "proc/sys/vm/dirty_ratio", "20",
                   INT64_C(1790000000123456000) },
                 { "readahead-sda", "sys/block/sda/queue/read_ahead_kb", "128", "4096", "2048", "sys/block/sda/queue/read_ahead_kb", "128",
                   0 } },
};

static int parse(const char *text, struct uma_tuning_record *ret, struct uma_error *err) {
    return uma_tuning_record_parse(text, strlen(text), "state/tuning.json", ret, err);
}

static void same(const struct uma_tuning_record *a, const struct uma_tuning_record *b) {
    assert_string_equal(a->boot_id, b->boot_id);
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_string_equal(a->changes[i].id, b->changes[i].id);
        assert_string_equal(a->changes[i].path, b->changes[i].path);
        assert_string_equal(a->changes[i].before, b->changes[i].before);
        assert_string_equal(a->changes[i].set, b->changes[i].set);
        assert_string_equal(a->changes[i].earlier, b->changes[i].earlier);
        assert_string_equal(a->changes[i].restore_path, b->changes[i].restore_path);
        assert_string_equal(a->changes[i].restore, b->changes[i].restore);
        assert_true(a->changes[i].time_ns / 1000 - b->changes[i].time_ns / 1000 <= 1);
    }
}

static void round_trip(void **state) {
    _cleanup_text_ struct uma_text text = { 0 };
    static struct uma_tuning_record record;
    (void)state;
    uma_tuning_record_format(&sample, &text);
    assert_int_equal(parse(text.data, &record, NULL), 0);
    same(&record, &sample);
    /* every cut of it is refused, and leaves what was there */
    for (size_t n = 0; n + 2 < text.length; n++) {
        struct uma_error err = { 0 };
        assert_int_equal(uma_tuning_record_parse(text.data, n, "f", &record, &err), -EINVAL);
        assert_true(strncmp(err.text, "f:", 2) == 0 || strncmp(err.text, "f", 1) == 0);
    }
    same(&record, &sample);
}

#define CHANGE(id, path, before, set, restore_path, restore, time)                                                                         \
    "{\"schema\":\"umactl.tuning/1\",\"boot_id\":\"b\",\"changes\":[{\"id\":" id ",\"path\":" path ",\"before\":" before ",\"set\":" set   \
    ",\"restore_path\":" restore_path ",\"restore\":" restore ",\"time\":" time "}]}"
#define P "\"proc/sys/vm/swappiness\""

static void refused(void **state) {
    static const struct {
        const char *text, *says;
    } table[] = {
        { "", "not JSON" },
        { "[]", "\"schema\"" },
        { "{}", "\"schema\"" },
        { "{\"schema\":\"umactl.tuning/2\",\"boot_id\":\"\",\"changes\":[]}", "umactl.tuning/1" },
        { "{\"schema\":\"umactl.tuning/1\",\"schema\":\"umactl.tuning/1\",\"boot_id\":\"\",\"changes\":[]}", "not JSON" },
        { "{\"schema\":\"umactl.tuning/1\",\"changes\":[]}", "\"boot_id\"" },
        { "{\"schema\":\"umactl.tuning/1\",\"boot_id\":\"b\"}", "\"changes\"" },
        { "{\"schema\":\"umactl.tuning/1\",\"boot_id\":\"b\",\"changes\":{}}", "\"changes\"" },
        { "{\"schema\":\"umactl.tuning/1\",\"boot_id\":\"b\",\"changes\":[1]}", "changes[0]" },
        { CHANGE("1", P, "\"1\"", "\"2\"", P, "\"1\"", "0"), "\"id\"" },
        { CHANGE("\"a\\u001b\"", P, "\"1\"", "\"2\"", P, "\"1\"", "0"), "\"id\"" },
        { CHANGE("\"a\\u0000b\"", P, "\"1\"", "\"2\"", P, "\"1\"", "0"), "not JSON" },
        { CHANGE("\"a\"", "\"proc/sys/kernel/core_pattern\"", "\"1\"", "\"2\"", P, "\"1\"", "0"), "\"path\" is not a setting" },
        { CHANGE("\"a\"", P, "\"1\"", "\"2\"", "\"sys/block/../../etc/passwd\"", "\"1\"", "0"), "\"restore_path\" is not a setting" },
        { CHANGE("\"a\"", P, "\"1 2\"", "\"2\"", P, "\"1\"", "0"), "\"before\" is not a value" },
        { CHANGE("\"a\"", P, "\"1\"", "\"\"", P, "\"1\"", "0"), "\"set\" is not a value" },
        { CHANGE("\"a\"", P, "\"1\"", "\"2\"", P, "\"|sh\"", "0"), "\"restore\" is not a value" },
        { CHANGE("\"a\"", P, "\"1\"", "\"2\"", "\"proc/sys/vm/drop_caches\"", "\"1\"", "0"), "another setting" },
        { CHANGE("\"a\"", P, "\"1\"", "\"2\"", P, "\"3\"", "0"), "not what was before" },
        { CHANGE("\"a\"", "\"proc/sys/vm/dirty_bytes\"", "\"8192\"", "\"2\"", "\"proc/sys/vm/dirty_ratio\"", "\"20\"", "0"),
          "not what was before" },
        { CHANGE("\"a\"", P, "1", "\"2\"", P, "\"1\"", "0"), "\"before\"" },
        { CHANGE("\"a\"", P, "\"1\"", "\"2\"", P, "\"1\"", "-1"), "\"time\"" },
        { CHANGE("\"a\"", P, "\"1\"", "\"2\"", P, "\"1\"", "1e300"), "\"time\"" },
        { CHANGE("\"a\"", P, "\"1\"", "\"2\"", P, "\"1\"", "\"now\""), "\"time\"" },
    };
    static struct uma_tuning_record record;
    (void)state;
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        struct uma_error err = { 0 };
        record.n = 77;
        if (parse(table[i].text, &record, &err) != -EINVAL || !strstr(err.text, table[i].says))
            print_message("%s\n-> %s\n", table[i].text, err.text);
        assert_int_equal(parse(table[i].text, &record, &err), -EINVAL);
        assert_non_null(strstr(err.text, table[i].says));
        assert_non_null(strstr(err.text, "state/tuning.json"));
        assert_int_equal(record.n, 77);
    }
    assert_int_equal(parse(CHANGE("\"a\"", P, "\"1\"", "\"2\"", P, "\"1\"", "0"), &record, NULL), 0);
    assert_int_equal(record.n, 1);
}

static void too_many(void **state) {
    _cleanup_text_ struct uma_text text = { 0 };
    static struct uma_tuning_record record;
    (void)state;
    uma_text_append(&text, "{\"schema\":\"umactl.tuning/1\",\"boot_id\":\"b\",\"changes\":[0");
    for (int i = 0; i < UMA_TUNING_CHANGES_MAX; i++)
        uma_text_append(&text, ",0");
    uma_text_append(&text, "]}");
    struct uma_error err = { 0 };
    assert_int_equal(parse(text.data, &record, &err), -EINVAL);
    assert_non_null(strstr(err.text, "at most 128"));
}

static void stored(void **state) {
    const struct settings *s = *state;
    _cleanup_(uma_cleanup_tuning_store) struct uma_tuning_store store = { .dir_fd = -1, .lock_fd = -1 };
    static struct uma_tuning_record record, none;
    struct uma_error err = { 0 };
    assert_int_equal(uma_tuning_store_open(s->state, false, &store, &err), -ENOENT);
    assert_int_equal(uma_tuning_record_peek(s->state, &record, &err), 0);
    assert_int_equal(uma_tuning_store_open(s->state, true, &store, &err), 0);
    assert_int_equal(uma_tuning_store_load(&store, &record, &err), 0);
    assert_int_equal(uma_tuning_store_save(&store, &sample, &err), 0);
    assert_int_equal(uma_tuning_store_load(&store, &record, &err), 1);
    same(&record, &sample);
    assert_int_equal(uma_tuning_record_peek(s->state, &record, &err), 1);
    assert_string_equal(settings_get(s, "state/.tuning.json.new"), "");
    /* removed when nothing is left in it; twice is fine */
    assert_int_equal(uma_tuning_store_save(&store, &none, &err), 0);
    assert_int_equal(uma_tuning_store_save(&store, &none, &err), 0);
    assert_int_equal(uma_tuning_store_load(&store, &record, &err), 0);
}

static void broken(void **state) {
    const struct settings *s = *state;
    _cleanup_(uma_cleanup_tuning_store) struct uma_tuning_store store = { .dir_fd = -1, .lock_fd = -1 };
    static struct uma_tuning_record record;
    struct uma_error err = { 0 };
    char path[PATH_MAX + 64], target[PATH_MAX + 64];
    assert_int_equal(uma_tuning_store_open(s->state, true, &store, &err), 0);
    settings_put(s, "state/tuning.json", "{\"schema\":\"umactl.tun");
    assert_int_equal(uma_tuning_store_load(&store, &record, &err), -EINVAL);
    assert_non_null(strstr(err.text, "state/tuning.json"));
    (void)snprintf(path, sizeof path, "%s/tuning.json", s->state);
    assert_int_equal(truncate(path, 300 * 1024), 0);
    assert_int_equal(uma_tuning_store_load(&store, &record, &err), -EINVAL);
    /* a link is not followed, neither to read nor to write */
    assert_int_equal(unlink(path), 0);
    (void)snprintf(target, sizeof target, "%s/elsewhere", s->path);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(uma_tuning_store_load(&store, &record, &err), -EINVAL);
    assert_non_null(strstr(err.text, "a link"));
    (void)snprintf(path, sizeof path, "%s/.tuning.json.new", s->state);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(uma_tuning_store_save(&store, &sample, &err), 0);
    assert_string_equal(settings_get(s, "elsewhere"), "");
    assert_int_equal(uma_tuning_store_load(&store, &record, &err), 1);
}

/* A disk that takes nothing more: the record that was there stays as it was. */
static void full_disk(void **state) {
    const struct settings *s = *state;
    _cleanup_(uma_cleanup_tuning_store) struct uma_tuning_store store = { .dir_fd = -1, .lock_fd = -1 };
    static struct uma_tuning_record record;
    struct uma_error err = { 0 };
    struct rlimit old, none;
    assert_int_equal(uma_tuning_store_open(s->state, true, &store, &err), 0);
    assert_int_equal(uma_tuning_store_save(&store, &sample, &err), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = 100; /* less than a record: EFBIG, as ENOSPC an error of write(2) */
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    record = sample;
    record.n = 1;
    int r = uma_tuning_store_save(&store, &record, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(r, -EFBIG);
    assert_non_null(strstr(err.text, "nothing more is changed"));
    assert_int_equal(uma_tuning_store_load(&store, &record, &err), 1);
    same(&record, &sample);
    assert_string_equal(settings_get(s, "state/.tuning.json.new"), "");
}

/* Whoever comes second waits, and is let in when the first has ended. */
static void locked(void **state) {
    const struct settings *s = *state;
    struct uma_tuning_store first = { .dir_fd = -1, .lock_fd = -1 }, second = first;
    int pipe_fd[2], status = -1;
    char byte = 0;
    assert_int_equal(pipe(pipe_fd), 0);
    assert_int_equal(uma_tuning_store_open(s->state, true, &first, NULL), 0);
    pid_t child = fork();
    if (child == 0) {
        uma_tuning_store_close(&first); /* a descriptor that was inherited; the lock is the parent's as long as it holds its own */
        (void)close(pipe_fd[0]);
        int fd = open(s->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock = openat(fd, "tuning.lock", O_RDWR | O_CLOEXEC);
        bool busy = flock(lock, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        (void)!write(pipe_fd[1], busy ? "b" : "f", 1);
        _exit(uma_tuning_store_open(s->state, true, &second, NULL) == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(read(pipe_fd[0], &byte, 1), 1);
    uma_tuning_store_close(&first);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(byte, 'b');
    assert_int_equal(status, 0);
    (void)close(pipe_fd[0]);
    (void)close(pipe_fd[1]);
}

static void state_folder(void **state) {
    (void)state;
    assert_int_equal(unsetenv("UMACTL_STATE"), 0);
    assert_string_equal(uma_tuning_state(), "/var/lib/umactl");
    assert_int_equal(setenv("UMACTL_STATE", "/x", 1), 0);
    assert_string_equal(uma_tuning_state(), "/x");
    assert_int_equal(unsetenv("UMACTL_STATE"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, settings_setup, settings_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(refused),
        cmocka_unit_test(too_many),
        TEST(stored),
        TEST(broken),
        TEST(full_disk),
        TEST(locked),
        cmocka_unit_test(state_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
