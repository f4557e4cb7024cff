/* SPDX-License-Identifier: MIT */
/* account.c - what one snapshot means, put together. */
#include "account/gpu_share.h"
#include "account/headroom.h"
#include "account/holders.h"
#include "account/ledger.h"
#include "account/problems.h"
#include "account/views.h"
#include "base/arena.h"
#include "base/error.h"

/* Text and lists of one account: 64 holders and 32 problems are some tens of KiB; the table of GPU processes is the rest. */
static const size_t ARENA_MOST = (size_t)64 << 20;

int uma_account_build(const struct uma_snapshot *snapshot, uint64_t reserved, struct uma_account *ret_account, struct uma_error *err) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(ARENA_MOST);
    struct uma_account account = { 0 };
    struct uma_gpu_share share;
    struct uma_process_index index;
    if (!arena || uma_gpu_share_build(snapshot, arena, &share) < 0 || uma_process_index_build(snapshot, arena, &index) < 0)
        return uma_error_set(err, ENOMEM, "making the account");
    account.gpu_listed = share.listed && uma_usable(snapshot->gpus.source.validity);
    uma_ledger_build(snapshot, &share, &account.ledger);
    uma_headroom_build(snapshot, &share, &account.ledger, reserved, &account.headroom);
    if (uma_views_build(snapshot, arena, &account.views) < 0 ||
        uma_holders_build(snapshot, &share, &index, arena, &account.holders, &account.n_holders) < 0 ||
        uma_problems_build(snapshot, &share, &index, &account, arena) < 0)
        return uma_error_set(err, ENOMEM, "making the account");
    account.arena = TAKE_PTR(arena);
    *ret_account = account;
    return 0;
}

void uma_account_done(struct uma_account *account) {
    (void)uma_arena_free(account->arena);
    *account = (struct uma_account){ 0 };
}
