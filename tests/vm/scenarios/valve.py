# SPDX-License-Identifier: MIT
"""Behind the valve: the machine keeps its floor."""
LATE_SECONDS = 2.0       # what `stall` calls standing still
WAITED_SECONDS = 1.0     # of all runs together; `stall` waits for 10 to 40


def judge(outcome, tap):
    floor, lowest, gap = outcome.result("floor"), outcome.lowest_available(), outcome.longest_gap()
    tap.check(floor is not None and lowest is not None and lowest >= int(floor),
              f"MemAvailable stayed at its floor: lowest {'?' if lowest is None else lowest >> 20} MiB, floor {'?' if floor is None else int(floor) >> 20} MiB")
    tap.check(not outcome.killed(), f"nobody was killed: {', '.join(outcome.killed()) or 'none'}")
    tap.check(gap is not None and gap < LATE_SECONDS, f"the guest did not stall: {gap or 0:.1f} s without a heartbeat at most")
    waited = (outcome.result("pressure") or "").split()
    tap.check(len(waited) == 2 and int(waited[1]) < WAITED_SECONDS * 1e6,
              f"all tasks together waited for memory {int(waited[1]) / 1e6 if len(waited) == 2 else '?'} s")
