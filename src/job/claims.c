/* SPDX-License-Identifier: MIT */
#include "job/claims.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MAX = 1024 /* registers, one a user; what is more is somebody's joke */ };

/* "umactl-reservations-1000": 1000, written as umactl writes it. */
static bool uid_of(const char *name, uint32_t *ret_uid) {
    const char *s = name + strlen(UMA_RESERVATIONS_NAME);
    uint64_t uid = 0;
    if (strncmp(name, UMA_RESERVATIONS_NAME, strlen(UMA_RESERVATIONS_NAME)) != 0 || !*s || (*s == '0' && s[1]))
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        uid = uid * 10 + (uint64_t)(*s - '0');
        if (uid > UINT32_MAX)
            return false;
    }
    *ret_uid = (uint32_t)uid;
    return true;
}

static void pass_over(struct uma_claims *claims, const char *name, const char *why) {
    if (claims->n_passed_over++ == 0) {
        (void)snprintf(claims->passed_over, sizeof(claims->passed_over), "%s", name);
        (void)snprintf(claims->why, sizeof(claims->why), "%s", why);
    }
}

static void add(struct uma_claims *claims, const struct uma_reservation *c, uint32_t uid, bool own) {
    struct uma_claim_seen *longer = reallocarray(claims->list, claims->n + 1, sizeof(*longer));
    if (!longer) {
        pass_over(claims, c->name, "no memory for it");
        return;
    }
    claims->list = longer;
    struct uma_claim_seen *seen = &claims->list[claims->n++];
    *seen = (struct uma_claim_seen){ .id = c->id,
                                     .reserved = c->reserved,
                                     .taken = c->taken,
                                     .unspent = uma_reservation_unspent(c),
                                     .uid = uid,
                                     .pid = c->pid,
                                     .own = own };
    (void)memcpy(seen->name, c->name, sizeof(seen->name));
}

static void read_register(int folder, const char *name, uint32_t uid, struct uma_claims *claims) {
    struct uma_reservations all = { .head.magic = 1 };
    uint64_t own[UMA_OWN_CLAIMS_MAX];
    unsigned n_own = uma_own_claims_parse(getenv(UMA_RESERVATION_VARIABLE), own);
    const char *why;
    _cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT)
            pass_over(claims, name, errno == ELOOP ? "a symbolic link" : strerror(errno));
        return;
    }
    if (!uma_reservations_accept(fd, uid, &why)) {
        struct stat st;
        if (fstat(fd, &st) < 0 || st.st_uid != uid || st.st_size != 0 || !S_ISREG(st.st_mode)) /* an empty one is being made */
            pass_over(claims, name, why);
        return;
    }
    if (!uma_reservations_read(fd, &all)) {
        if (all.head.magic != 0) /* else it is being made */
            pass_over(claims, name, "damaged");
        return;
    }
    for (unsigned i = 0; i < all.head.n_used; i++)
        if (all.claims[i].id && all.claims[i].reserved && uma_reservation_lives(fd, i))
            add(claims, &all.claims[i], uid, uma_own_claims_have(own, n_own, all.claims[i].id));
}

void uma_claims_read(const char *folder, struct uma_claims *ret_claims) {
    struct uma_claims claims = { 0 };
    _cleanup_closedir_ DIR *dir = opendir(folder);
    if (!dir && errno != ENOENT)
        pass_over(&claims, ".", strerror(errno)); /* told below the folder */
    unsigned n = 0;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        uint32_t uid;
        if (!uid_of(d->d_name, &uid))
            continue;
        if (++n > FILES_MAX) {
            pass_over(&claims, d->d_name, "there are too many");
            break;
        }
        read_register(dirfd(dir), d->d_name, uid, &claims);
    }
    *ret_claims = claims;
}

void uma_claims_done(struct uma_claims *claims) {
    free(claims->list);
    *claims = (struct uma_claims){ 0 };
}

static uint64_t plus(uint64_t a, uint64_t b, uint64_t most) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) || sum > most ? most : sum;
}

uint64_t uma_claims_unspent(const struct uma_claims *claims, uint64_t most) {
    uint64_t sum = 0;
    for (size_t i = 0; i < claims->n; i++)
        if (!claims->list[i].own)
            sum = plus(sum, claims->list[i].unspent, most);
    return sum;
}

static const struct uma_claim_seen *find(const struct uma_claims *claims, const struct uma_claim_seen *wanted) {
    for (size_t i = 0; i < claims->n; i++)
        if (claims->list[i].id == wanted->id && claims->list[i].uid == wanted->uid)
            return &claims->list[i];
    return NULL;
}

uint64_t uma_claims_unspent_since(const struct uma_claims *before, const struct uma_claims *now, uint64_t self, uint64_t most) {
    uint64_t sum = 0;
    for (size_t i = 0; i < now->n; i++) {
        const struct uma_claim_seen *claim = &now->list[i], *was = find(before, claim);
        if (!claim->own && (self == 0 || claim->id != self))
            sum = plus(sum, was ? MAX_OF(was->unspent, claim->unspent) : claim->reserved, most);
    }
    return sum;
}
