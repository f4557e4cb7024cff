/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_pressure pressure;
    struct uma_error err = { 0 };
    int r = uma_pressure_parse((const char *)data, size, "pressure", &pressure, &err);
    if (r != 0 && err.text[0] == 0)
        abort(); /* a refusal, or a malformed field, without a reason */
    if (r >= 0 && uma_usable(pressure.some.avg10.validity) && !(pressure.some.avg10.value >= 0 && pressure.some.avg10.value <= 1))
        abort();
    return 0;
}
