/* SPDX-License-Identifier: MIT */
/* $UMA_FAKE_CUDA, "word:value,word:value": README. A word that is not known ends the program: a test that misspells one must not pass. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_scenario_cuda scenario = { .devices = 1, .integrated = 1, .driver = 13000, .block = (uint64_t)32 << 20 };

static bool number(const char *key, const char *value) {
    unsigned long long n = strtoull(value, NULL, 10);
    const struct {
        const char *name;
        uint64_t *to;
    } words[] = { { "total", &scenario.total },           { "context", &scenario.context }, { "module", &scenario.module },
                  { "block", &scenario.block },           { "refuse", &scenario.refuse },   { "refuse-n", &scenario.refuse_n },
                  { "least-free", &scenario.least_free }, { "largest", &scenario.largest }, { "latency-us", &scenario.latency_us },
                  { "stubborn", &scenario.stubborn } };
    const struct {
        const char *name;
        int *to;
    } small[] = { { "devices", &scenario.devices }, { "integrated", &scenario.integrated }, { "driver", &scenario.driver } };
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].name, key) == 0) {
            *words[i].to = n;
            return true;
        }
    for (unsigned i = 0; i < sizeof(small) / sizeof(small[0]); i++)
        if (strcmp(small[i].name, key) == 0) {
            *small[i].to = (int)n;
            return true;
        }
    return false;
}

static bool word(const char *key, const char *value) {
    static const char *const memories[] = { "count", "ring", "device" };
    if (strcmp(key, "nested") == 0)
        return scenario.nested = true;
    if (strcmp(key, "any") == 0)
        return scenario.any = true;
    if (strcmp(key, "asked") == 0)
        return snprintf(scenario.asked, sizeof(scenario.asked), "%s", value) < (int)sizeof(scenario.asked);
    if (strcmp(key, "reuse") == 0)
        return scenario.reuse = true;
    if (strcmp(key, "report") == 0)
        return snprintf(scenario.report, sizeof(scenario.report), "%s", value) < (int)sizeof(scenario.report);
    if (strcmp(key, "limits") == 0)
        return snprintf(scenario.limits, sizeof(scenario.limits), "%s", value) < (int)sizeof(scenario.limits);
    if (strcmp(key, "memory") != 0)
        return number(key, value);
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(memories[i], value) == 0) {
            scenario.memory = (enum fake_memory)i;
            return true;
        }
    return false;
}

static void read_all(void) {
    char text[1024], *rest = text;
    const char *variable = getenv("UMA_FAKE_CUDA");
    if (!variable || snprintf(text, sizeof(text), "%s", variable) >= (int)sizeof(text))
        return;
    for (char *one; (one = strsep(&rest, ","));) {
        char *value = strchr(one, ':');
        if (!*one)
            continue;
        if (value)
            *value++ = '\0';
        if (!word(one, value ? value : "")) {
            (void)fprintf(stderr, "fake libcuda: no such word in UMA_FAKE_CUDA: %s\n", one);
            abort();
        }
    }
    scenario.refuse_n = scenario.refuse && !scenario.refuse_n ? 1 : scenario.refuse_n;
    scenario.devices = scenario.devices > FAKE_DEVICES_MAX ? FAKE_DEVICES_MAX : scenario.devices;
}

const struct fake_scenario_cuda *fake_cuda_scenario(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_all);
    return &scenario;
}

uint64_t fake_meminfo(const char *name) {
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    size_t n = strlen(name);
    while (f && kib == 0 && fgets(line, sizeof(line), f))
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            kib = strtoull(line + n + 1, NULL, 10);
    if (f)
        (void)fclose(f);
    return kib * 1024;
}
