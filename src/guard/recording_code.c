/* SPDX-License-Identifier: MIT */
#include "guard/recording_code.h"

#include <limits.h>
#include <string.h>

/* Sums and differences of what a reader returns stay within 64 bits. Four exbibytes, or a hundred and forty years in nanoseconds. */
#define MOST (UINT64_C(1) << 62)

/* Sizes are multiples of a kibibyte in /proc/meminfo and of a page elsewhere: their low ten bits are turned to the top, where those of a small number are not written. */
enum { NUMBER, SIZE };

#define FIELD(name, known, kind)                                                                                                           \
    { offsetof(struct uma_guard_reading, name), known, kind }
static const struct field {
    size_t offset;
    uint32_t known; /* the group without which it is left out */
    int kind;
} fields[] = {
    /* those that change in every reading first: the list of changed fields is then one byte */
    FIELD(available, UMA_GUARD_KNOWS_MEMINFO, SIZE),       FIELD(free, UMA_GUARD_KNOWS_MEMINFO, SIZE),
    FIELD(cache, UMA_GUARD_KNOWS_MEMINFO, SIZE),           FIELD(anon, UMA_GUARD_KNOWS_MEMINFO, SIZE),
    FIELD(dirty, UMA_GUARD_KNOWS_MEMINFO, SIZE),           FIELD(shmem, UMA_GUARD_KNOWS_MEMINFO, SIZE),
    FIELD(per_cpu, UMA_GUARD_KNOWS_LISTS, SIZE),           FIELD(psi_some, UMA_GUARD_KNOWS_PRESSURE, NUMBER),
    FIELD(psi_full, UMA_GUARD_KNOWS_PRESSURE, NUMBER),     FIELD(gpu_age_ns, UMA_GUARD_KNOWS_GPU, NUMBER),
    FIELD(gpu_bytes, UMA_GUARD_KNOWS_GPU, SIZE),           FIELD(refault_file, UMA_GUARD_KNOWS_VMSTAT, NUMBER),
    FIELD(allocstall, UMA_GUARD_KNOWS_VMSTAT, NUMBER),     FIELD(pgscan_direct, UMA_GUARD_KNOWS_VMSTAT, NUMBER),
    FIELD(pgsteal_direct, UMA_GUARD_KNOWS_VMSTAT, NUMBER), FIELD(compact_stall, UMA_GUARD_KNOWS_VMSTAT, NUMBER),
    FIELD(compact_fail, UMA_GUARD_KNOWS_VMSTAT, NUMBER),   FIELD(pswpin, UMA_GUARD_KNOWS_VMSTAT, NUMBER),
    FIELD(pswpout, UMA_GUARD_KNOWS_VMSTAT, NUMBER),        FIELD(swap_free, UMA_GUARD_KNOWS_MEMINFO, SIZE),
    FIELD(blocks[0], UMA_GUARD_KNOWS_BLOCKS, NUMBER),      FIELD(blocks[1], UMA_GUARD_KNOWS_BLOCKS, NUMBER),
    FIELD(blocks[2], UMA_GUARD_KNOWS_BLOCKS, NUMBER),      FIELD(blocks[3], UMA_GUARD_KNOWS_BLOCKS, NUMBER),
    FIELD(blocks[4], UMA_GUARD_KNOWS_BLOCKS, NUMBER),      FIELD(blocks[5], UMA_GUARD_KNOWS_BLOCKS, NUMBER),
    FIELD(blocks[6], UMA_GUARD_KNOWS_BLOCKS, NUMBER),      FIELD(blocks[7], UMA_GUARD_KNOWS_BLOCKS, NUMBER),
    FIELD(blocks[8], UMA_GUARD_KNOWS_BLOCKS, NUMBER),      FIELD(blocks[9], UMA_GUARD_KNOWS_BLOCKS, NUMBER),
    FIELD(blocks[10], UMA_GUARD_KNOWS_BLOCKS, NUMBER),     FIELD(total, UMA_GUARD_KNOWS_MEMINFO, SIZE),
    FIELD(swap_total, UMA_GUARD_KNOWS_MEMINFO, SIZE),      FIELD(driver_refusals, UMA_GUARD_KNOWS_REFUSALS, NUMBER),
};
enum {
    FIELDS = sizeof(fields) / sizeof(fields[0]),
    KNOWN_BIT = FIELDS, /* of the list of what changed: `known` is another */
    GAP_BIT,            /* `gap` is 1 */
    BITS,
};
_Static_assert(UMA_GUARD_ORDERS == 11, "the list of fields names each order");
_Static_assert(BITS <= 64, "the list of what changed is one number");

void uma_guard_put_byte(struct uma_guard_into *into, uint8_t value) {
    if (into->at >= into->end)
        into->full = true;
    else
        *into->at++ = value;
}

void uma_guard_put_number(struct uma_guard_into *into, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        uma_guard_put_byte(into, (uint8_t)(value | 0x80));
    uma_guard_put_byte(into, (uint8_t)value);
}

uint8_t uma_guard_get_byte(struct uma_guard_from *from) {
    if (from->at >= from->end) {
        from->bad = true;
        return 0;
    }
    return *from->at++;
}

/* The groups of seven bits from `shift` on. */
static uint64_t get_groups(struct uma_guard_from *from, unsigned shift) {
    uint64_t value = 0;
    for (;; shift += 7) {
        uint8_t byte = uma_guard_get_byte(from);
        if (shift > 63 || (uint64_t)(byte & 0x7f) << shift >> shift != (byte & 0x7fu))
            from->bad = true;
        if (from->bad)
            return 0;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

uint64_t uma_guard_get_number(struct uma_guard_from *from) {
    return get_groups(from, 0);
}

/* With a sign, which is beside six bits of the first byte: so all 64 bits and the sign have room. */
static void put_signed(struct uma_guard_into *into, int64_t value, int kind) {
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (kind == SIZE)
        size = size >> 10 | size << 54;
    uma_guard_put_byte(into, (uint8_t)((size & 0x3f) | (value < 0 ? 0x40 : 0) | (size >> 6 ? 0x80 : 0)));
    if (size >> 6)
        uma_guard_put_number(into, size >> 6);
}

static int64_t get_signed(struct uma_guard_from *from, int kind) {
    uint8_t first = uma_guard_get_byte(from);
    uint64_t size = first & 0x3f;
    if (first & 0x80) {
        uint64_t rest = get_groups(from, 0);
        if (rest >> 58)
            from->bad = true;
        size |= rest << 6;
    }
    if (kind == SIZE)
        size = size << 10 | size >> 54;
    if (size > MOST)
        from->bad = true;
    if (from->bad)
        return 0;
    return first & 0x40 ? -(int64_t)size : (int64_t)size;
}

static uint64_t value_of(const struct uma_guard_reading *reading, const struct field *field) {
    uint64_t value;
    memcpy(&value, (const char *)reading + field->offset, sizeof(value));
    return value < MOST ? value : MOST;
}
static void set_value(struct uma_guard_reading *reading, const struct field *field, uint64_t value) {
    memcpy((char *)reading + field->offset, &value, sizeof(value));
}

static int64_t within(int64_t time) {
    return time < 0 ? 0 : time > (int64_t)MOST ? (int64_t)MOST : time;
}

void uma_guard_put_reading(struct uma_guard_into *into, struct uma_guard_reading *base, const struct uma_guard_reading *reading) {
    int64_t time = within(reading->time), boot = within(reading->boot);
    uint64_t changed = (uint64_t)(reading->known != base->known) << KNOWN_BIT | (uint64_t)(reading->gap != 0) << GAP_BIT;
    for (size_t i = 0; i < FIELDS; i++)
        if (reading->known & fields[i].known && value_of(reading, &fields[i]) != value_of(base, &fields[i]))
            changed |= UINT64_C(1) << i;
    uma_guard_put_number(into, changed);
    put_signed(into, time - base->time, NUMBER);
    /* the two clocks differ by the time that the machine slept: hardly ever by another than before */
    put_signed(into, (boot - time) - (base->boot - base->time), NUMBER);
    if (changed >> KNOWN_BIT & 1)
        uma_guard_put_number(into, reading->known);
    for (size_t i = 0; i < FIELDS; i++) {
        if (!(changed >> i & 1))
            continue;
        uint64_t value = value_of(reading, &fields[i]);
        put_signed(into, (int64_t)(value - value_of(base, &fields[i])), fields[i].kind);
        set_value(base, &fields[i], value);
    }
    base->time = time;
    base->boot = boot;
    base->known = reading->known;
}

/* value + difference, which must stay what the writer can have meant. */
static int64_t add(struct uma_guard_from *from, int64_t value, int64_t difference) {
    int64_t sum;
    if (__builtin_add_overflow(value, difference, &sum) || sum < 0 || sum > (int64_t)MOST) {
        from->bad = true;
        return 0;
    }
    return sum;
}

void uma_guard_get_reading(struct uma_guard_from *from, struct uma_guard_reading *base, struct uma_guard_reading *ret_reading) {
    uint64_t changed = uma_guard_get_number(from);
    if (changed >> BITS)
        from->bad = true;
    int64_t slept = base->boot - base->time, difference;
    base->time = add(from, base->time, get_signed(from, NUMBER));
    if (__builtin_add_overflow(slept, get_signed(from, NUMBER), &difference))
        from->bad = true;
    else
        base->boot = add(from, base->time, difference);
    if (changed >> KNOWN_BIT & 1) {
        uint64_t known = uma_guard_get_number(from);
        if (known > UINT32_MAX)
            from->bad = true;
        base->known = (uint32_t)known;
    }
    for (size_t i = 0; i < FIELDS && !from->bad; i++)
        if (changed >> i & 1)
            set_value(base, &fields[i], (uint64_t)add(from, (int64_t)value_of(base, &fields[i]), get_signed(from, fields[i].kind)));
    *ret_reading = *base;
    ret_reading->gap = changed >> GAP_BIT & 1;
    for (size_t i = 0; i < FIELDS; i++)
        if (!(base->known & fields[i].known))
            set_value(ret_reading, &fields[i], 0);
}

static int64_t size_within(uint64_t size) {
    return size < MOST ? (int64_t)size : (int64_t)MOST;
}
static int64_t growth_within(int64_t growth) {
    return growth < -(int64_t)MOST ? -(int64_t)MOST : growth > (int64_t)MOST ? (int64_t)MOST : growth;
}

void uma_guard_put_process(struct uma_guard_into *into, const struct uma_guard_process *p) {
    uma_guard_put_number(into, (uint32_t)p->pid);
    uma_guard_put_number(into, (uint32_t)p->parent);
    uma_guard_put_number(into, (uint32_t)p->tree);
    uma_guard_put_number(into, (uint32_t)(p->envelope + 1));
    uma_guard_put_number(into, p->uid);
    uma_guard_put_number(into, p->flags);
    uma_guard_put_number(into, p->start < MOST ? p->start : MOST);
    put_signed(into, size_within(p->anon), SIZE);
    put_signed(into, size_within(p->shmem), SIZE);
    put_signed(into, size_within(p->swap), SIZE);
    put_signed(into, size_within(p->gpu), SIZE);
    put_signed(into, growth_within(p->grown), SIZE);
    put_signed(into, within(p->grown_ns), NUMBER);
    put_signed(into, growth_within(p->gpu_grown), SIZE);
    put_signed(into, within(p->gpu_grown_ns), NUMBER);
    uint8_t length = (uint8_t)strnlen(p->name, UMA_GUARD_NAME_MAX - 1);
    uma_guard_put_byte(into, (uint8_t)(length | (p->gpu_known ? 0x80 : 0)));
    for (uint8_t i = 0; i < length; i++)
        uma_guard_put_byte(into, (uint8_t)p->name[i]);
}

/* At most `most`, else bad. */
static uint64_t get_up_to(struct uma_guard_from *from, uint64_t most) {
    uint64_t value = uma_guard_get_number(from);
    if (value > most) {
        from->bad = true;
        return 0;
    }
    return value;
}
static uint64_t get_size(struct uma_guard_from *from) {
    int64_t size = get_signed(from, SIZE);
    if (size < 0)
        from->bad = true;
    return size < 0 ? 0 : (uint64_t)size;
}
static int64_t get_time(struct uma_guard_from *from) {
    int64_t time = get_signed(from, NUMBER);
    if (time < 0)
        from->bad = true;
    return time < 0 ? 0 : time;
}

void uma_guard_get_process(struct uma_guard_from *from, size_t n, struct uma_guard_process *p) {
    memset(p, 0, sizeof(*p));
    p->pid = (int32_t)get_up_to(from, INT32_MAX);
    p->parent = (int32_t)get_up_to(from, INT32_MAX);
    p->tree = (int32_t)get_up_to(from, n ? n - 1 : 0);
    p->envelope = (int32_t)get_up_to(from, UMA_GUARD_ENVELOPES) - 1;
    p->uid = (uint32_t)get_up_to(from, UINT32_MAX);
    p->flags = (uint32_t)get_up_to(from, UINT32_MAX);
    p->start = get_up_to(from, MOST);
    p->anon = get_size(from);
    p->shmem = get_size(from);
    p->swap = get_size(from);
    p->gpu = get_size(from);
    p->grown = get_signed(from, SIZE);
    p->grown_ns = get_time(from);
    p->gpu_grown = get_signed(from, SIZE);
    p->gpu_grown_ns = get_time(from);
    uint8_t length = uma_guard_get_byte(from);
    p->gpu_known = length >> 7;
    length &= 0x7f;
    if (length >= UMA_GUARD_NAME_MAX)
        from->bad = true;
    for (uint8_t i = 0; i < length && !from->bad; i++)
        p->name[i] = (char)uma_guard_get_byte(from);
}

void uma_guard_put_envelope(struct uma_guard_into *into, const struct uma_guard_envelope *e) {
    uma_guard_put_number(into, e->id);
    uma_guard_put_number(into, (uint32_t)e->pid);
    put_signed(into, size_within(e->need), SIZE);
    put_signed(into, size_within(e->taken), SIZE);
}

void uma_guard_get_envelope(struct uma_guard_from *from, struct uma_guard_envelope *e) {
    memset(e, 0, sizeof(*e));
    e->id = uma_guard_get_number(from);
    e->pid = (int32_t)get_up_to(from, INT32_MAX);
    e->need = get_size(from);
    e->taken = get_size(from);
}
