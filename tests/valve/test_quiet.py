#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""In a program that has nothing to do with CUDA the valve makes no system call: what strace(1) shows more than without it is what the loader does to load any library."""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

VALVE, LIBRARY = os.environ["UMA_VALVE"], "libuma-valve.so"
# ld.so(8): it looks for the file and what that needs, reads their heads, maps their parts and protects them
LOADING = {"access", "faccessat", "faccessat2", "openat", "open", "read", "pread64", "fstat", "newfstatat", "mmap", "mprotect", "munmap", "close"}
MOST = 24  # of them: two files (the library, and libdl before glibc 2.34) of at most a dozen each
PROGRAMS = [["true"], ["sh", "-c", "true | true; cat /dev/null"], ["env", "--version"]]


def calls(program, **environment):
    """Names, for each call of each process; what was opened; how many programs were executed."""
    with tempfile.NamedTemporaryFile("r") as f:
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
        tracing = ["strace", "-f", "-qq", "-o", f.name, *(f"-E{name}={value}" for name, value in environment.items())]
        subprocess.run([*tracing, *program], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, timeout=60)
        text = f.read()
    lines = [m.groups() for m in re.finditer(r"^\d+ +(\w+)\((.*)", text, re.M)]
    assert lines, text
    return collections.Counter(name for name, _ in lines), [what for name, what in lines if name in ("openat", "open")], text.count("execve(")


def check(program):
    plain, opened_plain, processes = calls(program)
    valve, opened, _ = calls(program, LD_PRELOAD=VALVE, UMACTL_VALVE="ceiling:1073741824,floor:0,token:abc")
    more = valve - plain
    for chance in ("restart_syscall", "rt_sigreturn", "wait4"):  # how many signals and waits it takes to see two children end is the scheduler's
        more.pop(chance, None)
    print(f"# {program[0]}: {sum(more.values())} more: " + ", ".join(f"{name} {n}" for name, n in sorted(more.items())))
    assert any(LIBRARY in what for what in opened), "it was not loaded"
    assert set(more) <= LOADING, set(more) - LOADING
    assert sum(more.values()) <= MOST * processes, more
    others = [what for what in opened if not any(name in what for name in (LIBRARY, "libdl.so.2"))]
    assert len(others) == len(opened_plain), (others, opened_plain)


def main():
    if not shutil.which("strace"):
        print("1..0 # SKIP strace is not installed")
        return 0
    if subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("1..0 # SKIP strace may not trace here")
        return 0
    print(f"1..{len(PROGRAMS)}")
    failed = 0
    for number, program in enumerate(PROGRAMS, 1):
        name = f"{program[0]} makes the system calls that it makes without the valve, and those of loading it"
        try:
            check(program)
            print(f"ok {number} - {name}")
        except AssertionError as problem:
            failed += 1
            print(f"# {problem}\nnot ok {number} - {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
