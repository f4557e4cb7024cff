/* SPDX-License-Identifier: MIT */
/*
 * A job's account, for tests. `valve_account PID`: of the process's open files, the account; one line "ceiling floor n_slots next_event", one for each slot in use, "pid used under_way overhead refused
 * name", one for each event "kind size used evicted". `valve_account hold CEILING FLOOR`: makes one, prints what the environment is to say, and stays until standard input ends.
 */
#include "valve/account.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_account(const char *pid) {
    char folder[64], path[400], link[256];
    (void)snprintf(folder, sizeof(folder), "/proc/%s/fd", pid);
    DIR *dir = opendir(folder);
    int fd = -1;
    for (const struct dirent *e; dir && fd < 0 && (e = readdir(dir));) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        ssize_t n = readlink(path, link, sizeof(link) - 1);
        link[n > 0 ? n : 0] = '\0';
        if (strncmp(link, "/memfd:umactl-valve-", 20) == 0)
            fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (dir)
        (void)closedir(dir);
    return fd;
}

static int hold(uint64_t ceiling, uint64_t floor) {
    struct stat st;
    char c;
    int fd = memfd_create("umactl-valve-test", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(struct uma_valve_account)) != 0 || fstat(fd, &st) != 0)
        return 1;
    struct uma_valve_account *account = mmap(NULL, sizeof(*account), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (account == MAP_FAILED)
        return 1;
    uma_valve_account_begin(account, ceiling, floor);
    (void)printf("%d:%llu:%d:%llu\n", (int)getpid(), (unsigned long long)uma_valve_start_time((uint32_t)getpid()), fd,
                 (unsigned long long)st.st_ino);
    (void)fflush(stdout);
    while (read(0, &c, 1) == 1)
        ;
    return 0;
}

static void show(struct uma_valve_account *account) {
    struct uma_valve_event events[UMA_VALVE_EVENTS];
    uint64_t after = 0;
    (void)printf("%llu %llu %u %llu %llu\n", (unsigned long long)account->ceiling, (unsigned long long)account->floor, account->n_slots,
                 (unsigned long long)account->next_event, (unsigned long long)account->most);
    for (uint32_t i = 0; i < account->n_slots && i < UMA_VALVE_SLOTS; i++) {
        const struct uma_valve_slot *s = &account->slots[i];
        if (s->pid)
            (void)printf("slot %u %llu %llu %llu %llu %.16s\n", s->pid, (unsigned long long)s->used, (unsigned long long)s->under_way,
                         (unsigned long long)s->overhead, (unsigned long long)s->refused, s->name);
    }
    unsigned n = uma_valve_account_events(account, &after, events, UMA_VALVE_EVENTS);
    for (unsigned i = 0; i < n; i++)
        (void)printf("event %u %llu %llu %llu\n", events[i].kind, (unsigned long long)events[i].size, (unsigned long long)events[i].used,
                     (unsigned long long)events[i].evicted);
}

static int show_of(const char *pid) {
    struct stat st;
    int fd = open_account(pid), r = 1;
    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)printf("none\n");
        return 0;
    }
    void *at = mmap(NULL, sizeof(struct uma_valve_account), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (at == MAP_FAILED)
        return 1;
    if (uma_valve_account_valid(at, (uint64_t)st.st_size)) {
        show(at);
        r = 0;
    }
    (void)munmap(at, sizeof(struct uma_valve_account));
    return r;
}

/* One process identifier a line; after each account a line "end". */
static int serve(void) {
    char line[32];
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (show_of(line) != 0)
            return 1;
        (void)printf("end\n");
        (void)fflush(stdout);
    }
    return 0;
}

int main(int argc, char *argv[]) {
    if (argc == 4 && strcmp(argv[1], "hold") == 0)
        return hold(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    return argc == 2 && strcmp(argv[1], "serve") == 0 ? serve() : show_of(argc == 2 ? argv[1] : "");
}
