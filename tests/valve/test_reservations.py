#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What running jobs have reserved, seen by gates, by `umactl status` and by valves. At most 2 GiB is taken, for seconds, with a floor that keeps the rest of the machine out of it.

Others use this machine's memory at the same time: jobs declare more than they take, and what is compared with the machine's figures has a tolerance.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from cases import Skip, case, run
from program import GIB, MIB, OUT_OF_MEMORY, VALVE, Program

UMACTL = os.environ["UMACTL"]
NOISE = 384 * MIB


def meminfo(name):
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(name + ":"))


def need_memory(bytes_):
    if meminfo("MemFree") < bytes_:
        raise Skip(f"less than {bytes_ >> 30} GiB are free")


class Site:
    """A folder with registers of its own, and a place for records."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp()
        os.chmod(self.folder, 0o1777)
        self.registers = os.path.join(self.folder, "shm")
        os.mkdir(self.registers)
        os.chmod(self.registers, 0o1777)
        self.environment = {"UMACTL_RESERVATIONS": self.registers, "UMACTL_STATE": os.path.join(self.folder, "runs"), "UMACTL_VALVE_LIBRARY": VALVE, "UMACTL_PROBE": os.environ["UMACTL_PROBE"],
                            "UMACTL_NVML": "/nonexistent"}
        self.children = []
        return self

    def __exit__(self, *_):
        for child in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        subprocess.run(["rm", "-rf", self.folder], check=True)

    def run(self, *words, **more):
        return subprocess.run([UMACTL, *words], env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, **more)

    def start(self, *words, **more):
        """A launch, in a session of its own: its job is another group, and ends when its standard input does."""
        child = subprocess.Popen([UMACTL, "run", *words], env={**os.environ, **self.environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True, **more)
        self.children.append(child)
        return child

    def status(self):
        return json.loads(self.run("status", "--json").stdout)

    def claims(self):
        return self.status()["reservations"]

    def wait_for(self, condition):
        until = time.monotonic() + 30
        while not condition(claims := self.claims()):
            assert time.monotonic() < until, claims
            time.sleep(0.05)
        return claims

    def program(self, route="runtime", before=(), **more):
        return Program(route, before=before, **{**self.environment, **more})

    def launch(self, *words):
        return [UMACTL, "run", "-q", *words, "--"]


def greedy(p, step=64 * MIB):
    n = 0
    while p.take("cuMemAlloc", step)[0] == 0:
        n += 1
        assert n < 200, "no end"
    return n * step


@case("a job that takes what it declared slowly is not disturbed by a greedy one, which is refused with the reservation named; one that does not see it takes it all")
def _():
    if os.geteuid() != 0:
        raise Skip("packet rings are for root")
    need_memory(6 * GIB)
    # what ends elsewhere goes to the processors' own lists first, which MemAvailable does not count: up to a GiB and more for seconds. So much is declared beyond what is taken.
    declared = 2 * GIB
    for sees in (True, False):
        with Site() as s:
            floor = meminfo("MemAvailable") - (declared + 768 * MIB if sees else GIB)
            with s.program(before=s.launch("--need", "2G", "--valve", "--floor", str(floor), "--name", "slow"), valve=None, fake="memory:ring") as slow:
                slow.begin()
                slow.do("take", "cuMemAlloc", 64 * MIB)
                s.wait_for(lambda claims: len(claims) == 1 and claims[0]["taken"] >= 64 * MIB)
                with s.program(valve=f"floor:{floor}", fake="memory:ring", **({} if sees else {"UMACTL_RESERVATIONS": "/nonexistent"})) as other:
                    other.begin()
                    assert greedy(other) >= 32 * MIB, other.log()
                    left = meminfo("MemAvailable") - floor
                    assert not sees or left >= declared - 64 * MIB - NOISE, f"{left >> 20} MiB are left"
                    if not sees:
                        assert "reserved" not in other.log(), other.log()
                        tries = 0
                        while slow.take("cuMemAlloc", 256 * MIB)[0] != OUT_OF_MEMORY:
                            greedy(other)  # others let go of some
                            tries += 1
                            assert tries < 4, "nothing was taken away from it"
                        continue
                    assert "are reserved by others" in other.log(), other.log()
                    for taken in range(64, 640, 64):
                        answer = slow.take("cuMemAlloc", 64 * MIB)[0]
                        left = meminfo("MemAvailable") - floor
                        if answer and left < NOISE:
                            raise Skip("others, who are behind no valve, took it")
                        assert answer == 0, slow.log()
                        if other.take("cuMemAlloc", 32 * MIB)[0] == 0:  # others let go of some: then there is enough for both
                            left = meminfo("MemAvailable") - floor
                            assert left >= declared - taken * MIB - 64 * MIB - NOISE, f"{left >> 20} MiB are left for a claim of which {taken + 64} MiB are taken"
                    assert "reserved" not in slow.log(), slow.log()


@case("a job's claim does not count against its own valve, whoever started that; it does against another's")
def _():
    with Site() as s:
        floor = meminfo("MemAvailable") - 4 * GIB
        with s.program(valve=f"floor:{floor}") as other:
            other.begin()
            for words in (("--valve", "--floor", str(floor)), ("--no-valve",)):
                before = s.launch("--need", "2G", *words)
                if "--no-valve" in words:
                    before += ["env", f"LD_PRELOAD={VALVE}", f"UMACTL_VALVE=floor:{floor}"]
                with s.program(before=before, valve=None) as own:
                    own.begin()
                    time.sleep(1.1)  # `other` looks for registers once a second
                    other.do("take", "cuMemAlloc", 2 * MIB)
                    a, b = own.do("info")[0], other.do("info")[0]
                    assert 2 * GIB - NOISE <= a - b <= 2 * GIB + NOISE, (a >> 20, b >> 20)


@case("a killed umactl leaves no claim, though its job goes on")
def _():
    with Site() as s:
        child = s.start("-q", "--need", "1G", "--", "sleep", "60")
        claims = s.wait_for(lambda c: len(c) == 1)
        assert claims[0]["reserved"] == GIB and claims[0]["pid"] == child.pid and claims[0]["name"] == "sleep" and not claims[0]["own"], claims
        job = int(open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="ascii").read().split()[0])
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        status = s.status()
        assert status["reservations"] == [] and status["headroom"]["reserved"] == 0, status["reservations"]
        os.kill(job, 0)
        os.kill(job, signal.SIGKILL)


@case("what a job takes is no longer reserved, and what it gives back is again")
def _():
    need_memory(2 * GIB)
    program = "import sys; a = bytearray(400 << 20); a[::4096] = b'x' * len(a[::4096]); sys.stdin.readline(); del a; sys.stdin.readline()"
    with Site() as s:
        child = s.start("-q", "--need", "600M", "--name", "ta\x1bker", "--", sys.executable, "-c", program)
        claims = s.wait_for(lambda c: c and c[0]["taken"] >= 400 * MIB)
        assert claims[0]["unspent"] == claims[0]["reserved"] - claims[0]["taken"] <= 200 * MIB, claims
        status = s.status()
        assert status["headroom"]["reserved"] == status["reservations"][0]["unspent"]
        text = s.run("status", "--all").stdout
        assert "RESERVED BY RUNNING JOBS" in text and "\x1b" not in text and "600 MiB" in text, text
        child.stdin.write("\n")
        child.stdin.flush()
        s.wait_for(lambda c: c[0]["taken"] < 100 * MIB)
        child.stdin.close()
        assert child.wait(20) == 0
        assert s.claims() == []


@case("many launches at once are never promised more than there is")
def _():
    with Site() as s:
        need = s.status()["headroom"]["budget"] * 2 // 9  # four fit, and half a one of noise
        children = [s.start("-q", "--need", str(need), "--", "cat") for _ in range(16)]
        until = time.monotonic() + 40
        while sum(c.poll() is not None for c in children) + len(s.claims()) < len(children):
            assert time.monotonic() < until
            time.sleep(0.05)
        statuses = [c.poll() for c in children]
        assert statuses.count(None) in (3, 4) and set(statuses) == {None, 75}, statuses
        refused = next(c for c in children if c.poll() == 75)
        assert "running jobs have reserved" in refused.stderr.read()
        met = s.run("require", "--bytes", str(need))
        assert met.returncode == 1 and "reserved by running jobs" in met.stdout, met.stdout
        for c in children:
            if c.poll() is None:
                c.stdin.close()
                assert c.wait(20) == 0
        assert s.run("require", "--bytes", str(need)).returncode == 0


@case("a job that waits is let in when the claim before it goes")
def _():
    with Site() as s:
        need = str(s.status()["headroom"]["budget"] * 2 // 3)
        first = s.start("-q", "--need", need, "--", "cat")
        s.wait_for(lambda c: len(c) == 1)
        second = s.start("-q", "--need", need, "--wait", "40", "--", "cat")
        time.sleep(1.5)
        assert second.poll() is None and [c["pid"] for c in s.claims()] == [first.pid]
        first.stdin.close()
        assert first.wait(20) == 0
        s.wait_for(lambda c: [x["pid"] for x in c] == [second.pid])
        second.stdin.close()
        assert second.wait(20) == 0


@case("a job inside a job: the outer claim is its own")
def _():
    with Site() as s:
        need = str(s.status()["headroom"]["budget"] * 2 // 3)
        r = s.run("run", "-q", "--need", need, "--", UMACTL, "run", "-q", "--need", need, "--", UMACTL, "status", "--json")
        assert r.returncode == 0, r.stderr
        status = json.loads(r.stdout)
        assert [c["own"] for c in status["reservations"]] == [True, True] and status["headroom"]["reserved"] == 0


@case("with a folder for a machine nothing is reserved, and nothing is read")
def _():
    with Site() as s, tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "proc"))
        with open(os.path.join(root, "proc", "meminfo"), "w", encoding="ascii") as f:
            f.write("MemTotal: 134217728 kB\nMemFree: 104857600 kB\nMemAvailable: 104857600 kB\n")
        r = s.run("run", "-q", "--root", root, "--need", "60G", "--", UMACTL, "status", "--json")
        assert r.returncode == 0 and json.loads(r.stdout)["reservations"] == [], (r.stdout, r.stderr)
        assert os.listdir(s.registers) == []


@case("what stands in the register's place is told, not followed and not trusted")
def _():
    with Site() as s:
        register = os.path.join(s.registers, f"umactl-reservations-{os.geteuid()}")
        target = os.path.join(s.folder, "precious")
        for make in (lambda: os.symlink(target, register), lambda: open(register, "w", encoding="ascii").write("precious"), lambda: os.mkfifo(register), lambda: os.mkdir(register)):
            with open(target, "w", encoding="ascii") as f:
                f.write("precious")
            make()
            r = s.run("run", "-q", "--need", "1M", "--", "echo", "ran")
            assert r.returncode == 0 and r.stdout == "ran\n" and "nothing is reserved for the job" in r.stderr, r.stderr
            assert open(target, encoding="ascii").read() == "precious"
            r = s.run("status", "--json")
            assert r.returncode == 0 and "passed over" in r.stderr and json.loads(r.stdout)["reservations"] == [], r.stderr
            with s.program(valve="floor:0") as p:
                p.begin()
                p.do("take", "cuMemAlloc", 2 * MIB)
            (os.rmdir if os.path.isdir(register) and not os.path.islink(register) else os.remove)(register)


@case("another user's claims count where a job is let in, not in this user's valve")
def _():
    if os.geteuid() != 0:
        raise Skip("other users are for root")
    with Site() as s:
        try:
            other = s.start("-q", "--need", "2G", "--", "cat", user=65534)
        except PermissionError:
            raise Skip("the program is where another user cannot run it") from None
        claims = s.wait_for(lambda c: len(c) == 1 or other.poll() is not None)
        if not claims:
            raise Skip(f"another user could not run it: {other.stderr.read()[:200]}")
        status = s.status()  # one reading: what is taken changes from sample to sample
        assert claims[0]["uid"] == 65534 and status["headroom"]["reserved"] == status["reservations"][0]["unspent"] > GIB
        floor = meminfo("MemAvailable") - 4 * GIB
        with s.program(valve=f"floor:{floor}") as p:
            p.begin()
            assert p.do("info")[0] > 4 * GIB - NOISE
            other.stdin.close()
            assert other.wait(20) == 0


sys.exit(run())
