/* SPDX-License-Identifier: MIT */
/*
 * umactl-probe - the one process that loads NVIDIA's management library. It reads questions from a socket, answers each with one reading of all
 * GPUs, or of what the driver holds a cgroup to (which it also sets), and ends when the socket closes or its parent dies. It may block or crash in the library at any moment: whoever asks has a deadline.
 *
 * Started only by libuma (gpu_probe.c): umactl-probe PARENT-PID [LIBRARY], socket on descriptor 3, standard descriptors on /dev/null.
 */
#include "observe/gpu_nvml.h"
#include "observe/gpu_probe_protocol.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The whole of a message; false when the other end is gone. */
static bool receive(void *into, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = recv(PROBE_FD, (char *)into + done, size - done, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static bool send_all(const void *from, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = send(PROBE_FD, (const char *)from + done, size - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* Die with the parent even while a call into the library blocks; leave nothing of the parent's open, nor a core behind. */
static bool settle(const char *parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return false;
    char self[16];
    (void)snprintf(self, sizeof(self), "%d", (int)getppid());
    if (strcmp(self, parent) != 0)
        return false; /* it died before the line above */
#ifdef SYS_close_range
    /* a descriptor inherited by mistake could keep a job's pipe open; before Linux 5.9 there is none but what O_CLOEXEC closed */
    (void)syscall(SYS_close_range, PROBE_FD + 1, UINT_MAX, 0);
#endif
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    return signal(SIGPIPE, SIG_IGN) != SIG_ERR;
}

/* One question; false: no more of them. */
static bool serve(struct nvml_library *library) {
    struct probe_header header;
    struct probe_limits_ask ask;
    const uint8_t *answer = NULL;
    size_t length = 0;
    if (!receive(&header, sizeof(header)) || header.magic != PROBE_MAGIC || header.version != PROBE_VERSION)
        return false;
    if (header.type == PROBE_ASK && header.length == 0) {
        answer = nvml_library_answer(library, &length);
        header.type = PROBE_ANSWER;
    } else if (header.type == PROBE_LIMITS_ASK && header.length == sizeof(ask) && receive(&ask, sizeof(ask)) &&
               memchr(ask.cgroup, '\0', sizeof(ask.cgroup))) {
        answer = nvml_library_limits(library, &ask, &length);
        header.type = PROBE_LIMITS_ANSWER;
    }
    if (!answer || length > PROBE_LENGTH_MAX)
        return false;
    header.length = (uint32_t)length;
    return send_all(&header, sizeof(header)) && send_all(answer, length);
}

int main(int argc, char **argv) {
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (argc < 2 || argc > 3 || getsockopt(PROBE_FD, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        (void)fputs("umactl-probe reads NVIDIA GPUs for umactl and is started by it; it is of no use by itself.\n", stderr);
        return 2;
    }
    if (!settle(argv[1]))
        return 1;
    struct nvml_library *library = nvml_library_new(argc == 3 ? argv[2] : NULL);
    while (library && serve(library))
        continue;
    _exit(0); /* the library's destructors could block, too */
}
