/* SPDX-License-Identifier: MIT */
/*
 * gate.h - may this call take memory from the pool? A pure function of what is known at that moment, so that a recorded event can be judged again. What is not known never refuses: the valve
 * falls open.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct uma_valve_question {
    uint64_t size;      /* bytes that the call will take */
    uint64_t used;      /* bytes that the job has without them */
    uint64_t ceiling;   /* UMA_VALVE_NONE: none */
    bool unified;       /* the device's memory is the machine's: otherwise the machine's figures say nothing about it */
    bool known;         /* available, free were read */
    uint64_t available; /* MemAvailable */
    uint64_t free;      /* MemFree: what the driver can have without the kernel taking pages back first */
    uint64_t under_way; /* bytes of other calls that the driver was asked for and that are not in these two yet */
    uint64_t floor;     /* bytes of MemAvailable that stay */
    uint64_t reserved;  /* bytes of other jobs that stay too */
};

enum uma_valve_answer {
    UMA_VALVE_PASS,
    UMA_VALVE_MAKE_ROOM, /* there is enough, but as page cache: take some of it back first, then pass */
    UMA_VALVE_OVER_CEILING,
    UMA_VALVE_UNDER_FLOOR,
};

/*
 * Free memory beyond the call's size, below which room is made first: the kernel keeps some megabytes back itself (the watermarks of the zones: 0.4 % of a zone, Documentation/admin-guide/sysctl/vm.rst,
 * min_free_kbytes and watermark_scale_factor), and the driver asks for blocks of up to 2 MiB that the last free pages do not make.
 */
#define UMA_VALVE_SLACK ((uint64_t)256 << 20)

/*
 * Kept above the floor, where there is one: what the driver and the kernel take beside the bytes of a call (page tables, slab), and what a program needs to say that it is out of memory. 1 to 3 MiB were seen in a guest
 * that was driven to its floor in pieces of 1 MiB.
 */
#define UMA_VALVE_MARGIN ((uint64_t)8 << 20)

enum uma_valve_answer uma_valve_judge(const struct uma_valve_question *question);

/*
 * A call of so much looks at the machine, always. One look is a read of /proc/meminfo, 3 to 8 us (measured), which a call of this size takes a hundred times over: the driver fills it with zeros.
 */
#define UMA_VALVE_LOOK ((uint64_t)2 << 20)
/*
 * How many bytes smaller calls of a process may take together before the next of them looks again: a sixty-fourth of what the machine could give when it was last looked at, so that sixteen processes at once take no more
 * than a quarter of it unseen; at least UMA_VALVE_LOOK (0: it was not known), at most 256 MiB, which nobody below the default floor's half GiB would notice.
 */
uint64_t uma_valve_unlooked(const struct uma_valve_question *question);
/* What they took is looked at after this time too, when it is UMA_VALVE_LOOK: others take memory meanwhile. Nanoseconds. */
#define UMA_VALVE_LOOK_NS ((uint64_t)100000000)

/* What the job may still take by the same rule, at most `available`: what cuMemGetInfo is answered with. */
uint64_t uma_valve_room(const struct uma_valve_question *question);

/*
 * The floor when nobody names one, of a machine with so much memory: a thirty-second, at least 0.5 and at most 4 GiB, the reserve of `umactl status`
 * (account/headroom.c says where the figures come from).
 */
uint64_t uma_valve_default_floor(uint64_t total);
