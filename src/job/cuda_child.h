/* SPDX-License-Identifier: MIT */
/*
 * cuda_child.h - a child that loads CUDA and allocates as it is told (umactl-cuda), in a cgroup or behind the valve. Each question has a deadline, after which the child is
 * killed and answers nothing more; nobody waits for one that is stuck in the driver.
 */
#pragma once

#include "base/error.h"
#include "observe/gpu_probe_start.h"

#include <stdbool.h>
#include <stdint.h>

struct uma_cuda_child {
    struct uma_probe_process process;
    int fd; /* -1: it has ended */
};

/* `procs`: of the cgroup that it enters, or -1. `valve`: the library to preload and its settings, or NULL: neither. */
struct uma_cuda_child_options {
    int procs;
    const char *valve, *settings;
};
int uma_cuda_child_start(const struct uma_cuda_child_options *options, struct uma_cuda_child *ret_child, struct uma_error *err);
/* Seconds for the driver's start and a context: 0.2 to 3 s where it is healthy; and for an allocation, which takes 0.1 s a GiB. */
#define UMA_CUDA_CHILD_BEGIN 20.0
#define UMA_CUDA_CHILD_TAKE 10.0
/* The step that it came to ("ready": all of them) and its CUresult; -1: no such library or call. -ETIMEDOUT, -EPIPE. */
int uma_cuda_child_begin(struct uma_cuda_child *child, char ret_step[16], int *ret_code, struct uma_error *err);
/* The CUresult of one allocation, given back at once. -ETIMEDOUT, -EPIPE. */
int uma_cuda_child_take(struct uma_cuda_child *child, uint64_t bytes, int *ret_code, struct uma_error *err);
void uma_cuda_child_end(struct uma_cuda_child *child);
