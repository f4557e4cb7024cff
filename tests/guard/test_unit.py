#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The guard's unit: every system call that it makes through a run with all that it does is listed there, and nothing is listed that it does not need."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from support import GUARD, MIB, POLICY, Scene, can_unshare, state, stopped, until  # isort: skip

from harness import Skip, case, main

UNIT = os.environ["UMA_UNIT"]

# Listed, and not seen in a run here, each with its reason.
RARE = {
    "arch_prctl": "x86 alone",
    "clone": "aarch64, and C libraries before 2.34",
    "epoll_pwait": "aarch64",
    "ppoll": "aarch64",
    "renameat2": "aarch64",
    "fstat": "C libraries before 2.33 say newfstatat",
    "newfstatat": "the same the other way round",
    "statx": "where inodes of files are told apart",
    "clock_gettime": "where the kernel's page for it is not there (vdso)",
    "clock_nanosleep": "a pause before the next look at a tree in which somebody was missed",
    "getrandom": "the C library's own",
    "rseq": "the C library's own, from 2.35 on",
    "set_robust_list": "the C library's own",
    "set_tid_address": "the C library's own",
    "prlimit64": "the C library's own",
    "readlink": "the C library's start: its own path",
    "munmap": "a thread's stack when it ends; what was rehearsed",
    "mprotect": "the C library's own",
    "madvise": "the stack of a thread that ends",
    "brk": "before it is locked",
    "restart_syscall": "a sleep that was interrupted by SIGSTOP",
    "exit": "a thread that ends: under strace the process may be gone before",
    "exit_group": "the end, which the run may not wait for",
    "setpriority": "where SCHED_RR is not permitted",
    "ftruncate": "a trail of another size",
    "rename": "a trail of another form is set aside",
    "renameat": "the same of a recording",
    "unlinkat": "what is left of either",
    "flock": "one trail, one writer",
    "fcntl": "whether a job's claim is alive",
    "readlinkat": "who has a GPU's device open: nobody that is not protected may have a file open here",
    "fsync": "a trail's folder",
    "pwrite64": "by the trail's thread",
    "poll": "stderr is a pipe",
    "rt_sigaction": "the C library's own",
    "capget": "not where --within confines it, as here; tests/vm/scenarios/guard_unit.sh has the rest",
}


def listed():
    names = []
    with open(UNIT, encoding="utf-8") as f:
        for line in f:
            if line.startswith("SystemCallFilter="):
                names += line.split("=", 1)[1].split()
    return names


def made(path):
    names = set()
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            found = re.match(r"\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", line)
            if found and "resumed" not in line.split("(", 1)[0].replace("resumed>", "resumed"):
                names.add(found.group(1))
            elif found:
                names.add(found.group(1))
    return names


def guard_pid(tracer):
    """strace's child"""
    with open(f"/proc/{tracer}/task/{tracer}/children", encoding="ascii") as f:
        return int(f.read().split()[0])


def run_it_all(trace):
    folder = tempfile.mkdtemp(prefix="umactl-test-")
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(os.path.join(folder, "notify"))
    policy = POLICY.replace("BrakeMost=60", "BrakeMost=1\nBrakeTimes=1")
    environment = {"NOTIFY_SOCKET": os.path.join(folder, "notify"), "WATCHDOG_USEC": "1000000"}
    scene = Scene(policy=policy, prefix=["strace", "-f", "-o", trace], env=environment)
    try:
        with scene as (machine, guard):
            pid = guard_pid(guard.child.pid)
            victim = scene.victim("--rate", 150, "--most", 440, "--ignore-term", "--children", 1)
            victim.begin()
            until(victim.ended, 40, why="killed")
            guard.wait_for(" ended after ", 20)
            guard.ask("status")
            os.kill(pid, signal.SIGHUP)
            guard.wait_for("policy read again")
            until(lambda: b"WATCHDOG=1" in notify.recv(4096), 20, why="the watchdog is told")
            os.kill(pid, signal.SIGTERM)
            guard.child.wait(20)
    finally:
        notify.close()
        shutil.rmtree(folder)


@case("every system call of a run is listed, and each that is listed is needed")
def calls():
    if not shutil.which("strace") or not can_unshare():
        raise Skip("strace and a mount namespace are needed")
    if os.environ.get("UMA_SANITIZED"):
        raise Skip("a sanitizer makes calls of its own")
    with tempfile.TemporaryDirectory(prefix="umactl-test-") as folder:
        trace = os.path.join(folder, "trace")
        run_it_all(trace)
        seen = made(trace)
    allowed = listed()
    # an older strace says a younger call by its number
    seen = {"process_mrelease" if name == "syscall_0x1c0" else name for name in seen}
    assert len(seen) > 20, seen
    assert seen <= set(allowed), f"not listed: {sorted(seen - set(allowed))}"
    needless = set(allowed) - seen - set(RARE)
    assert not needless, f"listed, and not made: {sorted(needless)}"
    assert len(allowed) == len(set(allowed)), "listed twice"
    for name in ("fork", "vfork", "ptrace", "process_vm_readv", "kill", "tkill", "execveat", "socketpair", "accept4"):
        assert name not in allowed, name


@case("systemd accepts it")
def verify():
    if not shutil.which("systemd-analyze"):
        raise Skip("systemd-analyze is not here")
    with tempfile.TemporaryDirectory(prefix="umactl-test-") as folder:
        path = os.path.join(folder, "umactl-guard.service")
        with open(UNIT, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:  # the program is not installed here, nor the helper's unit, nor the page
            f.write(re.sub(r"^(Wants|Documentation)=.*\n", "", text, flags=re.M).replace(re.search(r"ExecStart=(\S+)", text).group(1), "/bin/true"))
        r = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, timeout=60)
        complaints = [line for line in r.stderr.splitlines() if "umactl-guard" in line]
        assert r.returncode == 0 and not complaints, r.stderr
        r = subprocess.run(["systemd-analyze", "security", "--offline=yes", path], capture_output=True, text=True, timeout=60)
        found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", r.stdout)
        if found:  # root, with five capabilities; a unit without any of this has 9.6
            assert float(found.group(1)) <= 4.0, r.stdout[-2000:]


main()
