# SPDX-License-Identifier: MIT
"""Without a valve or a guard: the pool goes to its end, and the machine stands still."""
STALL_SECONDS = 2.0     # behind the valve the same machine is not half a second late
STALL_SHARE = 0.10      # and waits for memory not at all; 16 % was measured here beside other work
END_OF_POOL = 32 << 20  # of the guest's 960 MiB


def waited(outcome):
    """Of the time from the program's start to its end, the share in which every task that could have run waited for memory (PSI full)."""
    try:
        total = int(outcome.result("pressure").split()[1]) / 1e6
        return total / (float(outcome.result("ended")) - float(outcome.result("greedy_starts")))
    except (AttributeError, IndexError, ValueError, ZeroDivisionError):
        return 0.0


def judge(outcome, tap):
    gap, lowest = outcome.longest_gap(), outcome.lowest_available()
    tap.note(f"the greedy program: status {outcome.result('greedy_status') or '?'} {outcome.result('greedy_says') or ''}; "
             f"services that live: {outcome.result('services_live') or '?'}")
    tap.check(outcome.result("greedy_starts") is not None, "the greedy program was started")
    tap.check(lowest is not None and lowest < END_OF_POOL, f"MemAvailable went to the end of the pool: {'?' if lowest is None else lowest >> 20} MiB")
    tap.check((gap is not None and gap > STALL_SECONDS) or waited(outcome) > STALL_SHARE,
              f"the guest stood still: {gap or 0:.1f} s without a heartbeat, all tasks waited for memory {100 * waited(outcome):.0f} % of the time")
