/* SPDX-License-Identifier: MIT */
#include "valve/reservations.h"

#include "valve/call.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

enum { FIRST_CLAIMS = 15 }; /* with the head a KiB: few machines run more jobs than that at a time, and one call reads it */

bool uma_reservations_accept(int fd, uint32_t uid, const char **ret_why) {
    struct uma_valve_statx st;
    *ret_why = NULL;
    if (!uma_valve_stat(fd, "", UMA_VALVE_AT_EMPTY_PATH, &st))
        *ret_why = "cannot be looked at";
    else if (!S_ISREG(st.mode))
        *ret_why = "not a plain file";
    else if (st.uid != uid)
        *ret_why = "another user's file";
    else if (st.nlink > 1) /* 0: it was removed, and those who have it open may go on */
        *ret_why = "it has another name, too";
    else if (st.size != sizeof(struct uma_reservations))
        *ret_why = "not of the size of a register of reservations";
    return !*ret_why;
}

bool uma_reservations_check(struct uma_reservations *reservations, uint64_t size) {
    struct uma_reservations_head *head = &reservations->head;
    if (size < sizeof(*head) || head->magic != UMA_RESERVATIONS_MAGIC || head->size != sizeof(*reservations))
        return false;
    uint64_t there = (size - sizeof(*head)) / sizeof(reservations->claims[0]);
    if (there > UMA_CLAIMS_MAX)
        there = UMA_CLAIMS_MAX;
    if (head->n_used > there)
        head->n_used = (uint32_t)there;
    for (uint32_t i = 0; i < head->n_used; i++)
        reservations->claims[i].name[UMA_CLAIM_NAME_MAX - 1] = '\0';
    return true;
}

bool uma_reservations_read(int fd, struct uma_reservations *ret) {
    const size_t first = sizeof(ret->head) + FIRST_CLAIMS * sizeof(ret->claims[0]);
    ssize_t n = pread(fd, ret, first, 0);
    if (n != (ssize_t)first)
        return false;
    uint32_t used = ret->head.n_used < UMA_CLAIMS_MAX ? ret->head.n_used : UMA_CLAIMS_MAX;
    if (used > FIRST_CLAIMS) {
        size_t more = (used - FIRST_CLAIMS) * sizeof(ret->claims[0]);
        if (pread(fd, &ret->claims[FIRST_CLAIMS], more, (off_t)first) != (ssize_t)more)
            return false;
        n += (ssize_t)more;
    }
    return uma_reservations_check(ret, (uint64_t)n);
}

bool uma_reservation_lives(int fd, unsigned slot) {
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = UMA_CLAIM_LOCKS + (off_t)slot, .l_len = 1 };
    /* other users can only read the file, and so hold no lock but a reader's, which an owner's never is and never stands beside */
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

unsigned uma_own_claims_parse(const char *text, uint64_t ret[UMA_OWN_CLAIMS_MAX]) {
    unsigned n = 0;
    while (text && n < UMA_OWN_CLAIMS_MAX) {
        uint64_t id = 0;
        unsigned digits = 0;
        for (; digits < 16 && digit(*text) >= 0; text++, digits++)
            id = id << 4 | (uint64_t)digit(*text);
        if (digits == 0 || id == 0 || (*text != ',' && *text != '\0'))
            break;
        ret[n++] = id;
        if (*text++ == '\0')
            break;
    }
    return n;
}
