/* SPDX-License-Identifier: MIT */
#include "guard/recording.h"

#include "base/cleanup.h"
#include "guard/checksum.h"
#include "guard/recording_code.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCKS = UMA_GUARD_RECORDING_BYTES / UMA_GUARD_BLOCK - 1 };

struct found {
    uint64_t sequence;
    uint32_t place;
};

typedef int (*each_view)(void *userdata, const struct uma_guard_view *view, int64_t real_time);

/* What is known while going through the blocks. The tables outlive their block, and are forgotten where something is missing. */
struct replay {
    each_view each;
    void *userdata;
    bool gap; /* something is missing before the next reading */
    struct uma_guard_block_head head;
    struct uma_guard_reading base, now;
    size_t n_processes, n_envelopes;
    int64_t processes_time;
    struct uma_guard_process processes[UMA_GUARD_RECORDED_PROCESSES];
    struct uma_guard_envelope envelopes[UMA_GUARD_ENVELOPES];
    uint8_t block[UMA_GUARD_BLOCK];
};

static void forget(struct replay *r) {
    r->gap = true;
    r->n_processes = r->n_envelopes = 0;
    r->processes_time = 0;
}

static void get_processes(struct replay *r, struct uma_guard_from *from) {
    uint64_t time = uma_guard_get_number(from);
    size_t n = uma_guard_get_byte(from);
    if (n > UMA_GUARD_RECORDED_PROCESSES || time > INT64_MAX / 2)
        from->bad = true;
    for (size_t i = 0; i < n && !from->bad; i++)
        uma_guard_get_process(from, n, &r->processes[i]);
    r->n_processes = from->bad ? 0 : n;
    r->processes_time = from->bad ? 0 : (int64_t)time;
}

static void get_envelopes(struct replay *r, struct uma_guard_from *from) {
    size_t n = uma_guard_get_byte(from);
    if (n > UMA_GUARD_ENVELOPES)
        from->bad = true;
    for (size_t i = 0; i < n && !from->bad; i++)
        uma_guard_get_envelope(from, &r->envelopes[i]);
    r->n_envelopes = from->bad ? 0 : n;
}

static int tell(struct replay *r) {
    /* a job that a process names may have been beyond the list */
    for (size_t i = 0; i < r->n_processes; i++)
        if (r->processes[i].envelope >= (int32_t)r->n_envelopes)
            r->processes[i].envelope = -1;
    r->now.gap = r->now.gap || r->gap;
    r->gap = false;
    struct uma_guard_view view = {
        .now = &r->now,
        .processes = r->n_processes ? r->processes : NULL,
        .n_processes = r->n_processes,
        .processes_time = r->processes_time,
        .envelopes = r->n_envelopes ? r->envelopes : NULL,
        .n_envelopes = r->n_envelopes,
    };
    int64_t passed, real;
    if (__builtin_sub_overflow(r->now.boot, r->head.boottime, &passed) || __builtin_add_overflow(r->head.real, passed, &real))
        real = r->head.real;
    return r->each(r->userdata, &view, real);
}

/* Goes through the entries up to `end`; tells of the readings only when they are known to be whole. *ret_sealed: the end of the last seal that is right. */
static int walk(struct replay *r, size_t end, bool telling, size_t *ret_sealed) {
    const size_t head = sizeof(struct uma_guard_block_head);
    struct uma_guard_from from = { .at = r->block + head, .end = r->block + end };
    uint32_t sum = uma_guard_checksum(0, r->block, head);
    const uint8_t *summed = from.at;
    int result = 0;
    *ret_sealed = 0;
    r->base = (struct uma_guard_reading){ 0 };
    while (from.at < from.end && !from.bad && result == 0) {
        uint8_t entry = uma_guard_get_byte(&from);
        if (entry == UMA_GUARD_ENTRY_READING || entry == UMA_GUARD_ENTRY_DECIDED) {
            uma_guard_get_reading(&from, &r->base, &r->now);
            if (telling && !from.bad)
                result = tell(r);
        } else if (entry == UMA_GUARD_ENTRY_PROCESSES) {
            get_processes(r, &from);
        } else if (entry == UMA_GUARD_ENTRY_ENVELOPES) {
            get_envelopes(r, &from);
        } else if (entry == UMA_GUARD_ENTRY_SEAL && (size_t)(from.end - from.at) >= sizeof(sum)) {
            sum = uma_guard_checksum(sum, summed, (size_t)(from.at - summed));
            if (memcmp(&sum, from.at, sizeof(sum)) != 0)
                break;
            summed = from.at;
            from.at += sizeof(sum);
            *ret_sealed = (size_t)(from.at - r->block);
        } else {
            break; /* the end, or what no writer wrote */
        }
    }
    return result;
}

static int64_t read_at(int fd, void *into, size_t length, uint64_t at) {
    ssize_t r = 0;
    do
        r = pread(fd, into, length, (off_t)at);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

static bool is_empty(const uint8_t *data, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (data[i])
            return false;
    return true;
}

static int by_sequence(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* Every block that says which it is. *ret_bad: those that hold something and do not. */
static int list_blocks(int fd, struct replay *r, struct found *list, size_t *ret_n, size_t *ret_bad) {
    size_t n = 0, bad = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        int64_t got = read_at(fd, r->block, sizeof(r->block), UMA_GUARD_BLOCK * ((uint64_t)i + 1));
        if (got < 0)
            return (int)got;
        struct uma_guard_block_head head;
        memcpy(&head, r->block, sizeof(head));
        if (got == UMA_GUARD_BLOCK && head.magic == UMA_GUARD_BLOCK_MAGIC && head.sequence > 0 && head.sequence < UMA_GUARD_SEQUENCE_MOST &&
            (head.sequence - 1) % BLOCKS == i)
            list[n++] = (struct found){ head.sequence, i };
        else
            bad += got > 0 && !is_empty(r->block, (size_t)got);
        if (got < UMA_GUARD_BLOCK)
            break; /* the end of a copy that was cut */
    }
    *ret_n = n;
    *ret_bad = bad;
    return 0;
}

/* The views of one block. *ret_fine: it has any that are whole. */
static int replay_block(int fd, struct replay *r, struct replay *check, const struct found *found, bool *ret_fine) {
    struct uma_guard_block_head head;
    size_t sealed = 0, again;
    *ret_fine = false;
    int64_t got = read_at(fd, r->block, sizeof(r->block), UMA_GUARD_BLOCK * ((uint64_t)found->place + 1));
    if (got < 0)
        return (int)got;
    memcpy(&head, r->block, sizeof(head));
    /* the guard goes on while it is read: what was the oldest block may be the newest by now */
    if (got == UMA_GUARD_BLOCK && head.magic == UMA_GUARD_BLOCK_MAGIC && head.sequence == found->sequence) {
        memcpy(check->block, r->block, sizeof(r->block));
        (void)walk(check, sizeof(r->block), false, &sealed);
    }
    if (sealed == 0) {
        forget(r);
        return 0;
    }
    if (head.sequence != r->head.sequence + 1 || memcmp(head.boot, r->head.boot, sizeof(head.boot)) != 0)
        forget(r);
    *ret_fine = true;
    r->head = head;
    return walk(r, sealed, true, &again);
}

static int replay_all(int fd, struct replay *two, struct found *list, size_t *ret_bad) {
    size_t n = 0, bad = 0;
    uint8_t first[sizeof(UMA_GUARD_RECORDING_HEAD)];
    int64_t got = read_at(fd, first, sizeof(first), 0);
    int result = list_blocks(fd, &two[0], list, &n, &bad);
    if (got < 0 || result < 0)
        return got < 0 ? (int)got : result;
    /* one whose head was lost is one all the same while it has blocks */
    if (n == 0 && (got != (int64_t)sizeof(first) || memcmp(first, UMA_GUARD_RECORDING_HEAD, sizeof(first)) != 0))
        return -EBADMSG;
    qsort(list, n, sizeof(*list), by_sequence);
    forget(&two[0]);
    for (size_t i = 0; i < n && result == 0; i++) {
        bool fine;
        result = replay_block(fd, &two[0], &two[1], &list[i], &fine);
        bad += !fine && result == 0;
    }
    *ret_bad = bad;
    return result;
}

int uma_guard_recording_replay_fd(int fd, each_view each, void *userdata, size_t *ret_bad) {
    _cleanup_free_
    struct replay *two = calloc(2, sizeof(*two)); /* one that tells, one that only looks whether a block is whole */
    _cleanup_free_
    struct found *list = calloc(BLOCKS, sizeof(*list));
    if (!two || !list)
        return -ENOMEM;
    two[0].each = each;
    two[0].userdata = userdata;
    return replay_all(fd, two, list, ret_bad);
}

int uma_guard_recording_replay(const char *path, each_view each, void *userdata, size_t *ret_bad) {
    _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? uma_guard_recording_replay_fd(fd, each, userdata, ret_bad) : -EBADMSG;
}
