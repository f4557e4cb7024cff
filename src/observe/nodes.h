/* SPDX-License-Identifier: MIT */
/* nodes.h - the NUMA nodes of /sys/devices/system/node. On GH200 the GPU's memory is one (a node without CPUs). Part of memory.c's
 * reader. */
#pragma once

#include "base/root.h"
#include "uma.h"

struct uma_node_slot {
    int32_t id;
    enum uma_truth has_cpu; /* as it was when the folder was listed: which nodes have CPUs is how the machine is built */
    int kept;               /* its meminfo, -1 */
    char path[56];          /* "sys/devices/system/node/node0/meminfo" */
};

struct uma_nodes_reader {
    bool listed;
    size_t n;
    struct uma_node_slot *slots; /* by id */
    int online_kept;
    struct uma_text online; /* as it was when the folder was listed: another text means that nodes came or went */
};

void uma_nodes_reader_init(struct uma_nodes_reader *reader);
void uma_nodes_reader_done(struct uma_nodes_reader *reader);
/* Fills nodes and nodes_source. `scratch` is overwritten. */
void uma_nodes_read(struct uma_nodes_reader *reader, struct uma_root *root, struct uma_text *scratch, struct uma_snapshot *snapshot);

/* Is `id` in a list such as "0-3,8"? UMA_MAYBE when the text is not one. Pure. */
enum uma_truth uma_id_list_has(const char *text, size_t length, int32_t id);
