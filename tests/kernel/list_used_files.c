/* SPDX-License-Identifier: MIT */
/* What uma_used_files_read says, as JSON, for tests that compare it with what they made. usage: list_used_files [SECONDS] */
#include "base/json_write.h"
#include "base/units.h"
#include "observe/files/process_files.h"

#include <stdio.h>

static void write_pids(struct uma_json *json, const char *key, const int32_t *pids, size_t n) {
    uma_json_begin_array(json, key, true);
    for (size_t i = 0; i < n; i++)
        uma_json_signed(json, NULL, pids[i]);
    uma_json_end_array(json);
}

static void write_file(struct uma_json *json, const struct uma_used_file *file) {
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "path", file->path);
    uma_json_string(json, "shown", file->shown);
    uma_json_unsigned(json, "device", file->device);
    uma_json_unsigned(json, "inode", file->inode);
    uma_json_bool(json, "deleted", file->deleted);
    uma_json_bool(json, "looked_at", file->looked_at);
    uma_json_bool(json, "may_hang", file->may_hang);
    uma_json_unsigned(json, "kind", file->kind);
    uma_json_string(json, "filesystem", file->mount ? file->mount->type : NULL);
    uma_json_signed(json, "mount_id", file->mount_id);
    uma_json_bool(json, "other_view", file->other_view);
    uma_json_signed(json, "pid", file->pid);
    uma_json_unsigned(json, "size", file->size);
    write_pids(json, "mapped_by", file->mapped_by, file->n_mapped_by);
    write_pids(json, "open_by", file->open_by, file->n_open_by);
    uma_json_end_object(json);
}

int main(int argc, char **argv) {
    double seconds = 0;
    if (argc > 1 && uma_parse_f64_all(argv[1], &seconds) < 0)
        return 2;
    _cleanup_root_ struct uma_root *root = NULL;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_GIB);
    struct uma_used_files files = { 0 };
    struct uma_error err = { 0 };
    int64_t start = uma_monotonic_ns(), deadline = argc > 1 ? start + (int64_t)(seconds * 1e9) : 0;
    if (!arena || uma_root_open(NULL, NULL, &root, &err) < 0 || uma_used_files_read(root, deadline, arena, &files, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    double spent = (double)(uma_monotonic_ns() - start) / 1e9;
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_json json = { .text = &text, .compact = true };
    uma_json_begin_object(&json, NULL, false);
    uma_json_double(&json, "seconds", spent);
    uma_json_unsigned(&json, "processes", files.processes);
    uma_json_unsigned(&json, "denied", files.denied);
    uma_json_bool(&json, "cut", files.cut);
    uma_json_begin_array(&json, "files", false);
    for (size_t i = 0; i < files.n; i++)
        write_file(&json, &files.list[i]);
    uma_json_end_array(&json);
    uma_json_end_object(&json);
    return text.failed || fwrite(text.data, 1, text.length, stdout) != text.length ? 1 : 0;
}
