/* SPDX-License-Identifier: MIT */
/* The machine's files as the guard reads them: the first byte says which. What is refused leaves the reading as it was. */
#include "guard/observe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size_t n = size - 1;
    struct uma_guard_reading r, was;
    memset(&r, 0xee, sizeof(r));
    r.known = 0;
    was = r;
    bool is = false;
    switch (data[0]) {
    case 'm':
        is = uma_guard_meminfo_parse(text, n, &r);
        break;
    case 'v':
        is = uma_guard_vmstat_parse(text, n, &r);
        break;
    case 'p':
        is = uma_guard_pressure_parse(text, n, &r);
        break;
    case 'z':
        is = uma_guard_zoneinfo_parse(text, n, 4096, &r);
        break;
    case 'b':
        is = uma_guard_buddyinfo_parse(text, n, &r);
        break;
    default:
        return 0;
    }
    if (is != (r.known != 0) || (!is && memcmp(&r, &was, sizeof(r)) != 0))
        abort();
    return 0;
}
