/* SPDX-License-Identifier: MIT */
#include "observe/platform.h"

#include "base/units.h"
#include "observe/cpu_core.h"
#include "observe/process.h"
#include "observe/source.h"

#include <string.h>
#include <sys/utsname.h>

/*
 * cpuinfo is cut here: 64 KiB are some 120 Arm or 40 x86 entries, enough to see every kind of core, and the kernel makes only what is read.
 * The others are a line or a page.
 */
enum { CPUINFO_MAX = 64 * 1024, SMALL_MAX = 4096, LINE_MAX_BYTES = 256, CGROUP_PATH_MAX = 4096 };

struct reading {
    struct uma_root *root;
    struct uma_arena *arena;
    struct uma_platform *platform;
    struct uma_text text;
};

/* ---- small files -------------------------------------------------------------------------------------------- */

/* What firmware makers leave in DMI fields they did not fill in: says nothing, so it is unknown. */
static bool is_filler(const char *s) {
    static const char *const fillers[] = { "To be filled by O.E.M.",
                                           "To Be Filled By O.E.M.",
                                           "Default string",
                                           "System Product Name",
                                           "System manufacturer",
                                           "Not Specified",
                                           "Not Applicable",
                                           "None",
                                           "N/A" };
    for (size_t i = 0; i < ELEMENTS(fillers); i++)
        if (strcmp(s, fillers[i]) == 0)
            return true;
    return false;
}

/* The first line of a file as text; NULL when it cannot be read or says nothing. */
static const char *line(struct reading *r, const char *path) {
    if (uma_root_read_line(r->root, path, LINE_MAX_BYTES, &r->text, NULL) < 0)
        return NULL;
    const char *s = r->text.data + strspn(r->text.data, " \t");
    return *s && !is_filler(s) ? uma_arena_utf8(r->arena, s, strlen(s)) : NULL;
}

/* A device-tree string list: strings ended by NUL, one after the other; joined by spaces. */
static const char *device_tree(struct reading *r, const char *path) {
    if (uma_root_read(r->root, path, LINE_MAX_BYTES, &r->text, NULL) < 0)
        return NULL;
    size_t n = r->text.length;
    while (n > 0 && (r->text.data[n - 1] == '\0' || r->text.data[n - 1] == '\n'))
        n--;
    for (size_t i = 0; i < n; i++)
        if (r->text.data[i] == '\0')
            r->text.data[i] = ' ';
    return n > 0 ? uma_arena_utf8(r->arena, r->text.data, n) : NULL;
}

/* ---- the parts ---------------------------------------------------------------------------------------------- */

/* Returns the file that named the product, NULL when none did. */
static const char *read_firmware(struct reading *r) {
    struct uma_platform *p = r->platform;
    p->product = line(r, "sys/class/dmi/id/product_name");
    p->board = line(r, "sys/class/dmi/id/board_name");
    p->vendor = line(r, "sys/class/dmi/id/sys_vendor");
    p->firmware = line(r, "sys/class/dmi/id/bios_version");
    p->firmware_date = line(r, "sys/class/dmi/id/bios_date");
    /* Lenovo puts its machine type ("30KL...") into the product name and what people call it into the version. */
    if (p->vendor && strcasecmp(p->vendor, "LENOVO") == 0) {
        const char *called = line(r, "sys/class/dmi/id/product_version");
        if (called && p->product)
            called = uma_arena_printf(r->arena, "%s (%s)", called, p->product);
        p->product = called ? called : p->product;
    }
    const char *model = device_tree(r, "proc/device-tree/model"), *compatible = device_tree(r, "proc/device-tree/compatible");
    bool dmi = p->product != NULL;
    p->product = dmi ? p->product : model;
    p->board = p->board ? p->board : compatible;
    return dmi ? "sys/class/dmi/id/product_name" : model ? "proc/device-tree/model" : NULL;
}

static void read_kernel(struct reading *r) {
    struct uma_platform *p = r->platform;
    p->host = line(r, "proc/sys/kernel/hostname");
    p->kernel = line(r, "proc/sys/kernel/osrelease");
    if (!p->kernel && uma_root_read_line(r->root, "proc/version", LINE_MAX_BYTES, &r->text, NULL) >= 0 &&
        strncmp(r->text.data, "Linux version ", 14) == 0)
        p->kernel = uma_arena_utf8(r->arena, r->text.data + 14, strcspn(r->text.data + 14, " "));
    p->architecture = line(r, "proc/sys/kernel/arch"); /* since 6.1 */
    if (!p->architecture && uma_root_is_live(r->root)) {
        struct utsname u;
        if (uname(&u) == 0) {
            p->architecture = uma_arena_utf8(r->arena, u.machine, sizeof(u.machine));
            (void)uma_root_record(r->root, "proc/sys/kernel/arch", u.machine, strlen(u.machine), NULL);
        }
    }
    p->boot_id = line(r, "proc/sys/kernel/random/boot_id");
    if (uma_root_read_line(r->root, "proc/uptime", LINE_MAX_BYTES, &r->text, NULL) >= 0) {
        double seconds;
        bool good = uma_parse_f64(r->text.data, r->text.data + r->text.length, &seconds) != NULL;
        p->uptime_seconds = good ? uma_known_f64(seconds) : uma_no_f64(UMA_MALFORMED);
    } else {
        p->uptime_seconds = uma_no_f64(UMA_ABSENT);
    }
}

static void read_cpu(struct reading *r) {
    struct uma_platform *p = r->platform;
    struct uma_cpuinfo info = { 0 };
    int cut = uma_root_read(r->root, "proc/cpuinfo", CPUINFO_MAX, &r->text, NULL);
    if (cut >= 0 && uma_cpuinfo_parse(r->text.data, r->text.length, r->arena, &info) == 0) {
        p->cpu = info.name;
        p->architecture = p->architecture ? p->architecture : info.architecture;
    }
    int n = -ENOENT;
    if (uma_root_read_line(r->root, "sys/devices/system/cpu/online", SMALL_MAX, &r->text, NULL) >= 0)
        n = uma_cpu_list_parse(r->text.data, r->text.length, 0, NULL);
    if (n > 0)
        p->cpus = uma_known_u64((uint64_t)n);
    else if (cut == 0 && info.processors > 0)
        p->cpus = uma_known_u64(info.processors);
    else
        p->cpus = uma_no_u64(n == -EINVAL ? UMA_MALFORMED : UMA_ABSENT);
}

/* NVIDIA's module says its version itself; amdgpu only when it is AMD's out-of-tree build, else it is as old as the kernel. */
static void read_driver(struct reading *r) {
    struct uma_platform *p = r->platform;
    const char *version;
    size_t length;
    if (uma_root_read(r->root, "proc/driver/nvidia/version", SMALL_MAX, &r->text, NULL) >= 0 &&
        uma_nvidia_version_parse(r->text.data, r->text.length, &version, &length) == 0)
        p->driver = uma_arena_strndup(r->arena, version, length);
    if (!p->driver)
        p->driver = line(r, "sys/module/nvidia/version");
    if (!p->driver && uma_root_exists(r->root, "sys/module/amdgpu")) {
        const char *version_of_build = line(r, "sys/module/amdgpu/version");
        if (version_of_build) {
            p->driver = uma_arena_printf(r->arena, "amdgpu %s", version_of_build); /* a bare number is NVIDIA's */
        } else {
            p->driver = p->kernel ? uma_arena_printf(r->arena, "amdgpu of Linux %s", p->kernel) : "amdgpu";
            (void)uma_root_record(r->root, "sys/module/amdgpu/uevent", "", 0, NULL); /* so that a capture has the folder */
        }
    }
}

static void read_release(struct reading *r) {
    struct uma_platform *p = r->platform;
    _cleanup_text_ struct uma_text value = { 0 };
    if (uma_root_read(r->root, "etc/os-release", SMALL_MAX, &r->text, NULL) >= 0 &&
        uma_release_value(r->text.data, r->text.length, "PRETTY_NAME", &value) == 0)
        p->os = uma_arena_utf8(r->arena, value.data, value.length);
    /* the file also holds the unit's serial number: only the version goes into a capture */
    if (uma_root_read_unrecorded(r->root, "etc/dgx-release", SMALL_MAX, &r->text, NULL) < 0)
        return;
    static const char *const keys[] = { "DGX_OTA_VERSION", "DGX_SWBUILD_VERSION" };
    for (size_t i = 0; i < ELEMENTS(keys) && !p->dgx_release; i++) {
        if (uma_release_value(r->text.data, r->text.length, keys[i], &value) < 0)
            continue;
        p->dgx_release = uma_arena_utf8(r->arena, value.data, value.length);
        const char *kept = p->dgx_release ? uma_arena_printf(r->arena, "%s='%s'\n", keys[i], p->dgx_release) : NULL;
        if (kept)
            (void)uma_root_record(r->root, "etc/dgx-release", kept, strlen(kept), NULL);
    }
}

/* ---- container ---------------------------------------------------------------------------------------------- */

/* Files that Docker, Podman and systemd (for nspawn and LXC) put into a container. Their content (names, image ids) is not read. */
static bool has_marker(struct reading *r) {
    static const char *const markers[] = { ".dockerenv", "run/.containerenv", "run/systemd/container" };
    for (size_t i = 0; i < ELEMENTS(markers); i++)
        if (uma_root_exists(r->root, markers[i])) {
            (void)uma_root_record(r->root, markers[i], "", 0, NULL);
            return true;
        }
    return false;
}

static void read_container(struct reading *r) {
    struct uma_platform *p = r->platform;
    int version;
    const char *path;
    size_t length;
    if (uma_root_read(r->root, "proc/self/cgroup", SMALL_MAX * 4, &r->text, NULL) >= 0 &&
        uma_process_cgroup_parse(r->text.data, r->text.length, "proc/self/cgroup", &version, &path, &length, NULL) >= 0 &&
        length <= CGROUP_PATH_MAX)
        p->self_cgroup = uma_arena_utf8(r->arena, path, length);
    struct uma_container container;
    bool by_path = p->self_cgroup && uma_container_identify(p->self_cgroup, r->arena, &container) >= 0;
    /* cgroup.type stands in every cgroup but the real root: at the root of what we see it tells of a cgroup namespace (cgroups(7)) */
    bool by_namespace = uma_root_read_line(r->root, "sys/fs/cgroup/cgroup.type", LINE_MAX_BYTES, &r->text, NULL) >= 0;
    if (by_path || by_namespace || has_marker(r))
        p->in_container = UMA_YES;
    else
        p->in_container = p->self_cgroup ? UMA_NO : UMA_MAYBE;
}

void uma_platform_read(struct uma_root *root, struct uma_snapshot *snapshot) {
    struct uma_platform *p = &snapshot->platform;
    struct reading r = { .root = root, .arena = snapshot->arena, .platform = p };
    *p = (struct uma_platform){ 0 };
    const char *named_by = read_firmware(&r);
    read_kernel(&r);
    read_cpu(&r);
    read_driver(&r);
    read_release(&r);
    read_container(&r);
    uma_text_done(&r.text);
    if (p->product || p->kernel || p->cpu) {
        uma_source_ok(&p->source, named_by ? named_by : p->kernel ? "proc/sys/kernel/osrelease" : "proc/cpuinfo");
        return;
    }
    uma_source_failed(&p->source, snapshot->arena, "proc/sys/kernel/osrelease", -ENOENT, NULL);
    p->source.detail = "neither DMI nor a kernel release nor a CPU could be read";
}
