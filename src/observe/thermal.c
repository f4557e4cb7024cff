/* SPDX-License-Identifier: MIT */
/*
 * thermal.c - the kernel's thermal zones (Documentation/driver-api/thermal/sysfs-api.rst). Only the class path is used: it is a link on a
 * machine and a plain folder in a capture.
 */
#include "observe/heat_parts.h"
#include "observe/source.h"

#include <string.h>

#define FOLDER "sys/class/thermal"

/* Linux once allowed 12 trips a zone and now any number; this is far beyond what firmware describes. */
enum { TRIPS_MAX = 64, DISCOVERY_BYTES = 256 * 1024 };

struct zone {
    int32_t id;
    const char *identity, *type;
    struct uma_heat_file type_file, temp_file;
    struct uma_f64 critical;
};

struct uma_thermal {
    struct uma_arena *arena;
    size_t n;
    struct zone *zones;
};

struct uma_thermal *uma_thermal_free(struct uma_heat_files *files, struct uma_thermal *thermal) {
    if (!thermal)
        return NULL;
    for (size_t i = 0; i < thermal->n; i++) {
        uma_heat_file_close(files, &thermal->zones[i].type_file);
        uma_heat_file_close(files, &thermal->zones[i].temp_file);
    }
    (void)uma_arena_free(thermal->arena);
    free(thermal);
    return NULL;
}

/* The lowest critical trip. One that is there but absurd is malformed, unless a sane one stands beside it. */
static struct uma_f64 critical_trip(struct uma_heat_files *files, int32_t zone) {
    struct uma_f64 lowest = uma_no_f64(UMA_ABSENT);
    char folder[64];
    int32_t trips[TRIPS_MAX];
    (void)snprintf(folder, sizeof(folder), FOLDER "/thermal_zone%d", zone);
    size_t n = uma_heat_list(files, folder, "trip_point_", "_type", TRIPS_MAX, trips);
    for (size_t i = 0; i < n; i++) {
        int64_t raw;
        if (uma_heat_line_once(files, "%s/trip_point_%d_type", folder, trips[i]) < 0 || strcmp(files->text.data, "critical") != 0)
            continue;
        int r = uma_heat_number_once(files, &raw, "%s/trip_point_%d_temp", folder, trips[i]);
        struct uma_f64 trip = r < 0 ? uma_heat_no_value(r) : uma_heat_value(UMA_SENSOR_TEMPERATURE, raw);
        if (lowest.validity != UMA_KNOWN || (trip.validity == UMA_KNOWN && trip.value < lowest.value))
            lowest = trip;
    }
    return lowest;
}

static int discover_zone(struct uma_heat_files *files, struct uma_thermal *thermal, int32_t id) {
    struct zone *z = &thermal->zones[thermal->n];
    z->id = id;
    if (uma_heat_file_init(&z->type_file, thermal->arena, FOLDER "/thermal_zone%d/type", id) < 0 ||
        uma_heat_file_init(&z->temp_file, thermal->arena, FOLDER "/thermal_zone%d/temp", id) < 0)
        return -ENOMEM;
    int64_t raw;
    bool has_type = uma_heat_file_read(files, &z->type_file) == 0;
    if (has_type) {
        z->identity = uma_heat_identity(files, thermal->arena);
        z->type = uma_heat_name(files, thermal->arena);
    }
    thermal->n++; /* from here its files are closed with the others */
    if (uma_heat_number_read(files, &z->temp_file, &raw) == -ENOENT) {
        z->temp_file.path = NULL;
        if (!has_type) { /* a folder of that name with nothing in it is no zone */
            thermal->n--;
            return 0;
        }
    }
    z->critical = critical_trip(files, id);
    return 0;
}

struct uma_thermal *uma_thermal_discover(struct uma_heat_files *files) {
    struct uma_thermal *thermal = calloc(1, sizeof(*thermal));
    if (!thermal)
        return NULL;
    int32_t ids[UMA_THERMAL_ZONES_MAX];
    size_t n = uma_heat_list(files, FOLDER, "thermal_zone", "", UMA_THERMAL_ZONES_MAX, ids);
    thermal->arena = uma_arena_new(DISCOVERY_BYTES);
    thermal->zones = thermal->arena ? uma_arena_array(thermal->arena, n, sizeof(*thermal->zones)) : NULL;
    int r = thermal->zones ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = discover_zone(files, thermal, ids[i]);
    return r < 0 ? uma_thermal_free(files, thermal) : thermal;
}

int uma_thermal_read(struct uma_heat_files *files, struct uma_thermal *thermal, bool last, struct uma_arena *arena, struct uma_heat *heat) {
    struct uma_thermal_zone *out = uma_arena_array(arena, thermal->n, sizeof(*out));
    if (!out)
        return -ENOMEM;
    for (size_t i = 0; i < thermal->n; i++) {
        struct zone *z = &thermal->zones[i];
        int64_t raw;
        bool same = uma_heat_same(files, &z->type_file, z->identity); /* zones are renumbered when drivers come and go */
        int r = uma_heat_number_read(files, &z->temp_file, &raw);
        if (!last && (!same || (r == -ENOENT && z->temp_file.path)))
            return 1;
        out[i] = (struct uma_thermal_zone){ .id = z->id, .critical_celsius = z->critical };
        out[i].celsius = r < 0 ? uma_heat_no_value(r) : uma_heat_value(UMA_SENSOR_TEMPERATURE, raw);
        out[i].type = z->type ? uma_arena_strndup(arena, z->type, strlen(z->type)) : NULL;
    }
    heat->n_zones = thermal->n;
    heat->zones = out;
    uma_source_ok(&heat->thermal, FOLDER);
    if (thermal->n == 0) {
        heat->thermal.validity = UMA_ABSENT;
        heat->thermal.detail = "this machine shows no thermal zone";
    }
    return 0;
}
