/* SPDX-License-Identifier: MIT */
/*
 * say.h - one line on standard error, by one write(2), put together on the stack: no allocation, no stdio, no locale. What comes from other programs is escaped.
 * It is left out where it would be written into a file of the program's own, end the program (SIGPIPE) or keep it waiting.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct uma_valve_line {
    unsigned n;
    char text[1000];
};

void uma_valve_say(struct uma_valve_line *line, const char *text);
void uma_valve_say_n(struct uma_valve_line *line, const char *text, unsigned n); /* hostile: what does not print is '?', at most 64 */
void uma_valve_say_number(struct uma_valve_line *line, uint64_t value);
void uma_valve_say_bytes(struct uma_valve_line *line, uint64_t bytes); /* "12.3 GiB" */
/* With "umactl valve: " before it and a line feed after it. errno stays as it was. */
void uma_valve_say_end(struct uma_valve_line *line);
