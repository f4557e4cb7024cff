/* SPDX-License-Identifier: MIT */
/* A register of reservations as whoever may write it left it: what is accepted stays in its bounds, and so do the sums. Its tail, after a zero byte, is also the list of own claims. */
#include "job/claims.h"
#include "valve/reservations.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void own_claims(const uint8_t *data, size_t size) {
    uint64_t own[UMA_OWN_CLAIMS_MAX];
    char *text = malloc(size + 1);
    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    unsigned n = uma_own_claims_parse(text, own);
    if (n > UMA_OWN_CLAIMS_MAX || uma_own_claims_have(own, n, 0))
        abort();
    free(text);
}

static void sums(const struct uma_reservations *all) {
    static struct uma_claim_seen list[UMA_CLAIMS_MAX];
    struct uma_claims claims = { .list = list }, none = { 0 };
    for (uint32_t i = 0; i < all->head.n_used; i++) {
        uint64_t unspent = uma_reservation_unspent(&all->claims[i]);
        if (unspent > all->claims[i].reserved || strlen(all->claims[i].name) >= UMA_CLAIM_NAME_MAX)
            abort();
        list[claims.n++] = (struct uma_claim_seen){
            .id = all->claims[i].id, .reserved = all->claims[i].reserved, .taken = all->claims[i].taken, .unspent = unspent
        };
    }
    const uint64_t most = UINT64_C(1) << 40;
    uint64_t sum = uma_claims_unspent(&claims, most);
    if (sum > most || uma_claims_unspent_since(&claims, &claims, 0, most) < sum || uma_claims_unspent_since(&none, &claims, 0, most) < sum)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct uma_reservations all, again;
    size_t n = size < sizeof(all) ? size : sizeof(all);
    memset(&all, 0xee, sizeof(all));
    memcpy(&all, data, n);
    bool is = uma_reservations_check(&all, n);
    if (is)
        sums(&all);
    int fd = memfd_create("register", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, data, n) == (ssize_t)n && uma_reservations_read(fd, &again)) {
        if (!is || again.head.n_used > UMA_CLAIMS_MAX)
            abort();
        sums(&again);
    }
    if (fd >= 0)
        (void)close(fd);
    own_claims(data, size);
    return 0;
}
