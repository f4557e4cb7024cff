/* SPDX-License-Identifier: MIT */
#include "valve/room.h"

#include "valve/call.h"
#include "valve/numbers.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <time.h>

static int64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- the node's helper ---- */

static bool ask_helper(struct uma_valve_account *account, uint64_t wanted, uint64_t *ret_given) {
    int64_t until = now_ns() + UMA_VALVE_ROOM_NS;
    if (!atomic_load(&account->helper))
        return false;
    atomic_store(&account->wanted, wanted);
    uint32_t question = atomic_fetch_add(&account->asked, 1) + 1;
    (void)syscall(SYS_futex, &account->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    for (;;) {
        uint32_t answered = atomic_load(&account->answered);
        if ((int32_t)(answered - question) >= 0) { /* or a later one: what was evicted for it is free for this one, too */
            *ret_given = atomic_load(&account->given);
            return true;
        }
        int64_t left = until - now_ns();
        if (left <= 0) {
            atomic_store(&account->helper, 0); /* killed or stopped, as it seems: the next call does not wait for it */
            return false;
        }
        struct timespec wait = { .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };
        (void)syscall(SYS_futex, &account->answered, FUTEX_WAIT, answered, &wait, NULL, 0);
    }
}

/* ---- this process's own files ---- */

bool uma_valve_is_weight_file(const char *path) {
    static const char *const ends[] = { ".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".ggml" };
    size_t n = strlen(path);
    for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t m = strlen(ends[i]);
        if (n > m && memcmp(path + n - m, ends[i], m) == 0)
            return true;
    }
    return strstr(path, "/blobs/") != NULL; /* Ollama's and the hub's go by their digests */
}

static void evict(int fd) {
    (void)syscall(SYS_fadvise64, fd, (off_t)0, (off_t)0, POSIX_FADV_DONTNEED);
}

/* `userdata`: until when. */
static bool evict_descriptor(int folder, const char *name, void *userdata) {
    char path[512];
    ssize_t n = readlinkat(folder, name, path, sizeof(path) - 1);
    int fd = 0;
    for (const char *s = name; *s >= '0' && *s <= '9'; s++)
        fd = fd * 10 + (*s - '0');
    path[n > 0 ? n : 0] = '\0';
    if (uma_valve_is_weight_file(path))
        evict(fd);
    return now_ns() >= *(const int64_t *)userdata;
}

static void evict_open(int64_t until) {
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return;
    (void)uma_valve_each_number(folder, evict_descriptor, &until);
    (void)close(folder);
}

/* A line of /proc/self/maps whose path is a weight file: opened by its name, which may be another's by now; evicting a clean file that is not in use harms nobody. */
static void evict_line(char *line) {
    char *path = strchr(line, '/');
    if (!path || !uma_valve_is_weight_file(path))
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) {
        evict(fd);
        (void)close(fd);
    }
}

static void evict_mapped(int64_t until) {
    char text[4096];
    size_t n = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    for (;;) {
        ssize_t more = read(fd, text + n, sizeof(text) - 1 - n);
        if (more <= 0 || now_ns() > until)
            break;
        n += (size_t)more;
        char *start = text, *end;
        while ((end = memchr(start, '\n', n - (size_t)(start - text)))) {
            *end = '\0';
            evict_line(start);
            start = end + 1;
        }
        n -= (size_t)(start - text);
        (void)memmove(text, start, n);
        if (n == sizeof(text) - 1)
            n = 0; /* a path longer than this is passed over */
    }
    (void)close(fd);
}

uint64_t uma_valve_make_room(struct uma_valve_process *process, uint64_t wanted) {
    struct uma_valve_reading before, after;
    uint64_t given = 0;
    bool known = uma_valve_process_read(process, &before);
    if (ask_helper(process->account, wanted, &given) && given >= wanted)
        return given;
    int64_t until = now_ns() + UMA_VALVE_ROOM_NS;
    evict_open(until);
    evict_mapped(until);
    /* a helper that was too slow to answer may have made room all the same */
    if (known && uma_valve_process_read(process, &after) && after.free > before.free && after.free - before.free > given)
        given = after.free - before.free;
    return given;
}
