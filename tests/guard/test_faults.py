#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uma-guard where things fail: what it reads, where it writes, what it is told, its clock, its descriptors; and that it allocates nothing once it runs."""

import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

from support import FLOOR, GUARD, MIB, POLICY, Guard, Machine, Scene, can_unshare, state, stopped, until, unshare  # isort: skip

from harness import Skip, case, contains, equal, main

SHARED = os.environ["UMA_GUARD_SHARED"]
PRELOAD = os.environ["UMA_GUARD_PRELOAD"]
GROWS = ("--rate", 150, "--most", 440)


def needs_namespaces():
    if not can_unshare():
        raise Skip("no mount namespace may be made here")


def needs_preload():
    needs_namespaces()
    if os.environ.get("UMA_SANITIZED"):
        raise Skip("a sanitizer has its own allocator")


def brakes(scene, guard, *arguments):
    """It still does what it is there for."""
    victim = scene.victim(*(arguments or GROWS))
    victim.begin()
    until(lambda: stopped(victim.pid), why="stopped")
    return victim


@case("nothing is allocated once it runs: deciding, stopping, ending, answering, reading its policy again")
def allocates_nothing():
    needs_preload()
    scene = Scene(policy=POLICY.replace("BrakeMost=60", "BrakeMost=1\nBrakeTimes=1"), program=SHARED, prefix=["env", "LD_PRELOAD=" + PRELOAD])
    with scene as (machine, guard):
        victim = scene.victim(*GROWS, "--ignore-term", "--children", 2)
        victim.begin()
        until(victim.ended, 30, why="killed")
        guard.wait_for(" ended after ")
        equal(guard.ask("status")["dry_run"], "no")
        equal(guard.ask("release")["released"], "0")
        guard.signal(signal.SIGHUP)
        guard.wait_for("policy read again")
        guard.set_policy("nonsense")
        guard.signal(signal.SIGHUP)
        guard.wait_for("the one before holds")
        equal(guard.stop(), 0)
        assert "allocated" not in guard.text(), guard.text()


@case("the helper of that test tells of an allocation")
def tells():
    needs_preload()
    r = subprocess.run(["python3", "-c", "import select; select.epoll().poll(0); bytearray(1000000)"], env={**os.environ, "LD_PRELOAD": PRELOAD},
                       capture_output=True, text=True)
    contains(r.stderr, "allocated 1000001")


@case("/proc/meminfo that cannot be read is said once; it goes on when it can be read again")
def meminfo():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        right = machine.write
        machine.write = lambda: os.pwrite(machine.meminfo, b"x" * 400, 0)
        guard.wait_for("cannot read /proc/meminfo")
        time.sleep(1.2)
        equal(guard.ask("status")["headroom"], "unknown")
        machine.write = right
        guard.wait_for("/proc/meminfo can be read again", 5)
        assert guard.text().count("cannot read /proc/meminfo: nothing") == 1, guard.text()
        brakes(scene, guard)
        equal(guard.stop(), 0)


@case("a machine as a folder is looked at and never acted on; unreadable files are unknown")
def folder():
    with tempfile.TemporaryDirectory(prefix="umactl-test-") as root:
        os.makedirs(os.path.join(root, "proc", "1"))
        with open(os.path.join(root, "proc", "meminfo"), "w", encoding="ascii") as f:
            names = ("MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "AnonPages", "Shmem", "Dirty", "Writeback", "SwapTotal", "SwapFree")
            f.write("MemTotal: 1000000 kB\n" + "".join(f"{name}: 1000 kB\n" for name in names))
        with open(os.path.join(root, "proc", "1", "stat"), "w", encoding="ascii") as f:
            f.write("garbage")
        os.mkdir(os.path.join(root, "proc", "vmstat"))  # opens, and fails in read(2)
        guard = Guard(None, POLICY, "--root", root, within=False)
        try:
            status = guard.ask("status")
            equal(status["dry_run"], "yes")
            equal(status["headroom"], str(1000 * 1024))
            os.unlink(os.path.join(root, "proc", "meminfo"))
            equal(guard.stop(), 0)
        finally:
            guard.close()
        r = subprocess.run([GUARD, "--root", root, "--once", "--run-folder", root, "--state-folder", root], capture_output=True, text=True)
        equal(r.returncode, 3)  # unknown: there is no meminfo any more


@case("with few descriptors it starts, says what it lacks, and still stops the tree")
def descriptors():
    needs_namespaces()
    for limit in (64, 40):
        scene = Scene(prefix=["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"])
        with scene as (machine, guard):
            brakes(scene, guard)
            equal(guard.stop(), 0)


@case("a clock that jumps: the one of the boot (a suspend) is a gap; nobody is stopped for it")
def clocks():
    needs_preload()
    with tempfile.NamedTemporaryFile(prefix="umactl-test-") as clock:
        clock.write(struct.pack("qq", 0, 0))
        clock.flush()
        scene = Scene(program=SHARED, prefix=["env", "LD_PRELOAD=" + PRELOAD, "UMA_TEST_CLOCK=" + clock.name])
        with scene as (machine, guard):
            with open(clock.name, "r+b", buffering=0) as f:
                time.sleep(0.3)
                machine.available -= 100 * MIB  # what happened while it slept
                os.pwrite(f.fileno(), struct.pack("qq", 0, 3600 * 10**9), 0)
                time.sleep(1)
                os.pwrite(f.fileno(), struct.pack("qq", 5 * 10**9, 3605 * 10**9), 0)  # both: it was stopped for five seconds
                guard.wait_for("was kept from running", 5)
                os.pwrite(f.fileno(), struct.pack("qq", 0, 0), 0)  # back: never happens, and must not hang it
                machine.available += 100 * MIB
                time.sleep(0.3)
            equal(guard.ask("status")["actions"], "0")
            equal(guard.stop(20), 0)


@case("a policy that is broken at the start: the defaults hold, and nobody is ended")
def broken_at_start():
    needs_namespaces()
    scene = Scene(policy="[Floor]\nFloor=lots\n")
    with scene as (machine, guard):
        contains(guard.text(), "the defaults hold, and nobody is ended")
        contains(guard.text(), "guard.conf")
        contains(guard.text(), "policy broken: the defaults hold, and nobody is ended")  # the service manager's status
        status = guard.ask("status")
        equal((status["policy"], status["policy_holds"]), ("broken", "defaults"))
        guard.signal(signal.SIGHUP)
        guard.wait_for("still broken: the defaults hold, and nobody is ended")
        assert "the one before holds" not in guard.text(), guard.text()  # there was none
        guard.set_policy(POLICY)
        guard.signal(signal.SIGHUP)
        guard.wait_for("policy read again")
        guard.set_policy("nonsense")
        guard.signal(signal.SIGHUP)
        guard.wait_for("the one before holds")
        equal(guard.ask("status")["policy_holds"], "before")
        equal(guard.stop(), 0)


@case("a policy that is broken at a reload: the one before holds, and is said to")
def broken_at_reload():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        guard.set_policy("[Floor]\nFloor=1x\x1b[31m\n")
        guard.signal(signal.SIGHUP)
        guard.wait_for("the one before holds")
        assert "\x1b" not in guard.text()
        status = guard.ask("status")
        equal((status["floor"], status["policy"]), (str(FLOOR), "broken"))
        guard.set_policy(POLICY)
        guard.signal(signal.SIGHUP)
        guard.wait_for("policy read again")
        equal(guard.ask("status")["policy"], "fine")
        brakes(scene, guard)
        equal(guard.stop(), 0)


@case("without a run folder or a state folder it works, and says what it does not keep")
def no_folders():
    needs_namespaces()
    scene = Scene("--run-folder", "/nonexistent/run", "--state-folder", "/proc/nowhere")
    with scene as (machine, guard):
        for line in ("no state is kept in '/nonexistent/run': No such file or directory; a guard that is killed leaves stopped what it stopped "
                     "(umactl-guard.service makes the folder, --run-folder names another)",
                     "no control socket in '/nonexistent/run': No such file or directory; umactl guard cannot ask this guard",
                     "no trail is kept in '/proc/nowhere': there is no such folder; what is done is not written down "
                     "(umactl-guard.service makes the folder, --state-folder names another)",
                     "no recording is kept in '/proc/nowhere': there is no such folder; what is read cannot be replayed afterwards"):
            equal([said for _, said in guard.lines].count(line), 1, line + "\n" + guard.text())
        assert "No such device" not in guard.text(), guard.text()  # the same once more, and worse
        victim = brakes(scene, guard)
        equal(guard.stop(), 0)
        until(lambda: not stopped(victim.pid), why="let go")


@case("what was kept in another form is set aside, and said with its folder, which may be hostile")
def set_aside():
    needs_namespaces()
    parent = tempfile.mkdtemp(prefix="umactl-test-")
    folder = os.path.join(parent, "a\x1b[31m\n")
    os.mkdir(folder)
    try:
        with open(os.path.join(folder, "trail"), "wb") as f:
            f.write(b"something else")
        with Scene(state_folder=folder) as (machine, guard):
            contains(guard.text(), f"trail in '{parent}/a\\x1b[31m\\x0a': what was kept there has another form: it is set aside")
            assert "\x1b" not in guard.text()
            equal(guard.stop(), 0)
            equal([r["text"] for r in guard.trail() if r["kind"] == "note"][0][:6], "trail:")
        assert os.path.exists(os.path.join(folder, "trail.old"))
    finally:
        shutil.rmtree(parent)


@case("a state folder whose disk is full")
def full_disk():
    needs_namespaces()
    scene = Scene("--state-folder", "/mnt", prefix=["sh", "-c", 'mount -t tmpfs -o size=256k none /mnt && head -c 262144 /dev/zero >/mnt/full; exec "$@"', "sh"])
    with scene as (machine, guard):
        equal(guard.ask("status")["trail"], "none")
        brakes(scene, guard)
        equal(guard.stop(), 0)


@case("garbage on the control socket is answered or dropped, and harms nothing")
def control():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        path = os.path.join(guard.run, "control")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.setblocking(False)
            for i in range(2000):
                try:
                    s.sendto(os.urandom(i % 700), path)
                except (BlockingIOError, OSError):
                    time.sleep(0.002)
        contains(guard.ask(b"\x00\xff")["error"], "expected status")
        contains(guard.ask("release 0")["error"], "expected status")
        equal(guard.ask("release 1")["released"], "0")
        brakes(scene, guard)
        equal(guard.stop(), 0)


@case("kept from running for a second by the scheduler: said, and it acts at once")
def held():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        guard.signal(signal.SIGSTOP)
        victim = scene.victim("--rate", 150, "--most", 200)
        victim.begin()
        time.sleep(2)
        guard.signal(signal.SIGCONT)
        guard.wait_for("was kept from running", 5)
        equal(guard.stop(), 0)


@case("a log that nobody reads does not hold it up")
def log():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        guard.signal(signal.SIGUSR1)
        brakes(scene, guard)
        equal(guard.stop(), 0)
    # with a pipe that is full from the start
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write, True)
    with tempfile.TemporaryDirectory(prefix="umactl-test-") as root:
        child = subprocess.Popen([GUARD, "--dry-run", "--run-folder", root, "--state-folder", root, "--policy", "/dev/null"], stderr=write)
        until(lambda: os.path.exists(os.path.join(root, "control")), why="it has started")
        time.sleep(0.3)
        child.terminate()
        equal(child.wait(10), 0)
    os.close(read)
    os.close(write)


main()
