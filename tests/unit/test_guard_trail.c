/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"
#include "guard/checksum.h"
#include "guard/trail.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static atomic_int hang, fail, quick; /* of the disk */

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
    while (hang)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    if (fail) {
        errno = EIO;
        return -1;
    }
    return quick ? 0 : __real_fdatasync(fd);
}

static const char *in(const struct folder *f, const char *name) {
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", f->path, name);
    return path;
}

static struct uma_guard_trail_record decision(int32_t pid) {
    struct uma_guard_trail_record r = { .kind = UMA_GUARD_TRAIL_DECISION };
    r.decision.n = 1;
    r.decision.actions[0] =
        (struct uma_guard_action){ .kind = UMA_GUARD_BRAKE, .reason = UMA_GUARD_WILL_REACH_FLOOR, .pid = pid, .start = 77 };
    r.decision.n_candidates = 1;
    r.decision.candidates[0] = (struct uma_guard_candidate){ .pid = pid, .gpu = 1ull << 34, .gpu_known = true };
    memcpy(r.decision.candidates[0].name, "python3", sizeof("python3"));
    r.decision.evidence = (struct uma_guard_evidence){ .headroom = 123, .time_to_floor = INFINITY, .psi_full = NAN };
    return r;
}

/* At the disk's pace, so that none is lost; a close writes what is left. */
static void write_some(struct uma_guard_trail *trail, int32_t from, int32_t n) {
    struct uma_guard_kept before, kept;
    uma_guard_trail_kept(trail, &before);
    for (int32_t i = 0; i < n; i++) {
        struct uma_guard_trail_record r = decision(from + i);
        assert_int_equal(uma_guard_trail_write(trail, &r, false), 0);
        for (uma_guard_trail_kept(trail, &kept); kept.written - before.written + 8 < (uint64_t)i; uma_guard_trail_kept(trail, &kept))
            (void)nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    }
}

static size_t read_all(const struct folder *f, struct uma_guard_trail_record **ret_list, size_t *ret_bad) {
    size_t n = 0;
    assert_int_equal(uma_guard_trail_read(in(f, "trail"), SIZE_MAX, ret_list, &n, ret_bad), 0);
    for (size_t i = 1; i < n; i++)
        assert_true((*ret_list)[i].number > (*ret_list)[i - 1].number);
    return n;
}

static struct uma_guard_trail *open_in(const struct folder *f) {
    const char *note = "";
    struct uma_guard_trail *trail = uma_guard_trail_open(f->path, &note);
    assert_non_null(trail);
    assert_null(note);
    return trail;
}

static void written_and_read(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_trail *trail = open_in(&f);
    struct uma_guard_trail_record start = { .kind = UMA_GUARD_TRAIL_START, .text = "started" }, r = decision(42);
    assert_int_equal(uma_guard_trail_write(trail, &start, false), 0);
    int w = uma_guard_trail_write(trail, &r, true);
    assert_true(w == 0 || w == -ETIMEDOUT); /* a slow disk */
    assert_int_equal(r.number, 2);
    uma_guard_trail_close(trail);
    struct stat st;
    assert_int_equal(stat(in(&f, "trail"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_true(st.st_blocks * 512 >= (8 << 20)); /* preallocated */

    _cleanup_free_
    struct uma_guard_trail_record *list = NULL;
    size_t bad = 9;
    assert_int_equal(read_all(&f, &list, &bad), 2);
    assert_int_equal(bad, 0);
    assert_string_equal(list[0].text, "started");
    assert_memory_equal(&list[1], &r, sizeof(r));
    assert_true(list[1].real > 0 && list[1].monotonic > 0);
    uint8_t none[16] = { 0 };
    assert_memory_not_equal(list[1].boot, none, 16);
}

/* Numbers go on over a restart, and the ring keeps the newest. */
static void goes_on_and_around(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_trail *trail = open_in(&f);
    quick = 1; /* four thousand syncs take some disks their time */
    write_some(trail, 1, UMA_GUARD_TRAIL_RECORDS + 100);
    uma_guard_trail_close(trail);
    trail = open_in(&f);
    write_some(trail, UMA_GUARD_TRAIL_RECORDS + 101, 50);
    struct uma_guard_kept kept;
    uma_guard_trail_kept(trail, &kept);
    assert_true(kept.open && kept.failed == 0);
    uma_guard_trail_close(trail);
    quick = 0;
    _cleanup_free_
    struct uma_guard_trail_record *list = NULL;
    size_t bad = 9, n = read_all(&f, &list, &bad);
    assert_int_equal(n, UMA_GUARD_TRAIL_RECORDS);
    assert_int_equal(bad, 0);
    assert_int_equal(list[n - 1].number, UMA_GUARD_TRAIL_RECORDS + 150);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(list[i].decision.actions[0].pid, (int32_t)list[i].number);
    free(list);
    list = NULL;
    assert_int_equal(uma_guard_trail_read(in(&f, "trail"), 3, &list, &n, &bad), 0);
    assert_int_equal(n, 3);
    assert_int_equal(list[0].number, UMA_GUARD_TRAIL_RECORDS + 148);
}

static void put_at(const char *path, off_t at, const void *data, size_t n) {
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, n, at), (ssize_t)n);
}

/* A record cut at any 512 bytes of its writing is counted; all others are there, and the next guard goes on. */
static void cut_by_a_power_loss(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_trail *trail = open_in(&f);
    write_some(trail, 1, 20);
    uma_guard_trail_close(trail);
    static const uint8_t rubbish[UMA_GUARD_TRAIL_PLACE] = { 1, 2, 3 };
    for (off_t cut = 0; cut < (off_t)sizeof(struct uma_guard_trail_record); cut += 512) {
        off_t place = UMA_GUARD_TRAIL_START_OF_RECORDS + 7 * UMA_GUARD_TRAIL_PLACE;
        uint8_t before[UMA_GUARD_TRAIL_PLACE];
        int fd = open(in(&f, "trail"), O_RDONLY | O_CLOEXEC);
        assert_int_equal(pread(fd, before, sizeof(before), place), sizeof(before));
        assert_int_equal(close(fd), 0);
        put_at(in(&f, "trail"), place + cut, rubbish, sizeof(rubbish) - (size_t)cut);
        _cleanup_free_
        struct uma_guard_trail_record *list = NULL;
        size_t bad = 0;
        assert_int_equal(read_all(&f, &list, &bad), 19);
        assert_int_equal(bad, 1);
        for (size_t i = 0; i < 19; i++)
            assert_int_not_equal(list[i].number, 7);
        put_at(in(&f, "trail"), place, before, sizeof(before));
    }
    /* the newest one is cut: its number is given again */
    put_at(in(&f, "trail"), UMA_GUARD_TRAIL_START_OF_RECORDS + 20 * UMA_GUARD_TRAIL_PLACE + 100, rubbish, 8);
    trail = open_in(&f);
    write_some(trail, 20, 1);
    uma_guard_trail_close(trail);
    _cleanup_free_
    struct uma_guard_trail_record *list = NULL;
    size_t bad = 9;
    assert_int_equal(read_all(&f, &list, &bad), 20);
    assert_int_equal(bad, 0);
    assert_int_equal(list[19].number, 20);
}

/* Every length of a copy that was cut, about every place's edge; the file itself is begun anew when it is not whole. */
static void cut_file(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_trail *trail = open_in(&f);
    write_some(trail, 1, 6);
    uma_guard_trail_close(trail);
    enum { LENGTH = UMA_GUARD_TRAIL_START_OF_RECORDS + 8 * UMA_GUARD_TRAIL_PLACE };
    _cleanup_free_
    uint8_t *data = malloc(LENGTH);
    int fd = open(in(&f, "trail"), O_RDONLY | O_CLOEXEC);
    assert_non_null(data);
    assert_int_equal(pread(fd, data, LENGTH, 0), LENGTH);
    assert_int_equal(close(fd), 0);
    for (size_t length = 0; length <= LENGTH; length += length % 512 == 1 ? 510 : 1) {
        _cleanup_free_
        uint8_t *cut = malloc(length ? length : 1); /* exactly sized */
        _cleanup_free_
        struct uma_guard_trail_record *list = NULL;
        size_t n = 99, bad = 99;
        assert_non_null(cut);
        memcpy(cut, data, length);
        int r = uma_guard_trail_parse(cut, length, SIZE_MAX, &list, &n, &bad);
        if (length < sizeof(UMA_GUARD_TRAIL_HEAD)) {
            assert_int_equal(r, -EBADMSG);
            continue;
        }
        size_t places = length < UMA_GUARD_TRAIL_START_OF_RECORDS ? 0 : (length - UMA_GUARD_TRAIL_START_OF_RECORDS) / UMA_GUARD_TRAIL_PLACE;
        assert_int_equal(r, 0);
        assert_int_equal(n, places == 0 ? 0 : places - 1 < 6 ? places - 1 : 6); /* place 0 is that of number 4096 */
    }
    assert_int_equal(truncate(in(&f, "trail"), LENGTH), 0);
    const char *note = NULL;
    trail = uma_guard_trail_open(f.path, &note);
    assert_non_null(strstr(note, ".old"));
    struct stat st;
    assert_int_equal(stat(in(&f, "trail.old"), &st), 0);
    assert_int_equal(st.st_size, LENGTH);
    uma_guard_trail_close(trail);
}

static void nothing_kept(struct uma_guard_trail *trail, const char *note, const char *why) {
    assert_non_null(trail);
    assert_non_null(note);
    assert_non_null(strstr(note, why));
    struct uma_guard_trail_record r = decision(1);
    assert_int_equal(uma_guard_trail_write(trail, &r, true), -ENODEV);
    struct uma_guard_kept kept;
    uma_guard_trail_kept(trail, &kept);
    assert_true(!kept.open && kept.lost == 1 && kept.written == 0);
    uma_guard_trail_close(trail);
}

static void two_guards(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_trail *first = open_in(&f);
    const char *note = NULL;
    struct uma_guard_trail *second = uma_guard_trail_open(f.path, &note);
    nothing_kept(second, note, "another guard");
    write_some(first, 1, 1);
    uma_guard_trail_close(first);
    first = open_in(&f); /* the lock went with it */
    uma_guard_trail_close(first);
    uma_guard_trail_close(NULL);
}

/* Another's file behind a link is neither read nor written; a pipe, or a file of another form, is moved away. */
static void hostile_folder(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    const char *note = NULL;
    nothing_kept(uma_guard_trail_open(NULL, &note), note = "no folder", "no folder");
    struct uma_guard_trail *trail = uma_guard_trail_open(in(&f, "not-there"), &note);
    nothing_kept(trail, note, "no such folder");

    folder_put(&f, "precious", "of another\n");
    char target[256];
    (void)snprintf(target, sizeof(target), "%s", in(&f, "precious"));
    assert_int_equal(symlink(target, in(&f, "trail")), 0);
    trail = uma_guard_trail_open(f.path, &note);
    nothing_kept(trail, note, "symbolic link");
    _cleanup_free_
    char *text = folder_get(&f, "precious", NULL);
    assert_string_equal(text, "of another\n");
    assert_int_equal(unlink(in(&f, "trail")), 0);

    assert_int_equal(mkfifo(in(&f, "trail"), 0600), 0);
    trail = uma_guard_trail_open(f.path, &note);
    assert_non_null(strstr(note, ".old"));
    write_some(trail, 1, 1);
    uma_guard_trail_close(trail);
    _cleanup_free_
    struct uma_guard_trail_record *list = NULL;
    size_t bad = 0;
    assert_int_equal(read_all(&f, &list, &bad), 1);

    /* of the right size, and another form */
    put_at(in(&f, "trail"), 60, "x", 1);
    trail = uma_guard_trail_open(f.path, &note);
    assert_non_null(strstr(note, ".old"));
    write_some(trail, 1, 1);
    uma_guard_trail_close(trail);
    struct uma_guard_trail_record *none = NULL;
    size_t n = 0;
    assert_int_equal(uma_guard_trail_read(in(&f, "precious"), 1, &none, &n, &bad), -EBADMSG);
    assert_int_equal(uma_guard_trail_read(f.path, 1, &none, &n, &bad), -EBADMSG);
    assert_int_equal(uma_guard_trail_read(in(&f, "nothing"), 1, &none, &n, &bad), -ENOENT);
}

/* A disk that hangs keeps the guard for the wait and no longer, records are lost and counted, and the end of the guard is bounded too. */
static void disk_hangs(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_trail *trail = open_in(&f);
    hang = 1;
    struct timespec before, after;
    struct uma_guard_trail_record r = decision(1);
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(uma_guard_trail_write(trail, &r, true), -ETIMEDOUT);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    double took = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    assert_true(took >= 0.0019 && took < 1); /* 2 ms; a loaded machine may take its time to wake us */
    int lost = 0, w = 0;
    for (int i = 0; i < 64; i++) {
        r = decision(2 + i);
        w = uma_guard_trail_write(trail, &r, false);
        assert_true(w == 0 || w == -EAGAIN);
        lost += w == -EAGAIN;
    }
    assert_true(lost >= 64 - 33 && lost < 64); /* 16 wait; 16 more are in the sync that hangs where the thread began late; and the first */
    struct uma_guard_kept kept;
    uma_guard_trail_kept(trail, &kept);
    assert_int_equal(kept.lost, lost);
    assert_int_equal(kept.late, 1);
    hang = 0; /* it is back: what waited is written */
    uma_guard_trail_close(trail);
    _cleanup_free_
    struct uma_guard_trail_record *list = NULL;
    size_t bad = 9;
    assert_int_equal(read_all(&f, &list, &bad), 65 - (size_t)lost);
    assert_int_equal(bad, 0);
}

/* EIO of the sync, and EFBIG of a write in the place of a full disk, are told and counted. */
static void writes_fail(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    struct uma_guard_trail *trail = open_in(&f);
    struct uma_guard_kept kept;
    struct uma_guard_trail_record r = decision(1);
    fail = 1;
    int w = uma_guard_trail_write(trail, &r, true);
    assert_true(w == -EIO || w == -ETIMEDOUT);
    for (int i = 0; i < 2000 && (uma_guard_trail_kept(trail, &kept), kept.failed == 0); i++)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    fail = 0;
    assert_true(kept.failed == 1 && kept.error == EIO && kept.written == 0);

    struct rlimit limit, was;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = was;
    limit.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    w = uma_guard_trail_write(trail, &r, true);
    assert_true(w == -EFBIG || w == -ETIMEDOUT);
    for (int i = 0; i < 2000 && (uma_guard_trail_kept(trail, &kept), kept.failed == 1); i++)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_true(kept.failed == 2 && kept.error == EFBIG);

    write_some(trail, 3, 1); /* and it goes on */
    uma_guard_trail_close(trail);
    _cleanup_free_
    struct uma_guard_trail_record *list = NULL;
    size_t bad = 9;
    assert_true(read_all(&f, &list, &bad) >= 1);
}

/* A disk that is full when the guard starts leaves no half a file. */
static void full_disk(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { "" };
    assert_int_equal(folder_new(&f), 0);
    if (mount("none", f.path, "tmpfs", 0, "size=1m") < 0)
        SKIP_BECAUSE("it takes the right to mount");
    const char *note = NULL;
    struct uma_guard_trail *trail = uma_guard_trail_open(f.path, &note);
    bool left = access(in(&f, "trail"), F_OK) == 0;
    int r = umount(f.path);
    nothing_kept(trail, note, "no room");
    assert_false(left);
    assert_int_equal(r, 0);
}

/* A valid sum does not make a record fine: each of these would be trouble for whoever uses it as the struct that it is. */
static void sums_are_not_enough(void **state) {
    (void)state;
    _Alignas(8) uint8_t place[UMA_GUARD_TRAIL_PLACE] = { 0 };
    struct uma_guard_trail_record *r = (void *)place;
    for (int i = 0; i < 12; i++) {
        *r = decision(5);
        r->magic = UMA_GUARD_TRAIL_MAGIC;
        r->number = 5;
        switch (i) {
        case 1:
            r->decision.n = UMA_GUARD_ACTIONS + 1;
            break;
        case 2:
            r->decision.n_candidates = UINT32_MAX;
            break;
        case 3:
            *(uint8_t *)&r->decision.want_processes = 2;
            break;
        case 4:
            *(uint8_t *)&r->decision.candidates[7].gpu_known = 255;
            break;
        case 5:
            memset(r->decision.candidates[3].name, 'a', UMA_GUARD_NAME_MAX);
            break;
        case 6:
            memset(r->text, 'a', sizeof(r->text));
            break;
        case 7:
            r->kind = UMA_GUARD_TRAIL_NOTE + 1;
            break;
        case 8:
            r->decision.actions[0].kind = (enum uma_guard_action_kind)99;
            break;
        case 9:
            r->number = (1ull << 60) + 5;
            break;
        case 10:
            r->dry_run = 2;
            break;
        case 11:
            r->number = 6;
            break;
        default:
            break;
        }
        r->checksum = uma_guard_checksum(0, r, offsetof(struct uma_guard_trail_record, checksum));
        assert_int_equal(uma_guard_trail_record_fine(place, 5), i == 0);
    }
}

/* Random damage all over: no crash, and what is returned is whole. */
static void random_damage(void **state) {
    (void)state;
    enum { LENGTH = UMA_GUARD_TRAIL_START_OF_RECORDS + 40 * UMA_GUARD_TRAIL_PLACE };
    _cleanup_free_
    uint8_t *data = calloc(1, LENGTH);
    assert_non_null(data);
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        memset(data, 0, LENGTH);
        memcpy(data, UMA_GUARD_TRAIL_HEAD, sizeof(UMA_GUARD_TRAIL_HEAD));
        bool hit[40] = { false };
        for (int32_t i = 1; i < 40; i++) {
            struct uma_guard_trail_record r = decision(i);
            r.magic = UMA_GUARD_TRAIL_MAGIC;
            r.number = (uint64_t)i;
            r.checksum = uma_guard_checksum(0, &r, offsetof(struct uma_guard_trail_record, checksum));
            memcpy(data + UMA_GUARD_TRAIL_START_OF_RECORDS + i * UMA_GUARD_TRAIL_PLACE, &r, sizeof(r));
        }
        for (int i = 0; i < round; i++) {
            seed = seed * 1664525u + 1013904223u;
            size_t at = UMA_GUARD_TRAIL_START_OF_RECORDS + (seed >> 4) % (40 * UMA_GUARD_TRAIL_PLACE);
            uint8_t bits = (uint8_t)(seed >> 24 | 1);
            data[at] ^= bits;
            size_t place = (at - UMA_GUARD_TRAIL_START_OF_RECORDS) / UMA_GUARD_TRAIL_PLACE;
            if ((at - UMA_GUARD_TRAIL_START_OF_RECORDS) % UMA_GUARD_TRAIL_PLACE < sizeof(struct uma_guard_trail_record))
                hit[place] = true;
        }
        size_t whole = 0, n = 0, bad = 0, seen = 0;
        for (size_t i = 1; i < 40; i++)
            whole += !hit[i];
        _cleanup_free_
        struct uma_guard_trail_record *list = NULL;
        assert_int_equal(uma_guard_trail_parse(data, LENGTH, SIZE_MAX, &list, &n, &bad), 0);
        for (size_t i = 0; i < n; i++)
            seen += !hit[list[i].number];
        assert_int_equal(seen, whole); /* two hits on one byte may undo each other */
    }
}

int main(void) {
    (void)signal(SIGXFSZ, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read),    cmocka_unit_test(goes_on_and_around),
        cmocka_unit_test(cut_by_a_power_loss), cmocka_unit_test(cut_file),
        cmocka_unit_test(two_guards),          cmocka_unit_test(hostile_folder),
        cmocka_unit_test(disk_hangs),          cmocka_unit_test(writes_fail),
        cmocka_unit_test(full_disk),           cmocka_unit_test(sums_are_not_enough),
        cmocka_unit_test(random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
