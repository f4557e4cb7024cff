/* SPDX-License-Identifier: MIT */
#include "observe/gpu_probe.h"

#include "base/units.h"
#include "observe/gpu_probe_protocol.h"
#include "observe/gpu_probe_start.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Probes that were killed and have not died: after this many, with ever longer pauses between them, the oldest is left to init. */
enum { UNDEAD_MAX = 8 };
/* Milliseconds that a process which was just killed, or just closed its socket, is given to be over. Only a stuck one needs more. */
enum { GRACE = 20 };

struct uma_probe {
    char *library;
    double deadline;
    bool keep;
    struct uma_probe_process process;
    int fd;
    uint32_t sequence;
    int64_t asked_ns;       /* monotonic time of the open question, 0: none */
    int64_t pause_until_ns; /* monotonic */
    double pause;           /* seconds of the last pause after a failure, 0: all is well */
    bool hung;
    char trouble[256]; /* why the last question has no answer, "": it has */
    uint8_t *incoming;
    size_t received, capacity; /* of incoming, with the header */
    uint8_t *last;             /* the last answer, without the header */
    size_t last_length;
    int64_t last_time_ns; /* wall clock */
    double last_latency;
    struct uma_probe_process undead[UNDEAD_MAX];
    size_t n_undead;
};

struct uma_probe *uma_probe_new(const char *library, double deadline, bool keep) {
    struct uma_probe *probe = calloc(1, sizeof(*probe));
    if (!probe)
        return NULL;
    *probe = (struct uma_probe){ .deadline = deadline > 0 ? deadline : UMA_PROBE_DEADLINE, .keep = keep, .process.pidfd = -1, .fd = -1 };
    if (library && !(probe->library = strdup(library))) {
        free(probe);
        return NULL;
    }
    return probe;
}

static void reap_undead(struct uma_probe *probe) {
    size_t kept = 0;
    for (size_t i = 0; i < probe->n_undead; i++)
        if (!uma_probe_reap(&probe->undead[i], NULL))
            probe->undead[kept++] = probe->undead[i];
    probe->n_undead = kept;
}

/* End the running probe. Never waits: what does not die at once is looked at again later. */
static void retire(struct uma_probe *probe) {
    uma_cleanup_close(&probe->fd);
    probe->fd = -1;
    probe->asked_ns = 0;
    if (probe->process.pid <= 0)
        return;
    uma_probe_kill(&probe->process);
    if (uma_probe_reap(&probe->process, NULL))
        return;
    if (probe->n_undead == UNDEAD_MAX) {
        uma_cleanup_close(&probe->undead[0].pidfd);
        (void)memmove(&probe->undead[0], &probe->undead[1], (UNDEAD_MAX - 1) * sizeof(probe->undead[0]));
        probe->n_undead--;
    }
    probe->undead[probe->n_undead++] = probe->process;
    probe->process = (struct uma_probe_process){ .pidfd = -1 };
}

struct uma_probe *uma_probe_free(struct uma_probe *probe) {
    if (!probe)
        return NULL;
    retire(probe);
    for (size_t i = 0; i < probe->n_undead; i++)
        if (!uma_probe_reap_within(&probe->undead[i], GRACE, NULL))
            uma_cleanup_close(&probe->undead[i].pidfd);
    free(probe->incoming);
    free(probe->last);
    free(probe->library);
    free(probe);
    return NULL;
}

int uma_probe_pid(const struct uma_probe *probe) {
    return (int)probe->process.pid;
}

/* ---- asking ------------------------------------------------------------------------------------------------- */

static void fail(struct uma_probe *probe, bool hung, const char *why) {
    retire(probe);
    probe->hung = hung;
    (void)snprintf(probe->trouble, sizeof(probe->trouble), "%s", why);
    probe->pause = probe->pause > 0 ? MIN_OF(probe->pause * 2, UMA_PROBE_PAUSE_LAST) : UMA_PROBE_PAUSE_FIRST;
    probe->pause_until_ns = uma_monotonic_ns() + (int64_t)(probe->pause * UMA_SECOND_NS);
}

static bool send_question(struct uma_probe *probe) {
    struct probe_header header = { .magic = PROBE_MAGIC, .version = PROBE_VERSION, .type = PROBE_ASK, .sequence = ++probe->sequence };
    ssize_t n = send(probe->fd, &header, sizeof(header), MSG_NOSIGNAL);
    return n == (ssize_t)sizeof(header);
}

void uma_probe_ask(struct uma_probe *probe) {
    reap_undead(probe);
    int64_t now = uma_monotonic_ns();
    if (probe->asked_ns || now < probe->pause_until_ns)
        return;
    struct uma_error err = { 0 };
    /* a kept probe may have died since (killed by hand, by the OOM killer, or with the thread that started it): it is replaced at once */
    bool alive = probe->fd >= 0 && poll(&(struct pollfd){ .fd = probe->fd, .events = POLLIN }, 1, 0) == 0 && send_question(probe);
    if (!alive) {
        retire(probe);
        if (uma_probe_start(probe->library, &probe->process, &probe->fd, &err) < 0) {
            fail(probe, false, err.text);
            return;
        }
        if (!send_question(probe)) {
            fail(probe, false, "the probe ended before it was asked");
            return;
        }
    }
    probe->asked_ns = now;
    probe->received = 0;
}

/* ---- the answer --------------------------------------------------------------------------------------------- */

/* Why the socket was closed, for people. */
static void describe_end(struct uma_probe *probe, char *text, size_t size) {
    int status = -1;
    if (probe->process.pid > 0 && uma_probe_reap_within(&probe->process, GRACE, &status) && status != -1) {
        if (WIFSIGNALED(status)) {
            (void)snprintf(text, size, "the probe was killed by signal %d before it answered", WTERMSIG(status));
            return;
        }
        (void)snprintf(text, size, "the probe ended with status %d before it answered", WEXITSTATUS(status));
        return;
    }
    (void)snprintf(text, size, "the probe ended before it answered");
}

/* Room for what is known to come: first a header, then what it announces, growing only as bytes really arrive. */
static bool make_room(struct uma_probe *probe, size_t wanted) {
    enum { LEAST = 16384 };
    if (probe->capacity > probe->received)
        return true;
    size_t capacity = MIN_OF(MAX_OF(probe->capacity * 2, (size_t)LEAST), MAX_OF(wanted, (size_t)LEAST));
    uint8_t *grown = realloc(probe->incoming, capacity);
    if (!grown)
        return false;
    probe->incoming = grown;
    probe->capacity = capacity;
    return true;
}

/* How long the whole message is: at least a header; -EPROTO when it is not an answer to this question. */
static int message_length(const struct uma_probe *probe, size_t *ret_length) {
    struct probe_header header;
    *ret_length = sizeof(header);
    if (probe->received < sizeof(header))
        return 0;
    (void)memcpy(&header, probe->incoming, sizeof(header));
    if (header.magic != PROBE_MAGIC || header.version != PROBE_VERSION || header.type != PROBE_ANSWER ||
        header.sequence != probe->sequence || header.length > PROBE_LENGTH_MAX)
        return -EPROTO;
    *ret_length += header.length;
    return 0;
}

/* Read until the answer is whole. 1: it is; 0: the deadline passed; negative: it will not come, and `why` says so. */
static int receive(struct uma_probe *probe, char *why, size_t size) {
    int64_t until = probe->asked_ns + (int64_t)(probe->deadline * UMA_SECOND_NS);
    for (;;) {
        size_t wanted = 0;
        if (message_length(probe, &wanted) < 0) {
            (void)snprintf(why, size, "the probe's answer is not one");
            return -EPROTO;
        }
        if (probe->received == wanted && wanted > sizeof(struct probe_header))
            return 1;
        if (!make_room(probe, wanted)) {
            (void)snprintf(why, size, "no memory for the probe's answer");
            return -ENOMEM;
        }
        ssize_t n = recv(probe->fd, probe->incoming + probe->received, MIN_OF(probe->capacity, wanted) - probe->received, 0);
        if (n > 0) {
            probe->received += (size_t)n;
            continue;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            describe_end(probe, why, size);
            return -EPIPE;
        }
        int64_t left = until - uma_monotonic_ns();
        if (left <= 0)
            return 0;
        (void)poll(&(struct pollfd){ .fd = probe->fd, .events = POLLIN }, 1, (int)MIN_OF(left / 1000000 + 1, 1000));
    }
}

/* What can be said without an answer: the last one, marked stale, or nothing. */
static void give_last(const struct uma_probe *probe, struct uma_arena *arena, struct uma_gpus *ret_gpus) {
    struct uma_gpus gpus = { .latency_seconds = { .validity = UMA_UNKNOWN } };
    const char *trouble = probe->trouble[0] ? uma_arena_utf8(arena, probe->trouble, strlen(probe->trouble)) : NULL;
    gpus.source = (struct uma_source){ .validity = UMA_FAILED, .time_ns = uma_now_ns(), .path = "nvml" };
    if (probe->last && uma_probe_answer_parse(probe->last, probe->last_length, arena, &gpus, NULL) == 0) {
        gpus.source.time_ns = probe->last_time_ns;
        gpus.latency_seconds = (struct uma_f64){ probe->last_latency, UMA_STALE };
        uma_gpus_make_stale(&gpus);
        if (gpus.source.validity == UMA_KNOWN)
            gpus.source.validity = UMA_STALE;
        else if (trouble)
            gpus.source.validity = UMA_FAILED;
    }
    if (trouble)
        gpus.source.detail = trouble;
    gpus.hung = probe->hung;
    *ret_gpus = gpus;
}

/* Keep the answer for later and give it out. */
static int accept_answer(struct uma_probe *probe, struct uma_arena *arena, struct uma_gpus *ret_gpus) {
    struct uma_gpus gpus = { 0 };
    size_t length = probe->received - sizeof(struct probe_header);
    int r = uma_probe_answer_parse(probe->incoming + sizeof(struct probe_header), length, arena, &gpus, NULL);
    if (r < 0)
        return r;
    uint8_t *kept = realloc(probe->last, length);
    if (!kept)
        return -ENOMEM;
    /* the answer may have waited while other sources were read: its time is that of the reading, as far as that is possible */
    struct probe_answer answer;
    int64_t now = uma_monotonic_ns();
    (void)memcpy(kept, probe->incoming + sizeof(struct probe_header), length);
    (void)memcpy(&answer, kept, sizeof(answer));
    int64_t finished = MIN_OF(MAX_OF(answer.finished_ns, probe->asked_ns), now);
    probe->last = kept;
    probe->last_length = length;
    probe->last_time_ns = gpus.source.time_ns = (uma_now_ns() - (now - finished)) / 1000 * 1000; /* whole microseconds */
    probe->last_latency = (double)(finished - probe->asked_ns) / UMA_SECOND_NS;
    gpus.latency_seconds = (struct uma_f64){ probe->last_latency, UMA_KNOWN };
    probe->hung = false;
    probe->trouble[0] = '\0';
    probe->pause = 0;
    probe->asked_ns = 0;
    if (!probe->keep)
        retire(probe);
    else if (gpus.source.validity == UMA_ABSENT)
        probe->pause_until_ns = now + (int64_t)(UMA_PROBE_ABSENT_PAUSE * UMA_SECOND_NS);
    *ret_gpus = gpus;
    return 0;
}

void uma_probe_collect(struct uma_probe *probe, struct uma_arena *arena, struct uma_gpus *ret_gpus) {
    if (probe->asked_ns) {
        char why[160] = "";
        int r = receive(probe, why, sizeof(why));
        if (r > 0) {
            if (accept_answer(probe, arena, ret_gpus) == 0)
                return;
            (void)snprintf(why, sizeof(why), "the probe's answer is not one");
        }
        if (r == 0)
            (void)snprintf(why, sizeof(why), "no answer within %u.%u s", (unsigned)(probe->deadline * 10 + 0.5) / 10,
                           (unsigned)(probe->deadline * 10 + 0.5) % 10);
        fail(probe, r == 0, why);
    }
    give_last(probe, arena, ret_gpus);
}
