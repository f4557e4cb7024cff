/* SPDX-License-Identifier: MIT */
/*
 * AMD, from what the amdgpu kernel driver shows in sysfs (kernel, Documentation/gpu/amdgpu) and, for each process, in fdinfo. On an APU
 * such as Strix Halo the pool is GTT (system memory that the GPU maps) and "VRAM" is the firmware's carve-out, which MemTotal does not
 * contain; so a process's bytes of the pool are its GTT bytes alone (llama.cpp#18159; nvtop#492).
 */
#include "base/units.h"
#include "observe/gpu_vendor.h"
#include "observe/lines.h"
#include "observe/source.h"

#include <stdio.h>
#include <string.h>

#define DRM_MAJOR 226 /* kernel, Documentation/admin-guide/devices.txt */

/* ---- finding the cards -------------------------------------------------------------------------------------- */

/* "card7" is a card, "card7-DP-1" one of its sockets, "renderD128" another face of it. */
static int each_card(void *userdata, const char *name) {
    struct uma_gpu_reader *reader = userdata;
    uint64_t number = 0;
    if (strncmp(name, "card", 4) != 0 || uma_parse_u64_all(name + 4, &number) < 0 || number > 255)
        return 0;
    if (reader->n_amd_cards < UMA_AMD_CARDS_MAX)
        reader->amd_cards[reader->n_amd_cards++] = (int)number;
    return 0;
}

static int by_number(const void *left, const void *right) {
    return *(const int *)left - *(const int *)right;
}

static int read_device_line(struct uma_gpu_reader *reader, int card, const char *file, struct uma_text *into, struct uma_error *err) {
    char path[192];
    (void)snprintf(path, sizeof(path), "sys/class/drm/card%d/device/%s", card, file);
    return uma_root_read_line(reader->root, path, 256, into, err);
}

static void look_for_cards(struct uma_gpu_reader *reader) {
    reader->n_amd_cards = 0;
    (void)uma_root_list(reader->root, "sys/class/drm", 4096, each_card, reader, NULL);
    reader->amd_looked_ns = uma_monotonic_ns();
    if (reader->n_amd_cards == 0)
        return;
    qsort(reader->amd_cards, reader->n_amd_cards, sizeof(reader->amd_cards[0]), by_number);
    size_t kept = 0;
    _cleanup_text_ struct uma_text vendor = { 0 };
    for (size_t i = 0; i < reader->n_amd_cards; i++)
        if (read_device_line(reader, reader->amd_cards[i], "vendor", &vendor, NULL) == 0 && strcmp(vendor.data, "0x1002") == 0)
            reader->amd_cards[kept++] = reader->amd_cards[i];
    reader->n_amd_cards = kept;
}

/* ---- one card ----------------------------------------------------------------------------------------------- */

static struct uma_u64 read_number(struct uma_gpu_reader *reader, const char *path, uint64_t scale) {
    int64_t value = 0;
    struct uma_error err = { 0 };
    int r = uma_root_read_i64(reader->root, path, &value, &err);
    if (r < 0)
        return uma_no_u64(uma_validity_of_errno(r));
    if (value < 0 || (uint64_t)value > UINT64_MAX / scale)
        return uma_no_u64(UMA_MALFORMED);
    return uma_known_u64((uint64_t)value * scale);
}

static struct uma_f64 read_scaled(struct uma_gpu_reader *reader, const char *path, double divisor, double most) {
    struct uma_u64 whole = read_number(reader, path, 1);
    double value = (double)whole.value / divisor;
    if (whole.validity == UMA_KNOWN && value > most)
        return uma_no_f64(UMA_MALFORMED);
    return (struct uma_f64){ .value = value, .validity = whole.validity };
}

struct hwmon_search {
    struct uma_gpu_reader *reader;
    const char *folder;
    char found[224];
};

static int each_hwmon(void *userdata, const char *name) {
    struct hwmon_search *search = userdata;
    char path[320];
    _cleanup_text_ struct uma_text chip = { 0 };
    if (strncmp(name, "hwmon", 5) != 0 || strlen(name) > 16)
        return 0;
    (void)snprintf(path, sizeof(path), "%s/%s/name", search->folder, name);
    if (uma_root_read_line(search->reader->root, path, 64, &chip, NULL) < 0 || strcmp(chip.data, "amdgpu") != 0)
        return 0;
    (void)snprintf(search->found, sizeof(search->found), "%s/%s", search->folder, name);
    return 1;
}

/* The largest level of pp_dpm_sclk ("1: 2900Mhz *"): what the shader clock may reach. */
static struct uma_u64 read_highest_clock(struct uma_gpu_reader *reader, const char *path) {
    _cleanup_text_ struct uma_text text = { 0 };
    int r = uma_root_read(reader->root, path, 4096, &text, NULL);
    if (r < 0)
        return uma_no_u64(uma_validity_of_errno(r));
    uint64_t most = 0;
    for (const char *line = text.data; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *colon = strchr(line, ':');
        uint64_t megahertz = 0;
        if (!colon)
            break;
        const char *digits = colon + 1 + strspn(colon + 1, " ");
        const char *end = uma_parse_u64(digits, digits + strlen(digits), &megahertz);
        if (end && strncasecmp(end, "Mhz", 3) == 0 && megahertz <= 100000)
            most = MAX_OF(most, megahertz);
    }
    return most ? uma_known_u64(most * 1000000) : uma_no_u64(UMA_MALFORMED);
}

static void read_sensors(struct uma_gpu_reader *reader, const char *device, struct uma_gpu *gpu) {
    char folder[192], path[320];
    (void)snprintf(folder, sizeof(folder), "%s/hwmon", device);
    struct hwmon_search search = { .reader = reader, .folder = folder };
    if (uma_root_list(reader->root, folder, 64, each_hwmon, &search, NULL) <= 0 || !search.found[0])
        return;
    (void)snprintf(path, sizeof(path), "%s/temp1_input", search.found);
    gpu->celsius = read_scaled(reader, path, 1e3, 300);
    (void)snprintf(path, sizeof(path), "%s/power1_average", search.found);
    gpu->watts = read_scaled(reader, path, 1e6, 1e5);
    (void)snprintf(path, sizeof(path), "%s/power1_input", search.found);
    gpu->watts_instant = read_scaled(reader, path, 1e6, 1e5);
    (void)snprintf(path, sizeof(path), "%s/power1_cap", search.found);
    gpu->limit_watts = read_scaled(reader, path, 1e6, 1e5);
    (void)snprintf(path, sizeof(path), "%s/freq1_input", search.found);
    gpu->sm_hertz = read_number(reader, path, 1);
    (void)snprintf(path, sizeof(path), "%s/freq2_input", search.found);
    gpu->memory_hertz = read_number(reader, path, 1);
}

/* "PCI_SLOT_NAME=0000:c5:00.0" of uevent: the name that fdinfo uses, and that stays when card numbers move. */
static const char *read_slot(struct uma_gpu_reader *reader, const char *device, struct uma_arena *arena) {
    char path[192];
    _cleanup_text_ struct uma_text text = { 0 };
    (void)snprintf(path, sizeof(path), "%s/uevent", device);
    if (uma_root_read(reader->root, path, 4096, &text, NULL) < 0)
        return NULL;
    const char *slot = strstr(text.data, "PCI_SLOT_NAME=");
    return slot ? uma_arena_utf8(arena, slot + 14, strcspn(slot + 14, "\r\n")) : NULL;
}

static void read_card(struct uma_gpu_reader *reader, int card, int32_t index, struct uma_arena *arena, struct uma_gpu *gpu) {
    char device[64], path[192];
    uma_gpu_blank(gpu, "amd", index);
    (void)snprintf(device, sizeof(device), "sys/class/drm/card%d/device", card);
    _cleanup_text_ struct uma_text text = { 0 };
    if (read_device_line(reader, card, "product_name", &text, NULL) == 0 && text.length)
        gpu->name = uma_arena_utf8(arena, text.data, text.length);
    else if (read_device_line(reader, card, "device", &text, NULL) == 0)
        gpu->name = uma_arena_printf(arena, "AMD GPU 1002:%.8s", strncmp(text.data, "0x", 2) == 0 ? text.data + 2 : "?");
    if (read_device_line(reader, card, "unique_id", &text, NULL) == 0 && text.length)
        gpu->uuid = uma_arena_utf8(arena, text.data, text.length);
    gpu->pci = read_slot(reader, device, arena);
    const struct {
        const char *file;
        struct uma_u64 *value;
    } bytes[] = {
        { "mem_info_gtt_total", &gpu->gtt_total },
        { "mem_info_gtt_used", &gpu->gtt_used },
        { "mem_info_vram_total", &gpu->vram_total },
        { "mem_info_vram_used", &gpu->vram_used },
    };
    for (size_t i = 0; i < ELEMENTS(bytes); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", device, bytes[i].file);
        *bytes[i].value = read_number(reader, path, 1);
    }
    (void)snprintf(path, sizeof(path), "%s/gpu_busy_percent", device);
    gpu->utilization = read_scaled(reader, path, 100, 1);
    (void)snprintf(path, sizeof(path), "%s/mem_busy_percent", device);
    gpu->memory_utilization = read_scaled(reader, path, 100, 1);
    (void)snprintf(path, sizeof(path), "%s/pp_dpm_sclk", device);
    gpu->sm_max_hertz = read_highest_clock(reader, path);
    read_sensors(reader, device, gpu);
}

/* ---- processes ---------------------------------------------------------------------------------------------- */

static void take_word(const char *s, size_t n, char *into, size_t size) {
    n = MIN_OF(n, size - 1);
    (void)memcpy(into, s, n);
    into[n] = '\0';
}

/* "123 KiB": the unit is KiB, MiB or nothing for bytes. */
static struct uma_u64 take_bytes(const char *s, const char *end) {
    uint64_t value = 0, unit = 1;
    const char *rest = uma_parse_u64(s, end, &value);
    if (!rest)
        return uma_no_u64(UMA_MALFORMED);
    while (rest < end && *rest == ' ')
        rest++;
    if (end - rest >= 3 && memcmp(rest, "KiB", 3) == 0)
        unit = UMA_KIB;
    else if (end - rest >= 3 && memcmp(rest, "MiB", 3) == 0)
        unit = UMA_MIB;
    else if (rest != end)
        return uma_no_u64(UMA_MALFORMED);
    return value <= UINT64_MAX / 2 / unit ? uma_known_u64(value * unit) : uma_no_u64(UMA_MALFORMED);
}

static void take_line(const char *line, const char *colon, const char *end, struct uma_drm_client *client, struct uma_u64 *resident) {
    const char *s = colon + 1;
    while (s < end && (*s == ' ' || *s == '\t'))
        s++;
    while (end > s && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
        end--;
    size_t key = (size_t)(colon - line), n = (size_t)(end - s);
#define KEY(name) (key == sizeof(name) - 1 && memcmp(line, name, key) == 0)
    if (KEY("drm-driver"))
        take_word(s, n, client->driver, sizeof(client->driver));
    else if (KEY("drm-pdev"))
        take_word(s, n, client->pdev, sizeof(client->pdev));
    else if (KEY("drm-client-id"))
        client->id = take_bytes(s, end);
    else if (KEY("drm-memory-gtt"))
        client->gtt = take_bytes(s, end);
    else if (KEY("drm-resident-gtt"))
        *resident = take_bytes(s, end);
    else if (KEY("drm-engine-compute")) {
        uint64_t ns = 0;
        client->compute_ns = uma_parse_u64(s, end, &ns) ? uma_known_u64(ns) : uma_no_u64(UMA_MALFORMED);
    }
#undef KEY
}

int uma_drm_fdinfo_parse(const char *text, size_t length, struct uma_drm_client *ret_client) {
    struct uma_drm_client client = { 0 };
    struct uma_u64 resident = { 0 };
    const char *end = text + length;
    for (const char *line = text; line < end;) {
        const char *stop = uma_line_end(line, end);
        const char *colon = memchr(line, ':', (size_t)(stop - line));
        if (colon && stop - line > 4 && memcmp(line, "drm-", 4) == 0)
            take_line(line, colon, stop, &client, &resident);
        line = stop + 1;
    }
    if (!client.driver[0])
        return -ENOENT;
    if (client.gtt.validity != UMA_KNOWN && resident.validity != UMA_UNKNOWN)
        client.gtt = resident;
    *ret_client = client;
    return 0;
}

/* One client of one card, as found through one process. */
struct use {
    size_t card;
    uint64_t client;
    int32_t pid;
    struct uma_u64 gtt;
    bool compute;
};
enum { USES_MAX = 65536, DESCRIPTORS_MAX = 65536 };

struct scan {
    struct uma_gpu_reader *reader;
    struct uma_gpus *gpus;
    int32_t pid;
    bool failed;
    size_t n, capacity;
    struct use *uses;
};

static void keep_use(struct scan *scan, const struct uma_drm_client *client) {
    size_t card = 0;
    while (card < scan->gpus->n && !(scan->gpus->list[card].pci && strcmp(scan->gpus->list[card].pci, client->pdev) == 0))
        card++;
    if (card == scan->gpus->n && !(scan->gpus->n == 1 && !client->pdev[0]))
        return;
    if (scan->n == scan->capacity) {
        size_t capacity = scan->capacity ? scan->capacity * 2 : 64;
        struct use *grown = capacity <= USES_MAX ? realloc(scan->uses, capacity * sizeof(*grown)) : NULL;
        if (!grown) {
            scan->failed = true;
            return;
        }
        scan->uses = grown;
        scan->capacity = capacity;
    }
    scan->uses[scan->n++] = (struct use){
        .card = card == scan->gpus->n ? 0 : card,
        .client = client->id.value,
        .pid = scan->pid,
        .gtt = client->gtt,
        .compute = client->compute_ns.value > 0,
    };
}

/* Most descriptors are not GPUs: on this machine one stat(2) tells, and only a DRM device's fdinfo is read. */
static int each_descriptor(void *userdata, const char *name) {
    struct scan *scan = userdata;
    char path[64];
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_drm_client client;
    uint64_t number = 0;
    if (uma_parse_u64_all(name, &number) < 0 || number > INT32_MAX)
        return 0;
    (void)snprintf(path, sizeof(path), "proc/%d/fd/%u", (int)scan->pid, (unsigned)number);
    if (uma_root_is_live(scan->reader->root) && !uma_root_is_device(scan->reader->root, path, DRM_MAJOR))
        return 0;
    (void)snprintf(path, sizeof(path), "proc/%d/fdinfo/%u", (int)scan->pid, (unsigned)number);
    if (uma_root_read(scan->reader->root, path, 16384, &text, NULL) < 0)
        return 0;
    if (uma_drm_fdinfo_parse(text.data, text.length, &client) == 0 && strcmp(client.driver, "amdgpu") == 0 &&
        client.id.validity == UMA_KNOWN)
        keep_use(scan, &client);
    return 0;
}

static int by_client(const void *left, const void *right) {
    const struct use *l = left, *r = right;
    if (l->card != r->card)
        return l->card < r->card ? -1 : 1;
    if (l->client != r->client)
        return l->client < r->client ? -1 : 1;
    return (l->pid > r->pid) - (l->pid < r->pid);
}

static int by_process(const void *left, const void *right) {
    const struct use *l = left, *r = right;
    if (l->card != r->card)
        return l->card < r->card ? -1 : 1;
    return (l->pid > r->pid) - (l->pid < r->pid);
}

/* A client that several descriptors or processes share is counted once, for the process with the lowest id, which opened it. */
static void sum_uses(struct scan *scan, struct uma_arena *arena) {
    size_t n = 0;
    if (scan->n) {
        qsort(scan->uses, scan->n, sizeof(*scan->uses), by_client);
        for (size_t i = 0; i < scan->n; i++)
            if (n == 0 || scan->uses[n - 1].card != scan->uses[i].card || scan->uses[n - 1].client != scan->uses[i].client)
                scan->uses[n++] = scan->uses[i];
        qsort(scan->uses, n, sizeof(*scan->uses), by_process);
    }
    for (size_t i = 0; i < n;) {
        struct uma_gpu *gpu = &scan->gpus->list[scan->uses[i].card];
        size_t end = i;
        while (end < n && scan->uses[end].card == scan->uses[i].card)
            end++;
        gpu->processes = uma_arena_array(arena, end - i, sizeof(*gpu->processes));
        for (; i < end && gpu->processes; i++) {
            const struct use *use = &scan->uses[i];
            struct uma_gpu_process *last = gpu->n_processes ? &gpu->processes[gpu->n_processes - 1] : NULL;
            if (!last || last->pid != use->pid) {
                if (gpu->n_processes == UMA_GPU_PROCESSES_MAX)
                    continue;
                last = &gpu->processes[gpu->n_processes++];
                *last = (struct uma_gpu_process){ .pid = use->pid, .bytes = use->gtt, .compute = use->compute };
                continue;
            }
            last->compute = last->compute || use->compute;
            if (use->gtt.validity == UMA_KNOWN)
                last->bytes = uma_known_u64(use->gtt.value + (last->bytes.validity == UMA_KNOWN ? last->bytes.value : 0));
        }
        i = end;
    }
}

static void read_processes(struct uma_gpu_reader *reader, struct uma_snapshot *snapshot, struct uma_gpus *gpus) {
    struct scan scan = { .reader = reader, .gpus = gpus };
    const struct uma_processes *processes = &snapshot->processes;
    enum uma_validity validity = uma_usable(processes->source.validity) ? UMA_KNOWN : UMA_UNKNOWN; /* processes were not read this time */
    size_t denied = 0;
    for (size_t i = 0; i < processes->n && validity == UMA_KNOWN; i++) {
        char path[64];
        if (processes->list[i].kernel_thread || processes->list[i].state == 'Z')
            continue;
        scan.pid = processes->list[i].pid;
        (void)snprintf(path, sizeof(path), "proc/%d/fdinfo", (int)scan.pid);
        int r = uma_root_list(reader->root, path, DESCRIPTORS_MAX, each_descriptor, &scan, NULL);
        denied += r == -EACCES || r == -EPERM;
    }
    if (validity == UMA_KNOWN)
        sum_uses(&scan, snapshot->arena);
    free(scan.uses);
    for (size_t i = 0; i < gpus->n; i++)
        gpus->list[i].processes_validity = scan.failed ? UMA_FAILED : validity;
    if (denied)
        gpus->source.detail = uma_arena_printf(snapshot->arena, "%zu processes of other users could not be looked into", denied);
}

static void collect(struct uma_gpu_reader *reader, struct uma_snapshot *snapshot, struct uma_gpus *ret_gpus) {
    if (uma_gpu_look_again(reader, reader->amd_looked_ns))
        look_for_cards(reader);
    if (reader->n_amd_cards == 0)
        return;
    struct uma_gpus gpus = { .list = uma_arena_array(snapshot->arena, reader->n_amd_cards, sizeof(*gpus.list)) };
    if (!gpus.list)
        return;
    uma_source_ok(&gpus.source, "sys/class/drm");
    for (; gpus.n < reader->n_amd_cards; gpus.n++)
        read_card(reader, reader->amd_cards[gpus.n], (int32_t)gpus.n, snapshot->arena, &gpus.list[gpus.n]);
    read_processes(reader, snapshot, &gpus);
    *ret_gpus = gpus;
}

const struct uma_gpu_vendor uma_gpu_vendor_amd = { "amd", NULL, collect };
