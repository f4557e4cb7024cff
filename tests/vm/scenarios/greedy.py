# SPDX-License-Identifier: MIT
"""Without a valve or a guard: the pool goes to its end, and others pay for it while the greedy program lives."""
STALL_SECONDS = 2.0
END_OF_POOL = 32 << 20  # of the guest's 463 MiB


def judge(outcome, tap):
    killed, gap, lowest = outcome.killed(), outcome.longest_gap(), outcome.lowest_available()
    tap.note(f"the greedy program: status {outcome.result('greedy_status') or '?'} {outcome.result('greedy_says') or ''}; "
             f"its bystander lives: {outcome.result('bystander_lives') or '?'}; the shell lives: {outcome.result('shell_lives') or '?'}")
    tap.check(outcome.result("greedy_starts") is not None, "the greedy program was started")
    tap.check(lowest is not None and lowest < END_OF_POOL, f"MemAvailable went to the end of the pool: {'?' if lowest is None else lowest >> 20} MiB")
    others = killed[:killed.index("greedy")] if "greedy" in killed else killed  # those that went before it
    stalled = gap is not None and gap > STALL_SECONDS
    tap.check(others or stalled, f"while it lived, others were killed ({', '.join(others) or 'none'}) or the guest stalled ({gap or 0:.1f} s without a heartbeat)")
