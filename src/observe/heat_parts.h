/* SPDX-License-Identifier: MIT */
/*
 * heat_parts.h - what the three parts of the heat reader (thermal zones, hwmon, cpufreq) share: small files that stay open, numbers with
 * their physical bounds, numbered folders; and the parts' own functions, which only heat.c calls.
 *
 * A part is discovered once (names, labels, limits) and then read many times (values only). Reading returns 1 when what was discovered is
 * no longer what is there; heat.c then discovers again and reads with `last` set: what vanishes between those two is an absent value.
 *
 * Captures: a value that fails to be read (EAGAIN of an idle core, ENODATA of a sleeping sensor) is recorded as an empty file, and an empty
 * file is a failed read. So a captured folder tells "there, but failed" from "not there" as the machine did.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

/*
 * Descriptors the whole reader keeps open. A Spark needs about 110 (20 CPUs, 7 zones twice, hwmon with spbm); the usual soft limit of a
 * process is 1024, and a big server would need more than that. What is beyond is opened at each reading.
 */
enum { UMA_HEAT_KEPT_MAX = 256 };

/* A sysfs value is at most a page, but those read here are one number or one short name. */
enum { UMA_HEAT_FILE_MAX = 256 };

struct uma_heat_files {
    struct uma_root *root;
    struct uma_text text; /* the last file read, without trailing white space */
    int n_kept;
};

struct uma_heat_file {
    const char *path; /* in the part's arena; NULL: there is none */
    int kept;         /* descriptor, -1 none */
};

/* Into files->text. 0; -ENOENT not there; -EACCES; -EIO any other failure (also an empty file). */
int uma_heat_file_read(struct uma_heat_files *files, struct uma_heat_file *file);
/* A number; also -EINVAL when it is none. */
int uma_heat_number_read(struct uma_heat_files *files, struct uma_heat_file *file, int64_t *ret_value);
/* The same for a file that is read once and not kept. `format` makes the path. */
int uma_heat_line_once(struct uma_heat_files *files, const char *format, ...) UMA_PRINTF(2, 3);
int uma_heat_number_once(struct uma_heat_files *files, int64_t *ret_value, const char *format, ...) UMA_PRINTF(3, 4);
void uma_heat_file_close(struct uma_heat_files *files, struct uma_heat_file *file);
/* Path from a format, kept in the arena. 0 or -ENOMEM. */
int uma_heat_file_init(struct uma_heat_file *file, struct uma_arena *arena, const char *format, ...) UMA_PRINTF(3, 4);
/* files->text as it is, to recognise the thing by later. NULL: out of memory. */
const char *uma_heat_identity(const struct uma_heat_files *files, struct uma_arena *arena);
/* Does the file still say `identity` (NULL: it could not be read then, and still cannot)? What its number names may be another thing by
 * now. Where a kept file answers that by itself (this machine, within UMA_HEAT_KEPT_MAX), nothing is read. */
bool uma_heat_same(struct uma_heat_files *files, struct uma_heat_file *file, const char *identity);
/* files->text as a name for people: valid UTF-8, at most 64 bytes of it, no half character at the cut. NULL when empty or out of memory. */
const char *uma_heat_name(const struct uma_heat_files *files, struct uma_arena *arena);

/* A raw sysfs number of this kind (milli- or micro-units) as Celsius, watts ...; UMA_MALFORMED past what the physics allows. */
struct uma_f64 uma_heat_value(enum uma_sensor_kind kind, int64_t raw);
/* What a failed read (negative errno of the functions above) makes of a value. */
struct uma_f64 uma_heat_no_value(int r);

/* Ids of the names PREFIX<number>SUFFIX in a folder, ascending, at most max. Returns how many; 0 also when there is no such folder. */
size_t uma_heat_list(struct uma_heat_files *files, const char *folder, const char *prefix, const char *suffix, size_t max,
                     int32_t *ret_ids);

struct uma_thermal;
struct uma_thermal *uma_thermal_discover(struct uma_heat_files *files);
struct uma_thermal *uma_thermal_free(struct uma_heat_files *files, struct uma_thermal *thermal);
int uma_thermal_read(struct uma_heat_files *files, struct uma_thermal *thermal, bool last, struct uma_arena *arena, struct uma_heat *heat);

struct uma_hwmon;
struct uma_hwmon *uma_hwmon_discover(struct uma_heat_files *files);
struct uma_hwmon *uma_hwmon_free(struct uma_heat_files *files, struct uma_hwmon *hwmon);
int uma_hwmon_read(struct uma_heat_files *files, struct uma_hwmon *hwmon, bool last, struct uma_arena *arena, struct uma_heat *heat);

struct uma_cpufreq;
struct uma_cpufreq *uma_cpufreq_discover(struct uma_heat_files *files);
struct uma_cpufreq *uma_cpufreq_free(struct uma_heat_files *files, struct uma_cpufreq *cpufreq);
int uma_cpufreq_read(struct uma_heat_files *files, struct uma_cpufreq *cpufreq, bool last, struct uma_arena *arena, struct uma_heat *heat);
