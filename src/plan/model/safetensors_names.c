/* SPDX-License-Identifier: MIT */
#include "plan/model/safetensors_names.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t rotate(uint64_t x, unsigned n) {
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static void sip_block(uint64_t v[4], uint64_t block) {
    v[3] ^= block;
    sip_round(v);
    v[0] ^= block;
}

static uint64_t hash(const uint64_t key[2], const char *s, size_t n) {
    /* SipHash's initial values are the text "somepseudorandomlygeneratedbytes" */
    uint64_t v[4] = { key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d), key[0] ^ UINT64_C(0x6c7967656e657261),
                      key[1] ^ UINT64_C(0x7465646279746573) };
    uint64_t block;
    size_t at = 0;
    for (; n - at >= 8; at += 8) {
        (void)memcpy(&block, s + at, 8);
        sip_block(v, block);
    }
    block = (uint64_t)n << 56;
    for (size_t i = 0; at + i < n; i++)
        block |= (uint64_t)(unsigned char)s[at + i] << 8 * i;
    sip_block(v, block);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    uint64_t h = v[0] ^ v[1] ^ v[2] ^ v[3];
    return h ? h : 1;
}

static void make_key(struct uma_safetensors_names *names) {
    /* early in boot there may be no randomness yet; the time is then better than waiting for it */
    if (getrandom(names->key, sizeof(names->key), GRND_NONBLOCK) == (ssize_t)sizeof(names->key))
        return;
    struct timespec now = { 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    names->key[0] = (uint64_t)now.tv_nsec;
    names->key[1] = (uint64_t)now.tv_sec;
}

/* The place of a hash, or the free one where it belongs. */
static size_t place_of(const uint64_t *hashes, size_t capacity, uint64_t h) {
    size_t at = (size_t)h & (capacity - 1);
    while (hashes[at] && hashes[at] != h)
        at = (at + 1) & (capacity - 1);
    return at;
}

static int grow(struct uma_safetensors_names *names) {
    size_t capacity = names->capacity ? names->capacity * 2 : 4096;
    _cleanup_free_
    uint64_t *hashes = calloc(capacity, sizeof(*hashes));
    _cleanup_free_
    uint32_t *files = calloc(capacity, sizeof(*files));
    if (!hashes || !files)
        return -ENOMEM;
    for (size_t i = 0; i < names->capacity; i++) {
        if (!names->hashes[i])
            continue;
        size_t at = place_of(hashes, capacity, names->hashes[i]);
        hashes[at] = names->hashes[i];
        files[at] = names->files[i];
    }
    free(names->hashes);
    free(names->files);
    names->hashes = TAKE_PTR(hashes);
    names->files = TAKE_PTR(files);
    names->capacity = capacity;
    return 0;
}

int uma_safetensors_names_add(struct uma_safetensors_names *names, const char *name, size_t length, uint32_t file, uint32_t *ret_file) {
    if (names->capacity == 0)
        make_key(names);
    if (names->count >= names->capacity / 4 * 3 && names->count < UMA_SAFETENSORS_NAMES_MAX) {
        int r = grow(names);
        if (r < 0)
            return r;
    }
    uint64_t h = hash(names->key, name, length);
    size_t at = place_of(names->hashes, names->capacity, h);
    if (names->hashes[at]) {
        *ret_file = names->files[at];
        return 1;
    }
    if (names->count == UMA_SAFETENSORS_NAMES_MAX)
        return -E2BIG;
    names->hashes[at] = h;
    names->files[at] = file;
    names->count++;
    return 0;
}

void uma_safetensors_names_done(struct uma_safetensors_names *names) {
    free(names->hashes);
    free(names->files);
    *names = (struct uma_safetensors_names){ 0 };
}
