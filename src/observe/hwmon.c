/* SPDX-License-Identifier: MIT */
/*
 * hwmon.c - sensor chips (Documentation/hwmon/sysfs-interface.rst), found by what their `name` says: hwmonN numbers differ between two
 * boots and between two machines of one model. Kernels before 3.15 let drivers keep name and channels in hwmonN/device/; both places are
 * read.
 */
#include "base/units.h"
#include "observe/heat_parts.h"
#include "observe/source.h"

#include <string.h>

#define FOLDER "sys/class/hwmon"

/*
 * Chips: a Spark has 7-8, a big server some 50. Attributes: the widest chips (spbm, amdgpu, server super-I/O) show below 300; what is
 * beyond is a hostile folder.
 */
enum { CHIPS_MAX = 512, ATTRIBUTES_MAX = 2048, ENTRIES_MAX = 16384, DISCOVERY_BYTES = 2 * 1024 * 1024 };

/*
 * ACPI fans: fan1_input is the _FST speed, which the specification (ACPI 6.5, 11.3.1.4) wants in rpm; GB10 boxes that have the device (ASUS
 * GX10) put the state there, 0..3. Fan states and percentages end at 100 and no fan turns that slowly.
 */
enum { ACPI_STATE_MAX = 100 };

enum attribute { INPUT, AVERAGE, LABEL, MAX, CRITICAL, CAP, ATTRIBUTES };
static const char *const attribute_names[ATTRIBUTES] = { "input", "average", "label", "max", "crit", "cap" };

static const char *const kind_prefix[] = {
    [UMA_SENSOR_TEMPERATURE] = "temp", [UMA_SENSOR_POWER] = "power", [UMA_SENSOR_ENERGY] = "energy",
    [UMA_SENSOR_FAN] = "fan",          [UMA_SENSOR_VOLTAGE] = "in",  [UMA_SENSOR_CURRENT] = "curr",
};

struct chip {
    int32_t id;
    const char *identity, *name;
    const char *folder; /* "sys/class/hwmon/hwmon3" or ".../device" */
    struct uma_heat_file name_file;
};

struct channel {
    const struct chip *chip;
    const char *label;
    enum uma_sensor_kind kind;
    bool acpi_state;
    struct uma_f64 max, critical;
    struct uma_heat_file input, cap;
};

struct uma_hwmon {
    struct uma_arena *arena;
    size_t n_chips, n_channels;
    struct chip *chips;
    struct channel *channels;
};

struct uma_hwmon *uma_hwmon_free(struct uma_heat_files *files, struct uma_hwmon *hwmon) {
    if (!hwmon)
        return NULL;
    for (size_t i = 0; i < hwmon->n_chips; i++)
        uma_heat_file_close(files, &hwmon->chips[i].name_file);
    for (size_t i = 0; i < hwmon->n_channels; i++) {
        uma_heat_file_close(files, &hwmon->channels[i].input);
        uma_heat_file_close(files, &hwmon->channels[i].cap);
    }
    (void)uma_arena_free(hwmon->arena);
    free(hwmon);
    return NULL;
}

/* ---- what a chip's folder offers ----------------------------------------------------------------------------- */

struct offer {
    enum uma_sensor_kind kind;
    uint32_t number;
    enum attribute attribute;
};

struct offers {
    size_t n;
    struct offer list[ATTRIBUTES_MAX];
};

/* "temp1_input" -> temperature, 1, input */
static int take_offer(void *userdata, const char *name) {
    struct offers *o = userdata;
    for (size_t kind = 0; kind < ELEMENTS(kind_prefix); kind++) {
        size_t prefix = strlen(kind_prefix[kind]);
        uint64_t number;
        if (strncmp(name, kind_prefix[kind], prefix) != 0)
            continue;
        const char *s = uma_parse_u64(name + prefix, name + strlen(name), &number);
        if (!s || *s != '_' || number > 9999 || (name[prefix] == '0' && s - (name + prefix) > 1))
            continue;
        for (size_t a = 0; a < ATTRIBUTES; a++)
            if (strcmp(s + 1, attribute_names[a]) == 0 && o->n < ATTRIBUTES_MAX)
                o->list[o->n++] = (struct offer){ (enum uma_sensor_kind)kind, (uint32_t)number, (enum attribute)a };
        return 0;
    }
    return 0;
}

static int by_channel(const void *a, const void *b) {
    const struct offer *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->attribute > y->attribute) - (x->attribute < y->attribute);
}

/* ---- discovery ---------------------------------------------------------------------------------------------- */

static struct uma_f64 limit(struct uma_heat_files *files, const struct chip *chip, const struct offer *of, enum attribute a) {
    int64_t raw;
    int r = uma_heat_number_once(files, &raw, "%s/%s%u_%s", chip->folder, kind_prefix[of->kind], of->number, attribute_names[a]);
    return r < 0 ? uma_heat_no_value(r) : uma_heat_value(of->kind, raw);
}

/* From the chip's own label; a chip without one numbers its channels. */
static const char *channel_label(struct uma_heat_files *files, struct uma_arena *arena, const struct channel *c, const struct offer *of,
                                 bool labelled) {
    if (c->acpi_state)
        return uma_arena_printf(arena, "fan%u (ACPI state)", of->number);
    if (labelled && uma_heat_line_once(files, "%s/%s%u_label", c->chip->folder, kind_prefix[of->kind], of->number) == 0) {
        const char *label = uma_heat_name(files, arena);
        if (label)
            return label;
    }
    return uma_arena_printf(arena, "%s%u", kind_prefix[of->kind], of->number);
}

/* One channel from its offers, n of them (sorted, so an input comes before an average). */
static int discover_channel(struct uma_heat_files *files, struct uma_hwmon *hwmon, const struct chip *chip, const struct offer *of,
                            size_t n) {
    unsigned has = 0;
    for (size_t i = 0; i < n; i++)
        has |= 1u << of[i].attribute;
    if (!(has & (1u << INPUT | 1u << AVERAGE)) || hwmon->n_channels >= UMA_SENSORS_MAX)
        return 0;
    struct channel *c = &hwmon->channels[hwmon->n_channels];
    /* amdgpu shows the average only on some parts, and it is the better figure of none: an input, where there is one, is what drivers
     * mean */
    const char *value = attribute_names[has & 1u << INPUT ? INPUT : AVERAGE];
    *c = (struct channel){ .chip = chip, .kind = of->kind, .max = uma_no_f64(UMA_ABSENT), .critical = uma_no_f64(UMA_ABSENT) };
    c->cap.kept = -1;
    if (uma_heat_file_init(&c->input, hwmon->arena, "%s/%s%u_%s", chip->folder, kind_prefix[of->kind], of->number, value) < 0)
        return -ENOMEM;
    int64_t raw = 0;
    int r = uma_heat_number_read(files, &c->input, &raw);
    if (r == -ENOENT) /* a name with nothing behind it */
        return 0;
    hwmon->n_channels++;
    c->acpi_state = chip->name && strcmp(chip->name, "acpi_fan") == 0 && c->kind == UMA_SENSOR_FAN && (r < 0 || raw <= ACPI_STATE_MAX);
    if (has & 1u << MAX)
        c->max = limit(files, chip, of, MAX);
    if (has & 1u << CRITICAL)
        c->critical = limit(files, chip, of, CRITICAL);
    if (has & 1u << CAP && uma_heat_file_init(&c->cap, hwmon->arena, "%s/%s%u_cap", chip->folder, kind_prefix[of->kind], of->number) < 0)
        return -ENOMEM;
    c->label = channel_label(files, hwmon->arena, c, of, has & 1u << LABEL);
    return c->label ? 0 : -ENOMEM;
}

static int discover_chip(struct uma_heat_files *files, struct uma_hwmon *hwmon, struct offers *offers, int32_t id) {
    struct chip *chip = &hwmon->chips[hwmon->n_chips];
    static const char *const places[] = { "", "/device" };
    int r = -ENOENT;
    for (size_t i = 0; i < ELEMENTS(places) && r == -ENOENT; i++) {
        chip->folder = uma_arena_printf(hwmon->arena, FOLDER "/hwmon%d%s", id, places[i]);
        if (!chip->folder || uma_heat_file_init(&chip->name_file, hwmon->arena, "%s/name", chip->folder) < 0)
            return -ENOMEM;
        r = uma_heat_file_read(files, &chip->name_file);
    }
    if (r == -ENOENT)
        return 0;
    chip->id = id;
    hwmon->n_chips++;
    if (r == 0) {
        chip->identity = uma_heat_identity(files, hwmon->arena);
        chip->name = uma_heat_name(files, hwmon->arena);
        if (!chip->identity || !chip->name)
            return -ENOMEM;
    }
    offers->n = 0;
    (void)uma_root_list(files->root, chip->folder, ENTRIES_MAX, take_offer, offers, NULL);
    if (offers->n > 0)
        qsort(offers->list, offers->n, sizeof(*offers->list), by_channel);
    for (size_t i = 0, j; i < offers->n; i = j) {
        for (j = i + 1; j < offers->n && offers->list[j].kind == offers->list[i].kind && offers->list[j].number == offers->list[i].number;)
            j++;
        r = discover_channel(files, hwmon, chip, &offers->list[i], j - i);
        if (r < 0)
            return r;
    }
    return 0;
}

struct uma_hwmon *uma_hwmon_discover(struct uma_heat_files *files) {
    struct uma_hwmon *hwmon = calloc(1, sizeof(*hwmon));
    _cleanup_free_
    struct offers *offers = calloc(1, sizeof(*offers));
    if (!hwmon)
        return NULL;
    int32_t ids[CHIPS_MAX];
    size_t n = uma_heat_list(files, FOLDER, "hwmon", "", CHIPS_MAX, ids);
    hwmon->arena = offers ? uma_arena_new(DISCOVERY_BYTES) : NULL;
    hwmon->chips = hwmon->arena ? uma_arena_array(hwmon->arena, n, sizeof(*hwmon->chips)) : NULL;
    hwmon->channels = hwmon->chips ? uma_arena_array(hwmon->arena, n ? UMA_SENSORS_MAX : 0, sizeof(*hwmon->channels)) : NULL;
    int r = hwmon->channels ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = discover_chip(files, hwmon, offers, ids[i]);
    return r < 0 ? uma_hwmon_free(files, hwmon) : hwmon;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

/* 0, or 1 when the channel is no longer what it was. */
static int read_channel(struct uma_heat_files *files, struct channel *c, struct uma_sensor *out) {
    int64_t raw;
    int r = uma_heat_number_read(files, &c->input, &raw);
    out->value = r < 0 ? uma_heat_no_value(r) : uma_heat_value(c->kind, raw);
    out->max = c->max;
    out->critical = c->critical;
    if (c->acpi_state && r == 0) {
        out->value = uma_no_f64(UMA_UNSUPPORTED);
        if (raw > ACPI_STATE_MAX)
            return 1;
    }
    int64_t cap;
    if (c->cap.path && uma_heat_number_read(files, &c->cap, &cap) == 0 && cap > 0) {
        struct uma_f64 in_force = uma_heat_value(c->kind, cap);
        if (in_force.validity == UMA_KNOWN)
            out->max = in_force;
    }
    return r == -ENOENT;
}

int uma_hwmon_read(struct uma_heat_files *files, struct uma_hwmon *hwmon, bool last, struct uma_arena *arena, struct uma_heat *heat) {
    struct uma_sensor *out = uma_arena_array(arena, hwmon->n_channels, sizeof(*out));
    if (!out)
        return -ENOMEM;
    for (size_t i = 0; i < hwmon->n_chips; i++)
        if (!uma_heat_same(files, &hwmon->chips[i].name_file, hwmon->chips[i].identity) && !last)
            return 1;
    for (size_t i = 0; i < hwmon->n_channels; i++) {
        struct channel *c = &hwmon->channels[i];
        if (read_channel(files, c, &out[i]) && !last)
            return 1;
        out[i].chip = c->chip->name ? uma_arena_strndup(arena, c->chip->name, strlen(c->chip->name)) : NULL;
        out[i].hwmon = c->chip->id;
        out[i].kind = c->kind;
        out[i].label = uma_arena_strndup(arena, c->label, strlen(c->label));
    }
    heat->n_sensors = hwmon->n_channels;
    heat->sensors = out;
    uma_source_ok(&heat->hwmon, FOLDER);
    if (hwmon->n_channels == 0) {
        heat->hwmon.validity = UMA_ABSENT;
        heat->hwmon.detail = "this machine shows no hwmon sensor";
    }
    return 0;
}
