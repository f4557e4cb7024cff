/* SPDX-License-Identifier: MIT */
/* One reading for the commands of the page cache: of this machine, or what a snapshot or a folder has recorded. */
#include "cmd/cache.h"

#include "base/units.h"

/* Whose names users and containers go by, where model stores are, how much cache there is. */
#define LISTING_READS (UMA_READ_MEMORY | UMA_READ_PROCESSES | UMA_READ_PLATFORM)

static int read_live(const struct uma_page_cache_request *request, struct uma_cache_listing *listing, struct uma_error *err) {
    _cleanup_root_ struct uma_root *root = NULL;
    int r = uma_root_open(NULL, NULL, &root, err);
    if (r < 0)
        return r;
    int64_t start = uma_monotonic_ns();
    r = uma_page_cache_read(root, request, &listing->snapshot, listing->snapshot.arena, &listing->snapshot.page_cache, &listing->counts,
                            err);
    listing->seconds = (double)(uma_monotonic_ns() - start) / 1e9;
    return r;
}

int uma_cache_listing_read(const struct uma_common_options *common, const struct uma_page_cache_request *request,
                           struct uma_cache_listing *ret_listing, struct uma_error *err) {
    struct uma_cache_listing listing = { .recorded = common->from || common->root };
    struct uma_claims claims;
    uma_command_claims_read(common, &claims);
    int r = uma_command_snapshot_take(common, LISTING_READS | (listing.recorded ? UMA_READ_PAGE_CACHE : 0), &listing.snapshot, err);
    uint64_t reserved = r < 0 ? 0 : uma_command_reserved("cache", &claims, &listing.snapshot);
    uma_claims_done(&claims);
    if (r < 0)
        return r;
    if (!listing.recorded)
        r = read_live(request, &listing, err);
    else if (listing.snapshot.page_cache.source.validity == UMA_UNKNOWN)
        r = uma_error_text(err, ENODATA, "%s: holds no list of cached files, which `umactl snapshot` records",
                           common->from ? common->from : common->root);
    if (r >= 0)
        r = uma_account_build(&listing.snapshot, reserved, &listing.account, err);
    if (r < 0) {
        uma_cache_listing_done(&listing);
        return r;
    }
    *ret_listing = listing;
    return 0;
}

void uma_cache_listing_done(struct uma_cache_listing *listing) {
    uma_account_done(&listing->account);
    uma_snapshot_done(&listing->snapshot);
}
