/* SPDX-License-Identifier: MIT */
#include "base/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

void uma_standard_files_guard(void) {
    /* O_PATH: reading and writing go on to fail with EBADF, as on the closed descriptor. O_CLOEXEC: to a job of `run` it is as closed as it was
     * here. open(2) gives the lowest number, which is `fd`, because those below are taken. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/", O_PATH | O_CLOEXEC) != fd)
            return; /* no descriptor can be had: then no file can take the place either */
}
