/* SPDX-License-Identifier: MIT */
#include "guard/checksum.h"
#include "guard/recording.h"
#include "guard/recording_code.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What every reader relies on. */
static int each(void *userdata, const struct uma_guard_view *view, int64_t real_time) {
    (void)real_time;
    const struct uma_guard_reading *r = view->now;
    if (r->time < 0 || r->boot < 0 || r->gap > 1 || r->free >> 62 > 1 || r->available >> 62 > 1)
        abort();
    if (view->n_processes > UMA_GUARD_RECORDED_PROCESSES || view->n_envelopes > UMA_GUARD_ENVELOPES)
        abort();
    for (size_t i = 0; i < view->n_processes; i++) {
        const struct uma_guard_process *p = &view->processes[i];
        if (p->tree < 0 || (size_t)p->tree >= view->n_processes || p->envelope < -1 || p->envelope >= (int32_t)view->n_envelopes ||
            p->pid < 0 || strnlen(p->name, UMA_GUARD_NAME_MAX) == UMA_GUARD_NAME_MAX)
            abort();
    }
    size_t *n = userdata;
    return ++*n > 100000 ? -1 : 0; /* no block has so many: it would be a loop */
}

/* The input as the entries of a block that is otherwise as it is to be, sealed: else no input gets behind the sums. */
static size_t as_block(uint8_t *block, const uint8_t *data, size_t size) {
    struct uma_guard_block_head head = { .magic = UMA_GUARD_BLOCK_MAGIC, .sequence = 1 };
    size_t most = UMA_GUARD_BLOCK - sizeof(head) - UMA_GUARD_SEAL, n = size < most ? size : most;
    memset(block, 0, UMA_GUARD_BLOCK);
    memcpy(block, &head, sizeof(head));
    memcpy(block + sizeof(head), data, n);
    block[sizeof(head) + n] = UMA_GUARD_ENTRY_SEAL;
    uint32_t sum = uma_guard_checksum(0, block, sizeof(head) + n + 1);
    memcpy(block + sizeof(head) + n + 1, &sum, sizeof(sum));
    return UMA_GUARD_BLOCK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t block[UMA_GUARD_BLOCK];
    int fd = memfd_create("recording", MFD_CLOEXEC);
    size_t n = 0, bad = 0;
    if (fd < 0 || size == 0)
        goto end;
    if (data[0] & 1)
        size = as_block(block, data + 1, size - 1);
    const uint8_t *blocks = data[0] & 1 ? block : data;
    if (pwrite(fd, blocks, size, UMA_GUARD_BLOCK) != (ssize_t)size)
        goto end;
    int r = uma_guard_recording_replay_fd(fd, each, &n, &bad);
    if (r > 0 || n > 100000)
        abort();
end:
    if (fd >= 0)
        (void)close(fd);
    return 0;
}
