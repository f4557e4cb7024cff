/* SPDX-License-Identifier: MIT */
#include "guard/control.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/sender.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

int uma_guard_control_open(const char *path) {
    const int yes = 1;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t n = strlen(path);
    if (n >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, n);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) != 0)
        return -errno;
    (void)unlink(path);
    mode_t before = umask(0177); /* who may ask is said twice: by the file's mode, and by the credentials of each datagram */
    int r = bind(fd, (const struct sockaddr *)&address, (socklen_t)sizeof(address)) == 0 ? 0 : -errno;
    (void)umask(before);
    return r < 0 ? r : TAKE_FD(fd);
}

bool uma_guard_question_parse(const char *text, size_t n, enum uma_guard_ask *ret_ask, int32_t *ret_pid) {
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' ' || text[n - 1] == '\0'))
        n--;
    if (n == 6 && memcmp(text, "status", 6) == 0) {
        *ret_ask = UMA_GUARD_ASK_STATUS;
        *ret_pid = 0;
        return true;
    }
    if (n < 7 || memcmp(text, "release", 7) != 0)
        return false;
    uint64_t pid = 0;
    if (n > 7 && (text[7] != ' ' || uma_parse_u64(text + 8, text + n, &pid) != text + n || pid == 0 || pid > INT32_MAX))
        return false;
    *ret_ask = UMA_GUARD_ASK_RELEASE;
    *ret_pid = (int32_t)pid;
    return true;
}

void uma_guard_control_answer(int fd, const struct uma_guard_question *question, const char *text, size_t length) {
    if (question->from_length > offsetof(struct sockaddr_un, sun_path)) /* it is bound to somewhere */
        (void)sendto(fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&question->from, question->from_length);
}

int uma_guard_control_read(int fd, struct uma_guard_question *ret_question) {
    static const char expected[] = "error=expected status or release [PID]\n";
    char text[256];
    /* no room for descriptors: the kernel drops those that came along */
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct uma_guard_question question = { 0 };
    struct iovec part = { text, sizeof(text) };
    struct msghdr message = { .msg_name = &question.from,
                              .msg_namelen = sizeof(question.from),
                              .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control,
                              .msg_controllen = sizeof(control) };
    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    question.from_length = message.msg_namelen;
    if (!uma_guard_sent_by(&message, geteuid()))
        return 0;
    if ((message.msg_flags & MSG_TRUNC) || !uma_guard_question_parse(text, (size_t)n, &question.ask, &question.pid)) {
        uma_guard_control_answer(fd, &question, expected, sizeof(expected) - 1);
        return 0;
    }
    *ret_question = question;
    return 1;
}
