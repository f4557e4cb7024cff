/* SPDX-License-Identifier: MIT */
#include "record/tuning_record.h"

#include "base/json_write.h"
#include "base/units.h"
#include "base/write.h"
#include "observe/json_tree.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

/* 128 changes of some 600 bytes; a record beyond this was not written by umactl. */
enum { RECORD_BYTES_MAX = 256 * 1024 };

static const char record_name[] = "tuning.json", lock_name[] = "tuning.lock", new_name[] = ".tuning.json.new";

const char *uma_tuning_state(void) {
    const char *own = getenv("UMACTL_STATE");
    return own && own[0] ? own : "/var/lib/umactl";
}

/* ---- the document -------------------------------------------------------------------------------------------- */

/* A word or path: printable ASCII, so that it needs no thought where it is shown. */
static bool plain(const char *s) {
    for (; *s; s++)
        if (*s < ' ' || *s > '~')
            return false;
    return true;
}

static int take_string(const json_t *object, const char *key, const char *where, char *ret, size_t size, struct uma_error *err) {
    const json_t *value = json_object_get(object, key);
    const char *s = json_string_value(value);
    if (!s || strlen(s) != json_string_length(value) || strlen(s) >= size || !plain(s))
        return uma_error_text(err, EINVAL, "%s: expected \"%s\", a short text", where, key);
    (void)memcpy(ret, s, strlen(s) + 1);
    return 0;
}

static int take_path(const json_t *object, const char *key, const char *where, char ret[UMA_TUNABLE_PATH_MAX], struct uma_error *err) {
    int r = take_string(object, key, where, ret, UMA_TUNABLE_PATH_MAX, err);
    if (r == 0 && !uma_tunable_path_fine(ret))
        return uma_error_text(err, EINVAL, "%s: \"%s\" is not a setting that umactl changes", where, key);
    return r;
}

static int take_value(const json_t *object, const char *key, const char *where, char ret[UMA_TUNABLE_VALUE_MAX], struct uma_error *err) {
    int r = take_string(object, key, where, ret, UMA_TUNABLE_VALUE_MAX, err);
    if (r == 0 && !uma_tunable_value_fine(ret))
        return uma_error_text(err, EINVAL, "%s: \"%s\" is not a value of a setting", where, key);
    return r;
}

static int take_change(const json_t *object, const char *where, struct uma_tuning_change *change, struct uma_error *err) {
    int r = take_string(object, "id", where, change->id, sizeof change->id, err);
    if (r == 0)
        r = take_path(object, "path", where, change->path, err);
    if (r == 0)
        r = take_value(object, "before", where, change->before, err);
    if (r == 0)
        r = take_value(object, "set", where, change->set, err);
    if (r == 0 && json_object_get(object, "earlier"))
        r = take_value(object, "earlier", where, change->earlier, err);
    if (r == 0)
        r = take_path(object, "restore_path", where, change->restore_path, err);
    if (r == 0)
        r = take_value(object, "restore", where, change->restore, err);
    const char *counterpart = uma_tunable_counterpart(change->path);
    bool same = strcmp(change->restore_path, change->path) == 0;
    if (r == 0 && !same && (!counterpart || strcmp(change->restore_path, counterpart) != 0))
        return uma_error_text(err, EINVAL, "%s: \"restore_path\" is another setting", where);
    if (r == 0 && strcmp(change->restore, change->before) != 0 && (same || strcmp(change->before, "0") != 0))
        return uma_error_text(err, EINVAL, "%s: \"restore\" is not what was before", where);
    const json_t *time = json_object_get(object, "time");
    double seconds = json_number_value(time);
    if (r == 0 && (!json_is_number(time) || !(seconds >= 0 && seconds < 9e9)))
        return uma_error_text(err, EINVAL, "%s: expected \"time\", seconds since 1970", where);
    change->time_ns = (int64_t)(seconds * 1e6) * 1000;
    return r;
}

int uma_tuning_record_parse(const char *text, size_t length, const char *file, struct uma_tuning_record *ret_record,
                            struct uma_error *err) {
    json_error_t error;
    char where[512];
    _cleanup_json_ json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!document)
        return uma_error_text(err, EINVAL, "%s:%d: not JSON: %s", file, error.line, error.text);
    const char *schema = json_string_value(json_object_get(document, "schema"));
    if (!schema || strcmp(schema, UMA_TUNING_SCHEMA) != 0)
        return uma_error_text(err, EINVAL, "%s: expected a document with \"schema\": \"%s\"", file, UMA_TUNING_SCHEMA);
    _cleanup_free_
    struct uma_tuning_record *record = calloc(1, sizeof *record);
    if (!record)
        return uma_error_set(err, ENOMEM, "%s", file);
    int r = take_string(document, "boot_id", file, record->boot_id, sizeof record->boot_id, err);
    if (r < 0)
        return r;
    const json_t *changes = json_object_get(document, "changes");
    if (!json_is_array(changes) || json_array_size(changes) > UMA_TUNING_CHANGES_MAX)
        return uma_error_text(err, EINVAL, "%s: expected \"changes\", a list of at most %d", file, (int)UMA_TUNING_CHANGES_MAX);
    for (; record->n < json_array_size(changes); record->n++) {
        (void)snprintf(where, sizeof where, "%.400s: changes[%zu]", file, record->n);
        r = take_change(json_array_get(changes, record->n), where, &record->changes[record->n], err);
        if (r < 0)
            return r;
    }
    *ret_record = *record;
    return 0;
}

void uma_tuning_record_format(const struct uma_tuning_record *record, struct uma_text *text) {
    struct uma_json json = { .text = text };
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", UMA_TUNING_SCHEMA);
    uma_json_string(&json, "boot_id", record->boot_id);
    uma_json_begin_array(&json, "changes", false);
    for (size_t i = 0; i < record->n; i++) {
        const struct uma_tuning_change *c = &record->changes[i];
        uma_json_begin_object(&json, NULL, false);
        uma_json_string(&json, "id", c->id);
        uma_json_string(&json, "path", c->path);
        uma_json_string(&json, "before", c->before);
        uma_json_string(&json, "set", c->set);
        if (c->earlier[0])
            uma_json_string(&json, "earlier", c->earlier);
        uma_json_string(&json, "restore_path", c->restore_path);
        uma_json_string(&json, "restore", c->restore);
        if (c->time_ns)
            uma_json_time(&json, "time", c->time_ns);
        else
            uma_json_unsigned(&json, "time", 0);
        uma_json_end_object(&json);
    }
    uma_json_end_array(&json);
    uma_json_end_object(&json);
    uma_text_char(text, '\n');
}

/* ---- the folder ---------------------------------------------------------------------------------------------- */

/* Another umactl holds the lock for as long as some files take to write; one that was stopped holds it for good. */
static int take_lock(int fd, const char *folder, struct uma_error *err) {
    int64_t until = uma_monotonic_ns() + 5 * UMA_SECOND_NS;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return uma_error_set(err, errno, "locking %s/%s", folder, lock_name);
        if (uma_monotonic_ns() > until)
            return uma_error_text(err, EWOULDBLOCK, "%s/%s: another umactl is changing settings and does not end", folder, lock_name);
        (void)nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 * 1000 }, NULL);
    }
    return 0;
}

/*
 * The values in a record are set with root's right, so it has to be root's word, or this user's: a file, or a folder, that somebody else owns or may write is
 * refused. A sticky folder (/tmp) protects what is in it.
 */
static int check_owner(int fd, bool folder, const char *what, struct uma_error *err) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "%s", what);
    if (!folder && !S_ISREG(st.st_mode))
        return uma_error_text(err, EINVAL, "%s: not a plain file", what);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return uma_error_text(err, EINVAL, "%s: it belongs to another user (%u), whose word is not taken for what was before", what,
                              (unsigned)st.st_uid);
    bool others = (st.st_mode & S_IWOTH) || ((st.st_mode & S_IWGRP) && st.st_gid != 0);
    if (others && !(folder && (st.st_mode & S_ISVTX)))
        return uma_error_text(err, EINVAL, "%s: others may write it, whose word is not taken for what was before", what);
    return 0;
}

int uma_tuning_store_open(const char *folder, bool create, struct uma_tuning_store *ret_store, struct uma_error *err) {
    struct uma_tuning_store store = { .dir_fd = -1, .lock_fd = -1 };
    if ((size_t)snprintf(store.path, sizeof store.path, "%s", folder) >= sizeof store.path)
        return uma_error_set(err, ENAMETOOLONG, "%s", folder);
    /* 0755: what was set is no secret, and whoever wonders may look. Parents are the system's (/var/lib) or the user's own. */
    if (create && mkdir(folder, 0755) < 0 && errno != EEXIST)
        return uma_error_set(err, errno, "making %s, where the values from before are kept", folder);
    _cleanup_close_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return uma_error_set(err, errno, "%s", folder);
    int r = check_owner(dir, true, folder, err);
    if (r < 0)
        return r;
    _cleanup_close_ int lock = openat(dir, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0)
        return uma_error_set(err, errno, "%s/%s", folder, lock_name);
    r = take_lock(lock, folder, err);
    if (r < 0)
        return r;
    store.dir_fd = TAKE_FD(dir);
    store.lock_fd = TAKE_FD(lock);
    *ret_store = store;
    return 0;
}

void uma_tuning_store_close(struct uma_tuning_store *store) {
    uma_cleanup_close(&store->lock_fd); /* and with it the lock */
    uma_cleanup_close(&store->dir_fd);
    store->dir_fd = store->lock_fd = -1;
}

int uma_tuning_store_load(struct uma_tuning_store *store, struct uma_tuning_record *ret_record, struct uma_error *err) {
    _cleanup_close_ int fd = openat(store->dir_fd, record_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char file[4096];
    (void)snprintf(file, sizeof file, "%s/%s", store->path, record_name);
    if (fd < 0 && errno == ELOOP)
        return uma_error_text(err, EINVAL, "%s: a link, which is not followed", file);
    if (fd < 0)
        return errno == ENOENT ? 0 : uma_error_set(err, errno, "%s", file);
    int r = check_owner(fd, false, file, err);
    if (r < 0)
        return r;
    _cleanup_free_
    char *text = malloc(RECORD_BYTES_MAX + 1);
    if (!text)
        return uma_error_set(err, ENOMEM, "%s", file);
    size_t length = 0;
    for (ssize_t n = 1; n > 0 && length <= RECORD_BYTES_MAX; length += (size_t)MAX_OF(n, 0)) {
        n = read(fd, text + length, RECORD_BYTES_MAX + 1 - length);
        if (n < 0)
            return uma_error_set(err, errno, "%s/%s", store->path, record_name);
    }
    if (length > RECORD_BYTES_MAX)
        return uma_error_text(err, EINVAL, "%s: larger than any record of changes", file);
    r = uma_tuning_record_parse(text, length, file, ret_record, err);
    return r < 0 ? r : 1;
}

int uma_tuning_record_peek(const char *folder, struct uma_tuning_record *ret_record, struct uma_error *err) {
    struct uma_tuning_store store = { .dir_fd = -1, .lock_fd = -1 };
    if ((size_t)snprintf(store.path, sizeof store.path, "%s", folder) >= sizeof store.path)
        return uma_error_set(err, ENAMETOOLONG, "%s", folder);
    store.dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store.dir_fd < 0)
        return errno == ENOENT ? 0 : uma_error_set(err, errno, "%s", folder);
    int r = uma_tuning_store_load(&store, ret_record, err);
    uma_tuning_store_close(&store);
    return r;
}

int uma_tuning_store_save(struct uma_tuning_store *store, const struct uma_tuning_record *record, struct uma_error *err) {
    if (record->n == 0) {
        if (unlinkat(store->dir_fd, record_name, 0) < 0 && errno != ENOENT)
            return uma_error_set(err, errno, "removing %s/%s", store->path, record_name);
        return fsync(store->dir_fd) < 0 ? uma_error_set(err, errno, "%s", store->path) : 0;
    }
    _cleanup_text_ struct uma_text text = { 0 };
    uma_tuning_record_format(record, &text);
    if (text.failed)
        return uma_error_set(err, ENOMEM, "%s/%s", store->path, record_name);
    (void)unlinkat(store->dir_fd, new_name, 0); /* left behind by a kill; never followed where it leads */
    _cleanup_close_ int fd = openat(store->dir_fd, new_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    int r = fd < 0 ? -errno : uma_write_all(fd, text.data, text.length);
    if (r == 0 && (fsync(fd) < 0 || renameat(store->dir_fd, new_name, store->dir_fd, record_name) < 0 || fsync(store->dir_fd) < 0))
        r = -errno;
    if (r < 0) {
        if (fd >= 0)
            (void)unlinkat(store->dir_fd, new_name, 0);
        return uma_error_set(err, -r, "%s/%s: cannot be written, so nothing more is changed", store->path, record_name);
    }
    return 0;
}
