/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/files/walk.h"
#include "folder.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

enum { CHILD_GOOD = 0, CHILD_BAD = 1, CHILD_SKIP = 77 };

struct seen {
    size_t n;
    uint64_t bytes;
    char last[16384], all[4096]; /* names, each with a ' ' behind */
    int result;
    void (*act)(struct seen *seen, const struct uma_walk_entry *entry);
    const struct folder *folder;
    int opened;
};

static int see(void *userdata, const struct uma_walk_entry *entry) {
    struct seen *seen = userdata;
    seen->n++;
    seen->bytes += (uint64_t)entry->st->st_size;
    (void)snprintf(seen->last, sizeof(seen->last), "%s", entry->path);
    size_t used = strlen(seen->all);
    (void)snprintf(seen->all + used, sizeof(seen->all) - used, "%s ", entry->name);
    if (seen->act)
        seen->act(seen, entry);
    return seen->result;
}

static int walk_with(struct uma_walk walk, const char *path, struct seen *seen, struct uma_walk_counts *counts) {
    struct uma_error err = { 0 };
    walk.each = see;
    walk.userdata = seen;
    *counts = (struct uma_walk_counts){ 0 };
    int r = uma_walk(&walk, path, counts, &err);
    if (r < 0 && !err.text[0])
        fail_msg("no reason for %d", r);
    return r;
}

static int walk_all(const char *path, struct seen *seen, struct uma_walk_counts *counts) {
    return walk_with((struct uma_walk){ 0 }, path, seen, counts);
}

static const char *at(const struct folder *f, const char *path) {
    static char whole[2][512];
    static unsigned turn;
    turn ^= 1;
    (void)snprintf(whole[turn], sizeof(whole[turn]), "%s/%s", f->path, path);
    return whole[turn];
}

static int run_child(int (*child)(const struct folder *f), const struct folder *f) {
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int r = child(f);
        (void)fflush(NULL);
        _exit(r);
    }
    int status = 0;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- what is found ------------------------------------------------------------------------------------------------ */

static void put_tree(const struct folder *f) {
    folder_put(f, "tree/a/1", "x");
    folder_put(f, "tree/a/b/c/2", "xy");
    folder_put(f, "tree/new\nline", "xyz");
    folder_put(f, "tree/\xff\xfe", "1234");
    folder_put(f, "outside/secret", "no");
    assert_int_equal(mkdir(at(f, "tree/empty"), 0700), 0);
}

static void test_files(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    put_tree(&f);
    assert_int_equal(mkfifo(at(&f, "tree/fifo"), 0600), 0);
    const char *const ways[] = { "tree", "tree/", "tree//", "tree/.", "link" };
    assert_int_equal(symlink("tree", at(&f, "link")), 0);
    for (size_t i = 0; i < ELEMENTS(ways); i++) {
        struct seen seen = { 0 };
        struct uma_walk_counts counts;
        assert_int_equal(walk_all(at(&f, ways[i]), &seen, &counts), 0);
        assert_true(seen.n == 4 && seen.bytes == 10 && counts.files == 4 && counts.folders == 5);
        assert_true(counts.links_inside + counts.links_outside + counts.vanished + counts.denied + counts.mounts_skipped == 0 &&
                    !counts.cut);
        struct stat st;
        assert_int_equal(stat(seen.last, &st), 0);
        assert_null(strstr(seen.last + strlen(f.path) + strlen(ways[i]) + 1, "//"));
    }
}

static void test_alone(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    put_tree(&f);
    assert_int_equal(symlink("tree/a/b/c/2", at(&f, "link")), 0);
    assert_int_equal(symlink("nothing", at(&f, "dangling")), 0);
    assert_int_equal(mkfifo(at(&f, "fifo"), 0600), 0);
    struct uma_walk_counts counts;
    const char *const ways[] = { "tree/a/b/c/2", "link" };
    for (size_t i = 0; i < ELEMENTS(ways); i++) {
        struct seen seen = { 0 };
        assert_int_equal(walk_all(at(&f, ways[i]), &seen, &counts), 0);
        assert_true(seen.n == 1 && seen.bytes == 2 && counts.files == 1 && counts.folders == 0);
        assert_string_equal(seen.all, " ");
        assert_string_equal(seen.last, at(&f, ways[i]));
    }
    struct seen seen = { 0 };
    assert_int_equal(walk_all(at(&f, "nothing"), &seen, &counts), -ENOENT);
    assert_int_equal(walk_all(at(&f, "dangling"), &seen, &counts), -ENOENT);
    assert_int_equal(walk_all("", &seen, &counts), -ENOENT);
    assert_int_equal(walk_all(at(&f, "tree/a/1/x"), &seen, &counts), -ENOTDIR);
    assert_int_equal(walk_all(at(&f, "fifo"), &seen, &counts), -EINVAL);
    assert_int_equal(walk_all("/dev/null", &seen, &counts), -EINVAL);
    assert_int_equal(seen.n, 0);
}

/* ---- links -------------------------------------------------------------------------------------------------------- */

static void put_links(const struct folder *f) {
    put_tree(f);
    char whole[512];
    const struct {
        const char *name, *target;
    } links[] = {
        /* 8 inside */
        { "tree/i1", "a/1" },
        { "tree/a/i2", "../a/b" },
        { "tree/a/b/i3", "../../new\nline" },
        { "tree/i4", "nothing" },
        { "tree/i5", "i5" },
        { "tree/i6", "./a/.././a//b/c/2" },
        { "tree/a/i7", ".." },
        /* 5 outside */
        { "tree/o1", "/etc/hostname" },
        { "tree/o2", "../outside/secret" },
        { "tree/a/o3", "../../outside" },
        { "tree/a/o4", "b/../../../outside" },
        { "tree/a/o5", "/" },
    };
    for (size_t i = 0; i < ELEMENTS(links); i++)
        assert_int_equal(symlink(links[i].target, at(f, links[i].name)), 0);
    /* inside by an absolute text; the same text with one letter more leads elsewhere */
    char *real = realpath(at(f, "tree"), NULL);
    assert_non_null(real);
    (void)snprintf(whole, sizeof(whole), "%s/a/1", real);
    assert_int_equal(symlink(whole, at(f, "tree/i8")), 0);
    (void)snprintf(whole, sizeof(whole), "%sX/a/1", real);
    assert_int_equal(symlink(whole, at(f, "tree/o6")), 0);
    (void)snprintf(whole, sizeof(whole), "%s/../outside", real);
    assert_int_equal(symlink(whole, at(f, "tree/o7")), 0);
    free(real);
}

static int count_links(const struct folder *f) {
    struct seen seen = { 0 };
    struct uma_walk_counts counts;
    int r = walk_all(at(f, "tree"), &seen, &counts);
    bool good = r == 0 && seen.n == 4 && counts.links_inside == 8 && counts.links_outside == 7 && !strstr(seen.all, "secret");
    if (!good)
        print_error("%d: %zu files, %d links inside, %d outside\n", r, seen.n, (int)counts.links_inside, (int)counts.links_outside);
    return good ? CHILD_GOOD : CHILD_BAD;
}

/* Every later openat2(2) of this process fails with `code`, as on a kernel before 5.6 or in a container that does not know it. */
static bool refuse_openat2(int code) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = ELEMENTS(filter), .filter = filter };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
static int count_links_enosys(const struct folder *f) {
    return refuse_openat2(ENOSYS) ? count_links(f) : CHILD_SKIP;
}
static int count_links_eperm(const struct folder *f) {
    return refuse_openat2(EPERM) ? count_links(f) : CHILD_SKIP;
}

static void test_links(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    put_links(&f);
    assert_int_equal(count_links(&f), CHILD_GOOD);
    int enosys = run_child(count_links_enosys, &f), eperm = run_child(count_links_eperm, &f);
    if (enosys == CHILD_SKIP)
        SKIP_BECAUSE("system calls cannot be refused here, so openat2(2) cannot be made to be missing");
    assert_int_equal(enosys, CHILD_GOOD);
    assert_int_equal(eperm, CHILD_GOOD);
}

/* What the kernel's own links lead to lies nowhere below them. */
static void test_magic_links(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    struct seen seen = { 0 };
    struct uma_walk_counts counts;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(walk_all("/proc/self/fd", &seen, &counts), 0);
    assert_true(counts.links_outside >= 2);
    assert_int_equal(counts.links_inside, 0);
    assert_int_equal(seen.n, 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* Resolution knows what the letters do not: a link that stays inside by its text and leaves by way of another. */
static void test_link_by_link(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    put_tree(&f);
    assert_int_equal(symlink("../outside", at(&f, "tree/out")), 0);
    assert_int_equal(symlink("out/secret", at(&f, "tree/by")), 0);
    struct seen seen = { 0 };
    struct uma_walk_counts counts;
    assert_int_equal(walk_all(at(&f, "tree"), &seen, &counts), 0);
    assert_int_equal(counts.links_inside + counts.links_outside, 2);
    assert_true(counts.links_outside >= 1);
    assert_null(strstr(seen.all, "secret"));
}

/* ---- what changes meanwhile --------------------------------------------------------------------------------------- */

/* Whichever of the two folders is not walked yet becomes a link to what must not be reached. */
static void swap_other(struct seen *seen, const struct uma_walk_entry *entry) {
    const char *other = strcmp(entry->name, "in-p") == 0 ? "tree/q" : "tree/p";
    folder_drop(seen->folder, other);
    assert_int_equal(symlink("../outside", at(seen->folder, other)), 0);
    seen->act = NULL;
}

static void test_swapped_folder(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    folder_put(&f, "tree/p/in-p", "x");
    folder_put(&f, "tree/q/in-q", "x");
    folder_put(&f, "outside/secret", "no");
    struct seen seen = { .act = swap_other, .folder = &f };
    struct uma_walk_counts counts;
    assert_int_equal(walk_all(at(&f, "tree"), &seen, &counts), 0);
    assert_int_equal(seen.n, 1);
    assert_null(strstr(seen.all, "secret"));
    assert_int_equal(counts.vanished + counts.links_outside, 1); /* whether the listing was read before the swap */
}

static void open_it(struct seen *seen, const struct uma_walk_entry *entry) {
    _cleanup_close_ int fd = uma_walk_open(entry);
    char byte = 0;
    seen->opened = fd < 0 ? fd : read(fd, &byte, 1) == 1 && byte == 'x' && (fcntl(fd, F_GETFD) & FD_CLOEXEC) ? 1 : 0;
}
static void replace_by_file(struct seen *seen, const struct uma_walk_entry *entry) {
    folder_put(seen->folder, "tree/other", "other");
    assert_int_equal(rename(at(seen->folder, "tree/other"), entry->path), 0);
    open_it(seen, entry);
}
static void replace_by_link(struct seen *seen, const struct uma_walk_entry *entry) {
    assert_int_equal(rename(entry->path, at(seen->folder, "moved")), 0);
    assert_int_equal(symlink("../moved", entry->path), 0);
    open_it(seen, entry);
}
static void replace_by_fifo(struct seen *seen, const struct uma_walk_entry *entry) {
    assert_int_equal(unlink(entry->path), 0);
    assert_int_equal(mkfifo(entry->path, 0600), 0);
    open_it(seen, entry);
}
static void remove_it(struct seen *seen, const struct uma_walk_entry *entry) {
    assert_int_equal(unlink(entry->path), 0);
    open_it(seen, entry);
}

static void test_open(void **state) {
    (void)state;
    const struct {
        void (*act)(struct seen *, const struct uma_walk_entry *);
        const char *path;
        int opened;
    } cases[] = {
        { open_it, "tree", 1 },
        { open_it, "tree/file", 1 },
        { open_it, "link", 1 },
        { replace_by_file, "tree", -ESTALE },
        { replace_by_link, "tree", -ESTALE },
        { replace_by_fifo, "tree", -ESTALE },
        { remove_it, "tree", -ENOENT },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_folder_ struct folder f = { 0 };
        assert_int_equal(folder_new(&f), 0);
        folder_put(&f, "tree/file", "x");
        assert_int_equal(symlink("tree/file", at(&f, "link")), 0);
        struct seen seen = { .act = cases[i].act, .folder = &f };
        struct uma_walk_counts counts;
        assert_int_equal(walk_all(at(&f, cases[i].path), &seen, &counts), 0);
        if (seen.opened != cases[i].opened)
            fail_msg("case %zu: %d, expected %d", i, seen.opened, cases[i].opened);
    }
}

/* ---- bounds ------------------------------------------------------------------------------------------------------- */

static bool stop_at_once(void *userdata) {
    (void)userdata;
    return true;
}

static void test_bounds(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    put_tree(&f);
    struct uma_walk_counts counts;
    struct seen none = { 0 }, two = { 0 }, stopped = { .result = 7 };
    assert_int_equal(walk_with((struct uma_walk){ .deadline_ns = 1 }, at(&f, "tree"), &none, &counts), 0);
    assert_true(counts.cut && none.n == 0);
    assert_int_equal(walk_with((struct uma_walk){ .stop = stop_at_once }, at(&f, "tree"), &none, &counts), 0);
    assert_true(counts.cut && none.n == 0);
    assert_int_equal(walk_with((struct uma_walk){ .entries_max = 2 }, at(&f, "tree"), &two, &counts), 0);
    assert_true(counts.cut && two.n <= 2);
    assert_int_equal(walk_all(at(&f, "tree"), &stopped, &counts), 7);
    assert_int_equal(stopped.n, 1);
    struct seen all = { 0 };
    struct uma_walk free_of_bounds = { .deadline_ns = uma_monotonic_ns() + 3600 * UMA_SECOND_NS, .entries_max = 9 };
    assert_int_equal(walk_with(free_of_bounds, at(&f, "tree"), &all, &counts), 0);
    assert_true(!counts.cut && all.n == 4); /* 4 files, 4 folders below */
}

/* A chain of `depth` folders, each named by `name`, with a file "end" in the last. */
static void put_chain(const struct folder *f, const char *name, unsigned depth) {
    int folder = open(at(f, "tree"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(folder, name, 0700), 0);
        int next = openat(folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(folder);
        folder = next;
    }
    int end = openat(folder, "end", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(end >= 0 && write(end, "x", 1) == 1);
    (void)close(end);
    (void)close(folder);
}

/* What no path reaches is taken apart from its top: the second folder takes the first one's place. */
static void drop_chain(const struct folder *f, const char *name, unsigned depth) {
    for (unsigned i = 1; i < depth; i++) {
        assert_int_equal(rename(at(f, "tree"), at(f, "old")), 0);
        char inner[512];
        (void)snprintf(inner, sizeof(inner), "%s/%s", at(f, "old"), name);
        assert_int_equal(rename(inner, at(f, "tree")), 0);
        assert_int_equal(rmdir(at(f, "old")), 0);
    }
}

static void test_long_paths(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    char name[201];
    (void)memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(mkdir(at(&f, "tree"), 0700), 0);
    put_chain(&f, name, 50);
    struct seen seen = { .act = open_it, .folder = &f };
    struct uma_walk_counts counts;
    int r = walk_all(at(&f, "tree"), &seen, &counts);
    drop_chain(&f, name, 50);
    assert_int_equal(r, 0);
    assert_true(seen.n == 1 && counts.folders == 51 && !counts.cut);
    assert_int_equal(seen.opened, 1);
    assert_true(strlen(seen.last) > (size_t)50 * 201);
}

static void test_depth(void **state) {
    (void)state;
    const struct {
        unsigned depth;
        size_t n;
    } cases[] = { { UMA_WALK_DEPTH_MAX - 1, 1 }, { UMA_WALK_DEPTH_MAX, 0 } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_folder_ struct folder f = { 0 };
        assert_int_equal(folder_new(&f), 0);
        assert_int_equal(mkdir(at(&f, "tree"), 0700), 0);
        put_chain(&f, "d", cases[i].depth);
        struct seen seen = { 0 };
        struct uma_walk_counts counts;
        assert_int_equal(walk_all(at(&f, "tree"), &seen, &counts), 0);
        assert_int_equal(seen.n, cases[i].n);
        assert_int_equal(counts.cut, cases[i].n == 0);
        assert_int_equal(counts.folders, UMA_WALK_DEPTH_MAX);
    }
}

/* ---- permissions -------------------------------------------------------------------------------------------------- */

static int walk_as_nobody(const struct folder *f) {
    if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
        return CHILD_SKIP;
    struct seen seen = { .act = open_it };
    struct uma_walk_counts counts, closed = { 0 };
    int r = walk_all(at(f, "tree"), &seen, &counts);
    bool good = r == 0 && seen.n == 1 && seen.opened == 1 && counts.denied == 2 && counts.folders == 3 &&
                (uma_ends_with(counts.denied_at, "/tree/closed") || uma_ends_with(counts.denied_at, "/tree/listed/file"));
    good &= walk_all(at(f, "tree/closed"), &seen, &closed) == -EACCES && closed.denied == 0;
    if (!good)
        print_error("%d: %zu files, %d denied at \"%s\"\n", r, seen.n, (int)counts.denied, counts.denied_at);
    return good ? CHILD_GOOD : CHILD_BAD;
}

static void test_denied(void **state) {
    (void)state;
    if (geteuid() != 0)
        SKIP_BECAUSE("another user's folders need root to be made");
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    folder_put(&f, "tree/closed/file", "x");
    folder_put(&f, "tree/listed/file", "x"); /* may be listed, not entered */
    folder_put(&f, "tree/open/file", "x");
    assert_int_equal(chmod(f.path, 0755) | chmod(at(&f, "tree"), 0755) | chmod(at(&f, "tree/listed"), 0744), 0);
    assert_int_equal(chmod(at(&f, "tree/open"), 0755) | chmod(at(&f, "tree/open/file"), 0644), 0);
    int r = run_child(walk_as_nobody, &f);
    if (r == CHILD_SKIP)
        SKIP_BECAUSE("this user may not become another");
    assert_int_equal(r, CHILD_GOOD);
}

/* ---- mounts ------------------------------------------------------------------------------------------------------- */

static void test_mount_table(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    put_tree(&f);
    char *real = realpath(at(&f, "tree"), NULL);
    assert_non_null(real);
    char folder_point[512], file_point[512], inner_point[512], beside_point[512];
    (void)snprintf(folder_point, sizeof(folder_point), "%s/a/b", real);
    (void)snprintf(inner_point, sizeof(inner_point), "%s/a/b/c", real);
    (void)snprintf(file_point, sizeof(file_point), "%s/a/1", real);
    (void)snprintf(beside_point, sizeof(beside_point), "%sX", real);
    struct stat st;
    assert_int_equal(stat(real, &st), 0);
    struct uma_mount list[] = {
        { .id = 1, .parent = 0, .point = "/", .root = "/", .type = "ext4", .major = major(st.st_dev), .minor = minor(st.st_dev) },
        { .id = 2,
          .parent = 1,
          .point = folder_point,
          .root = "/",
          .type = "fuse.x",
          .kind = UMA_FILESYSTEM_FUSE,
          .major = 0,
          .minor = 9999 },
        { .id = 3, .parent = 1, .point = file_point, .root = "/", .type = "nfs4", .kind = UMA_FILESYSTEM_NETWORK, .minor = 9998 },
        { .id = 4, .parent = 1, .point = beside_point, .root = "/", .type = "proc", .kind = UMA_FILESYSTEM_PSEUDO, .minor = 9997 },
        { .id = 5, .parent = 2, .point = inner_point, .root = "/", .type = "xfs", .kind = UMA_FILESYSTEM_LOCAL, .minor = 9996 },
    };
    struct uma_mounts mounts = { .n = ELEMENTS(list), .list = list };
    struct uma_walk walk = { .mounts = &mounts };
    struct seen seen = { 0 }, whole = { 0 }, root = { 0 }, same = { 0 };
    struct uma_walk_counts counts;
    assert_int_equal(walk_with(walk, at(&f, "tree"), &seen, &counts), 0);
    assert_true(seen.n == 2 && counts.mounts_skipped == 2 && counts.folders == 3 && !counts.cut);
    /* what was named is walked whatever it lies on, and what is below by the same rule */
    assert_int_equal(walk_with(walk, at(&f, "tree/a/b"), &whole, &counts), 0);
    assert_true(whole.n == 1 && counts.mounts_skipped == 0);
    /* the last one on a point is what is seen there */
    list[2] = (struct uma_mount){ .id = 6, .parent = 2, .point = folder_point, .root = "/", .type = "ext4", .minor = 9995 };
    assert_int_equal(walk_with(walk, at(&f, "tree"), &same, &counts), 0);
    assert_true(same.n == 4 && counts.mounts_skipped == 0);
    free(real);
    /* the root folder's path ends in the '/' that others do not */
    struct uma_mount proc[] = { list[0],
                                { .id = 7, .parent = 1, .point = "/proc", .type = "proc", .root = "/", .kind = UMA_FILESYSTEM_PSEUDO } };
    mounts = (struct uma_mounts){ .n = 2, .list = proc };
    walk.entries_max = 1000;
    assert_int_equal(walk_with(walk, "/", &root, &counts), 0);
    assert_true(strncmp(root.last, "/proc/", 6) != 0 && strncmp(root.last, "//", 2) != 0);
}

static int walk_mounted(const struct folder *f) {
    char tree[512], loop[512], other[512];
    (void)snprintf(tree, sizeof(tree), "%s/tree", f->path);
    (void)snprintf(loop, sizeof(loop), "%s/tree/a/b/c", f->path);
    (void)snprintf(other, sizeof(other), "%s/tree/empty", f->path);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount(tree, loop, NULL, MS_BIND, NULL) < 0 ||
        mount("none", other, "tmpfs", 0, "size=1m") < 0)
        return CHILD_SKIP;
    folder_put(f, "tree/empty/in-memory", "x");
    struct seen all = { 0 }, one = { 0 };
    struct uma_walk_counts counts, counts_one;
    int r = walk_all(tree, &all, &counts);
    bool good = r == 0 && all.n == 4 && counts.mounts_skipped == 1 && counts.folders == 4 && strstr(all.all, "in-memory");
    r = walk_with((struct uma_walk){ .one_filesystem = true }, tree, &one, &counts_one);
    good = good && r == 0 && one.n == 3 && counts_one.mounts_skipped == 2 && !strstr(one.all, "in-memory");
    if (!good)
        print_error("%zu files, %d folders, %d mounts; %zu, %d\n", all.n, (int)counts.folders, (int)counts.mounts_skipped, one.n,
                    (int)counts_one.mounts_skipped);
    return good ? CHILD_GOOD : CHILD_BAD;
}

/* A folder mounted inside itself has no end, and another file system is left when asked. */
static void test_mounted(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    put_tree(&f);
    int r = run_child(walk_mounted, &f);
    if (r == CHILD_SKIP)
        SKIP_BECAUSE("this user may not mount");
    assert_int_equal(r, CHILD_GOOD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),        cmocka_unit_test(test_alone),       cmocka_unit_test(test_links),
        cmocka_unit_test(test_link_by_link), cmocka_unit_test(test_magic_links), cmocka_unit_test(test_swapped_folder),
        cmocka_unit_test(test_open),         cmocka_unit_test(test_bounds),      cmocka_unit_test(test_long_paths),
        cmocka_unit_test(test_depth),        cmocka_unit_test(test_denied),      cmocka_unit_test(test_mount_table),
        cmocka_unit_test(test_mounted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
