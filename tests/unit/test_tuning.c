/* SPDX-License-Identifier: MIT */
/* Settings of a machine that is a folder, and what of them is recorded. */
#include "test.h"

#include "observe/tuning.h"
#include "settings_folder.h"

static struct uma_arena *arena;

static int setup(void **state) {
    arena = uma_arena_new(UINT64_C(16) << 20);
    return arena ? settings_setup(state) : -1;
}

static int teardown(void **state) {
    arena = uma_arena_free(arena);
    return settings_teardown(state);
}

static struct uma_tuning take(const struct settings *s, const char *capture) {
    _cleanup_root_ struct uma_root *root = NULL;
    struct uma_tuning t = { 0 };
    struct uma_error err = { 0 };
    if (uma_root_open(s->path, capture, &root, &err) < 0 || uma_tuning_read(root, arena, &t, &err) < 0)
        print_message("%s\n", err.text);
    assert_int_equal(err.code, 0);
    return t;
}

static void machine(const struct settings *s) {
    settings_put(s, "proc/sys/vm/min_free_kbytes", "45184\n");
    settings_put(s, "proc/sys/vm/swappiness", "sixty\n");
    settings_put(s, "proc/sys/vm/dirty_ratio", "-1\n");
    settings_put(s, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    settings_put(s, "sys/kernel/mm/transparent_hugepage/defrag", "always madvise never\n");
    settings_put(s, "sys/kernel/mm/lru_gen/enabled", "0x0007\n");
    settings_put(s, "sys/kernel/mm/lru_gen/min_ttl_ms", "0xzz\n");
    settings_put(s, "sys/module/zswap/parameters/enabled", "Y\n");
    settings_put(s, "proc/cmdline", "root=UUID=secret cryptkey=secret kho=off transparent_hugepage=madvise quiet\n");
    settings_put(s, "proc/driver/nvidia/params", "RegistryDwords: \"secret\"\nEnableSystemMemoryPools: 529\n");
    settings_put(s, "proc/self/limits", "Max locked memory 65536 65536 bytes\n");
    settings_put(s, "proc/self/mountinfo",
                 "29 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n"
                 "30 29 259:1 / /boot/efi rw - vfat /dev/nvme0n1p1 rw\n"
                 "31 29 0:40 / /my\\040data rw - btrfs /dev/sda rw\n"
                 "32 29 0:50 / /tmp rw - tmpfs tmpfs rw\n"
                 "33 29 7:0 / /snap/core ro - squashfs /dev/loop0 ro\n"
                 "34 29 8:16 / /boot rw - ext4 /dev/sdb rw\n");
    settings_put(s, "sys/block/nvme0n1/dev", "259:0\n");
    settings_put(s, "sys/block/nvme0n1/nvme0n1p1/dev", "259:1\n");
    settings_put(s, "sys/block/nvme0n1/nvme0n1p2/dev", "259:2\n");
    settings_put(s, "sys/block/nvme0n1/queue/read_ahead_kb", "128\n");
    settings_put(s, "sys/block/nvme0n1/queue/rotational", "0\n");
    settings_put(s, "sys/block/sda/dev", "8:0\n");
    settings_put(s, "sys/block/sda/queue/read_ahead_kb", "18446744073709551615\n");
    settings_put(s, "sys/block/sda/queue/rotational", "1\n");
    settings_put(s, "sys/block/sdb/dev", "8:16\n");
    settings_put(s, "sys/block/loop0/dev", "7:0\n");
    settings_put(s, "sys/block/zram0/mm_stat", "4096 100 8192 0 0 0 0 0 0\n");
    settings_put(s, "sys/block/zram1/mm_stat", "nonsense\n");
}

static void all(void **state) {
    const struct settings *s = *state;
    machine(s);
    struct uma_tuning t = take(s, NULL);
    assert_int_equal(t.min_free_kbytes.validity, UMA_KNOWN);
    assert_int_equal(t.min_free_kbytes.value, 45184);
    assert_int_equal(t.swappiness.validity, UMA_MALFORMED);
    assert_int_equal(t.dirty_ratio.validity, UMA_MALFORMED);
    assert_int_equal(t.max_map_count.validity, UMA_ABSENT);
    assert_string_equal(t.thp_enabled.selected, "madvise");
    assert_int_equal(t.thp_defrag.validity, UMA_MALFORMED);
    assert_null(t.thp_defrag.selected);
    assert_int_equal(t.thp_shmem.validity, UMA_ABSENT);
    assert_int_equal(t.lru_gen_enabled.value, 7);
    assert_int_equal(t.lru_gen_min_ttl_ms.validity, UMA_MALFORMED);
    assert_int_equal(t.zswap, UMA_YES);
    assert_string_equal(t.kho, "off");
    assert_string_equal(t.transparent_hugepage, "madvise");
    assert_null(t.init_on_alloc);
    assert_int_equal(t.nvidia_pools.value, 529);
    assert_int_equal(t.memlock.value, 65536);
}

/* Disks from which something is mounted that models may lie on: not what starts the machine, not memory, not loops. */
static void disks(void **state) {
    const struct settings *s = *state;
    machine(s);
    struct uma_tuning t = take(s, NULL);
    assert_int_equal(t.disks_validity, UMA_KNOWN);
    assert_int_equal(t.n_disks, 2);
    assert_string_equal(t.disks[0].name, "nvme0n1");
    assert_string_equal(t.disks[0].mount, "/");
    assert_int_equal(t.disks[0].read_ahead.value, 131072);
    assert_int_equal(t.disks[0].rotational, UMA_NO);
    assert_string_equal(t.disks[1].name, "sda");
    assert_string_equal(t.disks[1].mount, "/my data");
    assert_int_equal(t.disks[1].read_ahead.validity, UMA_MALFORMED);
    assert_int_equal(t.disks[1].rotational, UMA_YES);
    assert_int_equal(t.n_zrams, 2);
    assert_string_equal(t.zrams[0].name, "zram0");
    assert_int_equal(t.zrams[0].stored.value, 4096);
    assert_int_equal(t.zrams[0].memory_used.value, 8192);
    assert_int_equal(t.zrams[1].stored.validity, UMA_MALFORMED);
}

static void empty(void **state) {
    struct uma_tuning t = take(*state, NULL);
    assert_int_equal(t.min_free_kbytes.validity, UMA_ABSENT);
    assert_int_equal(t.nvidia_pools.validity, UMA_ABSENT);
    assert_int_equal(t.disks_validity, UMA_ABSENT);
    assert_int_equal(t.command_line, UMA_ABSENT);
    assert_int_equal(t.zswap, UMA_MAYBE);
    assert_int_equal(t.n_disks, 0);
}

/* The folder that a reading left behind gives the same, and nothing else of the command line or of the driver's parameters. */
static void captured(void **state) {
    const struct settings *s = *state;
    static struct settings copy;
    machine(s);
    (void)snprintf(copy.path, sizeof copy.path, "%.4000s/capture", s->path);
    struct uma_tuning t = take(s, copy.path), again = take(&copy, NULL);
#define UMA_X(field, file)                                                                                                                 \
    assert_int_equal(t.field.value, again.field.value);                                                                                    \
    assert_int_equal(t.field.validity, again.field.validity);
    UMA_VM_SETTINGS(UMA_X)
#undef UMA_X
    assert_string_equal(again.kho, "off");
    assert_int_equal(again.nvidia_pools.value, 529);
    assert_int_equal(again.n_disks, 2);
    assert_string_equal(again.disks[1].mount, "/my data");
    assert_null(strstr(settings_get(&copy, "umactl/mountinfo"), "boot")); /* what no advice is about is not told */
    assert_string_equal(settings_get(&copy, "proc/cmdline"), "kho=off transparent_hugepage=madvise\n");
    assert_string_equal(settings_get(&copy, "proc/driver/nvidia/params"), "EnableSystemMemoryPools: 529\n");
}

/* A folder with hundreds of disks is a folder somebody made up: bounded, not refused. */
static void many_disks(void **state) {
    const struct settings *s = *state;
    _cleanup_free_
    char *mounts = calloc(1, 64 * 1024);
    assert_non_null(mounts);
    for (int i = 0; i < 100; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "sys/block/d%02d/dev", i);
        char dev[16];
        (void)snprintf(dev, sizeof dev, "9:%d\n", i);
        settings_put(s, name, dev);
        (void)snprintf(mounts + strlen(mounts), 128, "%d 1 9:%d / /m%d rw - ext4 /dev/d%02d rw\n", i + 2, i, i, i);
        (void)snprintf(name, sizeof name, "sys/block/zram%d/mm_stat", i);
        settings_put(s, name, "1 1 1\n");
    }
    settings_put(s, "proc/self/mountinfo", mounts);
    struct uma_tuning t = take(s, NULL);
    assert_int_equal(t.n_disks, UMA_DISKS_MAX);
    assert_string_equal(t.disks[0].name, "d00");
    assert_int_equal(t.n_zrams, UMA_ZRAMS_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = { TEST(all), TEST(disks), TEST(empty), TEST(captured), TEST(many_disks) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
