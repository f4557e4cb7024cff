/* SPDX-License-Identifier: MIT */
#include "plan/model/gguf.h"

#include "base/text.h"
#include "base/units.h"
#include "plan/estimate.h"
#include "plan/model/folder.h"
#include "plan/model/gguf_layers.h"
#include "plan/model/gguf_types.h"
#include "plan/model/structure.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

/* "-00001-of-00003.gguf" (llama_split_path of llama.cpp). */
enum { SPLIT_SUFFIX = 20, SPLITS_MAX = 4096 };

/* What is collected while the files of a model are scanned, one after the other. */
struct collection {
    struct uma_gguf_metadata metadata;
    struct uma_gguf_tensors tensors;
    uint64_t file_bytes, largest_file, unknown_tensors, bytes_read;
    uint32_t file_count, unknown_type;
};

static void collection_free(struct collection **c) {
    if (*c) {
        uma_gguf_metadata_done(&(*c)->metadata);
        uma_gguf_tensors_done(&(*c)->tensors);
    }
    free(*c);
}

/* ---- scanning ----------------------------------------------------------------------------------------------- */

struct visit {
    struct collection *collection;
    bool prepared; /* what the metadata says of tensors was handed to their reader */
};

static int on_key(void *userdata, const char *key, const struct uma_gguf_value *value, struct uma_error *err) {
    struct visit *visit = userdata;
    return uma_gguf_metadata_key(&visit->collection->metadata, key, value, err);
}

static void prepare(struct visit *visit) {
    struct uma_gguf_metadata *m = &visit->collection->metadata;
    struct uma_gguf_tensors *tensors = &visit->collection->tensors;
    uint32_t blocks = uma_gguf_number(m, UMA_GGUF_BLOCKS, 0, 0), nextn = uma_gguf_number(m, UMA_GGUF_NEXTN, 0, 0);
    tensors->mtp_from = nextn && nextn < blocks ? blocks - nextn : UINT64_MAX;
    tensors->projector = strcmp(m->architecture, "clip") == 0 || strcmp(m->type, "mmproj") == 0;
    tensors->adapter = strcmp(m->type, "adapter") == 0;
    visit->prepared = true;
}

static int on_tensor(void *userdata, const struct uma_gguf_tensor *tensor, struct uma_error *err) {
    struct visit *visit = userdata;
    if (!visit->prepared) /* in a file all keys come before all tensors */
        prepare(visit);
    return uma_gguf_tensors_add(&visit->collection->tensors, tensor, err);
}

static void on_sized(void *userdata, int tag, uint64_t bytes) {
    struct visit *visit = userdata;
    uma_gguf_tensors_sized(&visit->collection->tensors, tag, bytes);
}

static int scan_once(int fd, const char *path, struct collection *c, struct uma_gguf_header *ret_header, struct uma_error *err) {
    struct visit visit = { .collection = c };
    const struct uma_gguf_visitor visitor = { on_key, on_tensor, on_sized, &visit };
    return uma_gguf_scan(fd, path, &visitor, ret_header, err);
}

/* Nothing collected but what kind of model it is. */
static void start_again(struct collection *c) {
    char architecture[sizeof c->metadata.architecture], type[sizeof c->metadata.type];
    memcpy(architecture, c->metadata.architecture, sizeof architecture);
    memcpy(type, c->metadata.type, sizeof type);
    uma_gguf_metadata_done(&c->metadata);
    uma_gguf_tensors_done(&c->tensors);
    *c = (struct collection){ 0 };
    memcpy(c->metadata.architecture, architecture, sizeof architecture);
    memcpy(c->metadata.type, type, sizeof type);
}

static int scan_file(const char *path, struct collection *c, struct uma_error *err) {
    /* O_NONBLOCK: a FIFO is then refused by its type, not waited for */
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return uma_error_set(err, errno, "cannot open %s", path);
    struct uma_gguf_header header;
    int e = scan_once(fd, path, c, &header, err);
    if (e == 0 && c->file_count == 0 && c->metadata.out_of_order && c->metadata.architecture[0]) {
        start_again(c);
        e = scan_once(fd, path, c, &header, err);
    }
    if (e < 0)
        return e;
    c->bytes_read += header.bytes_read;
    if (c->bytes_read > UMA_GGUF_HEADER_MAX || c->tensors.count > UMA_GGUF_TENSORS_MAX)
        return uma_error_text(err, EINVAL, "%s: the parts of this model have headers of more than %d MiB or %d tensors together", path,
                              UMA_GGUF_HEADER_MAX >> 20, UMA_GGUF_TENSORS_MAX);
    c->file_count++;
    c->file_bytes = uma_plus(c->file_bytes, header.file_size);
    c->largest_file = MAX_OF(c->largest_file, header.file_size);
    c->unknown_tensors += header.unknown_tensors;
    if (header.unknown_tensors)
        c->unknown_type = header.unknown_type;
    return 0;
}

/* ---- split models ------------------------------------------------------------------------------------------- */

struct split {
    size_t prefix; /* length of the path before "-00001-of-00003.gguf" */
    uint64_t number, count;
};

static bool digits(const char *s, uint64_t *ret_number) {
    return uma_parse_u64(s, s + 5, ret_number) == s + 5;
}

static bool split_name(const char *path, struct split *ret_split) {
    size_t length = strlen(path);
    if (length <= SPLIT_SUFFIX)
        return false;
    const char *suffix = path + length - SPLIT_SUFFIX;
    struct split split = { .prefix = length - SPLIT_SUFFIX };
    if (suffix[0] != '-' || strncmp(suffix + 6, "-of-", 4) != 0 || strcmp(suffix + 15, ".gguf") != 0 ||
        !digits(suffix + 1, &split.number) || !digits(suffix + 10, &split.count) || split.number == 0 || split.number > split.count ||
        split.count > SPLITS_MAX)
        return false;
    *ret_split = split;
    return true;
}

static int scan_part(const char *path, const struct split *split, uint64_t number, struct collection *c, struct uma_error *err) {
    _cleanup_text_ struct uma_text part = { 0 };
    uma_text_append_n(&part, path, split->prefix);
    uma_text_printf(&part, "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", number, split->count);
    if (part.failed)
        return uma_error_set(err, ENOMEM, "cannot read %s", path);
    int e = scan_file(part.data, c, err);
    if (e == -ENOENT)
        return uma_error_text(err, ENOENT, "part %" PRIu64 " of %" PRIu64 " is missing: %s", number, split->count, part.data);
    if (e < 0 || c->metadata.split_count == 0)
        return e;
    if (c->metadata.split_count != split->count || c->metadata.split_number != number - 1)
        return uma_error_text(err, EINVAL, "%s says it is part %" PRIu64 " of %" PRIu64 ": its name says otherwise", part.data,
                              uma_plus(c->metadata.split_number, 1), c->metadata.split_count);
    return 0;
}

static int scan_all(const char *path, struct collection *c, struct uma_error *err) {
    struct split split;
    if (split_name(path, &split) && split.count > 1) {
        int e = scan_part(path, &split, 1, c, err);
        for (uint64_t i = 2; e == 0 && c->metadata.split_count && i <= split.count; i++)
            e = scan_part(path, &split, i, c, err);
        if (e < 0)
            return e;
        if (c->metadata.split_tensors && c->metadata.split_tensors != c->tensors.count)
            return uma_error_text(err, EINVAL, "%s: its parts hold %" PRIu64 " tensors, the first says %" PRIu64, path, c->tensors.count,
                                  c->metadata.split_tensors);
        if (c->metadata.split_count)
            return 0;
        start_again(c); /* named like a part, but not made by llama-gguf-split */
        c->metadata.architecture[0] = c->metadata.type[0] = '\0';
        return scan_file(path, c, err);
    }
    int e = scan_file(path, c, err);
    if (e == 0 && c->metadata.split_count > 1)
        return uma_error_text(
            err, EINVAL, "%s is part %" PRIu64 " of %" PRIu64 ", but is not named \"...-00001-of-00003.gguf\": the others cannot be found",
            path, uma_plus(c->metadata.split_number, 1), c->metadata.split_count);
    return e;
}

/* ---- the model ---------------------------------------------------------------------------------------------- */

static int fill_names(struct uma_model *model, const char *path, const struct collection *c, struct uma_error *err) {
    const struct uma_gguf_metadata *m = &c->metadata;
    const char *file_type = m->has_file_type ? uma_gguf_file_type_name(m->file_type) : NULL;
    enum uma_format most = UMA_FORMAT_UNKNOWN;
    uint64_t params = 0;
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        if (c->tensors.totals[i].params > params) {
            params = c->tensors.totals[i].params;
            most = model->class_format[i];
        }
    if (!file_type && most != UMA_FORMAT_UNKNOWN)
        file_type = uma_format_name(most);
    if (file_type && (most == UMA_FORMAT_F32 || most == UMA_FORMAT_F16 || most == UMA_FORMAT_BF16))
        file_type = NULL;
    char source[UMA_GGUF_TEXT];
    if (c->file_count == 1)
        snprintf(source, sizeof source, "tensors of %s", path);
    else
        snprintf(source, sizeof source, "tensors of %u files: %s", c->file_count, path);
    if (uma_model_string(&model->name, m->name[0] ? m->name : uma_folder_file_name(path)) < 0 ||
        uma_model_string(&model->architecture, m->architecture[0] ? m->architecture : "unknown") < 0 ||
        uma_model_string(&model->source, source) < 0 || (file_type && uma_model_string(&model->quantisation, file_type) < 0))
        return uma_error_set(err, ENOMEM, "cannot keep the model in %s", path);
    return 0;
}

static void fill_totals(struct uma_model *model, const struct collection *c) {
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++) {
        model->totals[i] = c->tensors.totals[i];
        model->class_format[i] = uma_gguf_tensors_format(&c->tensors, (enum uma_class)i);
    }
    model->gguf = true;
    model->file_count = c->file_count;
    model->file_bytes = c->file_bytes;
    model->largest_file = c->largest_file;
    model->largest_tensor = c->tensors.largest;
    model->adapter_bytes = c->tensors.adapter_bytes;
    model->adapter_rank = (uint32_t)MIN_OF(c->tensors.adapter_rank, (uint64_t)UINT32_MAX);
}

/* Tokens of one image: patches of the tower's usual image, merged as the projector merges them (clip.cpp of llama.cpp). */
static void fill_vision(struct uma_model *model, const struct uma_gguf_metadata *m) {
    model->has_vision = true;
    model->vision_hidden = uma_gguf_number(m, UMA_GGUF_VISION_HIDDEN, 0, 0);
    model->vision_layers = uma_gguf_number(m, UMA_GGUF_VISION_BLOCKS, 0, 0);
    uint64_t image = uma_gguf_number(m, UMA_GGUF_VISION_IMAGE, 0, 0), patch = uma_gguf_number(m, UMA_GGUF_VISION_PATCH, 0, 0);
    uint64_t merge = uma_gguf_number(m, UMA_GGUF_VISION_SCALE, 0, uma_gguf_number(m, UMA_GGUF_VISION_MERGE, 0, 1));
    uint64_t side = patch && merge ? image / patch / merge : 0;
    model->vision_tokens = side < 4096 ? (uint32_t)(side * side) : 0;
}

static int build(const char *path, struct collection *c, struct uma_model **ret_model, struct uma_error *err) {
    const struct uma_gguf_metadata *m = &c->metadata;
    struct uma_gguf_tensors *tensors = &c->tensors;
    uint32_t layers = uma_gguf_layer_count(m, tensors);
    _cleanup_model_ struct uma_model *model = uma_model_new(layers);
    if (!model)
        return uma_error_set(err, ENOMEM, "cannot keep the model in %s", path);
    model->basis = UMA_BASIS_TENSORS;
    model->architecture_known = tensors->adapter || uma_gguf_architecture_known(m->architecture);
    model->hidden = uma_gguf_number(m, UMA_GGUF_HIDDEN, 0, (uint32_t)MIN_OF(tensors->hidden, (uint64_t)UINT32_MAX));
    model->vocab = tensors->vocab ? tensors->vocab : m->words ? m->words : uma_gguf_number(m, UMA_GGUF_VOCAB_SIZE, 0, 0);
    model->max_position = uma_gguf_number(m, UMA_GGUF_CONTEXT, 0, 0);
    model->details.positions = tensors->positions;
    model->tied = tensors->vocab > 0 && !tensors->has_lm_head;
    model->mtp_layers = tensors->mtp_blocks;
    uma_gguf_layers_fill(model, m, tensors);
    fill_totals(model, c);
    if (tensors->has_vision)
        fill_vision(model, m);
    if (!model->architecture_known)
        uma_model_warn(model, "architecture \"%s\" is not known: its structure is taken from its tensors", m->architecture);
    if (c->unknown_tensors)
        uma_model_warn(model, "%" PRIu64 " tensors of unknown type %u: their sizes are the room between them", c->unknown_tensors,
                       c->unknown_type);
    int e = fill_names(model, path, c, err);
    if (e == 0)
        *ret_model = TAKE_PTR(model);
    return e;
}

int uma_gguf_open(const char *path, struct uma_model **ret_model, struct uma_error *err) {
    _cleanup_(collection_free) struct collection *c = calloc(1, sizeof *c);
    if (!c)
        return uma_error_set(err, ENOMEM, "cannot read %s", path);
    int e = scan_all(path, c, err);
    if (e < 0)
        return e;
    if (strcmp(c->metadata.type, "imatrix") == 0)
        return uma_error_text(err, ENOTSUP, "%s is an importance matrix, not a model", path);
    if (c->tensors.count == 0)
        return uma_error_text(err, EINVAL, "%s has no tensors: a vocabulary, not a model", path);
    return build(path, c, ret_model, err);
}
