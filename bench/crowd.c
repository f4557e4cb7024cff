/* SPDX-License-Identifier: MIT */
/* crowd N - keep N more processes on the machine (each asleep) until stdin ends; says "ready" once they are there. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    long n = argc == 2 ? strtol(argv[1], NULL, 10) : -1;
    if (n < 0 || n > 100000) {
        (void)fprintf(stderr, "usage: %s N\n", argv[0]);
        return 2;
    }
    for (long i = 0; i < n; i++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            (void)kill(0, SIGTERM);
            return 1;
        }
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            (void)close(STDIN_FILENO);
            for (;;)
                (void)pause();
        }
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    (void)signal(SIGTERM, SIG_IGN);
    (void)kill(0, SIGTERM);
    while (wait(NULL) > 0) {
    }
    return 0;
}
