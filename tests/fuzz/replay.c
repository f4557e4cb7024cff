/* SPDX-License-Identifier: MIT */
/* Runs a fuzz harness over every file of its corpus, one TAP line each: the inputs that once showed a fault stay tested in every build. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *folder, const char *name) {
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) < 0 || !S_ISREG(st.st_mode)) {
        if (f)
            (void)fclose(f);
        return -1;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1); /* exactly sized: a read past the end is seen by the sanitizer */
    int ok = data && fread(data, 1, size, f) == size;
    (void)fclose(f);
    if (ok)
        (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    return ok ? 0 : -1;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    struct dirent **list = NULL;
    int n = scandir(argv[1], &list, NULL, alphasort), done = 0, bad = 0;
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.') {
            int r = replay(argv[1], list[i]->d_name);
            bad += r < 0;
            printf("%s %d - %s\n", r < 0 ? "not ok" : "ok", ++done, list[i]->d_name);
            (void)fflush(stdout);
        }
        free(list[i]);
    }
    free(list);
    if (done == 0)
        printf("not ok %d - the corpus %s is empty or cannot be read\n", ++done, argv[1]);
    printf("1..%d\n", done);
    return bad || n < 0 ? 1 : 0;
}
