/* SPDX-License-Identifier: MIT */
#include "guard/manager.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/say.h"

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

static void send_line(const struct uma_guard_manager *manager, const struct uma_guard_line *line) {
    if (manager->fd >= 0)
        (void)sendto(manager->fd, line->text, line->length, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&manager->to,
                     manager->length);
}

void uma_guard_manager_say(struct uma_guard_manager *manager, const char *text) {
    struct uma_guard_line line = { 0 };
    uma_guard_line_text(&line, text);
    send_line(manager, &line);
}

void uma_guard_manager_status(struct uma_guard_manager *manager, const char *status, size_t length) {
    struct uma_guard_line line = { 0 };
    uma_guard_line_text(&line, "STATUS=");
    length = MIN_OF(length, sizeof(line.text) - line.length);
    memcpy(line.text + line.length, status, length);
    line.length += length;
    send_line(manager, &line);
}

void uma_guard_manager_reloading(struct uma_guard_manager *manager, int64_t now) {
    struct uma_guard_line line = { 0 };
    uma_guard_line_text(&line, "RELOADING=1\nMONOTONIC_USEC=");
    uma_guard_line_unsigned(&line, (uint64_t)now / 1000);
    send_line(manager, &line);
}

void uma_guard_manager_alive(struct uma_guard_manager *manager, int64_t now) {
    if (manager->fd < 0 || manager->alive_every == 0 || now < manager->alive_at)
        return;
    uma_guard_manager_say(manager, "WATCHDOG=1");
    manager->alive_at = now + manager->alive_every;
}
