/* SPDX-License-Identifier: MIT */
#include "observe/cgroup.h"

#include "base/text.h"
#include "base/units.h"
#include "observe/container.h"
#include "observe/intern.h"
#include "observe/lines.h"
#include "observe/process.h"
#include "observe/source.h"

#include <limits.h>
#include <string.h>

/* Cgroups whose processes have less than this together get usage and limit only. A process that has initialised CUDA or loaded a framework
 * has hundreds of MiB resident on the CPU side alone; the services of an idle machine have 5 to 50. */
static const uint64_t worth_reading = 64 * UMA_MIB;
/* memory.stat has about 60 lines (v2, 6.x) of at most 45 bytes; more is not the kernel's. */
enum { STAT_MAX = 16 * 1024, NUMBER_MAX = 64, CONTROLLERS_MAX = 4096 };
/* Levels that are followed upwards for limits; container runtimes nest about 10. */
enum { DEPTH_MAX = 64 };

struct entry {
    const char *path; /* raw, in the snapshot's arena */
    int version;
    bool candidate;
    uint64_t bytes;
    int32_t container;
    bool limit_read, effective_read;
    struct uma_u64 limit, effective;
    int32_t effective_of; /* whose limit that is */
};

struct uma_cgroup_reader {
    struct uma_root *root;
    struct uma_cgroup_mounts mounts;
    bool mounts_known, has_dmem;
    struct uma_intern paths, container_ids;
    struct entry *entries; /* those that hold a process first, in the order of their numbers; parents behind them */
    size_t capacity, n_listed;
    bool complete;
    struct uma_container *containers;
    size_t n_containers, containers_capacity;
    struct uma_container_names *names;
    struct uma_text text, folder;
    struct uma_snapshot *snapshot;
};

struct uma_cgroup_reader *uma_cgroup_reader_new(struct uma_root *root) {
    struct uma_cgroup_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return NULL;
    reader->root = root;
    reader->names = uma_container_names_new(root);
    return reader->names ? reader : uma_cgroup_reader_free(reader);
}

struct uma_cgroup_reader *uma_cgroup_reader_free(struct uma_cgroup_reader *reader) {
    if (!reader)
        return NULL;
    uma_cgroup_mounts_done(&reader->mounts);
    uma_intern_done(&reader->paths);
    uma_intern_done(&reader->container_ids);
    free(reader->entries);
    free(reader->containers);
    (void)uma_container_names_free(reader->names);
    uma_text_done(&reader->text);
    uma_text_done(&reader->folder);
    free(reader);
    return NULL;
}

static const struct uma_cgroup_mount *mount_of(const struct uma_cgroup_reader *reader, int version) {
    static const struct uma_cgroup_mount none = { 0 };
    return version == 1 ? &reader->mounts.memory_v1 : version == 2 ? &reader->mounts.unified : &none;
}

/* dmem (6.14) is rare: one look at the root's controllers instead of two failing opens for each cgroup. */
static bool find_dmem(struct uma_cgroup_reader *reader) {
    if (!reader->mounts.unified.base)
        return false;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/cgroup.controllers", reader->mounts.unified.base);
    if (uma_root_read(reader->root, path, CONTROLLERS_MAX, &reader->text, NULL) < 0)
        return false;
    for (const char *at = strstr(reader->text.data, "dmem"); at; at = strstr(at + 4, "dmem"))
        if ((at == reader->text.data || at[-1] == ' ') && strchr(" \n", at[4]))
            return true;
    return false;
}

void uma_cgroups_begin(struct uma_cgroup_reader *reader, struct uma_snapshot *snapshot) {
    reader->snapshot = snapshot;
    reader->n_listed = 0;
    reader->n_containers = 0;
    reader->complete = true;
    uma_intern_reset(&reader->paths);
    uma_intern_reset(&reader->container_ids);
    uma_container_names_begin(reader->names);
    if (!reader->mounts_known || uma_root_capture(reader->root)) { /* they do not move while a machine runs */
        uma_cgroup_mounts_find(reader->root, &reader->text, &reader->mounts);
        reader->has_dmem = find_dmem(reader);
        reader->mounts_known = reader->mounts.memory_v1.base || reader->mounts.unified.base;
    }
}

static int32_t add(struct uma_cgroup_reader *reader, int version, const char *path, size_t length, size_t limit) {
    if (reader->paths.n == reader->capacity) {
        size_t capacity = reader->capacity ? reader->capacity * 2 : 64;
        struct entry *entries = realloc(reader->entries, capacity * sizeof(*entries));
        if (!entries)
            return -1;
        reader->entries = entries;
        reader->capacity = capacity;
    }
    const char *raw = uma_arena_strndup(reader->snapshot->arena, path, length);
    int32_t index = raw ? uma_intern_add(&reader->paths, raw, length, limit) : -1;
    if (index >= 0)
        reader->entries[index] = (struct entry){ .path = raw, .version = version, .container = -1 };
    return index;
}

int32_t uma_cgroups_add(struct uma_cgroup_reader *reader, int version, const char *path, size_t length) {
    if (length == 0 || length >= PATH_MAX || path[0] != '/' || memchr(path, '\0', length))
        return -1;
    int32_t index = uma_intern_find(&reader->paths, path, length);
    if (index >= 0)
        return index;
    index = add(reader, version, path, length, UMA_CGROUPS_MAX);
    if (index < 0)
        reader->complete = false;
    else
        reader->n_listed = reader->paths.n;
    return index;
}

void uma_cgroups_weigh(struct uma_cgroup_reader *reader, int32_t index, uint64_t bytes, bool candidate) {
    if (index < 0)
        return;
    struct entry *e = &reader->entries[index];
    e->candidate |= candidate;
    e->bytes = e->bytes + bytes < bytes ? UINT64_MAX : e->bytes + bytes;
}

/* ---- files ----------------------------------------------------------------------------------------------- */

struct uma_u64 uma_cgroup_number_parse(const char *text, size_t length) {
    const char *end = text + length;
    while (end > text && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
        end--;
    if (end - text == 3 && memcmp(text, "max", 3) == 0)
        return uma_no_u64(UMA_UNLIMITED);
    uint64_t value;
    const char *after = uma_parse_u64(text, end, &value);
    if (!after || after != end)
        return uma_no_u64(UMA_MALFORMED);
    /* v1 has no word for "no limit": it shows LONG_MAX rounded to pages, other values of that order on older kernels */
    return value >= 1ull << 62 ? uma_no_u64(UMA_UNLIMITED) : uma_known_u64(value);
}

struct uma_u64 uma_cgroup_keyed_parse(const char *text, size_t length, const char *key) {
    size_t key_length = strlen(key);
    for (const char *line = text, *end = text + length; line < end;) {
        const char *line_end = uma_line_end(line, end);
        if ((size_t)(line_end - line) > key_length && memcmp(line, key, key_length) == 0 && line[key_length] == ' ') {
            uint64_t value;
            return uma_parse_u64(line + key_length + 1, line_end, &value) ? uma_known_u64(value) : uma_no_u64(UMA_MALFORMED);
        }
        line = line_end + 1;
    }
    return uma_no_u64(UMA_ABSENT);
}

static struct uma_dmem *dmem_region(struct uma_cgroup *cgroup, struct uma_arena *arena, const char *name, size_t length) {
    const char *region = uma_arena_utf8(arena, name, MIN_OF(length, (size_t)128)); /* "drm/PCI-ADDRESS/NAME" */
    for (uint32_t i = 0; region && i < cgroup->n_dmem; i++)
        if (strcmp(cgroup->dmem[i].region, region) == 0)
            return &cgroup->dmem[i];
    if (!region || cgroup->n_dmem == UMA_DMEM_MAX)
        return NULL;
    cgroup->dmem[cgroup->n_dmem].region = region;
    return &cgroup->dmem[cgroup->n_dmem++];
}

int uma_cgroup_dmem_parse(const char *text, size_t length, bool limits, struct uma_arena *arena, struct uma_cgroup *cgroup) {
    int lines = 0;
    for (const char *line = text, *end = text + length; line < end && lines < UMA_DMEM_MAX; lines++) {
        const char *line_end = uma_line_end(line, end);
        const char *space = memchr(line, ' ', (size_t)(line_end - line));
        struct uma_dmem *dmem = space ? dmem_region(cgroup, arena, line, (size_t)(space - line)) : NULL;
        if (dmem)
            *(limits ? &dmem->max : &dmem->current) = uma_cgroup_number_parse(space + 1, (size_t)(line_end - space - 1));
        line = line_end + 1;
    }
    return 0;
}

/* ---- one cgroup ------------------------------------------------------------------------------------------ */

/* The folder of one cgroup, held open so that its files are of one and the same cgroup. */
struct open_cgroup {
    struct uma_cgroup_reader *reader;
    int fd;
    const char *path;
};

static int read_file(struct open_cgroup *open, const char *name, size_t max) {
    return uma_root_read_in(open->reader->root, open->fd, open->path, name, max, true, &open->reader->text, NULL);
}

static struct uma_u64 number(struct open_cgroup *open, const char *name) {
    int r = read_file(open, name, NUMBER_MAX);
    return r < 0 ? uma_no_u64(uma_validity_of_errno(r)) : uma_cgroup_number_parse(open->reader->text.data, open->reader->text.length);
}

struct keyed {
    const char *key;
    struct uma_u64 *value;
};

static void keyed_file(struct open_cgroup *open, const char *name, const struct keyed *keyed, size_t n) {
    int r = read_file(open, name, STAT_MAX);
    const struct uma_text *text = &open->reader->text;
    for (size_t i = 0; i < n; i++)
        *keyed[i].value = r < 0 ? uma_no_u64(uma_validity_of_errno(r)) : uma_cgroup_keyed_parse(text->data, text->length, keyed[i].key);
}

static void read_dmem(struct open_cgroup *open, struct uma_cgroup *cg) {
    static const char *const files[] = { "dmem.current", "dmem.max" };
    for (size_t i = 0; i < ELEMENTS(files); i++)
        if (read_file(open, files[i], STAT_MAX) >= 0)
            (void)uma_cgroup_dmem_parse(open->reader->text.data, open->reader->text.length, i == 1, open->reader->snapshot->arena, cg);
}

static void read_v2(struct open_cgroup *open, struct uma_cgroup *cg, bool whole) {
    cg->memory_current = number(open, "memory.current");
    cg->memory_max = number(open, "memory.max");
    if (!whole)
        return;
    cg->memory_peak = number(open, "memory.peak"); /* since 5.19 */
    cg->memory_high = number(open, "memory.high");
    cg->memory_low = number(open, "memory.low");
    cg->memory_min = number(open, "memory.min");
    cg->swap_current = number(open, "memory.swap.current");
    cg->swap_max = number(open, "memory.swap.max");
    const struct keyed stat[] = { { "anon", &cg->anon }, { "file", &cg->file }, { "shmem", &cg->shmem } };
    keyed_file(open, "memory.stat", stat, ELEMENTS(stat));
    const struct keyed events[] = {
        { "high", &cg->events_high }, { "max", &cg->events_max }, { "oom", &cg->events_oom }, { "oom_kill", &cg->events_oom_kill }
    };
    keyed_file(open, "memory.events", events, ELEMENTS(events));
    if (open->reader->has_dmem)
        read_dmem(open, cg);
}

/* memory+swap has one common limit in v1; what of it is swap is what runtimes set: the difference (docker run --memory-swap). */
static struct uma_u64 swap_limit_v1(struct uma_u64 both, struct uma_u64 memory) {
    if (both.validity != UMA_KNOWN || memory.validity != UMA_KNOWN)
        return both;
    return uma_known_u64(both.value - MIN_OF(memory.value, both.value));
}

static void read_v1(struct open_cgroup *open, struct uma_cgroup *cg, bool whole) {
    cg->memory_current = number(open, "memory.usage_in_bytes");
    cg->memory_max = number(open, "memory.limit_in_bytes");
    if (!whole)
        return;
    cg->memory_peak = number(open, "memory.max_usage_in_bytes");
    cg->memory_high = cg->memory_min = cg->events_high = cg->events_oom = uma_no_u64(UMA_ABSENT); /* v2 only */
    /* the soft limit protects below it under contention: runc turns it into memory.low on v2. Not set means no protection. */
    cg->memory_low = number(open, "memory.soft_limit_in_bytes");
    if (cg->memory_low.validity == UMA_UNLIMITED)
        cg->memory_low = uma_known_u64(0);
    cg->swap_max = swap_limit_v1(number(open, "memory.memsw.limit_in_bytes"), cg->memory_max); /* absent with swapaccount=0 */
    /* total_: with children, as usage_in_bytes counts; cache includes shmem, as v2's `file` does */
    const struct keyed stat[] = {
        { "total_rss", &cg->anon }, { "total_cache", &cg->file }, { "total_shmem", &cg->shmem }, { "total_swap", &cg->swap_current }
    };
    keyed_file(open, "memory.stat", stat, ELEMENTS(stat));
    cg->events_max = number(open, "memory.failcnt");
    const struct keyed oom[] = { { "oom_kill", &cg->events_oom_kill } }; /* since 4.13 */
    keyed_file(open, "memory.oom_control", oom, ELEMENTS(oom));
}

static const char *utf8_path(struct uma_arena *arena, const char *raw) {
    size_t n = strlen(raw);
    for (size_t i = 0; i < n;) {
        size_t step = uma_utf8_sequence(raw + i, n - i);
        if (!step)
            return uma_arena_utf8(arena, raw, n);
        i += step;
    }
    return raw;
}

/* "sys/fs/cgroup/..." of this cgroup in reader->folder; false when the mount does not show it. */
static bool folder_of(struct uma_cgroup_reader *reader, int version, const char *path) {
    const struct uma_cgroup_mount *mount = mount_of(reader, version);
    const char *below = uma_cgroup_path_below(mount, path);
    uma_text_reset(&reader->folder);
    if (!below)
        return false;
    uma_text_append(&reader->folder, mount->base);
    uma_text_append(&reader->folder, below);
    return !reader->folder.failed && reader->folder.length < PATH_MAX - NUMBER_MAX;
}

static bool whole(const struct entry *e) {
    return e->candidate || e->bytes >= worth_reading;
}

static void read_one(struct uma_cgroup_reader *reader, struct entry *e, struct uma_cgroup *cg) {
    struct uma_arena *arena = reader->snapshot->arena;
    cg->version = e->version;
    cg->path = utf8_path(arena, e->path);
    cg->unit = uma_cgroup_unit(e->path, arena);
    if (!folder_of(reader, e->version, e->path)) {
        static const struct uma_error outside = { .text = "the mounted cgroup hierarchies do not show this cgroup" };
        uma_source_failed(&cg->source, arena, NULL, -ENOENT, &outside);
        e->limit_read = true;
        e->limit = cg->memory_max = uma_no_u64(UMA_ABSENT);
        return;
    }
    const char *path = uma_arena_strndup(arena, reader->folder.data, reader->folder.length);
    struct uma_error err = { 0 };
    _cleanup_close_ int fd = -1;
    int r = path ? uma_root_open_folder(reader->root, path, &fd, &err) : -ENOMEM;
    if (r < 0) { /* mostly: removed since its last process ended */
        uma_source_failed(&cg->source, arena, path ? utf8_path(arena, path) : NULL, r, &err);
        cg->memory_current = cg->memory_max = uma_no_u64(uma_validity_of_errno(r));
    } else {
        struct open_cgroup open = { .reader = reader, .fd = fd, .path = path };
        uma_source_ok(&cg->source, utf8_path(arena, path));
        if (e->version == 1)
            read_v1(&open, cg, whole(e));
        else
            read_v2(&open, cg, whole(e));
    }
    e->limit_read = true;
    e->limit = cg->memory_max;
}

/* ---- limits of parents ----------------------------------------------------------------------------------- */

static void read_limit(struct uma_cgroup_reader *reader, struct entry *e) {
    e->limit_read = true;
    e->limit = uma_no_u64(UMA_ABSENT); /* above what the mount shows: no limit that can be seen from here */
    if (!folder_of(reader, e->version, e->path))
        return;
    uma_text_append(&reader->folder, e->version == 1 ? "/memory.limit_in_bytes" : "/memory.max");
    if (reader->folder.failed)
        return;
    int r = uma_root_read(reader->root, reader->folder.data, NUMBER_MAX, &reader->text, NULL);
    e->limit = r < 0 ? uma_no_u64(uma_validity_of_errno(r)) : uma_cgroup_number_parse(reader->text.data, reader->text.length);
}

/* The smaller of a cgroup's own limit and what its parents leave. Absent is no limit: the machine's root and cgroups without a
 * memory controller have no such file. One that could not be read may be the smallest: unknown. */
static void combine(struct entry *e, int32_t index, const struct entry *parent) {
    e->effective_read = true;
    e->effective = parent ? parent->effective : uma_no_u64(UMA_UNLIMITED);
    e->effective_of = parent ? parent->effective_of : -1;
    bool none = e->limit.validity == UMA_ABSENT || e->limit.validity == UMA_UNLIMITED;
    if (none || e->effective.validity == UMA_UNKNOWN)
        return;
    if (e->limit.validity != UMA_KNOWN) {
        e->effective = uma_no_u64(UMA_UNKNOWN);
    } else if (e->effective.validity != UMA_KNOWN || e->limit.value < e->effective.value) {
        e->effective = e->limit;
        e->effective_of = index;
    }
}

/* v1 is taken as hierarchical: systemd and container runtimes set memory.use_hierarchy, and kernels since 5.11 know nothing else. */
static void read_effective(struct uma_cgroup_reader *reader, int32_t index) {
    int32_t chain[DEPTH_MAX];
    size_t n = 0, length = strlen(reader->entries[index].path);
    const char *path = reader->entries[index].path;
    int version = reader->entries[index].version;
    int32_t at = index, known = -1;
    if (!uma_cgroup_path_below(mount_of(reader, version), path)) { /* "/" is not a parent of "/../x" */
        reader->entries[index].effective = uma_no_u64(UMA_ABSENT);
        return;
    }
    for (;;) {
        if (reader->entries[at].effective_read) {
            known = at;
            break;
        }
        if (n == DEPTH_MAX)
            return; /* stays unknown */
        chain[n++] = at;
        if (length <= 1)
            break;
        while (length > 1 && path[length - 1] != '/')
            length--;
        length -= length > 1; /* the slash, but not that of the root */
        at = uma_intern_find(&reader->paths, path, length);
        if (at < 0)
            at = add(reader, version, path, length, 2 * (size_t)UMA_CGROUPS_MAX);
        if (at < 0)
            return;
    }
    while (n > 0) {
        struct entry *e = &reader->entries[chain[--n]];
        if (!e->limit_read)
            read_limit(reader, e);
        combine(e, chain[n], known >= 0 ? &reader->entries[known] : NULL);
        known = chain[n];
    }
}

/* ---- containers ------------------------------------------------------------------------------------------ */

/* Two cgroups may be of one container (services inside of it). Its number, or -1: none, too many, no memory. */
static int32_t container_number(struct uma_cgroup_reader *reader, const char *path) {
    struct uma_container c;
    struct uma_arena *arena = reader->snapshot->arena;
    int r = uma_container_identify(path, arena, &c);
    if (r < 0) {
        reader->complete &= r != -ENOMEM;
        return -1;
    }
    size_t length = strlen(c.id);
    int32_t number = uma_intern_find(&reader->container_ids, c.id, length);
    if (number >= 0)
        return number;
    if (reader->n_containers == reader->containers_capacity) {
        size_t capacity = reader->containers_capacity ? reader->containers_capacity * 2 : 16;
        struct uma_container *grown = realloc(reader->containers, capacity * sizeof(*grown));
        if (!grown)
            return -1;
        reader->containers = grown;
        reader->containers_capacity = capacity;
    }
    number = uma_intern_add(&reader->container_ids, c.id, length, UMA_CONTAINERS_MAX);
    if (number >= 0)
        reader->containers[reader->n_containers++] = c;
    else
        reader->complete = false;
    return number;
}

static void find_containers(struct uma_cgroup_reader *reader) {
    struct uma_snapshot *snapshot = reader->snapshot;
    for (size_t i = 0; i < reader->n_listed; i++)
        reader->entries[i].container = container_number(reader, reader->entries[i].path);
    for (size_t i = 0; i < reader->n_listed; i++) {
        const struct entry *e = &reader->entries[i];
        /* the runtime's files are large JSON: looked at only for containers that matter */
        if (e->container >= 0 && whole(e))
            uma_container_names_fill(reader->names, e->path, snapshot->arena, &reader->containers[e->container]);
    }
    uma_container_names_end(reader->names);
    snapshot->containers = uma_arena_array(snapshot->arena, reader->n_containers, sizeof(*snapshot->containers));
    snapshot->n_containers = snapshot->containers ? reader->n_containers : 0;
    if (snapshot->n_containers)
        (void)memcpy(snapshot->containers, reader->containers, reader->n_containers * sizeof(*reader->containers));
    reader->complete &= snapshot->containers != NULL;
}

bool uma_cgroups_finish(struct uma_cgroup_reader *reader) {
    struct uma_snapshot *snapshot = reader->snapshot;
    snapshot->cgroups = uma_arena_array(snapshot->arena, reader->n_listed, sizeof(*snapshot->cgroups));
    snapshot->n_cgroups = snapshot->cgroups ? reader->n_listed : 0;
    reader->n_listed = snapshot->n_cgroups;
    reader->complete &= snapshot->cgroups != NULL;
    for (size_t i = 0; i < reader->n_listed; i++)
        read_one(reader, &reader->entries[i], &snapshot->cgroups[i]);
    for (size_t i = 0; i < reader->n_listed; i++) {
        read_effective(reader, (int32_t)i);
        const struct entry *e = &reader->entries[i];
        snapshot->cgroups[i].effective_max = e->effective;
        if (e->effective.validity == UMA_KNOWN)
            snapshot->cgroups[i].effective_max_path = utf8_path(snapshot->arena, reader->entries[e->effective_of].path);
    }
    find_containers(reader);
    return reader->complete;
}

int32_t uma_cgroups_container(const struct uma_cgroup_reader *reader, int32_t index) {
    if (index < 0 || (size_t)index >= reader->n_listed)
        return -1;
    int32_t container = reader->entries[index].container;
    return (size_t)(container + 1) <= reader->snapshot->n_containers ? container : -1;
}
