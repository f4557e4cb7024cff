# SPDX-License-Identifier: MIT
"""Behind the valve: the machine keeps its floor, but for what others took between the valve's look and the driver's answer."""
SLACK = 16 << 20  # the page tables and slab of an allocation, and the guest's own processes


def judge(outcome, tap):
    floor, lowest, gap = outcome.result("floor"), outcome.lowest_available(), outcome.longest_gap()
    tap.check(floor is not None and lowest is not None and lowest >= int(floor) - SLACK,
              f"MemAvailable stayed at its floor: lowest {'?' if lowest is None else lowest >> 20} MiB, floor {'?' if floor is None else int(floor) >> 20} MiB")
    tap.check(not outcome.killed(), f"nobody was killed: {', '.join(outcome.killed()) or 'none'}")
    tap.check(gap is not None and gap < 5.0, f"the guest did not stall: {gap or 0:.1f} s without a heartbeat at most")
