/* SPDX-License-Identifier: MIT */
/* Each problem where it must be said and close by where it must not. */
#include "test.h"

#include "account/problems.h"
#include "machine.h"

static struct uma_account account;

static const struct uma_problem *find(const struct uma_snapshot *s, const char *id) {
    uma_account_done(&account);
    assert_int_equal(uma_account_build(s, 0, &account, NULL), 0);
    for (size_t i = 0; i < account.n_problems; i++) {
        const struct uma_problem *p = &account.problems[i];
        assert_true(p->id && p->summary && p->evidence && p->remedy && p->evidence[0] && p->remedy[0]);
        assert_true(i == 0 || account.problems[i - 1].severity >= p->severity);
        if (strcmp(p->id, id) == 0)
            return p;
    }
    return NULL;
}

static size_t count(const struct uma_snapshot *s) {
    (void)find(s, "");
    for (size_t i = 0; i < account.n_problems; i++)
        print_message("unexpected: %s (%s)\n", account.problems[i].id, account.problems[i].evidence);
    return account.n_problems;
}

static int done(void **state) {
    (void)state;
    uma_account_done(&account);
    return 0;
}

/* One process with GPU memory on a Spark. */
struct spark {
    struct uma_snapshot s;
    struct uma_gpu gpu;
    struct uma_process list[4];
    struct uma_gpu_process gp[4];
    struct uma_cgroup cgroup;
    struct uma_container container;
};

static void spark(struct spark *m) {
    (void)memset(m, 0, sizeof(*m));
    machine_idle_spark(&m->s, &m->gpu);
    static const char *const init[] = { "/sbin/init" }, *const job[] = { "python3", "train.py" },
                             *const other[] = { "llama-server", "-m", "x" };
    const struct {
        uint32_t argc;
        const char *const *argv;
    } programs[] = { { 1, init }, { 2, job }, { 3, other }, { 2, job } };
    for (int i = 0; i < 4; i++) {
        m->list[i] = (struct uma_process){ .pid = i == 0 ? 1 : 100 * i,
                                           .ppid = i == 0 ? 0 : 1,
                                           .state = 'S',
                                           .threads = 1,
                                           .name = programs[i].argv[0],
                                           .argc = programs[i].argc,
                                           .argv = programs[i].argv,
                                           .rss = u64(UMA_MIB),
                                           .rss_anon = u64(UMA_MIB),
                                           .rss_shmem = u64(0),
                                           .cgroup = -1,
                                           .container = -1 };
        m->gp[i] = (struct uma_gpu_process){ .pid = 100 * (i + 1), .compute = true };
    }
    m->s.processes = (struct uma_processes){ .source = { .validity = UMA_KNOWN }, .n = 3, .list = m->list };
    m->gpu.processes = m->gp;
    m->s.memory_pressure.source.validity = UMA_KNOWN;
    m->s.memory_pressure.some.avg10 = m->s.memory_pressure.some.avg60 = m->s.memory_pressure.full.avg10 = f64(0);
}

static void holds(struct spark *m, uint64_t first, uint64_t second) {
    m->gp[0].bytes = u64(first);
    m->gp[1].bytes = u64(second);
    m->gpu.n_processes = second > 0 ? 2 : 1;
    /* what they hold is not free and not available; the ledger stays whole */
    m->s.meminfo.mem_free = u64(KB(105000000) > first + second ? KB(105000000) - first - second : 0);
    m->s.meminfo.mem_available =
        u64(m->s.meminfo.mem_free.value + KB(13566368) < m->s.meminfo.mem_available.value ? m->s.meminfo.mem_free.value + KB(13566368)
                                                                                          : m->s.meminfo.mem_available.value);
}

static void healthy(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    assert_int_equal(count(&m.s), 0);
    /* a server at 4 % available, by design, on its power plateau: 90 W, SW power cap, a second of thermal slowdown since boot */
    m.s.meminfo.mem_free = u64(KB(1900000));
    m.s.meminfo.mem_available = u64(KB(5100000));
    m.s.meminfo.cached = u64(KB(4000000));
    m.gpu.utilization = f64(0.96);
    m.gpu.watts = f64(89.7);
    m.gpu.sm_hertz = u64(2405000000);
    m.gpu.throttle_reasons = u64(UMA_REASON_SW_POWER_CAP);
    m.gpu.throttle_seconds[UMA_THROTTLE_SW_POWER_CAP] = f64(711320);
    m.gpu.throttle_seconds[UMA_THROTTLE_SW_THERMAL] = f64(0.9);
    holds(&m, 105 * UMA_GIB, 0);
    m.s.meminfo.mem_free = u64(KB(1900000));
    assert_int_equal(count(&m.s), 0);
    m.s.meminfo.mem_available = u64(KB(1700000)); /* minefield issue 134: 1.5 to 1.9 GiB for weeks */
    assert_int_equal(count(&m.s), 0);
    assert_int_equal(account.headroom.budget.value, 0);
}

static void nothing_known(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    assert_int_equal(count(&s), 0);
}

static void cache(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    machine_meminfo(&m.s.meminfo, (uint64_t)(3.3 * 1048576), 101 * 1048576, 99 * 1048576, 4400000);
    holds(&m, 12562776064, 0);
    m.s.meminfo.mem_free = u64(KB(3460300));
    const struct uma_problem *p = find(&m.s, "cache-starves-cuda");
    assert_non_null(p);
    assert_int_equal(p->severity, UMA_WARNING);
    assert_non_null(strstr(p->evidence, "3.3 GiB"));
    assert_non_null(strstr(p->evidence, "101 GiB"));
    assert_non_null(strstr(p->evidence, "11.7 GiB"));
    assert_string_equal(p->remedy, "see: umactl cache"); /* nobody has looked at the files */
    m.s.meminfo.mem_available = u64(KB(24 * 1048576));   /* 20 GiB of cache beside a server: everyone's */
    assert_null(find(&m.s, "cache-starves-cuda"));
    m.s.meminfo.mem_available = u64(KB(101 * 1048576));
    m.s.meminfo.mem_free = u64(KB(33603196)); /* a public reading after downloads: CUDA sees 32 GiB */
    assert_null(find(&m.s, "cache-starves-cuda"));
    m.s.meminfo.mem_free = u64(KB(3460300));
    m.gpu.unified = UMA_NO;
    m.s.platform.unified = UMA_NO;
    assert_null(find(&m.s, "cache-starves-cuda"));
}

/* The same machine, and what its list of files adds to it. */
static void cache_named(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    machine_meminfo(&m.s.meminfo, (uint64_t)(3.3 * 1048576), 101 * 1048576, 99 * 1048576, 4400000);
    m.s.time_ns = 1790000000000000000;
    struct uma_pid users[] = { { 200 }, { 999 } };
    struct uma_cached_file files[] = {
        { .path = "/hub/1", .model = "org/large", .resident = u64(50 * UMA_GIB), .used_ns = m.s.time_ns - 180000000000 },
        { .path = "/hub/2", .model = "org/large", .resident = u64(20 * UMA_GIB), .used_ns = m.s.time_ns - 999000000000 },
        { .path = "/srv/data set", .resident = u64(18 * UMA_GIB) },
        { .path = "/hub/3", .model = "small", .resident = u64(UMA_GIB) },
    };
    m.s.page_cache = (struct uma_page_cache){ .source.validity = UMA_KNOWN,
                                              .total = u64(99 * UMA_GIB),
                                              .explained = u64(89 * UMA_GIB),
                                              .unreadable = u64(0),
                                              .complete = true,
                                              .n_files = 4,
                                              .files = files };
    const struct uma_problem *p = find(&m.s, "cache-starves-cuda");
    assert_non_null(p);
    assert_non_null(strstr(p->evidence, "; 70.0 GiB of it are org/large (2 files, used 3 minutes ago), 18.0 GiB are /srv/data set"));
    assert_null(strstr(p->evidence, "small"));
    assert_null(strstr(p->evidence, "known"));
    assert_string_equal(p->remedy, "umactl cache evict --model org/large");
    static const struct {
        int64_t seconds;
        const char *text;
    } ages[] = { { 5, "used a minute ago" },      { 3599, "used 59 minutes ago" },   { 3600, "used within a day" },
                 { 86400, "not used for a day" }, { 400000, "not used for 4 days" }, { -5, "(2 files)" } };
    files[1].used_ns = 0;
    for (size_t i = 0; i < ELEMENTS(ages); i++) {
        files[0].used_ns = m.s.time_ns - ages[i].seconds * 1000000000;
        assert_non_null(strstr(find(&m.s, "cache-starves-cuda")->evidence, ages[i].text));
    }
    /* in use: by a process that is known, then by one that is not */
    files[1].n_mapped_by = 2;
    files[1].mapped_by = users;
    p = find(&m.s, "cache-starves-cuda");
    assert_non_null(strstr(p->evidence, ", in use: mapped by "));
    assert_non_null(strstr(p->evidence, ", pid 200)"));
    assert_string_equal(p->remedy, "umactl cache evict '/srv/data set'");
    files[1].n_mapped_by = 0;
    files[1].n_open_by = 1;
    files[1].open_by = &users[1];
    assert_non_null(strstr(find(&m.s, "cache-starves-cuda")->evidence, "in use: open by a process, pid 999)"));
    /* little is known */
    m.s.page_cache.n_files = 0;
    m.s.page_cache.explained = u64(UMA_GIB);
    m.s.page_cache.unreadable = u64(12);
    p = find(&m.s, "cache-starves-cuda");
    assert_non_null(strstr(p->evidence, "the files of only 1.0 GiB of it are known: the kernel does not tell this user of 12 files"));
    assert_string_equal(p->remedy, "see: sudo umactl cache");
    m.s.page_cache.unreadable = u64(0);
    m.s.page_cache.complete = false;
    assert_non_null(strstr(find(&m.s, "cache-starves-cuda")->evidence, "known: there was no time to look at all"));
    /* texts as long as a document may have them stay texts, and the command stays whole or is none */
    static char name[65537];
    (void)memset(name, '\'', 65536);
    files[0].model = name;
    files[0].used_ns = 0;
    m.s.page_cache.n_files = 1;
    p = find(&m.s, "cache-starves-cuda");
    assert_string_equal(p->remedy, "umactl cache evict --all-models");
    assert_true(strlen(p->evidence) < 1024);
}

static void fragments(void **state) {
    (void)state;
    struct spark m;
    struct uma_zone zone = { .n_orders = 11 };
    spark(&m);
    m.s.zones.page_size = u64(4096);
    m.s.zones.zones = &zone;
    m.s.zones.n_zones = 1;
    zone.blocks[10] = KB(100000000) / (4 * UMA_MIB); /* as a fresh boot: nearly all in the largest blocks */
    assert_null(find(&m.s, "fragmentation"));
    zone.blocks[10] = 0;
    zone.blocks[3] = KB(100000000) / (32 * 1024);
    const struct uma_problem *p = find(&m.s, "fragmentation");
    assert_non_null(p);
    assert_non_null(strstr(p->evidence, "32.0 KiB"));
    m.s.meminfo.mem_available = u64(KB(5100000)); /* a full machine has only pieces left */
    assert_null(find(&m.s, "fragmentation"));
    /* sparkring issue 173: 16 MiB blocks are few and 32 MiB blocks gone, on a kernel that has them */
    m.s.meminfo.mem_available = u64(KB(118566368));
    zone.n_orders = 14;
    zone.blocks[9] = KB(100000000) / (2 * UMA_MIB);
    zone.blocks[12] = 27;
    m.s.vmstat.compact_stall = u64(2700000);
    m.s.vmstat.compact_fail = u64(1350000);
    p = find(&m.s, "fragmentation");
    assert_non_null(p);
    assert_non_null(strstr(p->evidence, "2700000"));
    zone.blocks[13] = 100; /* 3.1 GiB in large blocks */
    assert_null(find(&m.s, "fragmentation"));
    zone.blocks[13] = 0;
    m.s.zones.page_size.validity = UMA_UNKNOWN;
    assert_null(find(&m.s, "fragmentation"));
}

static void pools(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    machine_meminfo(&m.s.meminfo, 53139656, 70174336, 17694160, 1712244);
    assert_non_null(find(&m.s, "driver-pools"));
    m.s.meminfo.mem_free = u64(KB(102000000)); /* 2.9 GiB beyond the named rows: 1.5 beyond an idle machine's */
    m.s.meminfo.cached = u64(KB(19500000));
    assert_null(find(&m.s, "driver-pools"));
    machine_meminfo(&m.s.meminfo, 53139656, 70174336, 17694160, 1712244);
    holds(&m, UMA_GIB, 0);
    m.s.meminfo.mem_free = u64(KB(53139656));
    assert_null(find(&m.s, "driver-pools"));
}

static void cma_and_hugetlb(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    m.s.meminfo.cma_total = u64(0);
    m.s.meminfo.cma_free = u64(KB(9751756));
    assert_non_null(strstr(find(&m.s, "cma-loss")->remedy, "kho=off"));
    m.s.meminfo.cma_free = u64(KB(4000));
    assert_null(find(&m.s, "cma-loss"));
    spark(&m);
    m.s.meminfo.hugepages_total = m.s.meminfo.hugepages_free = u64(8);
    m.s.meminfo.hugetlb = u64(16 * UMA_MIB);
    assert_null(find(&m.s, "hugetlb-takes-pool"));
    m.s.meminfo.mem_free = u64(KB(65000000));
    m.s.meminfo.hugetlb = u64(20 * UMA_GIB);
    m.s.meminfo.hugepages_total = m.s.meminfo.hugepages_free = u64(10240);
    assert_non_null(find(&m.s, "hugetlb-takes-pool"));
    assert_false(account.headroom.hugetlb_rule);
    m.gpu.unified = UMA_NO; /* a database server's business */
    m.s.platform.unified = UMA_NO;
    assert_null(find(&m.s, "hugetlb-takes-pool"));
}

static void shmem(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    m.s.meminfo.shmem = u64(64 * UMA_GIB);
    m.s.meminfo.cached = u64(66 * UMA_GIB);
    m.s.meminfo.mem_free = u64(48 * UMA_GIB);
    assert_non_null(find(&m.s, "shmem-large"));
    m.list[1].rss_shmem = u64(60 * UMA_GIB); /* its owner lives */
    assert_null(find(&m.s, "shmem-large"));
    m.list[1].rss_shmem = u64(0);
    m.s.processes.n = 0; /* who maps it is not known */
    assert_null(find(&m.s, "shmem-large"));
    m.s.processes.n = 3;
    m.s.meminfo.shmem = u64(3 * UMA_GIB);
    assert_null(find(&m.s, "shmem-large"));
}

static void swap(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    m.s.meminfo.swap_free = u64(KB(16777212 - 585728)); /* AEON-7 issue 9: 572 MiB */
    assert_null(find(&m.s, "swap-in-use"));
    m.s.meminfo.swap_free = u64(6 * UMA_GIB);
    m.list[2].swap = u64(5 * UMA_GIB);
    const struct uma_problem *p = find(&m.s, "swap-in-use");
    assert_int_equal(p->severity, UMA_INFO);
    assert_non_null(strstr(p->evidence, "pid 200"));
    assert_non_null(strstr(p->evidence, "10.0 GiB of 16.0 GiB swap are used, most")); /* what status says is not free */
    assert_string_equal(p->remedy, "sudo swapoff -a && sudo swapon -a");              /* there is room for it */
    m.s.meminfo.swap_cached = u64(200 * UMA_MIB);
    assert_non_null(strstr(find(&m.s, "swap-in-use")->evidence, "10.0 GiB of 16.0 GiB swap are used, 200 MiB of it is in memory again"));
    m.s.meminfo.swap_cached = u64(0);
    m.s.meminfo.mem_available = u64(12 * UMA_GIB); /* 8 GiB beside the reserve: too little to take it all back */
    assert_string_equal(find(&m.s, "swap-in-use")->remedy, "see: vmstat 1");
    m.s.memory_pressure.some.avg60 = f64(0.098);
    assert_int_equal(find(&m.s, "swap-in-use")->severity, UMA_WARNING);
    m.s.meminfo.swap_free.validity = UMA_ABSENT;
    assert_null(find(&m.s, "swap-in-use"));
}

static void headroom(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    m.s.meminfo.mem_free = u64(KB(600000));
    m.s.meminfo.mem_available = u64(KB(900000));
    m.s.meminfo.cached = u64(KB(1000000));
    holds(&m, 110 * UMA_GIB, 0);
    m.s.meminfo.mem_free = u64(KB(600000));
    assert_null(find(&m.s, "low-headroom"));
    m.s.memory_pressure.some.avg10 = f64(0.31);
    assert_int_equal(find(&m.s, "low-headroom")->severity, UMA_WARNING);
    m.s.memory_pressure.full.avg10 = f64(0.2);
    assert_int_equal(find(&m.s, "low-headroom")->severity, UMA_CRITICAL);
    assert_string_equal(account.problems[0].id, "low-headroom");
    m.s.meminfo.mem_available = u64(KB(9000000)); /* pressure with room is someone's cgroup limit */
    assert_null(find(&m.s, "low-headroom"));
}

static void psi(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    m.s.memory_pressure.source.validity = UMA_UNSUPPORTED;
    assert_int_equal(find(&m.s, "psi-disabled")->severity, UMA_INFO);
    m.s.memory_pressure.source.validity = UMA_ABSENT;
    assert_null(find(&m.s, "psi-disabled")); /* a pasted meminfo is no machine without PSI */
    m.s.vmstat.source.validity = UMA_KNOWN;
    assert_non_null(find(&m.s, "psi-disabled"));
    m.s.platform.kernel = "4.19.0";
    assert_null(find(&m.s, "psi-disabled"));
    m.s.platform.kernel = "x";
    assert_null(find(&m.s, "psi-disabled"));
}

static void torn(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    m.s.meminfo.mem_free.value += 3 * UMA_GIB;
    assert_non_null(find(&m.s, "ledger-overcounted"));
    spark(&m);
    m.s.meminfo.mem_free.value += KB(1900000);
    assert_null(find(&m.s, "ledger-overcounted"));
}

static void loaded(struct spark *m, double util, double watts, uint64_t mhz, uint64_t reasons) {
    spark(m);
    m->gpu.utilization = f64(util);
    m->gpu.watts = f64(watts);
    m->gpu.sm_hertz = u64(mhz * 1000000);
    m->gpu.throttle_reasons = u64(reasons);
    m->gpu.pstate.value = 0;
    holds(m, 30 * UMA_GIB, 0);
}

static void power(void **state) {
    (void)state;
    static const struct {
        double util, watts;
        uint64_t mhz, reasons;
        bool stuck;
    } cases[] = {
        { 0.96, 19.5, 799, 0, true }, /* trap 124 */
        { 0.95, 5.8, 481, 0, true },  /* hoesing */
        { 0.94, 15, 640, 0, true },
        { 0.96, 29, 1400, 0, true },                       /* under half of 3003 */
        { 0, 3, 2223, 0, false },                          /* idle, hasso5703's first line */
        { 0.4, 11, 695, 0, false },                        /* light load */
        { 0.96, 20, 2400, 0, false },                      /* wedged or memory-bound: the clock is fine */
        { 0.96, 92, 800, 0, false },                       /* the power is */
        { 0.96, 19.5, 799, UMA_REASON_HW_THERMAL, false }, /* it says why */
        { 0.96, 19.5, 799, UMA_REASON_HW_POWER_BRAKE, false },
        { 0.96, 19.5, 799, UMA_REASON_APPLICATIONS_CLOCKS, false },
        { 0, 4.5, 208, UMA_REASON_GPU_IDLE, false },
    };
    struct spark m;
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        loaded(&m, cases[i].util, cases[i].watts, cases[i].mhz, cases[i].reasons);
        const struct uma_problem *p = find(&m.s, "power-stuck");
        assert_true((p != NULL) == cases[i].stuck);
        assert_true(!p || (p->severity == UMA_CRITICAL && strstr(p->evidence, " W")));
    }
    loaded(&m, 0.96, 19.5, 799, 0);
    assert_non_null(strstr(find(&m.s, "power-stuck")->evidence, "19.5 W"));
    m.gpu.watts.validity = UMA_UNSUPPORTED;
    assert_null(find(&m.s, "power-stuck"));
    loaded(&m, 0.96, 19.5, 799, 0);
    m.gpu.unified = UMA_NO; /* a small card of its own may be like that */
    assert_null(find(&m.s, "power-stuck"));
    loaded(&m, 0.96, 19.5, 799, 0);
    m.s.gpus.source.validity = UMA_STALE;
    assert_null(find(&m.s, "power-stuck"));
}

static void heat(void **state) {
    (void)state;
    struct spark m;
    loaded(&m, 0.97, 78, 1980, UMA_REASON_SW_THERMAL);
    assert_int_equal(find(&m.s, "thermal")->severity, UMA_WARNING);
    assert_string_equal(find(&m.s, "thermal")->remedy, "sudo nvidia-smi -lgc 0,1700"); /* below what it runs at, or it changes nothing */
    m.gpu.sm_hertz = u64(1090000000);
    assert_string_equal(find(&m.s, "thermal")->remedy, "sudo nvidia-smi -lgc 0,1000");
    m.gpu.sm_hertz = u64(960000000); /* no lock helps here */
    assert_string_equal(find(&m.s, "thermal")->remedy, "see: nvidia-smi -q -d TEMPERATURE,PERFORMANCE");
    m.gpu.sm_hertz.validity = UMA_UNSUPPORTED;
    assert_string_equal(find(&m.s, "thermal")->remedy, "sudo nvidia-smi -lgc 0,2100");
    m.gpu.sm_hertz = u64(1980000000);
    m.gpu.throttle_reasons = u64(UMA_REASON_HW_THERMAL | UMA_REASON_HW_SLOWDOWN);
    assert_int_equal(find(&m.s, "thermal")->severity, UMA_CRITICAL);
    m.gpu.throttle_reasons = u64(UMA_REASON_HW_SLOWDOWN); /* may be a change of state */
    assert_null(find(&m.s, "thermal"));
    m.gpu.limit_margin_celsius = f64(3);
    assert_int_equal(find(&m.s, "thermal")->severity, UMA_WARNING);
    m.gpu.limit_margin_celsius = f64(4);
    m.gpu.throttle_seconds[UMA_THROTTLE_SW_THERMAL] = f64(173.45); /* ollama issue 13552, days later */
    assert_null(find(&m.s, "thermal"));
    struct uma_thermal_zone zone = { .id = 4, .type = "acpitz", .celsius = f64(63.6), .critical_celsius = f64(104.8) };
    m.s.heat.zones = &zone;
    m.s.heat.n_zones = 1;
    assert_null(find(&m.s, "thermal"));
    zone.celsius = f64(101);
    assert_int_equal(find(&m.s, "thermal")->severity, UMA_CRITICAL);
    zone.critical_celsius = f64(0); /* no trip, or nonsense */
    assert_null(find(&m.s, "thermal"));
}

static void clocks(void **state) {
    (void)state;
    struct spark m;
    loaded(&m, 0.97, 62, 2000, UMA_REASON_APPLICATIONS_CLOCKS);
    assert_int_equal(find(&m.s, "clock-locked")->severity, UMA_INFO);
    loaded(&m, 0.97, 62, 2100, 0); /* round, and nothing else explains it */
    assert_non_null(find(&m.s, "clock-locked"));
    loaded(&m, 0.97, 62, 2091, 0);
    assert_null(find(&m.s, "clock-locked"));
    loaded(&m, 0.97, 86, 2418, UMA_REASON_APPLICATIONS_CLOCKS); /* GB10's own default */
    assert_null(find(&m.s, "clock-locked"));
    loaded(&m, 0.97, 86, 2000, UMA_REASON_SW_POWER_CAP);
    assert_null(find(&m.s, "clock-locked"));
    loaded(&m, 0.2, 20, 1500, 0);
    assert_null(find(&m.s, "clock-locked"));
}

static void library(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    m.s.gpus = (struct uma_gpus){ .source = { .validity = UMA_ABSENT } };
    assert_non_null(strstr(find(&m.s, "nvml-absent")->summary, "is missing"));
    assert_int_equal(strncmp(find(&m.s, "nvml-absent")->remedy, "see: ", 5), 0);
    static const struct {
        enum uma_validity validity;
        const char *detail, *remedy;
    } silent[] = {
        { UMA_FAILED, "NVML does not start: Driver/library version mismatch (code 18)", "sudo reboot" },
        { UMA_ABSENT, "NVML does not start: Driver Not Loaded (code 9)", "sudo modprobe nvidia" },
        { UMA_DENIED, "NVML does not start: Insufficient Permissions (code 4)", "see: nvidia-smi" },
        { UMA_MALFORMED, "nvml: an answer of 3 bytes", "see: nvidia-smi" },
    };
    for (size_t i = 0; i < ELEMENTS(silent); i++) {
        m.s.gpus.source = (struct uma_source){ .validity = silent[i].validity, .detail = silent[i].detail };
        const struct uma_problem *p = find(&m.s, "nvml-absent");
        assert_non_null(p);
        assert_non_null(strstr(p->summary, "does not start"));
        assert_non_null(strstr(p->evidence, silent[i].detail));
        assert_string_equal(p->remedy, silent[i].remedy);
    }
    m.s.gpus.source = (struct uma_source){ .validity = UMA_ABSENT };
    m.s.platform.driver = NULL;
    m.s.platform.name = UMA_PLATFORM_GENERIC;
    assert_null(find(&m.s, "nvml-absent"));
    m.s.platform.name = UMA_PLATFORM_JETSON;
    m.s.platform.driver = "540.4.0";
    assert_null(find(&m.s, "nvml-absent"));
    spark(&m);
    m.s.gpus = (struct uma_gpus){ .source = { .validity = UMA_UNKNOWN } }; /* not asked */
    assert_null(find(&m.s, "nvml-absent"));
    m.s.gpus = (struct uma_gpus){ .source = { .validity = UMA_FAILED, .detail = "no answer within 2.0 s" }, .hung = true };
    const struct uma_problem *p = find(&m.s, "nvml-hung");
    assert_int_equal(p->severity, UMA_WARNING);
    assert_non_null(strstr(p->evidence, "2.0 s"));
    m.s.meminfo.mem_available = u64(KB(900000));
    assert_int_equal(find(&m.s, "nvml-hung")->severity, UMA_CRITICAL);
    assert_null(find(&m.s, "nvml-absent"));
}

static void releasing(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    holds(&m, 70 * UMA_GIB, 0);
    assert_null(find(&m.s, "memory-releasing"));
    m.list[1].state = 'Z';
    const struct uma_problem *p = find(&m.s, "memory-releasing");
    assert_int_equal(p->severity, UMA_WARNING);
    assert_non_null(strstr(p->evidence, "70.0 GiB"));
    assert_non_null(strstr(p->remedy, "umactl require --bytes "));
    m.gp[0].bytes = u64(UMA_MIB);
    assert_null(find(&m.s, "memory-releasing"));
}

static void container_limit(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    holds(&m, 60 * UMA_GIB, 0);
    m.cgroup = (struct uma_cgroup){ .version = 2, .path = "/x", .unit = "x.service", .effective_max = u64(32 * UMA_GIB) };
    m.container = (struct uma_container){ .runtime = "docker", .id = "0123456789abcdef", .name = "box\nwith \033[31m" };
    m.s.cgroups = &m.cgroup;
    m.s.n_cgroups = 1;
    m.s.containers = &m.container;
    m.s.n_containers = 1;
    m.list[1].cgroup = 0;
    assert_int_equal(find(&m.s, "container-limit-not-cuda")->severity, UMA_WARNING);
    /* 60 GiB and a little beside: no start with less, whatever the limit says */
    assert_string_equal(find(&m.s, "container-limit-not-cuda")->remedy, "umactl require --bytes 61G && sudo systemctl start x.service");
    m.cgroup.effective_max = u64(80 * UMA_GIB); /* more than it holds, and no container: nobody is misled yet */
    assert_null(find(&m.s, "container-limit-not-cuda"));
    m.list[1].container = 0;
    assert_int_equal(find(&m.s, "container-limit-not-cuda")->severity, UMA_INFO);
    assert_string_equal(find(&m.s, "container-limit-not-cuda")->remedy, "umactl run --need 61G -- JOB"); /* such a name is no command's */
    m.container.name = "vllm-qwen";
    assert_string_equal(find(&m.s, "container-limit-not-cuda")->remedy, "umactl require --bytes 61G && docker start vllm-qwen");
    m.container.runtime = "kubernetes";
    assert_string_equal(find(&m.s, "container-limit-not-cuda")->remedy, "umactl run --need 61G -- JOB");
    m.cgroup.effective_max = u64(UINT64_MAX);
    assert_null(find(&m.s, "container-limit-not-cuda"));
    m.cgroup.effective_max.validity = UMA_UNLIMITED;
    assert_null(find(&m.s, "container-limit-not-cuda"));
    m.cgroup.effective_max = u64(32 * UMA_GIB);
    m.gpu.container_limit = u64(32 * UMA_GIB); /* the driver's own limit does count */
    assert_null(find(&m.s, "container-limit-not-cuda"));
}

static void two_jobs(void **state) {
    (void)state;
    static const char *const half[] = { "vllm", "serve", "m", "--gpu-memory-utilization", "0.4" }, *const most[] = {
        "vllm", "serve", "m", "--gpu-memory-utilization", "0.7"
    };
    struct spark m;
    spark(&m);
    holds(&m, 47 * UMA_GIB, 44 * UMA_GIB);
    const struct uma_problem *p = find(&m.s, "two-heavy-jobs");
    assert_non_null(p);
    assert_non_null(strstr(p->evidence, "47.0 GiB"));
    assert_string_equal(p->remedy, "umactl run --wait 2h --need 45G -- JOB");
    m.list[2].rss_anon = u64(2 * UMA_GIB); /* its own memory is of the same pool */
    assert_string_equal(find(&m.s, "two-heavy-jobs")->remedy, "umactl run --wait 2h --need 46G -- JOB");
    m.list[2].rss_anon = u64(UMA_MIB);
    m.list[2].ppid = 100; /* one is the other's worker */
    assert_null(find(&m.s, "two-heavy-jobs"));
    m.list[2].ppid = 1;
    m.list[1].argv = m.list[2].argv = half; /* two servers whose caps fit */
    m.list[1].argc = m.list[2].argc = 5;
    assert_null(find(&m.s, "two-heavy-jobs"));
    m.list[2].argv = most; /* 0.4 + 0.7 do not */
    assert_non_null(find(&m.s, "two-heavy-jobs"));
    holds(&m, 47 * UMA_GIB, 4 * UMA_GIB); /* a small one beside a server */
    assert_null(find(&m.s, "two-heavy-jobs"));
    spark(&m);
    holds(&m, 47 * UMA_GIB, 44 * UMA_GIB);
    m.list[2].state = 'Z'; /* one is on its way out */
    assert_null(find(&m.s, "two-heavy-jobs"));
}

/* A machine without a GPU on its pool has none of its problems, however its numbers look. */
static void generic_machine(void **state) {
    (void)state;
    struct spark m;
    spark(&m);
    machine_meminfo(&m.s.meminfo, 1000000, 110000000, 108000000, 4400000);
    m.s.platform.name = UMA_PLATFORM_GENERIC;
    m.s.platform.unified = UMA_NO;
    m.s.platform.driver = NULL;
    m.s.gpus = (struct uma_gpus){ .source = { .validity = UMA_ABSENT } };
    m.s.memory_pressure.source.validity = UMA_ABSENT;
    m.s.vmstat.source.validity = UMA_KNOWN;
    assert_int_equal(count(&m.s), 0);
    spark(&m); /* a workstation with a card of its own, hot and busy */
    machine_meminfo(&m.s.meminfo, 1000000, 110000000, 108000000, 4400000);
    m.s.platform.name = UMA_PLATFORM_GENERIC;
    m.s.platform.unified = UMA_NO;
    m.gpu.unified = UMA_NO;
    m.gpu.utilization = f64(1);
    m.gpu.limit_margin_celsius = f64(0);
    m.gpu.throttle_reasons = u64(UMA_REASON_SW_THERMAL);
    holds(&m, 20 * UMA_GIB, 20 * UMA_GIB);
    m.s.meminfo.mem_free = u64(KB(1000000));
    assert_int_equal(count(&m.s), 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, done)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(healthy),         TEST(nothing_known),  TEST(cache),  TEST(cache_named), TEST(fragments), TEST(pools),
        TEST(cma_and_hugetlb), TEST(shmem),          TEST(swap),   TEST(headroom),    TEST(psi),       TEST(torn),
        TEST(power),           TEST(heat),           TEST(clocks), TEST(library),     TEST(releasing), TEST(two_jobs),
        TEST(container_limit), TEST(generic_machine)
    };
    return cmocka_run_group_tests_name("problems", tests, NULL, NULL);
}
