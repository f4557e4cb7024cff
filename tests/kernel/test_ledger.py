#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""On this machine's own kernel: memory of each kind appears in the ledger row that is meant for it, to 8 MiB, and leaves it again.

Other programs on the machine move the same rows. A reading is therefore repeated (at most six times) when the first is off; a row that is
wrong by design is off every time.
"""
import json
import os
import subprocess
import sys
import time

UMACTL, HOLD = os.environ["UMACTL"], os.environ["UMA_HOLD"]
MIB = 1 << 20
SIZE = 1024 * MIB
TOLERANCE = 8 * MIB
# The kernel frees io_uring's buffers from a work queue after the program has ended (seen: up to a second); a row that still holds them says the truth.
RELEASE_SECONDS = 10
ROWS = {"anon": "anon", "tmpfs": "shmem", "memfd": "shmem", "pipe": "unexplained", "packet": "unexplained", "uring": "pinned"}


def ledger():
    out = subprocess.run([UMACTL, "status", "--json"], check=True, stdout=subprocess.PIPE, timeout=20).stdout
    status = json.loads(out)
    rows = {row["kind"]: row["bytes"] for row in status["ledger"]}
    assert sum(rows.values()) == status["headroom"]["total"], f"the ledger does not sum to the total: {rows}"
    return rows


def attempt(kind):
    row = ROWS[kind]
    before = ledger()
    with subprocess.Popen([HOLD, kind, str(SIZE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        if job.stdout.readline() != b"ready\n":
            reason = job.communicate()[1].decode(errors="replace").strip()
            return ("skip" if job.returncode == 77 else "fail"), reason
        during = ledger()
        job.stdin.close()
        job.wait(timeout=30)
    ended = time.monotonic()
    while True:
        after = ledger()
        waited = time.monotonic() - ended
        if abs(after[row] - before[row]) <= TOLERANCE or waited > RELEASE_SECONDS:
            break
        time.sleep(0.1)
    moved = {name: (during[name] - before[name]) / MIB for name in before}
    left = (after[row] - before[row]) / MIB
    text = f"{row} {moved[row]:+.1f} MiB while held, {left:+.1f} MiB {waited:.1f} s after its end"
    good = abs(moved[row] - SIZE / MIB) <= TOLERANCE / MIB and abs(left) <= TOLERANCE / MIB
    if not good:
        text += "; all rows while held: " + ", ".join(f"{name} {v:+.1f}" for name, v in moved.items() if abs(v) >= 1)
    return ("ok" if good else "fail"), text


def main():
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        free = next(int(line.split()[1]) * 1024 for line in meminfo if line.startswith("MemFree"))
    print(f"1..{len(ROWS)}")
    failed = 0
    for number, kind in enumerate(ROWS, 1):
        if free < 2 * SIZE:
            print(f"ok {number} - {kind} # SKIP less than 2 GiB free on this machine")
            continue
        for _ in range(6):
            verdict, text = attempt(kind)
            print(f"# {kind}: {text}")
            if verdict != "fail":
                break
        if verdict == "skip":
            print(f"ok {number} - {kind} # SKIP {text}")
        else:
            failed += verdict == "fail"
            print(f"{'not ok' if verdict == 'fail' else 'ok'} {number} - {kind} is in the row {ROWS[kind]}")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
