/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "job/preload_library.h"
#include "window/protocol.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A header of this machine (this program's own), filler, and a text. */
static size_t library(unsigned char *bytes, size_t size, const char *text) {
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    size_t n = strlen(text), at = size - n - 1;
    assert_true(self >= 0);
    memset(bytes, 'u', size); /* the mark's own first letter */
    assert_int_equal(read(self, bytes, 64), 64);
    bytes[16] = 3; /* ET_DYN */
    memcpy(bytes + at, text, n + 1);
    (void)close(self);
    return size;
}

static void what_a_file_is(void **state) {
    (void)state;
    unsigned char bytes[512];
    size_t n = library(bytes, sizeof(bytes), UMA_WINDOW_MARK "1");
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n), UMA_LIBRARY_FITS);
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n - 1), UMA_LIBRARY_FITS);    /* the number ends with the file */
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n - 2), UMA_LIBRARY_ANOTHER); /* cut before it */
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, 64), UMA_LIBRARY_ANOTHER);
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, 63), UMA_LIBRARY_NOT_ELF);
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, 0), UMA_LIBRARY_NOT_ELF);
    bytes[16] = 2; /* a program */
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n), UMA_LIBRARY_ANOTHER);
    bytes[16] = 3;
    bytes[18] ^= 0x55; /* e_machine */
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n), UMA_LIBRARY_FOREIGN);
    bytes[18] ^= 0x55;
    bytes[4] = 1; /* of 32 bits */
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n), UMA_LIBRARY_FOREIGN);
    bytes[0] = '#';
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n), UMA_LIBRARY_NOT_ELF);

    n = library(bytes, sizeof(bytes), UMA_WINDOW_MARK "2");
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n), UMA_LIBRARY_VERSION);
    n = library(bytes, sizeof(bytes), UMA_WINDOW_MARK "99999999999999999999999");
    assert_int_not_equal(uma_library_judge(&uma_library_window, bytes, n), UMA_LIBRARY_FITS);
    n = library(bytes, sizeof(bytes), UMA_WINDOW_MARK UMA_WINDOW_MARK "2 " UMA_WINDOW_MARK "1");
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n), UMA_LIBRARY_FITS);
    n = library(bytes, sizeof(bytes), "nothing");
    assert_int_equal(uma_library_judge(&uma_library_window, bytes, n), UMA_LIBRARY_ANOTHER);
}

static void named(const char *path, int expected, const char *words) {
    char found[PATH_MAX] = "untouched";
    struct uma_error err = { 0 };
    assert_int_equal(setenv(uma_library_window.variable, path, 1), 0);
    assert_int_equal(uma_library_find(&uma_library_window, found, &err), expected);
    assert_string_equal(found, "untouched");
    if (!strstr(err.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, err.text);
}

static void put(const char *path, const void *bytes, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    (void)close(fd);
}

static void the_library_is_where_it_is_said_to_be(void **state) {
    (void)state;
    char path[PATH_MAX], folder[] = "/tmp/uma window-XXXXXX", plain[] = "/tmp/uma-window-XXXXXX", file[64];
    unsigned char bytes[256];
    struct uma_error err = { 0 };
    size_t n = library(bytes, sizeof(bytes), UMA_WINDOW_MARK "1");
    named("/nonexistent/x.so", -ENOENT, "/nonexistent/x.so: No such file or directory");
    named("nonsense", -ENOENT, "nonsense: No such file or directory");
    named("/etc/passwd", -ENOEXEC, "/etc/passwd: it is no library");
    if (!getenv("UMA_EMULATED")) /* there it is another machine's */
        named("/bin/sh", -ENOEXEC, "it is not umactl's helper (libuma-window.so)");
    named("/tmp", -EINVAL, "/tmp: it is no library");
    named("/dev/zero", -EINVAL, "/dev/zero: it is no library");
    assert_non_null(mkdtemp(plain));
    (void)snprintf(file, sizeof(file), "%s/fifo", plain);
    assert_int_equal(mkfifo(file, 0600), 0);
    named(file, -EINVAL, "it is no library"); /* and nobody waits for a writer */
    (void)unlink(file);

    (void)snprintf(file, sizeof(file), "%s/../%s/x.so", plain, strrchr(plain, '/') + 1);
    put(file, bytes, n);
    assert_int_equal(setenv(uma_library_window.variable, file, 1), 0);
    assert_int_equal(uma_library_find(&uma_library_window, path, &err), 0);
    assert_null(strstr(path, "..")); /* it is looked for from other folders than this one */
    (void)unlink(file);
    (void)rmdir(plain);

    /* the loader would take such a path for two */
    assert_non_null(mkdtemp(folder));
    (void)snprintf(file, sizeof(file), "%s/x.so", folder);
    put(file, bytes, n);
    named(file, -EINVAL, "LD_PRELOAD");
    (void)unlink(file);
    (void)rmdir(folder);
    assert_int_equal(unsetenv(uma_library_window.variable), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_a_file_is), cmocka_unit_test(the_library_is_where_it_is_said_to_be) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
