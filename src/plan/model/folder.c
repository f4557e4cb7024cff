/* SPDX-License-Identifier: MIT */
#include "plan/model/folder.h"

#include "plan/estimate.h"
#include "plan/model/structure.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One folder while it is read. */
struct reading {
    const char *path;
    int folder;
    struct uma_folder_list list;
    struct uma_folder_names weights; /* safetensors to read */
    uint64_t total_size;             /* by the index */
    size_t extra;                    /* weight files that the index does not name */
    const char *extra_name;
    bool indexed;     /* `weights` is what an index names */
    bool index_alone; /* an index, and none of its files */
    struct uma_model *model;
    char config_problem[UMA_MODEL_WARNING_TEXT]; /* config.json says too little */
    uint32_t file_count;
    uint64_t file_bytes, largest_file, header_bytes, repeated;
    struct uma_folder_sum sum;
};

static void reading_done(struct reading *reading) {
    if (reading->folder >= 0)
        (void)close(reading->folder);
    uma_folder_list_done(&reading->list);
    uma_folder_names_done(&reading->weights);
    (void)uma_model_free(reading->model);
}
#define _cleanup_reading_ _cleanup_(reading_done)

/* ---- which files -------------------------------------------------------------------------------------------- */

/* Both lists are sorted. */
static void find_extra(struct reading *reading) {
    const struct uma_folder_names *all = &reading->list.safetensors, *named = &reading->weights;
    for (size_t i = 0, j = 0; i < all->count; i++) {
        while (j < named->count && strcmp(named->names[j], all->names[i]) < 0)
            j++;
        if ((j < named->count && strcmp(named->names[j], all->names[i]) == 0) || uma_folder_name_is_beside(all->names[i]))
            continue;
        if (reading->extra++ == 0)
            reading->extra_name = all->names[i];
    }
}

/* 0: all there. 1: not one of them is. -ENOENT: some are missing. */
static int check_present(const struct reading *reading, struct uma_error *err) {
    size_t missing = 0, shown = 0;
    char names[160] = "";
    for (size_t i = 0; i < reading->weights.count; i++) {
        const char *name = reading->weights.names[i];
        if (faccessat(reading->folder, name, F_OK, 0) == 0 || errno != ENOENT)
            continue;
        size_t length = strlen(names);
        if (missing++ < 3 && length + strlen(name) + 3 < sizeof(names)) {
            (void)snprintf(names + length, sizeof(names) - length, "%s%s", shown ? ", " : "", name);
            shown++;
        }
    }
    if (missing == 0)
        return 0;
    if (missing == reading->weights.count)
        return 1;
    return uma_error_text(err, ENOENT, "%s: %zu of the %zu weight files that its index names are missing: %s%s", reading->path, missing,
                          reading->weights.count, names, missing > shown ? ", ..." : "");
}

static const char *index_name(const struct uma_folder_list *list) {
    static const char usual[] = "model.safetensors.index.json";
    if (uma_folder_names_have(&list->indexes, usual))
        return usual;
    for (size_t i = 0; i < list->indexes.count; i++)
        if (!uma_folder_name_is_beside(list->indexes.names[i]))
            return list->indexes.names[i];
    return list->indexes.count ? list->indexes.names[0] : NULL;
}

static int read_index(struct reading *reading, const char *name, struct uma_error *err) {
    _cleanup_free_
    char *whole = uma_folder_path(reading->path, name);
    _cleanup_close_ int fd = -1;
    struct uma_folder_index index = { 0 };
    uint64_t size = 0;
    if (!whole)
        return uma_error_set(err, ENOMEM, "%s", reading->path);
    int r = uma_folder_open_file(reading->folder, name, whole, &fd, &size, err);
    if (r == 0)
        r = uma_folder_index_read(fd, size, whole, &index, err);
    if (r < 0)
        return r;
    if (!index.files.names)
        return uma_error_text(err, EINVAL, "%s: an index that names no files", whole);
    reading->weights = index.files;
    reading->total_size = index.total_size;
    reading->indexed = true;
    /* a file that is missing is seen when it is opened; only whether any is there at all has to be known now */
    bool first = faccessat(reading->folder, reading->weights.names[0], F_OK, 0) == 0;
    r = first ? 0 : check_present(reading, err);
    if (r == 0)
        find_extra(reading);
    if (r != 1)
        return r;
    /* not one file of it: an index that was left over when the weights were written anew, or a folder without weights */
    uma_folder_names_done(&reading->weights);
    reading->indexed = false;
    reading->index_alone = true;
    return 0;
}

static int choose_weights(struct reading *reading, struct uma_error *err) {
    const char *index = index_name(&reading->list);
    int r = index ? read_index(reading, index, err) : 0;
    if (r < 0 || reading->weights.count)
        return r;
    return uma_folder_choose(&reading->list, reading->path, &reading->weights, err);
}

/* ---- headers ------------------------------------------------------------------------------------------------ */

static void count_file(struct reading *reading, uint64_t size) {
    reading->file_count++;
    reading->file_bytes = uma_plus(reading->file_bytes, size);
    reading->largest_file = MAX_OF(reading->largest_file, size);
}

static int read_headers(struct reading *reading, struct uma_error *err) {
    _cleanup_safetensors_reader_ struct uma_safetensors_reader *reader = uma_safetensors_reader_new();
    if (!reader)
        return uma_error_set(err, ENOMEM, "%s", reading->path);
    for (size_t i = 0; i < reading->weights.count; i++) {
        const char *name = reading->weights.names[i];
        _cleanup_free_
        char *whole = uma_folder_path(reading->path, name);
        _cleanup_close_ int fd = -1;
        struct uma_safetensors_file file = { 0 };
        uint64_t size = 0;
        if (!whole)
            return uma_error_set(err, ENOMEM, "%s", reading->path);
        int r = uma_folder_open_file(reading->folder, name, whole, &fd, &size, err);
        if (r == -ENOENT && reading->indexed && check_present(reading, err) == 0) /* or was it there a moment ago, and is again? */
            r = uma_folder_open_file(reading->folder, name, whole, &fd, &size, err);
        if (r == 0)
            r = uma_safetensors_read(reader, fd, size, whole, uma_folder_sum_add, &reading->sum, &file, err);
        if (r < 0)
            return r;
        count_file(reading, size);
        reading->repeated += file.repeated;
        reading->header_bytes += file.header_bytes;
        if (reading->header_bytes > UMA_FOLDER_HEADERS_MAX)
            return uma_error_text(err, EFBIG, "%s: the headers of its weight files are longer than %llu bytes together", reading->path,
                                  (unsigned long long)UMA_FOLDER_HEADERS_MAX);
    }
    return 0;
}

/* PyTorch's own files are zipped pickles: nothing of them is read but their size. */
static int size_pickles(struct reading *reading, struct uma_error *err) {
    for (size_t i = 0; i < reading->list.pickles.count; i++) {
        struct stat st;
        if (fstatat(reading->folder, reading->list.pickles.names[i], &st, 0) < 0)
            return uma_error_set(err, errno, "%s/%s", reading->path, reading->list.pickles.names[i]);
        if (S_ISREG(st.st_mode) && st.st_size > 0)
            count_file(reading, (uint64_t)st.st_size);
    }
    return 0;
}

/* ---- the model ---------------------------------------------------------------------------------------------- */

static int read_config(struct reading *reading, struct uma_error *err) {
    struct uma_error why = { 0 };
    if (!reading->list.has_config)
        return 0;
    int r = uma_folder_config_read(reading->folder, reading->path, &reading->model, &reading->sum.packing, &why);
    if (r == 0)
        return 0;
    if (r < 0 || reading->weights.count == 0) {
        if (err)
            *err = why;
        return r < 0 ? r : -EINVAL;
    }
    (void)snprintf(reading->config_problem, sizeof(reading->config_problem), "%.180s", why.text);
    return 0;
}

static int apply_tensors(struct reading *reading, struct uma_error *err) {
    struct uma_folder_sum *sum = &reading->sum;
    const struct uma_model *known = reading->model;
    sum->model = known;
    sum->wants_shape = !known || !known->architecture_known || known->hidden == 0 || known->vocab == 0 || known->layer_count == 0;
    int r = read_headers(reading, err);
    if (r == 0 && sum->wants_shape)
        r = uma_folder_shape_apply(&sum->shape, &reading->model, err);
    if (r < 0)
        return r;
    struct uma_model *model = reading->model;
    uma_folder_sum_apply(sum, model);
    if (*reading->config_problem)
        uma_model_warn(model, "the shape is taken from the tensors: %s", reading->config_problem);
    else if (!known)
        uma_model_warn(model, "no config.json in %.120s: the shape is taken from the tensors", reading->path);
    if (reading->extra)
        uma_model_warn(model, "%zu weight files are not in the index and not counted (%.100s)", reading->extra, reading->extra_name);
    if (reading->repeated)
        uma_model_warn(model, "%llu tensors stand in more than one file; each is counted once", (unsigned long long)reading->repeated);
    if (reading->index_alone)
        uma_model_warn(model, "none of the files that the index names is there; the others are counted");
    return 0;
}

/* The weights are files that cannot be looked into: their size tells the type of the numbers at least. */
static int apply_pickles(struct reading *reading, struct uma_error *err) {
    struct uma_model *model = reading->model;
    int r = size_pickles(reading, err);
    if (r < 0)
        return r;
    uint64_t bytes = uma_model_bytes(model), params = uma_model_params(model);
    double each = params ? (double)reading->file_bytes / (double)params : 0;
    /* within 10 %: buffers and the pickles themselves take little, and the next type is twice as wide */
    if (!model->quantisation && each > 3.6 && each < 4.4)
        uma_model_set_format(model, UMA_FORMAT_F32);
    uma_model_warn(model,
                   "pytorch_model*.bin files are not looked into: the weights are computed from config.json (%.4g GB; the files have %.4g)",
                   (double)MAX_OF(bytes, uma_model_bytes(model)) / 1e9, (double)reading->file_bytes / 1e9);
    return 0;
}

static void apply_structure(struct reading *reading) {
    struct uma_model *model = reading->model;
    uint64_t bytes = uma_model_bytes(model);
    uma_model_warn(model, "no weights in %.120s: they are computed from config.json", reading->path);
    /* 3 %: more than what a family's small parts can add */
    uint64_t apart = reading->total_size > bytes ? reading->total_size - bytes : bytes - reading->total_size;
    if (reading->total_size && apart > bytes / 33)
        uma_model_warn(model, "the index states %.4g GB of weights, config.json's shape makes %.4g", (double)reading->total_size / 1e9,
                       (double)bytes / 1e9);
}

static int name_model(struct reading *reading, struct uma_error *err) {
    struct uma_model *model = reading->model;
    char source[256];
    model->file_count = reading->file_count;
    model->file_bytes = reading->file_bytes;
    model->largest_file = reading->largest_file;
    if (reading->weights.count)
        (void)snprintf(source, sizeof(source), "tensors of %u file%s in %.200s", reading->file_count, reading->file_count == 1 ? "" : "s",
                       reading->path);
    else
        (void)snprintf(source, sizeof(source), "config.json of %.200s", reading->path);
    if (uma_model_string(&model->name, reading->path) < 0 || uma_model_string(&model->source, source) < 0)
        return uma_error_set(err, ENOMEM, "%s", reading->path);
    return 0;
}

/* An adapter beside a whole model. */
static int add_adapter(struct reading *reading, struct uma_error *err) {
    struct uma_folder_adapter adapter;
    if (!reading->list.has_adapter_config)
        return 0;
    int r = uma_folder_adapter_read(reading->folder, reading->path, &adapter, err);
    if (r < 0)
        return r;
    reading->model->adapter_rank = adapter.rank;
    reading->model->adapter_bytes = adapter.bytes;
    return 0;
}

static int build_model(struct reading *reading, struct uma_error *err) {
    int r = read_config(reading, err);
    if (r < 0)
        return r;
    if (reading->weights.count)
        r = apply_tensors(reading, err);
    else if (!reading->model)
        return uma_error_text(err, ENOENT, "%s: neither config.json nor safetensors nor GGUF files in this folder", reading->path);
    else if (reading->list.pickles.count)
        r = apply_pickles(reading, err);
    else
        apply_structure(reading);
    if (r == 0)
        r = name_model(reading, err);
    return r == 0 ? add_adapter(reading, err) : r;
}

/* ---- GGUF files --------------------------------------------------------------------------------------------- */

/* The one GGUF of a folder, or the first part of the one split model; a projector beside it is not the model. */
static int choose_gguf(const struct reading *reading, char **ret_file, struct uma_error *err) {
    const char *found = NULL;
    for (size_t i = 0; i < reading->list.ggufs.count; i++) {
        const char *name = reading->list.ggufs.names[i], *of = strstr(name, "-of-");
        if (strstr(name, "mmproj"))
            continue;
        if (found && !(of && of - name >= 5 && strncmp(found, name, (size_t)(of - name - 5)) == 0))
            return uma_error_text(err, EINVAL, "%s: several models (%.100s, %.100s): give one of the files", reading->path, found, name);
        if (!found)
            found = name;
    }
    if (!found)
        found = reading->list.ggufs.names[0];
    char *file = uma_folder_path(reading->path, found);
    if (!file)
        return uma_error_set(err, ENOMEM, "%s", reading->path);
    *ret_file = file;
    return UMA_FOLDER_GGUF;
}

static int open_reading(struct reading *reading, const char *path, struct uma_error *err) {
    reading->path = path;
    reading->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (reading->folder < 0)
        return uma_error_set(err, errno, "%s: cannot open it", path);
    return uma_folder_list_read(reading->folder, path, &reading->list, err);
}

int uma_folder_read(const char *path, struct uma_model **ret_model, struct uma_folder_adapter *ret_adapter, char **ret_file,
                    struct uma_error *err) {
    _cleanup_reading_ struct reading reading = { .folder = -1 };
    int r = open_reading(&reading, path, err);
    if (r == 0)
        r = choose_weights(&reading, err);
    if (r < 0)
        return r;
    const struct uma_folder_list *list = &reading.list;
    bool nothing = reading.weights.count == 0 && list->pickles.count == 0;
    if (nothing && list->ggufs.count)
        return choose_gguf(&reading, ret_file, err);
    if (nothing && !list->has_config && list->has_adapter_config) {
        r = uma_folder_adapter_read(reading.folder, path, ret_adapter, err);
        return r < 0 ? r : UMA_FOLDER_ADAPTER;
    }
    if (nothing && !list->has_config && list->has_snapshots)
        return UMA_FOLDER_SNAPSHOTS;
    r = build_model(&reading, err);
    if (r < 0)
        return r;
    *ret_model = TAKE_PTR(reading.model);
    return UMA_FOLDER_MODEL;
}

int uma_folder_read_single(const char *path, struct uma_model **ret_model, struct uma_error *err) {
    const char *name = uma_folder_file_name(path);
    _cleanup_free_
    char *folder = uma_folder_of(path);
    _cleanup_reading_ struct reading reading = { .path = folder, .folder = -1 };
    if (!folder)
        return uma_error_set(err, ENOMEM, "%s", path);
    reading.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (reading.folder < 0)
        return uma_error_set(err, errno, "%s: cannot open it", folder);
    reading.list.has_config = faccessat(reading.folder, "config.json", F_OK, 0) == 0;
    if (uma_folder_names_add(&reading.weights, name, strlen(name)) < 0)
        return uma_error_set(err, ENOMEM, "%s", path);
    int r = build_model(&reading, err);
    if (r == 0 && uma_model_string(&reading.model->name, path) < 0)
        r = uma_error_set(err, ENOMEM, "%s", path);
    if (r < 0)
        return r;
    *ret_model = TAKE_PTR(reading.model);
    return 0;
}
