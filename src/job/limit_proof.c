/* SPDX-License-Identifier: MIT */
#include "job/limit_proof.h"

#include "base/text.h"
#include "base/write.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST_LINE "umactl.driver-limit/1\n"
#define NAME "driver-limit"

enum { SIZE_MOST = 512 }; /* it has about 120 bytes */

const char *uma_limit_proof_folder(void) {
    const char *named = secure_getenv("UMACTL_RUN");
    return named && named[0] ? named : "/run/umactl";
}

/* "KEY VALUE\n" at *at, the value of printable characters. */
static bool take(const char **at, const char *end, const char *key, char *into, size_t size) {
    size_t n = strlen(key);
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    if (!newline || (size_t)(newline - *at) <= n + 1 || memcmp(*at, key, n) != 0 || (*at)[n] != ' ')
        return false;
    const char *value = *at + n + 1;
    size_t length = (size_t)(newline - value);
    if (length >= size)
        return false;
    for (size_t i = 0; i < length; i++)
        if (value[i] <= ' ' || value[i] > '~')
            return false;
    (void)memcpy(into, value, length);
    into[length] = '\0';
    *at = newline + 1;
    return true;
}

int uma_limit_proof_parse(const char *text, size_t length, struct uma_limit_proof *ret_proof, struct uma_error *err) {
    struct uma_limit_proof proof = { 0 };
    char state[16];
    const char *at = text + strlen(FIRST_LINE), *end = text + length;
    if (length < strlen(FIRST_LINE) || memcmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0 ||
        !take(&at, end, "boot", proof.boot_id, sizeof(proof.boot_id)) || !take(&at, end, "driver", proof.driver, sizeof(proof.driver)) ||
        !take(&at, end, "state", state, sizeof(state)) || at != end)
        return uma_error_text(err, EINVAL, "not what umactl valve --probe writes");
    proof.holds = strcmp(state, "holds") == 0;
    *ret_proof = proof;
    return 0;
}

bool uma_limit_proof_holds(const struct uma_limit_proof *proof, const char *boot_id, const char *driver) {
    return proof->holds && boot_id && driver && boot_id[0] && driver[0] && strcmp(proof->boot_id, boot_id) == 0 &&
           strcmp(proof->driver, driver) == 0;
}

static bool is_roots(const struct stat *st) {
    return st->st_uid == 0 && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

int uma_limit_proof_load(const char *folder, struct uma_limit_proof *ret_proof, struct uma_error *err) {
    struct stat st;
    char text[SIZE_MOST];
    _cleanup_close_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &st) < 0)
        return uma_error_set(err, errno, "%s", folder);
    if (!is_roots(&st))
        return uma_error_text(err, EPERM, "%s is not root's alone", folder);
    _cleanup_close_ int fd = openat(dir, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "%s/" NAME, folder);
    if (!S_ISREG(st.st_mode) || !is_roots(&st))
        return uma_error_text(err, EPERM, "%s/" NAME " is not root's alone", folder);
    ssize_t n = read(fd, text, sizeof(text));
    if (n < 0)
        return uma_error_set(err, errno, "%s/" NAME, folder);
    return uma_limit_proof_parse(text, (size_t)n, ret_proof, err);
}

int uma_limit_proof_save(const char *folder, const struct uma_limit_proof *proof, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    char name[40];
    struct stat st;
    uma_text_printf(&text, FIRST_LINE "boot %s\ndriver %s\nstate %s\n", proof->boot_id, proof->driver, proof->holds ? "holds" : "does-not");
    if (text.failed)
        return uma_error_set(err, ENOMEM, "what was measured");
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return uma_error_set(err, errno, "%s", folder);
    _cleanup_close_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &st) < 0)
        return uma_error_set(err, errno, "%s", folder);
    if (!is_roots(&st))
        return uma_error_text(err, EPERM, "%s is not root's alone", folder);
    (void)snprintf(name, sizeof(name), NAME ".%d", (int)getpid());
    (void)unlinkat(dir, name, 0);
    _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return uma_error_set(err, errno, "%s/%s", folder, name);
    int r = fchmod(fd, 0644) < 0 ? -errno : uma_write_all(fd, text.data, text.length); /* whatever the umask is: others may read it */
    if (r >= 0 && renameat(dir, name, dir, NAME) < 0)
        r = -errno;
    if (r >= 0)
        return 0;
    (void)unlinkat(dir, name, 0);
    return uma_error_set(err, -r, "%s/" NAME, folder);
}
