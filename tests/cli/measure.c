/* SPDX-License-Identifier: MIT */
/*
 * measure FILE PROGRAM [ARGUMENT...]: run it, write its peak resident bytes to FILE, end as it ended. A process that is started by a large
 * one counts that one's pages as its own peak until exec (ru_maxrss survives exec), so a small program must stand between.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 125;
    pid_t pid = fork();
    if (pid == 0) {
        (void)execv(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
        return 125;
    FILE *f = fopen(argv[1], "we");
    if (!f || fprintf(f, "%lld\n", (long long)usage.ru_maxrss * 1024) < 0 || fclose(f) != 0)
        return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
