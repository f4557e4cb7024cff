/* SPDX-License-Identifier: MIT */
#include "job/window_library.h"

#include "base/units.h"
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

#define LIBRARY "libuma-window.so"
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
static enum uma_window_library judge_mark(const unsigned char *bytes, size_t length) {
    static const char mark[] = UMA_WINDOW_MARK;
    const unsigned char *s = bytes, *end = bytes + length;
    enum uma_window_library found = UMA_WINDOW_LIBRARY_NOT_HELPER;
    uint64_t version;
    while ((s = memmem(s, (size_t)(end - s), mark, sizeof(mark) - 1))) {
        s += sizeof(mark) - 1;
        if (!uma_parse_u64((const char *)s, (const char *)end, &version))
            continue;
        if (version == UMA_WINDOW_VERSION)
            return UMA_WINDOW_LIBRARY_FITS;
        found = UMA_WINDOW_LIBRARY_VERSION;
    }
    return found;
}

enum uma_window_library uma_window_library_judge(const unsigned char *bytes, size_t length) {
    Elf64_Ehdr header;
    if (length < sizeof(header) || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return UMA_WINDOW_LIBRARY_NOT_ELF;
    (void)memcpy(&header, bytes, sizeof(header));
    unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != order || header.e_machine != MACHINE)
        return UMA_WINDOW_LIBRARY_FOREIGN;
    if (header.e_type != ET_DYN)
        return UMA_WINDOW_LIBRARY_NOT_HELPER;
    return judge_mark(bytes, length);
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

static int check(const char *path, struct uma_error *err) {
    static const char *const whats[] = {
        [UMA_WINDOW_LIBRARY_NOT_ELF] = "it is no library",
        [UMA_WINDOW_LIBRARY_FOREIGN] = "it is for another kind of machine",
        [UMA_WINDOW_LIBRARY_VERSION] = "it is the helper of another version of umactl",
        [UMA_WINDOW_LIBRARY_NOT_HELPER] = "it is not umactl's helper (libuma-window.so)",
    };
    struct stat st;
    size_t length = 0;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > SIZE_MOST)
        return uma_error_text(err, EINVAL, "%s: %s", path,
                              whats[S_ISREG(st.st_mode) ? UMA_WINDOW_LIBRARY_NOT_HELPER : UMA_WINDOW_LIBRARY_NOT_ELF]);
    _cleanup_free_
    unsigned char *bytes = malloc((size_t)st.st_size + 1);
    if (!bytes)
        return uma_error_set(err, ENOMEM, "%s", path);
    int r = read_whole(fd, bytes, (size_t)st.st_size, &length);
    if (r < 0)
        return uma_error_set(err, -r, "%s", path);
    enum uma_window_library what = uma_window_library_judge(bytes, length);
    return what == UMA_WINDOW_LIBRARY_FITS ? 0 : uma_error_text(err, ENOEXEC, "%s: %s", path, whats[what]);
}

/* ---- where it is ----------------------------------------------------------------------------------------------- */

/* The loader divides LD_PRELOAD at spaces and colons, and replaces what begins with $ (ld.so(8)): a path with one of them cannot be said. */
static int resolve(const char *path, char ret_path[PATH_MAX], struct uma_error *err) {
    char real[PATH_MAX];
    if (!realpath(path, real))
        return uma_error_set(err, errno, "%s", path);
    if (strpbrk(real, " \t\n:;$"))
        return uma_error_text(err, EINVAL, "%s: LD_PRELOAD cannot hold this path", real);
    int r = check(real, err);
    if (r >= 0)
        (void)memcpy(ret_path, real, strlen(real) + 1);
    return r;
}

int uma_window_library_find(char ret_path[PATH_MAX], struct uma_error *err) {
    const char *named = secure_getenv(UMA_WINDOW_LIBRARY_VARIABLE);
    if (named && named[0])
        return resolve(named, ret_path, err);
    static const char *const beside[] = { "window/" LIBRARY, LIBRARY }; /* as it is built, as somebody copied it */
    char self[PATH_MAX], path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    while (n > 0 && self[n - 1] != '/')
        n--;
    for (size_t i = 0; n > 0 && i < ELEMENTS(beside); i++)
        if (snprintf(path, sizeof(path), "%.*s%s", (int)n, self, beside[i]) < PATH_MAX && access(path, R_OK) == 0)
            return resolve(path, ret_path, err);
    if (access(UMACTL_LIBDIR "/umactl/" LIBRARY, R_OK) == 0)
        return resolve(UMACTL_LIBDIR "/umactl/" LIBRARY, ret_path, err);
    return uma_error_text(err, ENOENT,
                          LIBRARY " is neither beside the program nor in " UMACTL_LIBDIR "/umactl (" UMA_WINDOW_LIBRARY_VARIABLE
                                  " names another place)");
}
