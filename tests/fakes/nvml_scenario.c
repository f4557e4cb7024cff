/* SPDX-License-Identifier: MIT */
#include "nvml_scenario.h"

#include "observe/nvml_abi.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

unsigned fake_asks;
static struct fake_scenario scenario;

double fake_age(void) {
    static struct timespec start;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (start.tv_sec == 0)
        start = now;
    return (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9;
}

static _Noreturn void wrong(unsigned line, const char *what) {
    char text[256];
    int n = snprintf(text, sizeof(text), "%s:%u: %s\n", getenv("UMA_FAKE_NVML"), line, what);
    /* the probe's stderr is /dev/null: leave the complaint where a person looks, beside the status */
    (void)!write(2, text, (size_t)n);
    _exit(99);
}

/* The next word of the line, or NULL. */
static char *word(char **at) {
    char *w = *at + strspn(*at, " \t");
    if (!*w)
        return NULL;
    char *end = w + strcspn(w, " \t");
    *at = *end ? end + 1 : end;
    *end = '\0';
    return w;
}

static double number(char **at, unsigned line) {
    char *w = word(at), *end = NULL;
    if (w && strcmp(w, "max") == 0)
        return 18446744073709551615.0;
    double value = w ? strtod(w, &end) : 0;
    if (!w || *end)
        wrong(line, "expected a number");
    return value;
}

static unsigned long long whole(char **at, unsigned line) {
    char *w = word(at), *end = NULL;
    if (w && strcmp(w, "max") == 0)
        return ~0ull;
    unsigned long long value = w ? strtoull(w, &end, 0) : 0;
    if (!w || *end)
        wrong(line, "expected a whole number");
    return value;
}

/* The rest of the line; \xHH is a byte. */
static void text(char *at, char *into, size_t size) {
    size_t n = 0;
    at += strspn(at, " \t");
    for (; *at && n < size - 1; at++) {
        if (strncmp(at, "\\x", 2) == 0 && strspn(at + 2, "0123456789abcdefABCDEF") >= 2) {
            char hex[3] = { at[2], at[3], '\0' };
            into[n++] = (char)strtol(hex, NULL, 16);
            at += 3;
        } else
            into[n++] = *at;
    }
    (void)memset(into + n, 0, size - n);
}

static void take_rule(const char *verb, char *at, unsigned line) {
    if (scenario.n_rules == FAKE_RULES_MAX)
        wrong(line, "too many rules");
    struct fake_rule *rule = &scenario.rules[scenario.n_rules++];
    *rule = (struct fake_rule){ .gpu = (int)scenario.n_gpus - 1 };
    char *symbol = word(&at);
    if (!symbol)
        wrong(line, "expected a symbol");
    (void)snprintf(rule->symbol, sizeof(rule->symbol), "%s", symbol);
    if (strcmp(verb, "value") == 0) {
        char *equals = word(&at);
        if (!equals || strcmp(equals, "=") != 0)
            wrong(line, "expected =");
        rule->code = (int)number(&at, line);
    } else if (strcmp(verb, "delay") == 0) {
        rule->action = FAKE_DELAY;
        rule->seconds = number(&at, line);
    } else if (strcmp(verb, "hang") == 0)
        rule->action = FAKE_HANG;
    else if (strcmp(verb, "crash") == 0)
        rule->action = FAKE_CRASH;
    else
        rule->code = NVML_FUNCTION_NOT_FOUND;
}

static void take_field(struct fake_gpu *gpu, char *at, unsigned line) {
    static const char *const types[] = { "double", "u32", "ulong", "u64", "i64", "i32", "u16" };
    unsigned id = (unsigned)whole(&at, line);
    size_t i = 0;
    while (i < gpu->n_fields && gpu->fields[i].id != id)
        i++;
    if (i == FAKE_FIELDS_MAX)
        wrong(line, "too many fields");
    if (i == gpu->n_fields)
        gpu->n_fields++;
    struct fake_field *field = &gpu->fields[i];
    *field = (struct fake_field){ .id = id, .type = 99 };
    const char *type = word(&at);
    for (unsigned t = 0; t < 7 && type; t++)
        if (strcmp(type, types[t]) == 0)
            field->type = t;
    if (type && strcmp(type, "code") == 0) {
        field->code = (int)number(&at, line);
        return;
    }
    field->number = number(&at, line);
    for (char *key; (key = word(&at));) {
        if (strcmp(key, "per_second") == 0)
            field->per_second = number(&at, line);
        else if (strcmp(key, "per_ask") == 0)
            field->per_ask = number(&at, line);
        else
            wrong(line, "expected per_second or per_ask");
    }
}

static void take_process(struct fake_gpu *gpu, char *at, unsigned line) {
    if (gpu->n_processes == FAKE_PROCESSES_MAX)
        wrong(line, "too many processes");
    struct fake_process *process = &gpu->processes[gpu->n_processes++];
    *process = (struct fake_process){ .pid = (unsigned)whole(&at, line) };
    char *rest = at + strspn(at, " \t");
    if (strncmp(rest, "n/a", 3) == 0) {
        process->bytes = NVML_BYTES_UNAVAILABLE;
        (void)word(&at);
    } else
        process->bytes = whole(&at, line);
    char *kind = word(&at);
    process->graphics = kind && strcmp(kind, "graphics") == 0;
}

static bool take_number(struct fake_gpu *gpu, const char *key, char *at, unsigned line) {
#define KEY(name)                                                                                                                          \
    if (strcmp(key, #name) == 0) {                                                                                                         \
        gpu->name.given = true;                                                                                                            \
        gpu->name.value = (long long)(strcmp(key, "reasons") == 0 ? whole(&at, line) : (unsigned long long)(long long)number(&at, line));  \
        return true;                                                                                                                       \
    }
    KEY(numa)
    KEY(celsius)
    KEY(margin)
    KEY(power)
    KEY(power_limit)
    KEY(energy)
    KEY(sm_clock)
    KEY(memory_clock)
    KEY(sm_clock_max)
    KEY(pstate)
    KEY(reasons)
#undef KEY
    return false;
}

static void take_gpu_line(struct fake_gpu *gpu, const char *key, char *at, unsigned line) {
    if (take_number(gpu, key, at, line))
        return;
    if (strcmp(key, "name") == 0)
        text(at, gpu->name, sizeof(gpu->name));
    else if (strcmp(key, "uuid") == 0)
        text(at, gpu->uuid, sizeof(gpu->uuid));
    else if (strcmp(key, "pci") == 0)
        text(at, gpu->pci, sizeof(gpu->pci));
    else if (strcmp(key, "memory") == 0) {
        gpu->has_memory = true;
        for (int i = 0; i < 3; i++)
            gpu->memory[i] = whole(&at, line);
    } else if (strcmp(key, "limits") == 0) {
        gpu->has_limits = true;
        for (int i = 0; i < 3; i++)
            gpu->limits[i] = whole(&at, line);
    } else if (strcmp(key, "utilization") == 0) {
        gpu->utilization.given = gpu->memory_utilization.given = true;
        gpu->utilization.value = (long long)whole(&at, line);
        gpu->memory_utilization.value = (long long)whole(&at, line);
    } else if (strcmp(key, "field") == 0)
        take_field(gpu, at, line);
    else if (strcmp(key, "process") == 0)
        take_process(gpu, at, line);
    else if (strcmp(key, "processes") == 0)
        gpu->more_processes = (unsigned)whole(&at, line);
    else if (strcmp(key, "claim") == 0) {
        gpu->has_claim = true;
        gpu->claim = (unsigned)whole(&at, line);
    } else
        wrong(line, "unknown statement");
}

static void take_line(char *at, unsigned line) {
    at[strcspn(at, "#\r")] = '\0';
    for (size_t n = strlen(at); n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'); n--)
        at[n - 1] = '\0';
    char *key = word(&at);
    if (key && strcmp(key, "at") == 0) {
        if (number(&at, line) > fake_age())
            return;
        key = word(&at);
    }
    if (!key)
        return;
    if (strcmp(key, "driver") == 0)
        text(at, scenario.driver, sizeof(scenario.driver));
    else if (strcmp(key, "limits-file") == 0)
        text(at, scenario.limits_file, sizeof(scenario.limits_file));
    else if (strcmp(key, "limits-dmem") == 0)
        text(at, scenario.limits_dmem, sizeof(scenario.limits_dmem));
    else if (strcmp(key, "limits-ignored") == 0)
        scenario.limits_ignored = true;
    else if (strcmp(key, "count") == 0) {
        scenario.has_count = true;
        scenario.count = (unsigned)whole(&at, line);
    } else if (strcmp(key, "reset") == 0)
        scenario.reset = number(&at, line);
    else if (strcmp(key, "gpu") == 0) {
        if (scenario.n_gpus == FAKE_GPUS_MAX)
            wrong(line, "too many GPUs");
        scenario.gpus[scenario.n_gpus++] = (struct fake_gpu){ 0 };
    } else if (strcmp(key, "value") == 0 || strcmp(key, "delay") == 0 || strcmp(key, "hang") == 0 || strcmp(key, "crash") == 0 ||
               strcmp(key, "missing") == 0)
        take_rule(key, at, line);
    else if (scenario.n_gpus > 0)
        take_gpu_line(&scenario.gpus[scenario.n_gpus - 1], key, at, line);
    else
        wrong(line, "unknown statement, or a GPU's before `gpu`");
}

const struct fake_scenario *fake_scenario_now(void) {
    static char file[65536];
    const char *name = getenv("UMA_FAKE_NVML");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, file, sizeof(file) - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    if (n < 0)
        wrong(0, "UMA_FAKE_NVML names no scenario that can be read");
    file[n] = '\0';
    scenario.has_count = false;
    scenario.n_gpus = scenario.n_rules = 0;
    scenario.reset = 0;
    scenario.driver[0] = scenario.limits_file[0] = scenario.limits_dmem[0] = '\0';
    scenario.limits_ignored = false;
    unsigned line = 0;
    for (char *at = file, *next; at; at = next) {
        next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        take_line(at, ++line);
    }
    return &scenario;
}
