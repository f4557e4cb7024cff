/* SPDX-License-Identifier: MIT */
#include "window/serve.h"

#include "window/protocol.h"
#include "window/release.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define TICK_MS 500 /* how long a program that ends by pthread_exit(3) may wait for this thread */

#ifndef SYS_close_range /* Linux 5.9, the same number everywhere */
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

/* A table of descriptors of this thread's own, empty. Without it (an older kernel, a seccomp filter) the helper does nothing at all. */
static bool own_descriptors(void) {
    return syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE) == 0;
}

static int connect_to(const char *path) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (strlen(path) >= sizeof(address.sun_path))
        return -1;
    (void)memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* Whoever listens must be this user, or root, who can do all this anyway. */
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        size != sizeof(peer) || (peer.uid != geteuid() && peer.uid != 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/*
 * Has every thread of the program but this one ended? After pthread_exit(3) in main() the process lives as long as any thread: this one must not be the one. The first
 * thread stays as a zombie then; /proc/self/task has one folder for each, which its link count tells (fs/proc/base.c, proc_task_getattr).
 */
static bool is_last(void) {
    struct stat st;
    char text[512];
    if (stat("/proc/self/task", &st) < 0 || st.st_nlink != 2 + 2)
        return false;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    if (fd >= 0)
        (void)close(fd);
    const char *name_end = n > 0 ? memrchr(text, ')', (size_t)n) : NULL; /* "PID (name) S ...": the name may hold anything */
    return name_end && text + n - name_end > 2 && name_end[2] == 'Z';
}

static bool understood(const struct uma_window_request *request, size_t size) {
    return size >= offsetof(struct uma_window_request, ranges) && request->version == UMA_WINDOW_VERSION &&
           request->n <= UMA_WINDOW_RANGES_MAX &&
           size >= offsetof(struct uma_window_request, ranges) + request->n * sizeof(request->ranges[0]);
}

static bool answer_to(int fd, const struct window_release *release, const struct uma_window_request *request) {
    struct uma_window_answer answer = { .version = UMA_WINDOW_VERSION, .n = request->n };
    for (uint32_t i = 0; i < request->n; i++) {
        struct window_released released;
        window_release_range(release, request->ranges[i], &released);
        answer.ranges[i].released = released.released;
        answer.ranges[i].error = released.error;
        answer.ranges[i].refusal = released.refusal;
    }
    return send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) == (ssize_t)sizeof(answer);
}

static void converse(int fd, const struct window_release *release) {
    struct uma_window_hello hello = { .version = UMA_WINDOW_VERSION, .pid = getpid() };
    if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != (ssize_t)sizeof(hello))
        return;
    for (;;) {
        struct uma_window_request request;
        int ready = poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, TICK_MS);
        if (is_last())
            return;
        if (ready < 0 && errno != EINTR)
            return;
        if (ready <= 0)
            continue;
        ssize_t n = recv(fd, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC); /* TRUNC: the message's own length */
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0 || (size_t)n > sizeof(request) || !understood(&request, (size_t)n) || !answer_to(fd, release, &request))
            return;
    }
}

void window_serve(struct window_state *state, const char *path) {
    (void)prctl(PR_SET_NAME, "umactl-window");
    if (!own_descriptors())
        return;
    struct window_release release = { .maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC),
                                      .pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
                                      .page = (uint64_t)sysconf(_SC_PAGESIZE),
                                      .lock = &state->lock,
                                      .book = &state->book };
    int fd = release.maps_fd >= 0 && release.pagemap_fd >= 0 ? connect_to(path) : -1;
    if (fd >= 0)
        converse(fd, &release);
    /* the thread's end would close them too, with the table; a raw clone that shares the table would not */
    (void)syscall(SYS_close_range, 0U, ~0U, 0U);
}
