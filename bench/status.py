#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl status beside what people use now, in one run on one machine: time (median of many runs, with the process start) and peak RSS.

Each command runs in turn, round by round, so that a slow spell of the machine hits all of them. Output goes to /dev/null for all alike.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

COMMANDS = ["umactl status", "umactl status --json", "free", "ps aux"]


def files_of_a_tick():
    names = ["/proc/meminfo", "/proc/vmstat", "/proc/zoneinfo", "/proc/buddyinfo", "/proc/swaps"]
    names += [f"/proc/pressure/{what}" for what in ("memory", "cpu", "io")]
    node = "/sys/devices/system/node"
    names += [f"{node}/{entry}/meminfo" for entry in sorted(os.listdir(node)) if entry.startswith("node")] if os.path.isdir(node) else []
    return [name for name in names if os.access(name, os.R_OK)]


def once(argv):
    """Seconds of one run."""
    with open(os.devnull, "wb") as sink:
        begin = time.perf_counter()
        pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, sink.fileno(), 1)])
        _, status = os.waitpid(pid, 0)
        seconds = time.perf_counter() - begin
    if os.waitstatus_to_exitcode(status) not in (0, 1, 3):
        sys.exit(f"{argv[0]} failed: {status}")
    return seconds


def peak_rss(measure_program, argv):
    """Peak resident bytes. A process started by this large interpreter would count its pages, so a small program starts it."""
    with tempfile.NamedTemporaryFile("r") as figure:
        subprocess.run([measure_program, figure.name, *argv], stdout=subprocess.DEVNULL, check=False)
        return int(figure.read())


def measure(argvs, rounds, measure_program):
    times = {name: [] for name in argvs}
    for _ in range(rounds):
        for name, argv in argvs.items():
            times[name].append(once(argv))
    return {name: (statistics.median(times[name]), peak_rss(measure_program, argvs[name])) for name in argvs}


def count_processes():
    return sum(name.isdigit() for name in os.listdir("/proc"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", help="build folder (release)")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--processes", type=int, nargs="*", default=[200, 5000])
    options = parser.parse_args()
    umactl, crowd, tick, measure_program = (os.path.join(options.build, path) for path in ("src/umactl", "bench/crowd", "bench/tick", "bench/measure"))
    argvs = {}
    for name in COMMANDS:
        words = name.split()
        argvs[name] = [umactl if words[0] == "umactl" else shutil.which(words[0])] + words[1:]
    print("| processes | command | median ms | x free | peak RSS MiB |\n|---|---|---|---|---|")
    for wanted in options.processes:
        more = max(0, wanted - count_processes())
        with subprocess.Popen([crowd, str(more)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as job:
            if job.stdout.readline() != b"ready\n":
                print(f"| {wanted} | could not start that many processes | | | |")
                continue
            there = count_processes()
            result = measure(argvs, options.rounds if wanted < 1000 else max(5, options.rounds // 3), measure_program)
            job.stdin.close()
            job.wait()
        for name, (seconds, rss) in result.items():
            print(f"| {there} | `{name}` | {seconds * 1e3:.2f} | {seconds / result['free'][0]:.1f} | {rss / 2**20:.1f} |")
    print("\n| tick without the process scan | median us | 99th percentile us | x floor |\n|---|---|---|---|")
    files, rows = files_of_a_tick(), []
    labels = {
        "floor": "floor: the same files kept open, one read each, nothing parsed",
        "bare": "bare loop: the same files opened and read line by line",
        "observe": "libuma: the snapshot",
        "library": "libuma: the snapshot and its account",
    }
    for mode, label in labels.items():
        out = subprocess.run([tick, mode, "5000", *files], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        rows.append((label, float(out[0]), float(out[1])))
    for label, median, high in rows:
        print(f"| {label} | {median:.1f} | {high:.1f} | {median / rows[0][1]:.2f} |")
    print(f"\n{os.cpu_count()} CPUs, kernel {os.uname().release}, {len(files)} files a tick, no GPU driver asked" + (" (none here)" if not os.path.exists("/proc/driver/nvidia") else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
