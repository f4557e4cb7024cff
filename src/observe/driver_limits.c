/* SPDX-License-Identifier: MIT */
#include "observe/driver_limits.h"

#include "base/units.h"
#include "observe/gpu_probe_protocol.h"
#include "observe/gpu_probe_start.h"
#include "observe/nvml_abi.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(ELEMENTS(((struct uma_driver_limits *)0)->gpus) == UMA_GPUS_MAX, "one for each GPU");

/* Milliseconds for a process that was just killed to be over. */
enum { GRACE = 20 };

#define ANSWER_MAX (sizeof(struct probe_answer) + UMA_GPUS_MAX * sizeof(struct probe_limits))

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static enum uma_driver_limits_state state_of(int status) {
    switch (status) {
    case NVML_OK:
        return UMA_DRIVER_LIMITS_DONE;
    case NVML_NOT_FOUND:
        return UMA_DRIVER_LIMITS_UNSET;
    case NVML_NOT_SUPPORTED:
    case NVML_FUNCTION_NOT_FOUND: /* a library that has the name, before a driver that has not the call */
    case NVML_DEPRECATED:
        return UMA_DRIVER_LIMITS_UNSUPPORTED;
    case NVML_NO_PERMISSION:
        return UMA_DRIVER_LIMITS_DENIED;
    default:
        return UMA_DRIVER_LIMITS_FAILED;
    }
}

static enum uma_driver_limits_state state_of_answer(const struct probe_answer *answer) {
    switch (answer->state) {
    case PROBE_READ:
        return answer->n_gpus ? UMA_DRIVER_LIMITS_DONE : UMA_DRIVER_LIMITS_NO_GPU;
    case PROBE_NO_LIBRARY:
        return UMA_DRIVER_LIMITS_NO_LIBRARY;
    case PROBE_NO_SYMBOLS:
        return UMA_DRIVER_LIMITS_NO_SYMBOLS;
    case PROBE_INIT_FAILED:
        return answer->code == NVML_NO_PERMISSION ? UMA_DRIVER_LIMITS_DENIED : UMA_DRIVER_LIMITS_NO_DRIVER;
    default:
        return UMA_DRIVER_LIMITS_FAILED;
    }
}

/* Text of a library: made fit to be printed where it is printed. */
static void copy_text(char *into, size_t size, const char *from, size_t most) {
    (void)snprintf(into, size, "%.*s", (int)strnlen(from, most), from);
}

int uma_driver_limits_parse(const uint8_t *data, size_t length, struct uma_driver_limits *ret_limits) {
    struct probe_answer answer;
    struct uma_driver_limits limits = { 0 };
    if (length < sizeof(answer))
        return -EPROTO;
    (void)memcpy(&answer, data, sizeof(answer));
    if (answer.state > PROBE_NO_SYMBOLS || answer.n_gpus > UMA_GPUS_MAX || answer.n_processes != 0 ||
        length != sizeof(answer) + answer.n_gpus * sizeof(struct probe_limits) || (answer.state != PROBE_READ && answer.n_gpus > 0))
        return -EPROTO;
    limits.state = state_of_answer(&answer);
    copy_text(limits.driver, sizeof(limits.driver), answer.driver, sizeof(answer.driver));
    for (; limits.n < answer.n_gpus; limits.n++) {
        struct probe_limits one;
        (void)memcpy(&one, data + sizeof(answer) + limits.n * sizeof(one), sizeof(one));
        limits.gpus[limits.n] =
            (struct uma_driver_limit){ .state = state_of(one.status), .soft = one.soft, .hard = one.hard, .used = one.used };
        limits.state = MAX_OF(limits.state, limits.gpus[limits.n].state);
    }
    if (limits.state != UMA_DRIVER_LIMITS_DONE)
        copy_text(limits.detail, sizeof(limits.detail), answer.detail, sizeof(answer.detail));
    if (limits.state == UMA_DRIVER_LIMITS_NO_GPU)
        (void)snprintf(limits.detail, sizeof(limits.detail), "the driver counts no GPU");
    *ret_limits = limits;
    return 0;
}

const char *uma_driver_limits_word(enum uma_driver_limits_state state) {
    static const char *const words[] = { [UMA_DRIVER_LIMITS_DONE] = "done",
                                         [UMA_DRIVER_LIMITS_UNSET] = "not-found",
                                         [UMA_DRIVER_LIMITS_UNSUPPORTED] = "unsupported",
                                         [UMA_DRIVER_LIMITS_DENIED] = "no-permission",
                                         [UMA_DRIVER_LIMITS_FAILED] = "failed",
                                         [UMA_DRIVER_LIMITS_NO_GPU] = "no-gpu",
                                         [UMA_DRIVER_LIMITS_NO_SYMBOLS] = "no-symbols",
                                         [UMA_DRIVER_LIMITS_NO_DRIVER] = "no-driver",
                                         [UMA_DRIVER_LIMITS_NO_LIBRARY] = "no-library",
                                         [UMA_DRIVER_LIMITS_HUNG] = "hung",
                                         [UMA_DRIVER_LIMITS_NO_PROBE] = "no-probe" };
    return (unsigned)state < ELEMENTS(words) ? words[state] : "failed";
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static void give_up(struct uma_driver_limits *limits, enum uma_driver_limits_state state, const char *why) {
    *limits = (struct uma_driver_limits){ .state = state };
    (void)snprintf(limits->detail, sizeof(limits->detail), "%.255s", why);
}

/* `size` bytes before `until`. 1; 0: the time is up; -1: the other end is gone. */
static int receive(int fd, int64_t until, uint8_t *into, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = recv(fd, into + done, size - done, 0);
        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return -1;
        int64_t left = until - uma_monotonic_ns();
        if (left <= 0)
            return 0;
        (void)poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, (int)MIN_OF(left / 1000000 + 1, 1000));
    }
    return 1;
}

static void converse(int fd, const struct probe_limits_ask *ask, double deadline, struct uma_driver_limits *ret_limits) {
    struct {
        struct probe_header header;
        struct probe_limits_ask ask;
    } message = { .header = { .magic = PROBE_MAGIC, .version = PROBE_VERSION, .type = PROBE_LIMITS_ASK, .length = sizeof(*ask) },
                  .ask = *ask };
    struct probe_header header;
    uint8_t data[ANSWER_MAX];
    int64_t until = uma_monotonic_ns() + (int64_t)(deadline * UMA_SECOND_NS);
    /* a new socket takes so little at once */
    if (send(fd, &message, sizeof(message), MSG_NOSIGNAL) != (ssize_t)sizeof(message)) {
        give_up(ret_limits, UMA_DRIVER_LIMITS_NO_PROBE, "umactl-probe ended before it was asked");
        return;
    }
    int r = receive(fd, until, (uint8_t *)&header, sizeof(header));
    if (r > 0 && (header.magic != PROBE_MAGIC || header.version != PROBE_VERSION || header.type != PROBE_LIMITS_ANSWER ||
                  header.length > sizeof(data)))
        r = -1;
    if (r > 0)
        r = receive(fd, until, data, header.length);
    if (r == 0)
        give_up(ret_limits, UMA_DRIVER_LIMITS_HUNG, "the driver's library did not answer in time");
    else if (r < 0 || uma_driver_limits_parse(data, header.length, ret_limits) < 0)
        give_up(ret_limits, UMA_DRIVER_LIMITS_NO_PROBE, "umactl-probe ended, or its answer is not one");
}

void uma_driver_limits_ask(const struct uma_driver_limits_question *question, double deadline, struct uma_driver_limits *ret_limits) {
    struct probe_limits_ask ask = { .action = question->set ? PROBE_LIMITS_SET : PROBE_LIMITS_GET,
                                    .soft_most = question->soft_most,
                                    .hard = question->hard };
    struct uma_probe_process process = { .pidfd = -1 };
    struct uma_error err = { 0 };
    _cleanup_close_ int fd = -1;
    if (snprintf(ask.cgroup, sizeof(ask.cgroup), "%s", question->cgroup) >= (int)sizeof(ask.cgroup)) {
        give_up(ret_limits, UMA_DRIVER_LIMITS_FAILED, "the group's path is too long");
        return;
    }
    if (uma_probe_start(question->library, &process, &fd, &err) < 0) {
        give_up(ret_limits, UMA_DRIVER_LIMITS_NO_PROBE, err.text);
        return;
    }
    converse(fd, &ask, deadline, ret_limits);
    uma_probe_kill(&process);
    if (!uma_probe_reap_within(&process, GRACE, NULL)) /* stuck in the driver: nobody waits for it */
        uma_cleanup_close(&process.pidfd);
}

void uma_driver_limits_read(const char *library, const char *cgroup, struct uma_driver_limits *ret_limits) {
    struct uma_driver_limits_question question = { .library = library, .cgroup = cgroup };
    uma_driver_limits_ask(&question, UMA_DRIVER_LIMITS_DEADLINE, ret_limits);
}
