/* SPDX-License-Identifier: MIT */
#include "observe/heat.h"

#include "base/units.h"
#include "observe/heat_parts.h"
#include "observe/source.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * sysfs does not tell of a chip that was added (its folders have no usable times), so a long-running reader looks again once a minute: a
 * module such as spark_hwmon loaded later is seen, at the cost of one discovery (a few hundred small files) a minute.
 */
#define REDISCOVER_NS (60 * UMA_SECOND_NS)

enum { LIST_MAX = 16384, NAME_MAX_BYTES = 64 };

struct uma_heat_reader {
    struct uma_heat_files files;
    struct uma_thermal *thermal;
    struct uma_hwmon *hwmon;
    struct uma_cpufreq *cpufreq;
    int64_t discovered_ns;
};

/* ---- files -------------------------------------------------------------------------------------------------- */

static void trim(struct uma_text *text) {
    while (text->length > 0 && strchr(" \t\r\n", text->data[text->length - 1]))
        text->data[--text->length] = '\0';
}

/* 0, -ENOENT (also: what is there now is not what was kept), or another negative errno as read(2) gave it. */
static int read_kept(struct uma_heat_files *files, const char *path, int *kept) {
    int before = *kept >= 0;
    int r = uma_root_read_attribute(files->root, path, UMA_HEAT_FILE_MAX, kept, &files->text, NULL);
    if (r == -ENODEV && before) {
        /* Either the device is gone, or its driver itself says "no such reading" (acpi_fan does): a file opened now tells which. */
        r = uma_root_read_attribute(files->root, path, UMA_HEAT_FILE_MAX, kept, &files->text, NULL);
        if (r >= 0)
            r = -ENOENT;
    }
    files->n_kept += (*kept >= 0) - before;
    return r;
}

static int read_file(struct uma_heat_files *files, const char *path, int *kept) {
    /* In a folder a kept file would go on showing what was there after somebody replaced it; and there is no hurry. */
    bool keep = kept && (*kept >= 0 || (uma_root_is_live(files->root) && files->n_kept < UMA_HEAT_KEPT_MAX));
    int r = keep ? read_kept(files, path, kept) : uma_root_read(files->root, path, UMA_HEAT_FILE_MAX, &files->text, NULL);
    if (r == -ENOENT || r == -ENOTDIR)
        return -ENOENT;
    if (r < 0) {
        (void)uma_root_record(files->root, path, "", 0, NULL);
        return r == -EACCES || r == -EPERM ? -EACCES : -EIO;
    }
    trim(&files->text);
    return files->text.length > 0 ? 0 : -EIO;
}

int uma_heat_file_read(struct uma_heat_files *files, struct uma_heat_file *file) {
    return file->path ? read_file(files, file->path, &file->kept) : -ENOENT;
}

static int number(const struct uma_heat_files *files, int64_t *ret_value) {
    return uma_parse_i64_all(files->text.data, ret_value) < 0 ? -EINVAL : 0;
}

int uma_heat_number_read(struct uma_heat_files *files, struct uma_heat_file *file, int64_t *ret_value) {
    int r = uma_heat_file_read(files, file);
    return r < 0 ? r : number(files, ret_value);
}

static int read_formatted(struct uma_heat_files *files, const char *format, va_list ap) UMA_PRINTF(2, 0);

static int read_formatted(struct uma_heat_files *files, const char *format, va_list ap) {
    char path[PATH_MAX];
    int n = vsnprintf(path, sizeof(path), format, ap);
    return n < 0 || (size_t)n >= sizeof(path) ? -ENOENT : read_file(files, path, NULL);
}

int uma_heat_line_once(struct uma_heat_files *files, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int r = read_formatted(files, format, ap);
    va_end(ap);
    return r;
}

int uma_heat_number_once(struct uma_heat_files *files, int64_t *ret_value, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int r = read_formatted(files, format, ap);
    va_end(ap);
    return r < 0 ? r : number(files, ret_value);
}

void uma_heat_file_close(struct uma_heat_files *files, struct uma_heat_file *file) {
    if (file->path && file->kept >= 0) {
        uma_root_forget(&file->kept);
        files->n_kept--;
    }
}

int uma_heat_file_init(struct uma_heat_file *file, struct uma_arena *arena, const char *format, ...) {
    char path[PATH_MAX];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(path, sizeof(path), format, ap);
    va_end(ap);
    *file = (struct uma_heat_file){ .kept = -1 };
    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENOMEM;
    file->path = uma_arena_strndup(arena, path, (size_t)n);
    return file->path ? 0 : -ENOMEM;
}

const char *uma_heat_identity(const struct uma_heat_files *files, struct uma_arena *arena) {
    return uma_arena_strndup(arena, files->text.data, files->text.length);
}

bool uma_heat_same(struct uma_heat_files *files, struct uma_heat_file *file, const char *identity) {
    /* sysfs ends a kept file with its device, so values that are all kept cannot be another device's: no need to ask each time */
    if (uma_root_is_live(files->root) && files->n_kept < UMA_HEAT_KEPT_MAX)
        return true;
    if (uma_heat_file_read(files, file) < 0)
        return !identity;
    return identity && strcmp(identity, files->text.data) == 0;
}

const char *uma_heat_name(const struct uma_heat_files *files, struct uma_arena *arena) {
    const char *s = files->text.data;
    size_t n = files->text.length ? strcspn(s, "\r\n") : 0;
    if (n > NAME_MAX_BYTES) {
        n = NAME_MAX_BYTES;
        /* a character that the cut halves goes as a whole: step back over its continuation bytes if they form one */
        size_t start = n;
        while (start > 0 && n - start < 3 && ((unsigned char)s[start] & 0xc0) == 0x80)
            start--;
        if (start < n && uma_utf8_sequence(s + start, files->text.length - start) > n - start)
            n = start;
    }
    return n > 0 ? uma_arena_utf8(arena, s, n) : NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------- */

/*
 * Units: Documentation/hwmon/sysfs-interface.rst (milli-degrees, micro-watts, micro-joules, rpm, milli-volts, milli-amperes). Bounds: no
 * chip of this field works outside -55..200 degrees (so 65261.85, -128, -256 and -273.15, all seen in the field for "no value", fall out);
 * no single machine takes 10 kW; no fan turns 60,000 times a minute (65535 is the usual "none"); 1 kV and 10 kA likewise.
 */
static const struct {
    double divisor, min, max;
} physics[] = {
    [UMA_SENSOR_TEMPERATURE] = { 1e3, -55, 200 }, [UMA_SENSOR_POWER] = { 1e6, -1e4, 1e4 },   [UMA_SENSOR_ENERGY] = { 1e6, 0, 1e13 },
    [UMA_SENSOR_FAN] = { 1, 0, 60000 },           [UMA_SENSOR_VOLTAGE] = { 1e3, -1e3, 1e3 }, [UMA_SENSOR_CURRENT] = { 1e3, -1e4, 1e4 },
};

struct uma_f64 uma_heat_value(enum uma_sensor_kind kind, int64_t raw) {
    /* A firmware's "none" is often all ones, or the largest signed number, which for micro-units still looks possible (2147 W, 4295 W). */
    bool ones = kind != UMA_SENSOR_ENERGY && (raw == UINT32_MAX || raw == INT32_MAX || raw == INT32_MIN);
    double value = (double)raw / physics[kind].divisor;
    if (ones || value < physics[kind].min || value > physics[kind].max)
        return uma_no_f64(UMA_MALFORMED);
    return uma_known_f64(value);
}

struct uma_f64 uma_heat_no_value(int r) {
    return uma_no_f64(uma_validity_of_errno(r));
}

/* ---- numbered folders --------------------------------------------------------------------------------------- */

struct listing {
    const char *prefix, *suffix;
    size_t n, max;
    int32_t *ids;
};

static int take_id(void *userdata, const char *name) {
    struct listing *l = userdata;
    size_t length = strlen(name), prefix = strlen(l->prefix), suffix = strlen(l->suffix);
    if (length <= prefix + suffix || strncmp(name, l->prefix, prefix) != 0 || strcmp(name + length - suffix, l->suffix) != 0)
        return 0;
    const char *s = name + prefix, *end = name + length - suffix;
    uint64_t id;
    /* "hwmon01" would be a second name of hwmon1: the kernel prints no leading zeros */
    if (uma_parse_u64(s, end, &id) != end || id > INT32_MAX || (*s == '0' && end - s > 1))
        return 0;
    if (l->n < l->max)
        l->ids[l->n++] = (int32_t)id;
    return 0;
}

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

size_t uma_heat_list(struct uma_heat_files *files, const char *folder, const char *prefix, const char *suffix, size_t max,
                     int32_t *ret_ids) {
    struct listing l = { .prefix = prefix, .suffix = suffix, .max = max };
    l.ids = ret_ids;
    (void)uma_root_list(files->root, folder, LIST_MAX, take_id, &l, NULL);
    if (l.n > 0)
        qsort(l.ids, l.n, sizeof(*l.ids), ascending);
    return l.n;
}

/* ---- the reader --------------------------------------------------------------------------------------------- */

struct uma_heat_reader *uma_heat_reader_new(struct uma_root *root) {
    struct uma_heat_reader *reader = calloc(1, sizeof(*reader));
    if (reader)
        reader->files.root = root;
    return reader;
}

static void forget(struct uma_heat_reader *reader) {
    reader->thermal = uma_thermal_free(&reader->files, reader->thermal);
    reader->hwmon = uma_hwmon_free(&reader->files, reader->hwmon);
    reader->cpufreq = uma_cpufreq_free(&reader->files, reader->cpufreq);
}

struct uma_heat_reader *uma_heat_reader_free(struct uma_heat_reader *reader) {
    if (!reader)
        return NULL;
    forget(reader);
    uma_text_done(&reader->files.text);
    free(reader);
    return NULL;
}

static void out_of_memory(struct uma_source *source, const char *path) {
    uma_source_failed(source, NULL, path, -ENOMEM, NULL);
}

/* Read a part; when what was discovered is gone, discover and read once more (and take that as it is). */
#define READ_PART(name, source_path)                                                                                                       \
    static void read_##name(struct uma_heat_reader *reader, struct uma_snapshot *snapshot) {                                               \
        struct uma_heat *heat = &snapshot->heat;                                                                                           \
        int r = 1;                                                                                                                         \
        for (int attempt = 0; attempt < 2 && r == 1; attempt++) {                                                                          \
            if (attempt > 0)                                                                                                               \
                reader->name = uma_##name##_free(&reader->files, reader->name);                                                            \
            if (!reader->name)                                                                                                             \
                reader->name = uma_##name##_discover(&reader->files);                                                                      \
            r = reader->name ? uma_##name##_read(&reader->files, reader->name, attempt > 0, snapshot->arena, heat) : -ENOMEM;              \
        }                                                                                                                                  \
        if (r < 0)                                                                                                                         \
            out_of_memory(&heat->name, source_path);                                                                                       \
    }

READ_PART(thermal, "sys/class/thermal")
READ_PART(hwmon, "sys/class/hwmon")
READ_PART(cpufreq, "sys/devices/system/cpu")

void uma_heat_read(struct uma_heat_reader *reader, struct uma_snapshot *snapshot) {
    int64_t now = uma_monotonic_ns();
    if (now - reader->discovered_ns >= REDISCOVER_NS || reader->discovered_ns == 0) {
        forget(reader);
        reader->discovered_ns = now;
    }
    snapshot->heat = (struct uma_heat){ 0 };
    read_thermal(reader, snapshot);
    read_hwmon(reader, snapshot);
    read_cpufreq(reader, snapshot);
}
