/* SPDX-License-Identifier: MIT */
/*
 * anchors.h - the figures that users of these machines know by heart, to set an estimate beside. Each says under which
 * conditions it holds, because most of them hold only under some. Pure.
 */
#pragma once

#include "plan/fit.h"

struct uma_anchor {
    const char *name;
    double params; /* of the model it was seen with */
    bool serving;
    enum uma_method method; /* of training */
    bool four_bit;          /* weights of about four bits */
    uint64_t bytes;         /* as reported */
    const char *condition;  /* when it holds */
    const char *source;
};

/*
 * The anchor nearest to a job: of the same kind and method, with a parameter count within a factor of two. NULL when none is near: an
 * anchor of another class says nothing.
 */
const struct uma_anchor *uma_anchor_nearest(const struct uma_model *model, const struct uma_plan_job *job);
const struct uma_anchor *uma_anchors(size_t *ret_count);
