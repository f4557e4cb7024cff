/* SPDX-License-Identifier: MIT */
#include "guard/danger.h"

#include "base/units.h"

#include <math.h>

/*
 * The windows that the rate is taken over. 200 ms is long enough that a driver which takes memory in lumps of a GiB (one call per tensor) looks as fast as it is, and short enough: a fall that begins so near that the
 * line is 50 ms away is seen after 15 ms, because the mean over the window times the horizon (0.5 s) grows 2.5 times as fast as the headroom shrinks. The longer one sees what is too slow for it.
 */
#define WINDOW (200 * UMA_MILLISECOND_NS)
#define WINDOW_LONG UMA_SECOND_NS
/* Stalls and pressure come in bursts; over a second a single one is small. */
#define WINDOW_STALL UMA_SECOND_NS

/*
 * 1/2048 of the memory, 61 MiB of 122 GiB: what programs that do nothing take and give back within a second (107 MiB in 5 s were recorded). At least 256 KiB, the steps of the counters of 2 to 64 processors.
 */
uint64_t uma_guard_jitter(uint64_t total) {
    uint64_t jitter = total / 2048, least = (uint64_t)256 << 10;
    return jitter > least ? jitter : least;
}

/* A drift must be half as large as what a machine wanders by itself: who grew by so much over the same time is looked for then, so that wandering alone accuses nobody. */
enum { DRIFT_SHARE = 2 };

/*
 * Stalls. allocstall counts the times that a program had to free pages itself: a machine with room has none, one that reads large files has a few a second.
 * PSI: 5 % of the time; systemd-oomd takes 60 % over 30 s, when it is over; it stays at 0 until the very end where a driver takes the memory, so that it can only confirm.
 * Swap: 1,000 pages a second are 4 MiB/s, which no program that merely wakes up keeps up for a second. Vain: a page in ten that were looked at; the kernel calls a zone hopeless much later.
 */
#define ALLOCSTALLS 10.0
#define ALLOCSTALLS_ALONE 100.0 /* where nothing else is known */
#define PRESSURE 0.05
#define SWAP_INS 1000.0
#define COMPACT_STALLS 10.0
#define VAIN_SHARE 0.1
#define VAIN_LEAST 1000.0 /* pages looked at a second */

/* Free memory in blocks of 2 MiB and more (order 9 with pages of 4 KiB), which the driver asks for first: below 1/256 of the memory it has to gather small ones. */
enum { BLOCK_ORDER = 9, BLOCK_SHARE = 256 };
/* Clean cache is plenty where it is twice what is to be freed: some of it is in use. */
enum { CACHE_TIMES = 2 };

/* How fast memory can go: the whole of it in 6 s (20 GB/s on 128 GB; faster was not seen: the driver clears what it takes). So that no more than an eighth of what is left goes between two looks. */
#define WHOLE_SECONDS 6.0
#define LOOK_SHARE 8.0
/*
 * Least: less is below the 2 to 15 ms that a table of processes takes. Still: near the line while nothing falls, or a tree stands stopped: 20 GB/s are 0.4 GB in it, a tenth of the floor; where the machine stands so for hours it is
 * 0.05 % of a core. Most: the watchdog, the helper and the clock want no more.
 */
#define WAKE_LEAST (10 * UMA_MILLISECOND_NS)
#define WAKE_MOST UMA_SECOND_NS
#define WAKE_STILL (20 * UMA_MILLISECOND_NS)

/* ---- movement ------------------------------------------------------------------------------------------------- */

/* Over a window, but of nothing before `since`. More than jitter, and no single step where there are several. */
static bool fall_over(const struct uma_guard_history *h, int64_t window, int64_t since, uint64_t jitter, double *ret_rate) {
    struct uma_guard_rates r, last;
    int64_t now = uma_guard_history_get(h, 0)->time;
    if (since > 0 && now - since < window)
        uma_guard_history_rates_since(h, since, &r);
    else
        uma_guard_history_rates(h, window, &r);
    if (!r.known || r.available >= 0)
        return false;
    double fallen = -r.available * (double)r.span_ns / (double)UMA_SECOND_NS;
    *ret_rate = r.available;
    if (fallen < (double)jitter)
        return false;
    if (r.n < 3) /* two readings far apart: a single look may be odd, so it must be more than odd */
        return fallen >= 4 * (double)jitter;
    uma_guard_history_rates(h, window / 4, &last); /* and it goes on: a tenth of the mean at least */
    return !last.known || last.available < r.available / 10;
}

static void movement(const struct uma_guard_history *h, int64_t since, uint64_t total, struct uma_guard_danger *d) {
    double fast = 0, slow = 0;
    uint64_t jitter = uma_guard_jitter(total);
    bool is_fast = fall_over(h, WINDOW, since, jitter, &fast), is_slow = fall_over(h, WINDOW_LONG, since, jitter, &slow);
    d->falling = is_fast || is_slow;
    d->rate = is_fast ? fast : is_slow ? slow : fast != 0 ? fast : slow;
    if (!d->falling)
        return;
    d->signals |= UMA_GUARD_SIGNAL_FALLING;
    double speed = -d->rate, h_now = (double)d->headroom;
    d->to_line = h_now <= (double)d->line ? 0 : (h_now - (double)d->line) / speed;
    d->to_hard = h_now <= (double)d->hard_floor ? 0 : (h_now - (double)d->hard_floor) / speed;
    d->to_zero = h_now / speed;
}

/* ---- level ---------------------------------------------------------------------------------------------------- */

static void level(const struct uma_guard_history *h, const struct uma_guard_policy *policy, const struct uma_guard_stops *stops,
                  uint64_t total, struct uma_guard_danger *d) {
    uint64_t noise = uma_guard_noise(total), half = stops->steady / 2;
    d->headroom = uma_guard_history_headroom(h);
    d->floor = policy->floor;
    d->hard_floor = policy->hard_floor;
    d->steady = stops->steady;
    d->line = policy->floor;
    if (d->steady && d->steady < policy->floor + noise) {
        uint64_t least = d->steady - (noise < half ? noise : half);
        if (least < d->line)
            d->line = least;
        d->signals |= UMA_GUARD_SIGNAL_STEADY;
        /* what sank while it stood: slower than any rate shows */
        if (d->headroom < policy->floor && d->headroom < d->steady && d->steady - d->headroom >= noise / DRIFT_SHARE)
            d->signals |= UMA_GUARD_SIGNAL_DRIFT;
    }
    if (stops->fell_from && d->headroom < policy->floor)
        d->signals |= UMA_GUARD_SIGNAL_FELL_OUT;
    if (d->headroom < d->line)
        d->signals |= UMA_GUARD_SIGNAL_BELOW_LINE;
    if (d->headroom < d->floor)
        d->signals |= UMA_GUARD_SIGNAL_BELOW_FLOOR;
    if (d->headroom < d->hard_floor)
        d->signals |= UMA_GUARD_SIGNAL_BELOW_HARD;
}

/* ---- stalls ---------------------------------------------------------------------------------------------------- */

static void stalls(const struct uma_guard_history *h, struct uma_guard_danger *d) {
    struct uma_guard_rates r;
    const struct uma_guard_reading *now = uma_guard_history_get(h, 0);
    uma_guard_history_rates(h, WINDOW_STALL, &r);
    d->psi_some = r.psi_some;
    d->psi_full = r.psi_full;
    d->allocstall = r.allocstall;
    if (!r.known)
        return;
    const struct uma_guard_reading *then = uma_guard_history_get(h, r.n - 1);
    if (r.allocstall >= ALLOCSTALLS) /* NAN compares false */
        d->signals |= UMA_GUARD_SIGNAL_ALLOCSTALL;
    if (r.direct_scan >= VAIN_LEAST && then &&
        (double)(now->pgsteal_direct - then->pgsteal_direct) < VAIN_SHARE * (double)(now->pgscan_direct - then->pgscan_direct))
        d->signals |= UMA_GUARD_SIGNAL_RECLAIM_VAIN;
    if (r.psi_some >= PRESSURE)
        d->signals |= UMA_GUARD_SIGNAL_PRESSURE;
    if (r.swap_in >= SWAP_INS)
        d->signals |= UMA_GUARD_SIGNAL_SWAP_IN;
    if (r.compact_stall >= COMPACT_STALLS)
        d->signals |= UMA_GUARD_SIGNAL_COMPACTION;
    if (then && (now->known & then->known & UMA_GUARD_KNOWS_REFUSALS) && now->driver_refusals > then->driver_refusals)
        d->signals |= UMA_GUARD_SIGNAL_REFUSED;
    uint32_t waits = d->signals & (UMA_GUARD_SIGNAL_ALLOCSTALL | UMA_GUARD_SIGNAL_RECLAIM_VAIN | UMA_GUARD_SIGNAL_SWAP_IN);
    bool two = (waits & (waits - 1)) != 0;
    d->stalled = waits && (two || (d->signals & UMA_GUARD_SIGNAL_PRESSURE) || (isnan(r.psi_some) && r.allocstall >= ALLOCSTALLS_ALONE));
}

/* ---- room ------------------------------------------------------------------------------------------------------ */

static void room(const struct uma_guard_reading *now, const struct uma_guard_policy *policy, struct uma_guard_danger *d) {
    uint64_t free = now->free + (now->known & UMA_GUARD_KNOWS_LISTS ? now->per_cpu : 0),
             cache = now->available > now->free ? now->available - now->free : 0;
    uint64_t large = 0, page = 4096;
    if (free < policy->free_floor && cache >= CACHE_TIMES * (policy->free_floor - free))
        d->signals |= UMA_GUARD_SIGNAL_FREE_SHORT;
    if (!(now->known & UMA_GUARD_KNOWS_BLOCKS) || free < policy->free_floor)
        return;
    for (int order = BLOCK_ORDER; order < UMA_GUARD_ORDERS; order++)
        large += now->blocks[order] * (page << order);
    if (large < now->total / BLOCK_SHARE)
        d->signals |= UMA_GUARD_SIGNAL_BLOCKS_SHORT;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

/*
 * Where the machine has stood near the floor for long it wanders there, some of it within half a second: a prediction from that is a false one. The line itself still holds, and so does a fall that leaves no
 * memory at all within the horizon.
 */
#define HORIZON_STEADY 0.1

static bool will_reach(const struct uma_guard_policy *policy, const struct uma_guard_danger *d) {
    if (!d->falling)
        return false;
    if (d->signals & UMA_GUARD_SIGNAL_STEADY)
        return d->to_line <= HORIZON_STEADY || d->to_zero <= policy->horizon;
    return d->to_line <= policy->horizon;
}

static void conclude(const struct uma_guard_policy *policy, struct uma_guard_danger *d) {
    bool below = d->signals & UMA_GUARD_SIGNAL_BELOW_LINE;
    if (will_reach(policy, d))
        d->signals |= UMA_GUARD_SIGNAL_WILL_REACH;
    if (below && d->falling)
        d->reason = d->signals & UMA_GUARD_SIGNAL_BELOW_HARD ? UMA_GUARD_BELOW_HARD_FLOOR : UMA_GUARD_BELOW_FLOOR;
    else if (d->signals & UMA_GUARD_SIGNAL_WILL_REACH)
        d->reason = UMA_GUARD_WILL_REACH_FLOOR;
    else if (below && d->stalled)
        d->reason = UMA_GUARD_STALLED;
    else if ((d->signals & UMA_GUARD_SIGNAL_DRIFT) || (below && (d->signals & UMA_GUARD_SIGNAL_FELL_OUT))) {
        d->reason = UMA_GUARD_BELOW_FLOOR;
        d->drift = true;
    }
    d->danger = d->reason != UMA_GUARD_NO_REASON;
}

void uma_guard_danger_assess(const struct uma_guard_history *history, const struct uma_guard_policy *policy,
                             const struct uma_guard_stops *stops, struct uma_guard_danger *ret_danger) {
    const struct uma_guard_reading *now = uma_guard_history_get(history, 0);
    *ret_danger = (struct uma_guard_danger){
        .to_line = INFINITY, .to_hard = INFINITY, .to_zero = INFINITY, .psi_some = NAN, .psi_full = NAN, .allocstall = NAN
    };
    if (!now)
        return;
    ret_danger->known = true;
    level(history, policy, stops, now->total, ret_danger);
    movement(history, stops->since, now->total, ret_danger);
    stalls(history, ret_danger);
    room(now, policy, ret_danger);
    ret_danger->since_answer =
        now->known & UMA_GUARD_KNOWS_GPU ? uma_guard_history_fallen(history, now->time - now->gpu_age_ns) : INT64_MAX;
    conclude(policy, ret_danger);
}

int64_t uma_guard_danger_wake(const struct uma_guard_danger *d, uint64_t total) {
    double worst = (double)total / WHOLE_SECONDS;
    if (d->falling && -d->rate > worst)
        worst = -d->rate;
    double left = d->headroom > d->line ? (double)(d->headroom - d->line) : 0, seconds = worst > 0 ? left / worst / LOOK_SHARE : 0;
    int64_t least = d->falling || d->danger ? WAKE_LEAST : WAKE_STILL;
    int64_t wake = seconds >= 1 ? WAKE_MOST : (int64_t)(seconds * (double)UMA_SECOND_NS);
    return wake < least ? least : wake;
}
