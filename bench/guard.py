#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What uma-guard costs where nothing happens, beside earlyoom in the same time on the same machine; and how soon a tree stands that it stops.

Idle: both watch this machine as it is, for the same seconds: resident memory, processor time (schedstat, nanoseconds, all threads), times that they were put to sleep and woken.
Brake: victims that really grow (tests/guard/grow.c) on a machine whose /proc/meminfo the bench writes, so that no memory to speak of is taken. Two figures of each stop: what the guard's receipt says, from the
reading that showed the condition to the last signal; and from outside, from the moment the guard read it to the one in which the victim is seen stopped. Who looks (every 0.2 ms) is a process of its own
that is scheduled before all others (as root), so that its own wait for a processor is not measured. A victim that waits for one, or is in the kernel, stands later than it was signalled.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def build_environment(build):
    place = {"UMA_GUARD": "src/guard/uma-guard", "UMA_GROW": "tests/guard/grow", "UMA_TRAIL_LIST": "tests/guard/trail_list", "UMACTL": "src/umactl"}
    for name, path in place.items():
        os.environ[name] = os.path.join(os.path.abspath(build), path)
    os.environ.setdefault("UMA_FIXTURES", os.path.join(HERE, "..", "tests", "fixtures"))
    os.environ.setdefault("UMA_DOCS", os.path.join(HERE, "..", "docs"))
    sys.path.insert(0, os.path.join(HERE, "..", "tests", "guard"))


def threads(pid):
    return [os.path.join("/proc", str(pid), "task", name) for name in os.listdir(f"/proc/{pid}/task")]


def status(pid, name, folder=None):
    with open(os.path.join(folder or f"/proc/{pid}", "status"), encoding="ascii", errors="replace") as f:
        return int(re.search(rf"^{name}:\s+(\d+)", f.read(), re.M).group(1))


def spent(pid):
    """Nanoseconds on a processor, and sleeps, of all threads."""
    ns = sum(int(open(os.path.join(t, "schedstat"), encoding="ascii").read().split()[0]) for t in threads(pid))
    return ns, sum(status(pid, "voluntary_ctxt_switches", t) for t in threads(pid))


def idle(seconds):
    import support

    guard = support.Guard(None, "", "--dry-run", within=False)  # it looks at all, as an installed one, and touches nobody
    commands = {"uma-guard": guard.pid}
    other = None
    if shutil.which("earlyoom"):
        other = subprocess.Popen(["earlyoom", "-m", "1", "--dryrun", "-r", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        commands["earlyoom"] = other.pid
    try:
        time.sleep(3)  # what their start costs is not of it
        before = {name: spent(pid) for name, pid in commands.items()}
        counts = guard.ask("status")
        time.sleep(seconds)
        found = {}
        for name, pid in commands.items():
            ns, sleeps = spent(pid)
            found[name] = {"RSS KiB": status(pid, "VmRSS"), "locked KiB": status(pid, "VmLck"), "anon KiB": status(pid, "RssAnon"),
                           "CPU %": (ns - before[name][0]) / seconds / 1e7, "wake-ups/s": (sleeps - before[name][1]) / seconds}
        after = guard.ask("status")
        looks, tables = (int(after[key]) - int(counts[key]) for key in ("looks", "tables"))
        print(f"idle for {seconds} s, {sum(name.isdigit() for name in os.listdir('/proc'))} processes; the guard looked {looks} times and took {tables} tables: "
              "more than one look a second and one table in 15 s where memory falls meanwhile")
        for name, figures in found.items():
            print(f"  {name:10} " + "  ".join(f"{key} {value:.4g}" for key, value in figures.items()))
        if "earlyoom" in found:
            print("  ratio      " + "  ".join(f"{key} {found['uma-guard'][key] / max(found['earlyoom'][key], 1e-9):.2f}" for key in found["uma-guard"]))
        return found["uma-guard"]
    finally:
        if other:
            other.kill()
            other.wait()
        guard.stop()
        guard.close()


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


OBSERVER = """
import os, sys, time
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
except OSError:
    print("the observer is scheduled as any other process: its figures are of that, too", file=sys.stderr)
stat, was = os.open(f"/proc/{sys.argv[1]}/stat", os.O_RDONLY), False
while True:
    try:
        text = os.pread(stat, 512, 0)
    except ProcessLookupError:
        break
    stands = text.rpartition(b") ")[2][:1] == b"T"
    if stands and not was:
        print(time.monotonic_ns(), flush=True)
    was = stands
    time.sleep(0.0002)
"""


def brake(stops):
    import support
    from support import MIB, POLICY, Scene, stopped, until

    policy = POLICY.replace("BrakeMost=60", "BrakeMost=60\nBrakeTimes=1000\nBrakeWindow=1").replace("[Kill]", "[Kill]\nTerminate=no\nKill=no")
    receipts, outside, floors = [], [], []
    while len(outside) < stops:
        scene = Scene(policy=policy)
        with scene as (machine, guard):
            victim = scene.victim("--rate", 120, "--most", 900)
            observer = subprocess.Popen([sys.executable, "-c", OBSERVER, str(victim.pid)], stdout=subprocess.PIPE, text=True)
            victim.begin()
            for _ in range(min(4, stops - len(outside))):  # some 200 MiB each
                until(lambda: stopped(victim.pid), 30, step=0.002, why="stopped")
                outside.append(int(observer.stdout.readline()))
                floors.append(machine.lowest)
                guard.wait_for("stopped 'grow'")
                machine.available += 200 * MIB
                machine.total += 200 * MIB
                until(lambda: not stopped(victim.pid), 30, step=0.002, why="let go")
            guard.stop()
            found = guard.receipts("brake")
        observer.wait()  # the victim is gone
        seen = outside[len(receipts):]
        for record, at in zip(found, seen):
            # the receipt is written a moment after the last signal: the reading is so much before it
            receipts.append((int(record["took_ns"]), at - (int(record["monotonic"]) - int(record["took_ns"]))))
        outside = outside[:len(receipts)]
    for what, values in (("to the last signal", [r[0] / 1e6 for r in receipts]), ("to the victim seen stopped", [r[1] / 1e6 for r in receipts])):
        print(f"brake, from the reading {what}: n {len(values)}  p50 {percentile(values, 50):.2f} ms  p99 {percentile(values, 99):.2f} ms  most {max(values):.2f} ms")
    return percentile([r[0] / 1e6 for r in receipts], 99)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--idle", type=float, default=60)
    parser.add_argument("--stops", type=int, default=100)
    options = parser.parse_args()
    build_environment(options.build)
    if options.idle > 0:
        idle(options.idle)
    if options.stops > 0:
        brake(options.stops)


main()
