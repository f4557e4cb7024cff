/* SPDX-License-Identifier: MIT */
#include "guard/trail.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define LENGTH_MOST (UMA_GUARD_TRAIL_START_OF_RECORDS + (size_t)UMA_GUARD_TRAIL_RECORDS * UMA_GUARD_TRAIL_PLACE)

struct found {
    uint64_t number;
    const uint8_t *data;
};

static int by_number(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static bool is_empty(const uint8_t *data) {
    for (size_t i = 0; i < UMA_GUARD_TRAIL_PLACE; i++)
        if (data[i])
            return false;
    return true;
}

/* Two valid records of one number cannot be: a number has one place. */
static size_t find(const uint8_t *data, size_t length, struct found *list, size_t *ret_bad) {
    size_t n = 0, bad = 0;
    for (size_t i = 0; i < UMA_GUARD_TRAIL_RECORDS; i++) {
        size_t at = UMA_GUARD_TRAIL_START_OF_RECORDS + i * UMA_GUARD_TRAIL_PLACE;
        if (at + UMA_GUARD_TRAIL_PLACE > length) {
            bad += at < length; /* the end of a file that was cut */
            break;
        }
        if (uma_guard_trail_record_fine(data + at, i)) {
            memcpy(&list[n].number, data + at + offsetof(struct uma_guard_trail_record, number), sizeof(list[n].number));
            list[n++].data = data + at;
        } else {
            bad += !is_empty(data + at);
        }
    }
    *ret_bad = bad;
    return n;
}

int uma_guard_trail_parse(const void *data, size_t length, size_t max, struct uma_guard_trail_record **ret_list, size_t *ret_n,
                          size_t *ret_bad) {
    if (length < sizeof(UMA_GUARD_TRAIL_HEAD) || memcmp(data, UMA_GUARD_TRAIL_HEAD, sizeof(UMA_GUARD_TRAIL_HEAD)) != 0)
        return -EBADMSG;
    _cleanup_free_
    struct found *found = calloc(UMA_GUARD_TRAIL_RECORDS, sizeof(*found));
    if (!found)
        return -ENOMEM;
    size_t bad, n = find(data, length, found, &bad), first = n > max ? n - max : 0;
    qsort(found, n, sizeof(*found), by_number);
    struct uma_guard_trail_record *list = calloc(n - first ? n - first : 1, sizeof(*list));
    if (!list)
        return -ENOMEM;
    for (size_t i = first; i < n; i++)
        memcpy(&list[i - first], found[i].data, sizeof(*list));
    *ret_list = list;
    *ret_n = n - first;
    *ret_bad = bad;
    return 0;
}

int uma_guard_trail_read(const char *path, size_t max, struct uma_guard_trail_record **ret_list, size_t *ret_n, size_t *ret_bad) {
    _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EBADMSG;
    size_t most = (uint64_t)st.st_size < LENGTH_MOST ? (size_t)st.st_size : LENGTH_MOST, length = 0;
    _cleanup_free_
    uint8_t *data = malloc(most ? most : 1);
    if (!data)
        return -ENOMEM;
    while (length < most) {
        ssize_t r = pread(fd, data + length, most - length, (off_t)length);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -errno;
        if (r == 0)
            break;
        length += (size_t)r;
    }
    return uma_guard_trail_parse(data, length, max, ret_list, ret_n, ret_bad);
}
