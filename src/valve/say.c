/* SPDX-License-Identifier: MIT */
#include "valve/say.h"

#include "valve/call.h"
#include "valve/digits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#define KERNEL_SIGNALS sizeof(uint64_t) /* the kernel's sigset_t, rt_sigprocmask(2) */

static void add(struct uma_valve_line *line, char c) {
    if (line->n + 2 < sizeof(line->text))
        line->text[line->n++] = c;
}

void uma_valve_say(struct uma_valve_line *line, const char *text) {
    for (; *text; text++)
        add(line, *text);
}

void uma_valve_say_n(struct uma_valve_line *line, const char *text, unsigned n) {
    for (unsigned i = 0; i < n && i < 64 && text[i]; i++)
        add(line, text[i] < ' ' || text[i] > '~' ? '?' : text[i]);
}

void uma_valve_say_number(struct uma_valve_line *line, uint64_t value) {
    char digits[UMA_VALVE_DIGITS + 1];
    (void)uma_valve_put_number(digits, value);
    uma_valve_say(line, digits);
}

void uma_valve_say_bytes(struct uma_valve_line *line, uint64_t bytes) {
    static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
    unsigned unit = 0;
    uint64_t tenths = 0; /* of the unit */
    while (bytes >> unit * 10 >= 1024)
        unit++;
    if (unit > 0) {
        uint64_t hundredth = (bytes >> (unit - 1) * 10) * 10 + 512; /* of the unit below, so that it stays in range */
        tenths = hundredth / 1024;
        if (tenths >= 10240 && unit + 1 < sizeof(units) / sizeof(units[0])) {
            tenths = 10;
            unit++;
        }
    }
    uma_valve_say_number(line, unit > 0 ? tenths / 10 : bytes);
    if (unit > 0 && tenths < 1000) {
        add(line, '.');
        add(line, (char)('0' + tenths % 10));
    }
    uma_valve_say(line, units[unit]);
}

/*
 * Is 2 still where a program's errors go? One that closed it may have a file of its own there. One that was inherited is not closed by execve(2), most of a program's own are. And
 * the program is not kept waiting by who reads too slowly.
 */
static bool takes_errors(int fd) {
    struct pollfd end = { .fd = fd, .events = POLLOUT };
    struct timespec at_once = { 0 };
    int flags = fcntl(fd, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC))
        return false;
    return syscall(SYS_ppoll, &end, 1, &at_once, NULL, 0) == 1 && end.revents == POLLOUT;
}

/* Nobody reads any more: the program, which wrote nothing, does not die of that. By bare calls, which are not places where a thread may be cancelled. */
static void write_quietly(int fd, const char *text, size_t n) {
    uint64_t pipe_signal = UINT64_C(1) << (SIGPIPE - 1), before = 0, pending = 0;
    struct timespec at_once = { 0 };
    if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, &pipe_signal, &before, KERNEL_SIGNALS) != 0)
        return;
    (void)syscall(SYS_rt_sigpending, &pending, KERNEL_SIGNALS);
    if (syscall(SYS_write, fd, text, n) < 0 && errno == EPIPE && !(pending & pipe_signal))
        (void)syscall(SYS_rt_sigtimedwait, &pipe_signal, NULL, &at_once, KERNEL_SIGNALS);
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, KERNEL_SIGNALS);
}

void uma_valve_say_end(struct uma_valve_line *line) {
    static const char prefix[] = "umactl valve: ";
    int before = errno;
    char text[sizeof(prefix) - 1 + sizeof(line->text)];
    (void)memcpy(text, prefix, sizeof(prefix) - 1);
    (void)memcpy(text + sizeof(prefix) - 1, line->text, line->n);
    size_t n = sizeof(prefix) - 1 + line->n;
    text[n++] = '\n';
    if (takes_errors(STDERR_FILENO))
        write_quietly(STDERR_FILENO, text, n);
    errno = before;
}
