#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A random life of a job under the valve (soak.c), for some seconds: $UMA_SOAK_SECONDS (default 15), with the seed $UMA_SOAK_SEED (default 1; "random": another each time). In a build with a
sanitizer the valve's sources are linked into the program; otherwise the library is preloaded."""
import os
import random
import subprocess
import sys

SOAK, LIBRARIES, VALVE = os.environ["UMA_SOAK"], os.environ["UMA_SOAK_LIBRARIES"], os.environ.get("UMA_SOAK_VALVE", "")
SECONDS, SEED = int(os.environ.get("UMA_SOAK_SECONDS", "15")), os.environ.get("UMA_SOAK_SEED", "1")
# A child of fork begins threads of its own; the first finding ends its process, and so the soak. What a child of fork leaves of its parent's is no leak of its own.
OPTIONS = {"TSAN_OPTIONS": "die_after_fork=0:halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
# The least that a soak has done when it lasted for ten seconds: otherwise it has shown nothing.
LEAST = {"calls": 5000, "refused": 20, "made to fail": 100, "library reopened": 10, "processes": 5, "forked": 10, "executed": 5, "killed": 3, "rounds": 3, "snapshots": 1000}


def main():
    seed = random.randrange(1, 1 << 63) if SEED == "random" else int(SEED)
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": LIBRARIES, "UMACTL_RESERVATIONS": "/nonexistent", **OPTIONS}
    if VALVE:
        env["LD_PRELOAD"] = VALVE
    print(f"1..1\n# seed {seed}, {SECONDS} s", flush=True)
    run = subprocess.run([SOAK, "--seconds", str(SECONDS), "--seed", str(seed)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=SECONDS + 120)
    said = [line for line in run.stderr.splitlines() if not line.startswith("umactl valve: ")]
    figures = {name: int(value) for name, value in (line.rsplit(" ", 1) for line in run.stdout.splitlines())}
    print("# " + ", ".join(f"{name} {value}" for name, value in figures.items()))
    problems = said[:60]
    if run.returncode != 0:
        problems.append(f"exit status {run.returncode}")
    if SECONDS >= 10:
        problems += [f"{name}: {figures.get(name, 0)}, fewer than {least}" for name, least in LEAST.items() if figures.get(name, 0) < least]
    for line in problems:
        print(f"# {line}")
    name = "threads that call everything, forks, kills and a ceiling that is hit: never above it, the books agree, and nothing is left at the end"
    print(f"{'not ok' if problems else 'ok'} 1 - {name}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
