/* SPDX-License-Identifier: MIT */
/*
 * The gate's decision and the job's claim as one step. The machine takes long to read (a driver may hang), so that is not done under the register's lock: what changed among the claims meanwhile is reckoned with
 * as it was at its worst (claims.h). Another user's launch has another lock: after the claim is made, theirs are read once more, and of two that see each other both step back and try again.
 */
#include "job/job.h"

#include "base/units.h"
#include "job/claim.h"
#include "job/gate.h"

#include <poll.h>
#include <string.h>

enum { TRIES = 4, PAUSE_LEAST_MS = 5, PAUSE_SPREAD_MS = 60 };

static uint64_t total_of(const struct uma_job *job) {
    struct uma_u64 total = job->before.meminfo.mem_total;
    return uma_usable(total.validity) ? total.value : UINT64_MAX;
}

/* Is it this machine that the gate reads? A folder's has no jobs of ours. */
static bool has_registers(const struct uma_job *job) {
    const char *root = job->options->observe.root;
    return !root || strcmp(root, "/") == 0;
}

void uma_job_claims_read(struct uma_job *job) {
    uma_claims_done(&job->claims);
    if (!has_registers(job))
        return;
    uma_claims_read(uma_claims_folder(), &job->claims);
    if (job->claims.n_passed_over && !job->passed_over_told)
        uma_job_tell("%s/%s is passed over, with what it may say of reservations: %s", uma_claims_folder(), job->claims.passed_over,
                     job->claims.why);
    job->passed_over_told = job->passed_over_told || job->claims.n_passed_over;
}

int uma_job_account_build(struct uma_job *job, uint64_t reserved, struct uma_error *err) {
    struct uma_account account;
    int r = uma_account_build(&job->before, reserved, &account, err);
    if (r < 0)
        return r;
    uma_account_done(&job->account);
    job->account = account;
    return 0;
}

uint64_t uma_job_reserved_by_others(const struct uma_job *job) {
    return uma_claims_unspent(&job->claims, total_of(job));
}

/* With the claims as they are now. `self`: the job's own, 0: it has none. */
static void judge_again(struct uma_job *job, uint64_t self, struct uma_gate *gate) {
    struct uma_claims now;
    uma_claims_read(uma_claims_folder(), &now);
    uint64_t reserved = uma_claims_unspent_since(&job->claims, &now, self, total_of(job));
    uma_claims_done(&now);
    if (reserved != job->account.headroom.reserved.value && uma_job_account_build(job, reserved, NULL) < 0)
        gate->verdict = UMA_GATE_UNKNOWN;
    else
        uma_gate_decide(&job->account, job->options->need, gate);
}

/* 0: it fits and is claimed, or it does not fit. -errno: nothing could be claimed. */
static int decide_and_claim(struct uma_job *job, struct uma_gate *gate, struct uma_error *err) {
    int r = uma_claim_lock(job->claim, err);
    if (r < 0)
        return r;
    judge_again(job, 0, gate);
    if (gate->verdict == UMA_GATE_FITS)
        r = uma_claim_make(job->claim, job->options->need.value, job->run.name, err);
    uma_claim_unlock(job->claim);
    return r;
}

/* Not as long as whoever stepped back together with us. */
static void pause_a_moment(void) {
    (void)poll(NULL, 0, PAUSE_LEAST_MS + (int)((uint64_t)getpid() * 2654435761u % PAUSE_SPREAD_MS));
}

void uma_job_gate_decide(struct uma_job *job, struct uma_gate *ret_gate) {
    struct uma_error err = { 0 };
    uma_gate_decide(&job->account, job->options->need, ret_gate);
    if (ret_gate->verdict != UMA_GATE_FITS || !has_registers(job))
        return;
    int r = job->claim ? 0 : uma_claim_open(uma_claims_folder(), &job->claim, &err);
    for (int tries = 0; r >= 0 && tries < TRIES; tries++) {
        if (tries > 0)
            pause_a_moment();
        r = decide_and_claim(job, ret_gate, &err);
        if (r < 0 || ret_gate->verdict != UMA_GATE_FITS)
            break;
        judge_again(job, uma_claim_id(job->claim), ret_gate);
        if (ret_gate->verdict == UMA_GATE_FITS)
            return;
        uma_claim_withdraw(job->claim);
    }
    if (r < 0 && ret_gate->verdict == UMA_GATE_FITS)
        uma_job_tell("nothing is reserved for the job, others may take what it was promised: %s", err.text);
}

/* The job's processes know which claims are not others': its own and, when umactl runs inside a job, that job's. */
void uma_job_claim_tell(struct uma_job *job) {
    uint64_t own[UMA_OWN_CLAIMS_MAX], id = uma_claim_id(job->claim);
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_error err = { 0 };
    if (id == 0)
        return;
    unsigned n = uma_own_claims_parse(getenv(UMA_RESERVATION_VARIABLE), own);
    uma_text_printf(&text, "%016llx", (unsigned long long)id);
    for (unsigned i = 0; i < n && i + 1 < UMA_OWN_CLAIMS_MAX; i++)
        uma_text_printf(&text, ",%016llx", (unsigned long long)own[i]);
    if (text.failed || uma_job_environment_set(&job->environment, UMA_RESERVATION_VARIABLE, text.data, &err) < 0)
        uma_job_tell("the job's own reservation counts against it where the valve is: %s", text.failed ? "no memory" : err.text);
}

void uma_job_claim_update(struct uma_job *job) {
    struct uma_u64 none = { 0 }, device = job->before.platform.unified == UMA_NO ? none : job->watch.last_gpu,
                   valve = job->before.platform.unified == UMA_NO ? none : uma_job_valve_taken(job->valve);
    uma_claim_update(job->claim, uma_claim_taken(job->watch.last_tree.memory, device, valve));
}
