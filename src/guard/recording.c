/* SPDX-License-Identifier: MIT */
#include "guard/recording.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/checksum.h"
#include "guard/recording_code.h"
#include "guard/recording_table.h"
#include "guard/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum {
    BLOCKS = UMA_GUARD_RECORDING_BYTES / UMA_GUARD_BLOCK - 1, /* the first place says what the file is */
    PLACES = 3,         /* blocks that wait for the disk: at a hundred readings a second some seconds */
    READING_MOST = 400, /* bytes of one reading whose every value changed by all its bits: 372 */
    NEIGHBOURS = 8,     /* blocks in a row that a power loss may have cut: more than wait for the disk */
};
#define CLOSE_WAIT_NS (2 * UMA_SECOND_NS)

/*
 * What is kept for long: two readings a second. At 40 bytes each, which is what one near the floor takes, that is 21 MB in three days, a third of the file. A machine far from its floor is read once a second and saves up to 60,000 readings, which are ten
 * minutes of a hundred a second: 2.4 MB. Spent, readings that come faster are left out, but for those that were acted on.
 */
#define READING_COST_NS (UMA_SECOND_NS / 2)
#define READINGS_SAVED INT64_C(60000)
/*
 * A table is up to 6 KB. One a minute for long is 26 MB in three days; sixty may come at once. With half of these goes every new table, at most four a second, so that growth can be seen before the first decision: a fall of some seconds. The
 * other half is for tables that a decision was taken on.
 */
#define TABLE_COST_NS (60 * UMA_SECOND_NS)
#define TABLES_SAVED INT64_C(60)
#define TABLE_APART_NS (UMA_SECOND_NS / 4)
/* What jobs hold of their envelopes moves all the time, and its use to a decision is coarse. */
#define ENVELOPES_APART_NS UMA_SECOND_NS
/* A freeze loses what is not on disk: near the floor decisions bring it there, far from it half a minute is enough. A tenth of a second lets a row of decisions share a sync. */
#define FLUSH_DECIDED_NS (UMA_SECOND_NS / 10)
#define FLUSH_NS (30 * UMA_SECOND_NS)

struct uma_guard_recording {
    struct uma_guard_write_behind *writer; /* NULL: nothing is kept */
    uint64_t lost;                         /* without a writer */
    uint8_t boot[16];
    /* the block that is being filled */
    uint64_t sequence; /* its number */
    size_t at, summed, sealed;
    uint32_t sum; /* of its first `summed` bytes */
    struct uma_guard_reading base;
    bool envelopes_there; /* in this block */
    /* between blocks */
    int64_t flushed, last; /* times of readings: when it was last handed to the disk, the newest kept */
    bool decided, any;     /* since then; any reading kept at all */
    bool gap;              /* of a reading that was left out */
    int64_t reading_budget, table_budget;
    int64_t table_time, table_kept; /* of the newest table: when it was taken, when it was kept */
    int64_t envelopes_kept;
    size_t n_envelopes;
    struct uma_guard_envelope envelopes[UMA_GUARD_ENVELOPES];
    uint8_t block[UMA_GUARD_BLOCK];
    struct uma_guard_small_table table;
};

static uint64_t place_of(uint64_t sequence) {
    return UMA_GUARD_BLOCK + (sequence - 1) % BLOCKS * UMA_GUARD_BLOCK;
}

/* ---- opening ---- */

/* The number of the block at a place; 0: there is none. */
static uint64_t number_at(int fd, uint64_t place) {
    struct uma_guard_block_head head;
    ssize_t n = pread(fd, &head, sizeof(head), (off_t)(UMA_GUARD_BLOCK * (place + 1)));
    bool fine = n == (ssize_t)sizeof(head) && head.magic == UMA_GUARD_BLOCK_MAGIC && head.sequence > 0 &&
                head.sequence < UMA_GUARD_SEQUENCE_MOST && (head.sequence - 1) % BLOCKS == place;
    return fine ? head.sequence : 0;
}

/* Is the block at `place`, or the first after it that is whole, of the lap that began with number `first`? */
static bool is_of_lap(int fd, uint64_t place, uint64_t first) {
    for (uint64_t i = place; i < place + NEIGHBOURS && i < BLOCKS; i++) {
        uint64_t number = number_at(fd, i);
        if (number)
            return number == first + i;
    }
    return false;
}

/*
 * Places are filled one after another: up to some place the numbers are those of this lap, behind it those of the one before or none. Found by halving, so that a start reads a few blocks of a cold disk and not 64 MiB.
 * Blocks that a power loss cut are stepped over. 0: the first is not there.
 */
static uint64_t newest_of_lap(int fd) {
    uint64_t first = number_at(fd, 0), from = 0, to = BLOCKS;
    if (first == 0)
        return 0;
    while (to - from > 1) {
        uint64_t middle = from + (to - from) / 2;
        if (is_of_lap(fd, middle, first))
            from = middle;
        else
            to = middle;
    }
    for (uint64_t i = 1; i <= NEIGHBOURS && from + i < BLOCKS; i++) /* the cut ones may have been the last but some */
        if (number_at(fd, from + i) == first + from + i) {
            from += i;
            i = 0;
        }
    return first + from;
}

/* Is the block whole up to its first seal, which covers the head? */
static bool is_sealed(int fd, uint64_t sequence, uint8_t block[UMA_GUARD_BLOCK]) {
    if (pread(fd, block, UMA_GUARD_BLOCK, (off_t)place_of(sequence)) != UMA_GUARD_BLOCK)
        return false;
    uint32_t sum = uma_guard_checksum(0, block, sizeof(struct uma_guard_block_head));
    for (size_t i = sizeof(struct uma_guard_block_head); i + sizeof(sum) < UMA_GUARD_BLOCK; i++) {
        sum = uma_guard_checksum(sum, block + i, 1);
        if (block[i] == UMA_GUARD_ENTRY_SEAL && memcmp(&sum, block + i + 1, sizeof(sum)) == 0)
            return true;
    }
    return false;
}

/* Of a new file, and of one whose first block is damaged: all heads, and the sums of those that would be the newest. */
static uint64_t newest_of_all(int fd, uint8_t block[UMA_GUARD_BLOCK]) {
    uint64_t newest = 0;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        uint64_t number = number_at(fd, i);
        if (number > newest && is_sealed(fd, number, block))
            newest = number;
    }
    return newest;
}

static void begin_block(struct uma_guard_recording *r) {
    struct uma_guard_block_head head = {
        .magic = UMA_GUARD_BLOCK_MAGIC,
        .sequence = ++r->sequence,
        .real = uma_now_ns(),
        .boottime = uma_boottime_ns(),
    };
    memcpy(head.boot, r->boot, sizeof(head.boot));
    memset(r->block, 0, sizeof(r->block));
    memcpy(r->block, &head, sizeof(head));
    r->at = sizeof(head);
    r->summed = r->sealed = 0;
    r->sum = 0;
    r->base = (struct uma_guard_reading){ 0 };
    r->envelopes_there = false;
}

struct uma_guard_recording *uma_guard_recording_open(const char *folder, const char **ret_note) {
    struct uma_guard_ring_form form = { .name = "readings", .size = UMA_GUARD_RECORDING_BYTES, .head = UMA_GUARD_RECORDING_HEAD };
    *ret_note = "no folder is named";
    struct uma_guard_recording *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    /* what another build would read otherwise has another form */
    uint64_t shape[2] = { UMA_GUARD_BLOCK_MAGIC, UMA_GUARD_BLOCK };
    memcpy(form.head + sizeof(form.head) - sizeof(shape), shape, sizeof(shape));
    int fd = folder ? uma_guard_ring_file_open(folder, &form, ret_note) : -1;
    if (fd < 0)
        return r;
    uma_guard_boot_id(r->boot);
    r->sequence = newest_of_lap(fd);
    if (r->sequence == 0)
        r->sequence = newest_of_all(fd, r->block);
    r->reading_budget = READINGS_SAVED * READING_COST_NS;
    r->table_budget = TABLES_SAVED * TABLE_COST_NS;
    begin_block(r);
    r->writer = uma_guard_write_behind_open(fd, UMA_GUARD_BLOCK, PLACES);
    if (!r->writer)
        *ret_note = "there is no memory, or no thread, to write it with";
    return r;
}

/* ---- writing ---- */

/* Seals what was added and hands the block to the thread. What finds no place there is counted; the block goes on, and is handed over again when more was added. */
static void flush(struct uma_guard_recording *r) {
    uint64_t ticket;
    if (r->at > r->sealed && r->at > sizeof(struct uma_guard_block_head)) {
        r->block[r->at++] = UMA_GUARD_ENTRY_SEAL;
        r->sum = uma_guard_checksum(r->sum, r->block + r->summed, r->at - r->summed);
        r->summed = r->at;
        memcpy(r->block + r->at, &r->sum, sizeof(r->sum));
        r->at += sizeof(r->sum);
        r->sealed = r->at;
        (void)uma_guard_write_behind_put(r->writer, place_of(r->sequence), r->block, sizeof(r->block), &ticket);
    }
    r->flushed = r->last;
    r->decided = false;
}

/* The table, all of it or, in a block that is empty but for it, as much as there is room for beside a reading. The topmost processes are first: those behind the cut are the smallest. */
static void put_table(struct uma_guard_into *into, const struct uma_guard_small_table *table, size_t n, int64_t time, bool cut) {
    struct uma_guard_into whole = *into;
    uma_guard_put_byte(&whole, UMA_GUARD_ENTRY_PROCESSES);
    uma_guard_put_number(&whole, time < 0 ? 0 : (uint64_t)time);
    uint8_t *count = whole.at;
    uma_guard_put_byte(&whole, 0);
    whole.end = whole.end - READING_MOST > whole.at ? whole.end - READING_MOST : whole.at;
    size_t put = 0;
    for (; put < n && !whole.full; put++) {
        uint8_t *before = whole.at;
        uma_guard_put_process(&whole, &table->list[put]);
        if (whole.full && cut) {
            memset(before, 0, (size_t)(whole.at - before));
            whole.at = before;
            break;
        }
    }
    into->full |= whole.full && !cut;
    if (into->full)
        return;
    *count = (uint8_t)put;
    into->at = whole.at;
}

struct what { /* to put beside the reading */
    bool decided, envelopes;
    size_t processes;
};

static bool put_all(struct uma_guard_recording *r, const struct uma_guard_view *view, const struct what *what, bool cut) {
    struct uma_guard_into into = { .at = r->block + r->at, .end = r->block + sizeof(r->block) - UMA_GUARD_SEAL };
    struct uma_guard_reading base = r->base, now = *view->now;
    now.gap = now.gap || r->gap;
    if (what->envelopes || (!r->envelopes_there && r->n_envelopes > 0)) {
        uma_guard_put_byte(&into, UMA_GUARD_ENTRY_ENVELOPES);
        uma_guard_put_byte(&into, (uint8_t)r->n_envelopes);
        for (size_t i = 0; i < r->n_envelopes; i++)
            uma_guard_put_envelope(&into, &r->envelopes[i]);
    }
    if (what->processes && !into.full)
        put_table(&into, &r->table, what->processes, view->processes_time, cut);
    uma_guard_put_byte(&into, what->decided ? UMA_GUARD_ENTRY_DECIDED : UMA_GUARD_ENTRY_READING);
    uma_guard_put_reading(&into, &base, &now);
    if (into.full) {
        memset(r->block + r->at, 0, sizeof(r->block) - r->at); /* as if it had not been tried */
        return false;
    }
    r->at = (size_t)(into.at - r->block);
    r->base = base;
    r->envelopes_there = true;
    r->gap = false;
    return true;
}

/* Whether the reading is kept, by how many there were of late. */
static bool is_kept(struct uma_guard_recording *r, const struct uma_guard_reading *now, bool decided) {
    int64_t passed = r->any && now->time > r->last && r->last >= 0 ? now->time - r->last : 0;
    int64_t most = READINGS_SAVED * READING_COST_NS, saved = passed > most ? most : r->reading_budget + passed;
    saved = saved > most ? most : saved;
    bool kept = decided || saved >= READING_COST_NS;
    if (!kept) {
        r->gap = r->gap || now->gap;
        return false; /* `last` stays: what passed is counted the next time */
    }
    r->reading_budget = saved >= READING_COST_NS ? saved - READING_COST_NS : 0;
    int64_t most_of_tables = TABLES_SAVED * TABLE_COST_NS;
    r->table_budget = passed > most_of_tables - r->table_budget ? most_of_tables : r->table_budget + passed;
    r->last = now->time;
    r->flushed = r->any && r->flushed <= r->last ? r->flushed : r->last;
    r->any = true;
    return true;
}

static bool wants_table(struct uma_guard_recording *r, const struct uma_guard_view *view, bool decided) {
    if (!view->processes || view->n_processes == 0 || view->processes_time == r->table_time)
        return false;
    bool apart = r->table_kept == 0 || r->last < r->table_kept || r->last - r->table_kept >= TABLE_APART_NS;
    int64_t reserve = decided ? 0 : TABLES_SAVED / 2 * TABLE_COST_NS;
    if ((!apart && !decided) || r->table_budget < reserve + TABLE_COST_NS)
        return false;
    r->table_budget -= TABLE_COST_NS;
    r->table_time = view->processes_time;
    r->table_kept = r->last;
    return true;
}

static bool wants_envelopes(struct uma_guard_recording *r, const struct uma_guard_view *view) {
    size_t n = !view->envelopes ? 0 : view->n_envelopes < UMA_GUARD_ENVELOPES ? view->n_envelopes : UMA_GUARD_ENVELOPES;
    bool apart = n != r->n_envelopes || r->last < r->envelopes_kept || r->last - r->envelopes_kept >= ENVELOPES_APART_NS;
    if (!apart || (n == r->n_envelopes && (n == 0 || memcmp(r->envelopes, view->envelopes, n * sizeof(r->envelopes[0])) == 0)))
        return false;
    if (n)
        memcpy(r->envelopes, view->envelopes, n * sizeof(r->envelopes[0]));
    for (size_t i = 0; i < n; i++)
        r->envelopes[i].pid = r->envelopes[i].pid < 0 ? 0 : r->envelopes[i].pid;
    r->n_envelopes = n;
    r->envelopes_kept = r->last;
    return true;
}

void uma_guard_recording_add(struct uma_guard_recording *r, const struct uma_guard_view *view, bool decided) {
    if (!r->writer) {
        r->lost++;
        return;
    }
    if (!is_kept(r, view->now, decided))
        return;
    struct what what = { .decided = decided, .envelopes = wants_envelopes(r, view) };
    if (wants_table(r, view, decided))
        what.processes = uma_guard_table_shrink(view->processes, view->n_processes, &r->table);
    bool put = put_all(r, view, &what, false);
    if (!put) {
        flush(r);
        if (r->at > sizeof(struct uma_guard_block_head))
            begin_block(r);
        put = put_all(r, view, &what, true);
    }
    r->decided |= decided;
    int64_t age = r->last - r->flushed;
    if (put && ((r->decided && age >= FLUSH_DECIDED_NS) || age >= FLUSH_NS))
        flush(r);
}

void uma_guard_recording_close(struct uma_guard_recording *r) {
    if (!r)
        return;
    if (r->writer)
        flush(r);
    uma_guard_write_behind_close(r->writer, CLOSE_WAIT_NS);
    free(r);
}

void uma_guard_recording_kept(struct uma_guard_recording *r, struct uma_guard_kept *ret_kept) {
    *ret_kept = (struct uma_guard_kept){ .lost = r->lost };
    if (r->writer)
        uma_guard_write_behind_kept(r->writer, ret_kept);
}
