#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the valve costs: a call that takes memory and one that gives it back, small and large, with and without the valve before the same driver (one without a GPU that
only counts: what is left of a call is the valve's), and the start of a program that has nothing to do with CUDA. In turn, in one run; medians over rounds.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

# name, bytes, calls in a round, more words for the program
SIZES = [("256 B", 256, 64000, []), ("4 KiB", 4096, 64000, []), ("64 KiB", 65536, 64000, []), ("1 MiB", 1 << 20, 64000, []), ("2 MiB", 2 << 20, 12800, []),
         ("64 MiB", 64 << 20, 6400, []), ("4 KiB, in the order of a stream", 4096, 64000, ["async"]), ("64 MiB, in the order of a stream", 64 << 20, 6400, ["async"])]


def calls(program, size, rounds, words, environment):
    out = subprocess.run([program, str(size), str(rounds), *words], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return tuple(float(x) for x in out.split())


def start(argv, environment):
    begin = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, environment)
    os.waitpid(pid, 0)
    return (time.perf_counter() - begin) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build folder (release, with bench and tests)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    valve = os.path.abspath(os.path.join(options.build, "src/valve/libuma-valve.so"))
    driver = os.path.abspath(os.path.join(options.build, "tests/fakes/cuda"))
    program = os.path.join(options.build, "bench/valve_calls")
    if not os.path.exists(os.path.join(driver, "libcuda.so.1")):
        print("valve bench: skipped: the build has no tests (-Dtests=true), whose driver without a GPU it needs")
        return 0
    plain = dict(os.environ, LD_LIBRARY_PATH=driver, UMA_FAKE_CUDA="memory:count,total:1099511627776")
    behind = dict(plain, LD_PRELOAD=valve, UMACTL_VALVE="ceiling:549755813888,floor:0")
    print(f"Calls of the driver, median of {options.rounds} rounds, nanoseconds:\n")
    print("| size | take, plain | behind the valve | more | mean of it | free, plain | behind the valve | more | mean of it |\n|---|---|---|---|---|---|---|---|---|")
    for name, size, rounds, words in SIZES:
        found = {"plain": [], "behind": []}
        for _ in range(options.rounds):
            found["plain"].append(calls(program, size, rounds, words, plain))
            found["behind"].append(calls(program, size, rounds, words, behind))
        plain_is, behind_is = ([statistics.median(x) for x in zip(*found[k])] for k in ("plain", "behind"))
        cells = [f"{plain_is[i]:.0f} | {behind_is[i]:.0f} | {behind_is[i] - plain_is[i]:.0f} | {behind_is[i + 2] - plain_is[i + 2]:.0f}" for i in (0, 1)]
        print(f"| {name} | {' | '.join(cells)} |")
    empty = os.path.abspath(os.path.join(options.build, "bench/libnothing.so"))
    kinds = {"plain": dict(os.environ), "an empty library preloaded": dict(os.environ, LD_PRELOAD=empty),
             "the valve preloaded": dict(os.environ, LD_PRELOAD=valve, UMACTL_VALVE="ceiling:549755813888")}
    times = {name: [] for name in kinds}
    for _ in range(500):
        for name, environment in kinds.items():
            times[name].append(start(["/bin/true"], environment))
    print("\nA program without CUDA (/bin/true), start to end, median of 500: " + ", ".join(f"{statistics.median(t):.0f} us {name}" for name, t in times.items()))
    print(f"\n{os.cpu_count()} CPUs, kernel {os.uname().release}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
