/* SPDX-License-Identifier: MIT */
#include "job/preload_library.h"

#include "base/units.h"
#include "valve/account.h"
#include "window/protocol.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#ifndef UMACTL_LIBDIR
#define UMACTL_LIBDIR "/usr/lib"
#endif

const struct uma_library uma_library_window = { "libuma-window.so", "window",           "UMACTL_WINDOW_LIBRARY",
                                                UMA_WINDOW_MARK,    UMA_WINDOW_VERSION, "helper" };
const struct uma_library uma_library_valve = { "libuma-valve.so", "valve",           "UMACTL_VALVE_LIBRARY",
                                               UMA_VALVE_MARK,    UMA_VALVE_VERSION, "valve" };

#define SIZE_MOST ((off_t)(16 * UMA_MIB)) /* it has some tens of KiB; with debugging information still under one MiB */

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

/* ---- what it is ------------------------------------------------------------------------------------------------ */

/* This program has the words of the mark too, without a number after them. */
static enum uma_library_file judge_mark(const struct uma_library *library, const unsigned char *bytes, size_t length) {
    size_t n = strlen(library->mark);
    const unsigned char *s = bytes, *end = bytes + length;
    enum uma_library_file found = UMA_LIBRARY_ANOTHER;
    uint64_t version;
    while ((s = memmem(s, (size_t)(end - s), library->mark, n))) {
        s += n;
        if (!uma_parse_u64((const char *)s, (const char *)end, &version))
            continue;
        if (version == library->version)
            return UMA_LIBRARY_FITS;
        found = UMA_LIBRARY_VERSION;
    }
    return found;
}

enum uma_library_file uma_library_judge(const struct uma_library *library, const unsigned char *bytes, size_t length) {
    Elf64_Ehdr header;
    if (length < sizeof(header) || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return UMA_LIBRARY_NOT_ELF;
    (void)memcpy(&header, bytes, sizeof(header));
    unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != order || header.e_machine != MACHINE)
        return UMA_LIBRARY_FOREIGN;
    if (header.e_type != ET_DYN)
        return UMA_LIBRARY_ANOTHER;
    return judge_mark(library, bytes, length);
}

static int read_whole(int fd, unsigned char *bytes, size_t size, size_t *ret_length) {
    size_t length = 0;
    while (length < size) {
        ssize_t n = read(fd, bytes + length, size - length);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        length += (size_t)n;
    }
    *ret_length = length;
    return 0;
}

static int misfit(const struct uma_library *library, const char *path, enum uma_library_file what, struct uma_error *err) {
    switch (what) {
    case UMA_LIBRARY_NOT_ELF:
        return uma_error_text(err, ENOEXEC, "%s: it is no library", path);
    case UMA_LIBRARY_FOREIGN:
        return uma_error_text(err, ENOEXEC, "%s: it is for another kind of machine", path);
    case UMA_LIBRARY_VERSION:
        return uma_error_text(err, ENOEXEC, "%s: it is the %s of another version of umactl", path, library->what);
    case UMA_LIBRARY_ANOTHER:
    case UMA_LIBRARY_FITS:
        break;
    }
    return uma_error_text(err, ENOEXEC, "%s: it is not umactl's %s (%s)", path, library->what, library->file);
}

static int check(const struct uma_library *library, const char *path, struct uma_error *err) {
    struct stat st;
    size_t length = 0;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > SIZE_MOST) {
        (void)misfit(library, path, S_ISREG(st.st_mode) ? UMA_LIBRARY_ANOTHER : UMA_LIBRARY_NOT_ELF, err);
        return -EINVAL;
    }
    _cleanup_free_
    unsigned char *bytes = malloc((size_t)st.st_size + 1);
    if (!bytes)
        return uma_error_set(err, ENOMEM, "%s", path);
    int r = read_whole(fd, bytes, (size_t)st.st_size, &length);
    if (r < 0)
        return uma_error_set(err, -r, "%s", path);
    enum uma_library_file what = uma_library_judge(library, bytes, length);
    return what == UMA_LIBRARY_FITS ? 0 : misfit(library, path, what, err);
}

/* ---- where it is ----------------------------------------------------------------------------------------------- */

/* The loader divides LD_PRELOAD at spaces and colons, and replaces what begins with $ (ld.so(8)): a path with one of them cannot be said. */
static int resolve(const struct uma_library *library, const char *path, char ret_path[PATH_MAX], struct uma_error *err) {
    char real[PATH_MAX];
    if (!realpath(path, real))
        return uma_error_set(err, errno, "%s", path);
    if (strpbrk(real, " \t\n:;$"))
        return uma_error_text(err, EINVAL, "%s: LD_PRELOAD cannot hold this path", real);
    int r = check(library, real, err);
    if (r >= 0)
        (void)memcpy(ret_path, real, strlen(real) + 1);
    return r;
}

int uma_library_find(const struct uma_library *library, char ret_path[PATH_MAX], struct uma_error *err) {
    const char *named = secure_getenv(library->variable);
    if (named && named[0])
        return resolve(library, named, ret_path, err);
    char self[PATH_MAX], path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    while (n > 0 && self[n - 1] != '/')
        n--;
    for (int built = 1; n > 0 && built >= 0; built--) /* as it is built, as somebody copied it */
        if (snprintf(path, sizeof(path), "%.*s%s%s%s", (int)n, self, built ? library->folder : "", built ? "/" : "", library->file) <
                PATH_MAX &&
            access(path, R_OK) == 0)
            return resolve(library, path, ret_path, err);
    (void)snprintf(path, sizeof(path), UMACTL_LIBDIR "/umactl/%s", library->file);
    if (access(path, R_OK) == 0)
        return resolve(library, path, ret_path, err);
    return uma_error_text(err, ENOENT, "%s is neither beside the program nor in " UMACTL_LIBDIR "/umactl (%s names another place)",
                          library->file, library->variable);
}
