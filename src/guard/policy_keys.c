/* SPDX-License-Identifier: MIT */
/* The bounds are no advice: within them the guard does what it is told, beyond them a value is a slip of the pen (a unit forgotten, a digit too many). */
#include "guard/policy_keys.h"

#include <string.h>

#define AT(member) offsetof(struct uma_guard_policy, member)
#define AT_NOTIFY(member) offsetof(struct uma_guard_notify, member)
#define MIB (1024.0 * 1024)
#define TIB (1024.0 * 1024 * MIB)
#define DAY 86400.0

/* clang-format off */
const struct uma_guard_key uma_guard_keys[UMA_GUARD_KEYS] = {
    { "Floor", "Floor", UMA_GUARD_KEY_SIZE, AT(floor), 16 * MIB, 16 * TIB, true, false,
      "Available memory below which the machine is in danger. 0: a thirty-second of its memory, at least 512M and at most 4G; "
      "below 8 GiB a sixteenth. It is a size and no percentage, because what the kernel, a shell and sshd need does not grow "
      "with the machine. Crossing it alone is no danger: servers that stand below it without falling are left alone." },
    { "Floor", "HardFloor", UMA_GUARD_KEY_SIZE, AT(hard_floor), 4 * MIB, 16 * TIB, true, false,
      "Available memory at which somebody must go if stopping did not help. 0: a quarter of the floor: healthy servers have "
      "stood at 1.5 to 1.9 GiB for weeks." },
    { "Floor", "Horizon", UMA_GUARD_KEY_SECONDS, AT(horizon), 0.05, 600, false, false,
      "A fall that reaches the floor within this time is acted on. A stop is there within 20 ms and a call that the driver is in "
      "the middle of ends about 100 ms later; the rest is for a guard that the scheduler kept waiting. A longer time would stop "
      "healthy loads: one of 15 GB/s that ends with 11 GiB left is never nearer than 0.5 s to a floor of 4 GiB." },

    { "Brake", "Brake", UMA_GUARD_KEY_SWITCH, AT(brake), 0, 1, false, false,
      "Stop (SIGSTOP) the tree of processes that grows. It is the mildest thing that helps within milliseconds, and it can be "
      "taken back." },
    { "Brake", "BrakeMost", UMA_GUARD_KEY_SECONDS, AT(brake_most), 0.1, DAY, false, false,
      "Time that a tree is kept stopped before the next rung. The clients of a server mostly wait for 10 to 30 s, the heartbeats "
      "of collective libraries for minutes." },
    { "Brake", "BrakeRelease", UMA_GUARD_KEY_MULTIPLE, AT(brake_release), 1, 100, false, false,
      "Headroom at which a stopped tree goes on, as a multiple of the floor. Half a floor above it is more than the noise of a "
      "large machine, so that it is not stopped again by that alone." },
    { "Brake", "BrakeTimes", UMA_GUARD_KEY_COUNT, AT(brake_times), 1, 1000, false, false,
      "Stops of one tree within BrakeWindow after which it is a victim. Two may be two phases of one load." },
    { "Brake", "BrakeWindow", UMA_GUARD_KEY_SECONDS, AT(brake_window), 1, DAY, false, false,
      "The time over which those stops are counted." },

    { "Warn", "Warn", UMA_GUARD_KEY_SWITCH, AT(warn), 0, 1, false, false,
      "Tell a job that asked for it (umactl run --warn) before it is ended, so that it can save its state or shrink." },
    { "Warn", "WarnGrace", UMA_GUARD_KEY_SECONDS, AT(warn_grace), 0, 3600, false, false,
      "Time that a warned job has before SIGTERM. A request is refused and a cache dropped within it, a checkpoint mostly not "
      "written; but the machine must last that long." },

    { "Kill", "Terminate", UMA_GUARD_KEY_SWITCH, AT(terminate), 0, 1, false, false,
      "End the victim with SIGTERM, where stopping did not help. With no, and Kill=yes, it is killed without being asked; with "
      "no for both the guard stops and warns only, and a machine that needs more than that may freeze." },
    { "Kill", "Kill", UMA_GUARD_KEY_SWITCH, AT(kill), 0, 1, false, false,
      "End it with SIGKILL, where SIGTERM did not help." },
    { "Kill", "TermGrace", UMA_GUARD_KEY_SECONDS, AT(term_grace), 0, 600, false, false,
      "Time between SIGTERM and SIGKILL. Inference servers that hear SIGTERM end within about 3 s." },
    { "Kill", "ReleaseWait", UMA_GUARD_KEY_SECONDS, AT(release_wait), 1, 3600, false, false,
      "Time to wait for the victim's memory to come back, as measured, before it is called unkillable. A driver gives memory "
      "back late: 2 to 5 s for 92 GB were measured. There is no second victim before." },

    { "Room", "Room", UMA_GUARD_KEY_SWITCH, AT(room), 0, 1, false, false,
      "Have the helper take clean weight files out of the page cache, and compact memory. CUDA allocates from what is free, not "
      "from what is available." },
    { "Room", "RoomEvery", UMA_GUARD_KEY_SECONDS, AT(room_every), 0.1, 3600, false, false,
      "Time between two such requests. Taking 4 GiB of clean files out of the cache takes 0.01 to 0.5 s; what is needed again is "
      "read again." },
    { "Room", "FreeFloor", UMA_GUARD_KEY_SIZE, AT(free_floor), 16 * MIB, 16 * TIB, true, false,
      "Free memory (MemFree) to keep for CUDA. 0: as much as the floor." },

    { "LastResort", "LastResort", UMA_GUARD_KEY_SWITCH, AT(last_resort), 0, 1, false, false,
      "Where the victim cannot be killed and the machine stays below the hard floor: have the kernel kill (sysrq f); when that did "
      "not help, sync and make file systems read-only (s, u), a second for each, and restart the machine (b). Off, because either "
      "takes what is innocent with it." },
    { "LastResort", "LastResortAfter", UMA_GUARD_KEY_SECONDS, AT(last_resort_after), 5, DAY, false, false,
      "Time below the hard floor with an unkillable victim before that: twice ReleaseWait, so that the driver had its time." },

    { "Victims", "Protect", UMA_GUARD_KEY_PATTERNS, AT(protect), 0, 0, false, false,
      "Programs that are never stopped or ended, by their name as the kernel has it (at most 15 letters; * and ? stand for "
      "others), or unit:NAME for a systemd unit or control group. Several words on a line, several lines; an empty one clears "
      "what was there before. The kernel's own threads, process 1, the shell of a login, umactl and the guard itself are protected "
      "whatever stands here." },
    { "Victims", "Avoid", UMA_GUARD_KEY_PATTERNS, AT(avoid), 0, 0, false, false,
      "Programs that are a victim only where nobody else is left." },
    { "Victims", "Prefer", UMA_GUARD_KEY_PATTERNS, AT(prefer), 0, 0, false, false,
      "Programs that are a victim before others of their size." },
    { "Victims", "NoBrake", UMA_GUARD_KEY_PATTERNS, AT(no_brake), 0, 0, false, false,
      "Programs that must not be stopped, because others take their silence for death. They are warned and ended instead." },

    { "Guard", "DryRun", UMA_GUARD_KEY_SWITCH, AT(dry_run), 0, 1, false, false,
      "Decide and write down, and do nothing. umactl guard history tells what would have been done." },

    { "Notify", "Command", UMA_GUARD_KEY_COMMAND, AT_NOTIFY(command), 0, 0, false, true,
      "A program that is started after each action, by its absolute path, without arguments and without a shell; what was done is in "
      "its environment. After, because a program that is started before may wait for the memory that is not there. Empty: none." },
    { "Notify", "Webhook", UMA_GUARD_KEY_URL, AT_NOTIFY(webhook), 0, 0, false, true,
      "An http:// or https:// address that the same is posted to as JSON. It may hold a secret: it is never shown, and the file may "
      "have mode 0600. Empty: none." },
    { "Notify", "Desktop", UMA_GUARD_KEY_SWITCH, AT_NOTIFY(desktop), 0, 1, false, true,
      "Tell whoever sits before the machine (notify-send). Off, because most of these machines have nobody there." },
};
/* clang-format on */

int uma_guard_key_find(const char *section, const char *name) {
    for (int i = 0; i < UMA_GUARD_KEYS; i++)
        if (strcmp(uma_guard_keys[i].section, section) == 0 && strcmp(uma_guard_keys[i].name, name) == 0)
            return i;
    return -1;
}

int uma_guard_section_find(const char *section) {
    for (int i = 0; i < UMA_GUARD_KEYS; i++)
        if (strcmp(uma_guard_keys[i].section, section) == 0)
            return i;
    return -1;
}

bool uma_guard_key_begins_section(unsigned i) {
    return i == 0 || strcmp(uma_guard_keys[i].section, uma_guard_keys[i - 1].section) != 0;
}
