/* SPDX-License-Identifier: MIT */
/*
 * status.h - the two faces of one account: text for people (status_text.c) and JSON for programs (status_json.c). Both are functions of a
 * snapshot and its account alone: no file is read, nothing is judged, and the same account gives the same bytes.
 */
#pragma once

#include "base/json_write.h"
#include "base/text.h"
#include "job/claims.h"
#include "uma.h"

struct uma_status_style {
    unsigned columns; /* no line is wider */
    unsigned rows;    /* fold what matters least until it fits; 0: no limit, and nothing is folded */
    bool colour;
    bool utf8; /* bars of eighths and an arrow; else ASCII alone */
    bool all;  /* fold nothing and cut no list */
};

/* The style for an output: its size, colour and character set. A terminal of unknown size is 80 x 24; anything else 100 columns. */
struct uma_status_style uma_status_style_of(int fd);

void uma_status_text(struct uma_text *text, const struct uma_snapshot *snapshot, const struct uma_account *account,
                     const struct uma_claims *claims, const struct uma_status_style *style);
/* The whole document, schema umactl.status/1. */
void uma_status_json(struct uma_json *json, const struct uma_snapshot *snapshot, const struct uma_account *account,
                     const struct uma_claims *claims);

/* What running jobs have reserved, largest first, at most `most` of them; nothing where there is none. */
void uma_status_reservations(struct uma_text *text, const struct uma_claims *claims, const struct uma_status_style *style, size_t most);
void uma_reservations_json(struct uma_json *json, const struct uma_claims *claims);

/* The parts that other documents share. */
void uma_holders_json(struct uma_json *json, const char *key, const struct uma_account *account);
/* Parts of a holder's line, not escaped: "vllm serve" in at most `columns`; "0.85 = 103.4"; "embeddings: VLLM::EngineCor, MODEL". */
void uma_holder_kind_text(struct uma_text *text, const struct uma_holder *holder, size_t columns);
void uma_holder_cap_text(struct uma_text *text, const struct uma_holder *holder);
void uma_holder_name_text(struct uma_text *text, const struct uma_holder *holder);
/* One holder as a short phrase: "11.7 GiB  vllm serve, pid 4242 (VLLM::EngineCor) in embeddings". Escaped; at most `columns` wide. */
void uma_holder_phrase(struct uma_text *text, const struct uma_holder *holder, size_t columns);

/*
 * What of the GPU's memory no line of a holder shows, as one sentence: "18.0 GiB of GPU memory that its driver does not divide by process",
 * or that holders of it are not known, why, and how much is unexplained. False, and nothing, where the lines show all. Not escaped.
 */
bool uma_gpu_beside_text(struct uma_text *text, const struct uma_snapshot *snapshot, const struct uma_account *account);
/* The section WHO HOLDS IT: at most `most` holders and `notes` lines about their caps. */
struct uma_holders_shown {
    size_t most, notes;
    bool complete; /* names are not cut but go on in the next line */
};
void uma_status_holders(struct uma_text *text, const struct uma_snapshot *snapshot, const struct uma_account *account,
                        const struct uma_status_style *style, const struct uma_holders_shown *shown);

/* "GB10 71 C (13 to limit), 91 W, 2418 MHz, 96 % busy, not throttled; board 64 C", for at most gpus_most GPUs. Not escaped. */
void uma_status_heat_text(struct uma_text *text, const struct uma_snapshot *snapshot, size_t gpus_most);
/* The board's own sensor (acpitz; Tegra's board zones), the hottest of them; unknown where there is none. */
struct uma_f64 uma_status_board_celsius(const struct uma_snapshot *snapshot);
/*
 * Name of bit `bit` of throttle_reasons ("sw_power_cap", "hw_slowdown"); NULL for a bit that uma.h does not name. Idle is a reason
 * for low clocks but no throttling: UMA_REASON_GPU_IDLE is left out of the lists that are made with this.
 */
const char *uma_reason_name(uint64_t bit);
