/* SPDX-License-Identifier: MIT */
#include "guard/history.h"

#include "base/units.h"

#include <math.h>
#include <string.h>

/*
 * Noise: on machines of 122 GiB, 107 MiB in 5 s on the mean and excursions of more than 1 GiB were recorded where nothing happened; 1/96 is 1.27 GiB there.
 */
uint64_t uma_guard_noise(uint64_t total) {
    return total / 96;
}

/*
 * A level is steady when it was kept within the noise for 30 s: longer than the loads and warm-up phases of servers pause (10 to 20 s between reading weights and taking the cache were seen), and short against the
 * hours that a server then stays there.
 */
#define STEADY_AFTER (30 * UMA_SECOND_NS)
/* From the mean of its first quarter to that of its end it rose or fell by no more than a third of the noise, 20 MB/s of 122 GiB: what moves faster has not come to a level. */
enum { TREND_SHARE = 3 };
/* So many times the noise above it is no excursion: whoever held the memory has gone, and a fall from there is a new one. */
enum { ABOVE_TIMES = 3 };
/* The lists of the processors are read less often than the rest, and empty slowly (1,042 MiB were 787 MiB after 30 s): a value of two seconds ago is nearer to the truth than none. */
#define LISTS_FRESH (2 * UMA_SECOND_NS)
/* The two clocks part by more than that only in a suspend; both are read within microseconds of each other. */
#define SLEPT (UMA_SECOND_NS / 10)

static const struct uma_guard_reading *at(const struct uma_guard_history *h, uint32_t i) {
    return &h->ring[(h->at + 2 * UMA_GUARD_HISTORY - 1 - i) % UMA_GUARD_HISTORY];
}

const struct uma_guard_reading *uma_guard_history_get(const struct uma_guard_history *h, uint32_t i) {
    return i < h->n && i < UMA_GUARD_HISTORY ? at(h, i) : NULL;
}

uint64_t uma_guard_history_headroom(const struct uma_guard_history *h) {
    const struct uma_guard_reading *r = uma_guard_history_get(h, 0);
    if (!r)
        return 0;
    if (r->known & UMA_GUARD_KNOWS_LISTS)
        return r->available + r->per_cpu;
    return r->available + (h->lists_time != 0 && r->time - h->lists_time <= LISTS_FRESH ? h->lists : 0);
}

static uint64_t with_lists(const struct uma_guard_reading *r, bool lists) {
    return r->available + (lists ? r->per_cpu : 0);
}

int64_t uma_guard_history_fallen(const struct uma_guard_history *h, int64_t time) {
    const struct uma_guard_reading *now = uma_guard_history_get(h, 0), *then = now;
    if (!now)
        return 0;
    for (uint32_t i = 1; i < h->n && !at(h, i - 1)->gap && then->time > time; i++)
        then = at(h, i);
    bool lists = now->known & then->known & UMA_GUARD_KNOWS_LISTS;
    return (int64_t)(with_lists(then, lists) - with_lists(now, lists));
}

/* ---- the steady level ----------------------------------------------------------------------------------------- */

static void level_begin(struct uma_guard_history *h, uint64_t headroom, int64_t time) {
    h->first = h->low = h->high = headroom;
    h->mean = (double)headroom;
    h->level_n = 0;
    h->level_since = time;
}

static void forget(struct uma_guard_history *h) {
    h->steady = 0;
    h->above = false;
    h->steady_since = h->level_since = 0; /* and another one is learned from here on */
}

/* Downwards at most half of what is left: a level of 1.5 GiB is not kept at 0.3. */
static uint64_t steady_least(uint64_t steady, uint64_t noise) {
    return steady - (noise < steady / 2 ? noise : steady / 2);
}

static void keep(struct uma_guard_history *h, uint64_t headroom, uint64_t noise) {
    if (headroom < steady_least(h->steady, noise)) {
        h->fell_from = h->steady;
        h->fell_since = h->steady_since;
        forget(h);
    } else if (headroom <= h->steady + noise) {
        h->above = false;
    } else if (headroom > h->steady + ABOVE_TIMES * noise) {
        forget(h);
    } else if (!h->above) {
        h->above = true;
        h->level_since = 0; /* a higher one is learned from here on; until then it may come back to this one */
    }
}

static void learn(struct uma_guard_history *h, uint64_t headroom, uint64_t noise, int64_t time) {
    if (h->level_since == 0)
        level_begin(h, headroom, time);
    h->low = headroom < h->low ? headroom : h->low;
    h->high = headroom > h->high ? headroom : h->high;
    uint64_t down = (uint64_t)h->mean - steady_least((uint64_t)h->mean, noise);
    if (h->high - h->low > noise + down) {
        level_begin(h, headroom, time);
        return;
    }
    h->level_n += h->level_n < 32; /* about the last 32 readings: an excursion moves it little */
    h->mean += ((double)headroom - h->mean) / h->level_n;
    if (time - h->level_since < STEADY_AFTER / 4)
        h->first = (uint64_t)h->mean;
    bool stays = h->steady != 0 && !h->above;
    if (stays || time - h->level_since < STEADY_AFTER)
        return;
    double sunk = h->mean - (double)h->first, trend = (double)noise / TREND_SHARE;
    if (sunk > trend || -sunk > trend) {
        level_begin(h, headroom, time); /* it is on its way somewhere */
    } else {
        h->steady = (uint64_t)h->mean;
        h->steady_since = h->level_since;
        h->above = false;
        h->fell_from = 0;
    }
}

/* ---- adding --------------------------------------------------------------------------------------------------- */

/*
 * A guard that begins (for the first time, or anew after it was ended) on a machine that is near the floor already takes the level that it finds for one at which the machine stands: whoever was there before the guard is not
 * to be stopped for a login while a level is learned. A collapse that is under way falls out of it at once. More than a sixteenth of the memory, which is the largest floor
 * by default, is no such level.
 */
enum { FOUND_SHARE = 16 };

static void find_level(struct uma_guard_history *h, uint64_t headroom, uint64_t total, int64_t time) {
    if (headroom > total / FOUND_SHARE)
        return;
    h->steady = headroom;
    h->steady_since = time;
}

/* A reading that is not later than the one before it, or between which the machine slept. */
static bool is_gap(const struct uma_guard_reading *before, const struct uma_guard_reading *now) {
    int64_t slept = (now->boot - before->boot) - (now->time - before->time);
    return now->time <= before->time || slept > SLEPT || slept < -SLEPT;
}

void uma_guard_history_add(struct uma_guard_history *h, const struct uma_guard_reading *reading) {
    if (!(reading->known & UMA_GUARD_KNOWS_MEMINFO))
        return; /* a failed read is a later next one, no more: the counters and levels do not need it */
    const struct uma_guard_reading *before = uma_guard_history_get(h, 0);
    bool first = h->n == 0 && h->at == 0, backwards = before && reading->time <= before->time,
         gap = before && (reading->gap || is_gap(before, reading));
    if (gap) { /* what was known of a level may hold no more */
        h->n = 0;
        h->level_since = 0;
        if (backwards)
            h->lists_time = 0;
    }
    h->ring[h->at] = *reading;
    h->ring[h->at].gap = gap || reading->gap;
    h->at = (h->at + 1) % UMA_GUARD_HISTORY;
    h->n += h->n < UMA_GUARD_HISTORY;
    if (reading->known & UMA_GUARD_KNOWS_LISTS) {
        h->lists = reading->per_cpu;
        h->lists_time = reading->time;
    }
    uint64_t headroom = uma_guard_history_headroom(h), noise = uma_guard_noise(reading->total);
    if (h->steady)
        keep(h, headroom, noise);
    else if (first)
        find_level(h, headroom, reading->total, reading->time);
    learn(h, headroom, noise, reading->time);
}

/* ---- rates ---------------------------------------------------------------------------------------------------- */

static double per_second(uint64_t then, uint64_t now, bool known, double seconds) {
    return known && now >= then ? (double)(now - then) / seconds : NAN;
}

static void between(const struct uma_guard_reading *then, const struct uma_guard_reading *now, struct uma_guard_rates *r) {
    double s = (double)r->span_ns / (double)UMA_SECOND_NS;
    uint32_t known = then->known & now->known;
    bool lists = known & UMA_GUARD_KNOWS_LISTS, stat = known & UMA_GUARD_KNOWS_VMSTAT, psi = known & UMA_GUARD_KNOWS_PRESSURE;
    double a = (double)then->available + (lists ? (double)then->per_cpu : 0),
           b = (double)now->available + (lists ? (double)now->per_cpu : 0);
    r->available = (b - a) / s;
    r->free = ((double)now->free - (double)then->free) / s;
    r->unreclaimable = ((double)now->total - b - ((double)then->total - a)) / s;
    r->allocstall = per_second(then->allocstall, now->allocstall, stat, s);
    r->compact_stall = per_second(then->compact_stall, now->compact_stall, stat, s);
    r->direct_scan = per_second(then->pgscan_direct, now->pgscan_direct, stat, s);
    r->swap_in = per_second(then->pswpin, now->pswpin, stat, s);
    r->swap_out = per_second(then->pswpout, now->pswpout, stat, s);
    r->refault = per_second(then->refault_file, now->refault_file, stat, s);
    r->psi_some = per_second(then->psi_some, now->psi_some, psi, s) / (double)UMA_SECOND_NS;
    r->psi_full = per_second(then->psi_full, now->psi_full, psi, s) / (double)UMA_SECOND_NS;
}

static void unknown(struct uma_guard_rates *r) {
    *r = (struct uma_guard_rates){ .allocstall = NAN,
                                   .compact_stall = NAN,
                                   .direct_scan = NAN,
                                   .swap_in = NAN,
                                   .swap_out = NAN,
                                   .refault = NAN,
                                   .psi_some = NAN,
                                   .psi_full = NAN };
}

void uma_guard_history_rates(const struct uma_guard_history *h, int64_t window_ns, struct uma_guard_rates *ret_rates) {
    const struct uma_guard_reading *now = uma_guard_history_get(h, 0), *then = NULL;
    unknown(ret_rates);
    for (uint32_t i = 1; now && i < h->n && !at(h, i - 1)->gap; i++) {
        const struct uma_guard_reading *r = at(h, i);
        int64_t age = now->time - r->time;
        /* the nearest to the window's length: one too old by less than the one before it is too young */
        if (then && age > window_ns && age - window_ns > window_ns - ret_rates->span_ns && ret_rates->span_ns * 2 >= window_ns)
            break;
        then = r;
        ret_rates->span_ns = age;
        ret_rates->n = i + 1;
        if (age >= window_ns)
            break;
    }
    if (!then || ret_rates->span_ns <= 0 || ret_rates->span_ns * 2 < window_ns) {
        unknown(ret_rates);
        return;
    }
    ret_rates->known = true;
    between(then, now, ret_rates);
}

void uma_guard_history_rates_since(const struct uma_guard_history *h, int64_t since, struct uma_guard_rates *ret_rates) {
    const struct uma_guard_reading *now = uma_guard_history_get(h, 0), *then = NULL;
    unknown(ret_rates);
    for (uint32_t i = 1; now && i < h->n && !at(h, i - 1)->gap && at(h, i)->time >= since; i++) {
        then = at(h, i);
        ret_rates->span_ns = now->time - then->time;
        ret_rates->n = i + 1;
    }
    if (!then || ret_rates->span_ns <= 0) {
        unknown(ret_rates);
        return;
    }
    ret_rates->known = true;
    between(then, now, ret_rates);
}
