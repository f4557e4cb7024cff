/* SPDX-License-Identifier: MIT */
#include "record/sample.h"

#include "base/json_write.h"
#include "base/units.h"

#include <inttypes.h>
#include <math.h>

const struct uma_column_info uma_columns[UMA_COLUMN_COUNT] = {
#define UMA_X(id, name, unit, rule) [UMA_COL_##id] = { name, UMA_UNIT_##unit, UMA_ROW_##rule },
    UMA_COLUMNS(UMA_X)
#undef UMA_X
};

const enum uma_column uma_throttle_columns[UMA_THROTTLE_MAX] = {
    [UMA_THROTTLE_SW_POWER_CAP] = UMA_COL_THROTTLE_SW_POWER_CAP,     [UMA_THROTTLE_SYNC_BOOST] = UMA_COL_THROTTLE_SYNC_BOOST,
    [UMA_THROTTLE_SW_THERMAL] = UMA_COL_THROTTLE_SW_THERMAL,         [UMA_THROTTLE_HW_THERMAL] = UMA_COL_THROTTLE_HW_THERMAL,
    [UMA_THROTTLE_HW_POWER_BRAKE] = UMA_COL_THROTTLE_HW_POWER_BRAKE,
};

void uma_row_add(struct uma_sample *row, const struct uma_sample *sample) {
    row->time_ns = sample->time_ns;
    for (size_t i = 0; i < UMA_COLUMN_COUNT; i++) {
        const struct uma_f64 *now = &sample->value[i];
        struct uma_f64 *sum = &row->value[i];
        if (now->validity != UMA_KNOWN) {
            /* A gauge says what held at the row's time: an older sample of this row must not stand in for it. */
            if (uma_columns[i].rule == UMA_ROW_LAST)
                *sum = *now;
            continue;
        }
        if (sum->validity != UMA_KNOWN) {
            *sum = *now;
            continue;
        }
        switch (uma_columns[i].rule) {
        case UMA_ROW_LAST:
            sum->value = now->value;
            break;
        case UMA_ROW_MIN:
            sum->value = fmin(sum->value, now->value);
            break;
        case UMA_ROW_MAX:
            sum->value = fmax(sum->value, now->value);
            break;
        case UMA_ROW_SUM:
            sum->value += now->value;
            break;
        }
    }
}

static void fixed(struct uma_text *text, double value, unsigned decimals, const char *suffix) {
    uma_text_fixed(text, value, decimals);
    uma_text_append(text, suffix);
}

static void bare(struct uma_text *text, double value) {
    char number[32];
    uma_double_format(value, number);
    uma_text_append(text, number);
}

void uma_column_format(struct uma_text *text, enum uma_column column, struct uma_f64 v, bool plain) {
    /* 1e15 is beyond any reading and within what uma_text_fixed() takes */
    if (v.validity != UMA_KNOWN || !(fabs(v.value) < 1e15)) {
        uma_text_append(text, plain ? "" : "[N/A]");
        return;
    }
    enum uma_unit unit = uma_columns[column].unit;
    if (plain) {
        /* counters are summed as doubles; a microsecond is finer than any of them is measured */
        if (unit == UMA_UNIT_SECONDS || unit == UMA_UNIT_RATIO)
            v.value = round(v.value * 1e6) / 1e6;
        bare(text, v.value);
        return;
    }
    switch (unit) {
    case UMA_UNIT_CELSIUS:
    case UMA_UNIT_COUNT:
        fixed(text, v.value, 0, "");
        break;
    case UMA_UNIT_WATTS:
        fixed(text, v.value, 2, " W");
        break;
    case UMA_UNIT_HERTZ:
        fixed(text, v.value / 1e6, 0, " MHz");
        break;
    case UMA_UNIT_RATIO:
        fixed(text, v.value * 100, 0, " %");
        break;
    case UMA_UNIT_PSTATE:
        uma_text_char(text, 'P');
        fixed(text, v.value, 0, "");
        break;
    case UMA_UNIT_MASK:
        uma_text_printf(text, "0x%016" PRIx64, v.value >= 0 ? (uint64_t)v.value : 0);
        break;
    case UMA_UNIT_SECONDS:
        fixed(text, v.value, 3, " s");
        break;
    case UMA_UNIT_BYTES:
        fixed(text, v.value / (1024.0 * 1024.0), 0, " MiB");
        break;
    }
}
