/* SPDX-License-Identifier: MIT */
/* What every unit test includes: cmocka and the headers it needs before it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
