/* SPDX-License-Identifier: MIT */
/* model.safetensors.index.json: { "metadata": { "total_size": N }, "weight_map": { "tensor": "file", ... } }. Read as a stream: of a map of
 * 100,000 tensors only the names of its 200 files are kept. */
#include "plan/model/folder.h"

#include "plan/model/json_scan.h"

#include <string.h>

/* Nobody's file name is longer: NAME_MAX. */
enum { NAME_LONGEST = 255 };

static int read_metadata(struct uma_json_scan *scan, struct uma_folder_index *index, struct uma_error *err) {
    char key[16];
    bool first = true;
    int r;
    while ((r = uma_json_scan_member(scan, &first, key, sizeof(key), NULL, err)) > 0) {
        int c = uma_json_scan_peek(scan, err);
        if (strcmp(key, "total_size") == 0 && (c == '-' || (c >= '0' && c <= '9')))
            r = uma_json_scan_number(scan, &index->total_size, err);
        else
            r = uma_json_scan_skip(scan, NULL, err);
        if (r < 0)
            return r;
    }
    return r;
}

/* The file may stand in a folder below, but not elsewhere. */
static bool leads_out(const char *name) {
    if (*name == '\0' || *name == '/')
        return true;
    for (const char *s = name; s; s = strchr(s, '/'), s = s ? s + 1 : NULL)
        if (s[0] == '.' && s[1] == '.' && (s[2] == '/' || s[2] == '\0'))
            return true;
    return false;
}

/* Maps are sorted by tensor or by file: runs of one file are long, and a new name is mostly really new. */
static int add_file(const struct uma_json_scan *scan, struct uma_folder_index *index, struct uma_safetensors_names *seen, const char *name,
                    size_t length, struct uma_error *err) {
    struct uma_folder_names *files = &index->files;
    uint32_t file = 0;
    if (files->count && strcmp(files->names[files->count - 1], name) == 0)
        return 0;
    if (length > NAME_LONGEST || strlen(name) != length)
        return uma_json_scan_error(scan, err, "not the name of a file");
    if (leads_out(name))
        return uma_json_scan_error(scan, err, "the file \"%.100s\" would not be in this folder", name);
    int r = uma_safetensors_names_add(seen, name, length, 0, &file);
    if (r == 0)
        r = uma_folder_names_add(files, name, length);
    if (r == -E2BIG)
        return uma_json_scan_error(scan, err, "more than %d files", UMA_FOLDER_NAMES_MAX);
    return r < 0 ? uma_error_set(err, -r, "%s", scan->file) : 0;
}

static int read_map(struct uma_json_scan *scan, struct uma_folder_index *index, struct uma_safetensors_names *seen, struct uma_error *err) {
    char name[NAME_LONGEST + 2];
    size_t length = 0;
    bool first = true;
    int r;
    while ((r = uma_json_scan_member(scan, &first, NULL, 0, NULL, err)) > 0) {
        r = uma_json_scan_string(scan, name, sizeof(name), &length, err);
        if (r == 0)
            r = add_file(scan, index, seen, name, length, err);
        if (r < 0)
            return r;
        index->tensors++;
    }
    return r;
}

static int parse(struct uma_json_scan *scan, struct uma_folder_index *ret_index, struct uma_error *err) {
    struct uma_folder_index index = { 0 };
    struct uma_safetensors_names seen = { 0 };
    char key[16];
    bool first = true, have_map = false;
    int r;
    while ((r = uma_json_scan_member(scan, &first, key, sizeof(key), NULL, err)) > 0) {
        if (strcmp(key, "weight_map") == 0 && !have_map) {
            have_map = true;
            r = read_map(scan, &index, &seen, err);
        } else if (strcmp(key, "weight_map") == 0)
            r = uma_json_scan_error(scan, err, "a second weight_map");
        else if (strcmp(key, "metadata") == 0 && uma_json_scan_peek(scan, err) == '{')
            r = read_metadata(scan, &index, err);
        else
            r = uma_json_scan_skip(scan, NULL, err);
        if (r < 0)
            break;
    }
    if (r == 0)
        r = uma_json_scan_finish(scan, err);
    if (r == 0 && index.files.count == 0)
        r = uma_json_scan_error(scan, err, "an index without a weight_map that names files");
    uma_safetensors_names_done(&seen);
    if (r < 0) {
        uma_folder_names_done(&index.files);
        return r;
    }
    uma_folder_names_sort(&index.files);
    *ret_index = index;
    return 0;
}

int uma_folder_index_read(int fd, uint64_t size, const char *path, struct uma_folder_index *ret_index, struct uma_error *err) {
    enum { WINDOW = 64 * 1024 };
    if (size > UMA_FOLDER_INDEX_MAX)
        return uma_error_text(err, EFBIG, "%s: %llu bytes; at most %llu are read of an index", path, (unsigned long long)size,
                              (unsigned long long)UMA_FOLDER_INDEX_MAX);
    _cleanup_free_
    char *buffer = malloc(WINDOW);
    if (!buffer)
        return uma_error_set(err, ENOMEM, "%s", path);
    struct uma_json_scan scan;
    uma_json_scan_file(&scan, path, fd, 0, size, buffer, WINDOW, 0);
    return parse(&scan, ret_index, err);
}

int uma_folder_index_parse(const char *text, size_t length, const char *path, struct uma_folder_index *ret_index, struct uma_error *err) {
    struct uma_json_scan scan;
    uma_json_scan_memory(&scan, path, text, length);
    return parse(&scan, ret_index, err);
}
