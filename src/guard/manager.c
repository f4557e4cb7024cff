/* SPDX-License-Identifier: MIT */
#include "guard/manager.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* How long the manager waits, where it waits for this process. */
static int64_t watchdog_time(void) {
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t value, whose;
    if (usec == NULL || uma_parse_u64_all(usec, &value) != 0 || value == 0 || value > UINT64_C(86400000000))
        return 0;
    if (pid != NULL && (uma_parse_u64_all(pid, &whose) != 0 || whose != (uint64_t)getpid()))
        return 0;
    return (int64_t)value * 1000;
}

void uma_guard_manager_open(struct uma_guard_manager *manager) {
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path != NULL ? strlen(path) : 0;
    *manager = (struct uma_guard_manager){ .fd = -1, .to.sun_family = AF_UNIX };
    if (n < 2 || n >= sizeof(manager->to.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(manager->to.sun_path, path, n);
    if (path[0] == '@') /* of the abstract name space */
        manager->to.sun_path[0] = '\0';
    manager->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '/'));
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    manager->alive_every = watchdog_time() / 2;
}

void uma_guard_manager_close(struct uma_guard_manager *manager) {
    uma_cleanup_close(&manager->fd);
    manager->fd = -1;
}

static void send_text(struct uma_guard_manager *manager, const char *text, size_t n) {
    if (manager->fd >= 0)
        (void)sendto(manager->fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&manager->to, manager->length);
}

void uma_guard_manager_say(struct uma_guard_manager *manager, const char *text) {
    send_text(manager, text, strlen(text));
}

void uma_guard_manager_status(struct uma_guard_manager *manager, const char *status, size_t length) {
    char text[600] = "STATUS=";
    length = MIN_OF(length, sizeof(text) - 7);
    memcpy(text + 7, status, length);
    send_text(manager, text, 7 + length);
}

void uma_guard_manager_reloading(struct uma_guard_manager *manager, int64_t now) {
    char text[64] = "RELOADING=1\nMONOTONIC_USEC=", digits[20];
    size_t n = strlen(text), at = sizeof(digits);
    uint64_t usec = (uint64_t)now / 1000;
    do {
        digits[--at] = (char)('0' + usec % 10);
        usec /= 10;
    } while (usec != 0);
    memcpy(text + n, digits + at, sizeof(digits) - at);
    send_text(manager, text, n + sizeof(digits) - at);
}

void uma_guard_manager_alive(struct uma_guard_manager *manager, int64_t now) {
    if (manager->fd < 0 || manager->alive_every == 0 || now < manager->alive_at)
        return;
    uma_guard_manager_say(manager, "WATCHDOG=1");
    manager->alive_at = now + manager->alive_every;
}
