/* SPDX-License-Identifier: MIT */
/* main.c - the table of commands and nothing else. The first is what `umactl` alone means. */
#include "cmd/command.h"

static const struct uma_command *const commands[] = {
    &uma_command_status, &uma_command_plan,  &uma_command_run,   &uma_command_require,
    &uma_command_cache,  &uma_command_valve, &uma_command_guard, &uma_command_snapshot,
};

int main(int argc, char **argv) {
    return uma_command_dispatch(commands, ELEMENTS(commands), argc, argv);
}
