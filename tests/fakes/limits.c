/* SPDX-License-Identifier: MIT */
#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_MAX = 128, PATH_MOST = 400 };
#define NONE (~0ull)

/* One line each: "limit GPU SOFT HARD CGROUP", "reserve GPU SOFT 0 CGROUP" (what groups below have of this one), "use PID BYTES 0 CGROUP". */
struct entry {
    char kind[8];
    int number;
    unsigned long long first, second;
    char cgroup[PATH_MOST];
};

struct book {
    int fd;
    unsigned n;
    struct entry list[ENTRIES_MAX];
};

static _Noreturn void give_up(const char *what) {
    (void)fprintf(stderr, "fake limits: %s: error %d\n", what, errno);
    abort();
}

static bool is_over(const struct entry *e) {
    if (strcmp(e->kind, "limit") == 0)
        return access(e->cgroup, F_OK) != 0;
    return strcmp(e->kind, "use") == 0 && kill(e->number, 0) != 0 && errno == ESRCH;
}

static void begin(const char *file, struct book *book) {
    char text[65536];
    book->n = 0;
    book->fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (book->fd < 0 || flock(book->fd, LOCK_EX) != 0)
        give_up(file);
    ssize_t n = pread(book->fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        struct entry e;
        if (sscanf(line, "%7s %d %llu %llu %399s", e.kind, &e.number, &e.first, &e.second, e.cgroup) == 5 && !is_over(&e) &&
            book->n < ENTRIES_MAX)
            book->list[book->n++] = e;
    }
}

/* Who looks at the file without a lock (a test) sees it whole: what has not changed is not written, and what has in one piece. */
static void end(struct book *book) {
    char text[65536], before[65536];
    size_t n = 0;
    for (unsigned i = 0; i < book->n && n < sizeof(text) - 600; i++) {
        const struct entry *e = &book->list[i];
        n += (size_t)sprintf(text + n, "%s %d %llu %llu %s\n", e->kind, e->number, e->first, e->second, e->cgroup);
    }
    ssize_t had = pread(book->fd, before, sizeof(before), 0);
    if ((had != (ssize_t)n || memcmp(text, before, n) != 0) &&
        (pwrite(book->fd, text, n, 0) != (ssize_t)n || ftruncate(book->fd, (off_t)n) != 0))
        give_up("writing");
    (void)close(book->fd);
}

static struct entry *entry_of(struct book *book, const char *kind, int number, const char *cgroup, bool make) {
    for (unsigned i = 0; i < book->n; i++)
        if (strcmp(book->list[i].kind, kind) == 0 && book->list[i].number == number && strcmp(book->list[i].cgroup, cgroup) == 0)
            return &book->list[i];
    if (!make || book->n == ENTRIES_MAX)
        return NULL;
    struct entry *e = &book->list[book->n++];
    *e = (struct entry){ .number = number };
    (void)snprintf(e->kind, sizeof(e->kind), "%s", kind);
    (void)snprintf(e->cgroup, sizeof(e->cgroup), "%s", cgroup);
    return e;
}

/* Cuts the last part; false at the top of the hierarchy. */
static bool go_up(char *cgroup) {
    char *slash = strrchr(cgroup, '/');
    if (!slash || strcmp(cgroup, "/sys/fs/cgroup") == 0 || strcmp(cgroup, "/sys/fs/cgroup/unified") == 0)
        return false;
    *slash = '\0';
    return true;
}

static bool is_below(const char *cgroup, const char *top) {
    size_t n = strlen(top);
    return strncmp(cgroup, top, n) == 0 && (cgroup[n] == '\0' || cgroup[n] == '/');
}

static unsigned long long used_below(const struct book *book, const char *top, int but) {
    unsigned long long sum = 0;
    for (unsigned i = 0; i < book->n; i++)
        if (strcmp(book->list[i].kind, "use") == 0 && book->list[i].number != but && is_below(book->list[i].cgroup, top))
            sum += book->list[i].first;
    return sum;
}

static struct entry *nearest(struct book *book, int gpu, const char *cgroup) {
    char at[PATH_MOST];
    (void)snprintf(at, sizeof(at), "%s", cgroup);
    do {
        struct entry *e = entry_of(book, "limit", gpu, at, false);
        if (e)
            return e;
    } while (go_up(at));
    return NULL;
}

void fake_limits_own_group(char *into, unsigned size) {
    char line[PATH_MOST + 8];
    FILE *f = fopen("/proc/self/cgroup", "re");
    const char *mount = access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) == 0 ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup";
    into[0] = '\0';
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(into, size, "%s%s", mount, strcmp(line + 3, "/") == 0 ? "" : line + 3);
        }
    if (f)
        (void)fclose(f);
}

static void play_file(const char *dmem, const char *cgroup, const char *name, unsigned long long value) {
    char path[PATH_MOST * 3];
    (void)snprintf(path, sizeof(path), "%s%s/%s", dmem, cgroup, name);
    for (char *s = path + 1; (s = strchr(s, '/')); *s++ = '/') {
        *s = '\0';
        (void)mkdir(path, 0755);
    }
    FILE *f = fopen(path, "we");
    if (!f)
        give_up(path);
    (void)(value == NONE ? fprintf(f, "nvidia/0000:01:00.0/vidmem max\n")
                         : fprintf(f, "nvidia/0000:01:00.0/vidmem %llu\n", value / 4096 * 4096));
    (void)fclose(f);
}

void fake_limits_set(const char *file, int gpu, const char *cgroup, unsigned long long soft, unsigned long long hard, const char *dmem) {
    struct book book; /* some 50 KiB */
    char at[PATH_MOST];
    begin(file, &book);
    struct entry *e = entry_of(&book, "limit", gpu, cgroup, true);
    unsigned long long before = e ? e->first : 0;
    (void)snprintf(at, sizeof(at), "%s", cgroup);
    while (soft != before && go_up(at)) {
        struct entry *above = entry_of(&book, "reserve", gpu, at, true);
        if (above)
            above->first += soft - before;
    }
    if (e)
        *e = (struct entry){ .kind = "limit", .number = gpu, .first = soft, .second = hard };
    if (e)
        (void)snprintf(e->cgroup, sizeof(e->cgroup), "%s", cgroup);
    if (dmem[0]) {
        play_file(dmem, cgroup, "dmem.max", hard);
        play_file(dmem, cgroup, "dmem.min", soft);
        play_file(dmem, cgroup, "dmem.current", used_below(&book, cgroup, 0));
    }
    end(&book);
}

bool fake_limits_get(const char *file, int gpu, const char *cgroup, unsigned long long *soft, unsigned long long *hard,
                     unsigned long long *used) {
    struct book book; /* some 50 KiB */
    begin(file, &book);
    const struct entry *e = nearest(&book, gpu, cgroup);
    if (e) {
        *soft = e->first;
        *hard = e->second;
        *used = used_below(&book, e->cgroup, 0);
    }
    end(&book);
    return e;
}

bool fake_limits_allow(const char *file, unsigned long long total) {
    struct book book; /* some 50 KiB */
    char own[PATH_MOST];
    fake_limits_own_group(own, sizeof(own));
    begin(file, &book);
    const struct entry *e = nearest(&book, 0, own);
    unsigned long long others = e ? used_below(&book, e->cgroup, (int)getpid()) : 0;
    bool allowed = !e || e->second == NONE || (others <= e->second && total <= e->second - others);
    end(&book);
    return allowed;
}

void fake_limits_note(const char *file, unsigned long long total) {
    struct book book; /* some 50 KiB */
    char own[PATH_MOST];
    fake_limits_own_group(own, sizeof(own));
    begin(file, &book);
    struct entry *e = own[0] ? entry_of(&book, "use", (int)getpid(), own, true) : NULL;
    if (e)
        e->first = total;
    end(&book);
}
