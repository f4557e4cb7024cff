#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A job in bad company: umactl is killed, the job changes its user, its PID or time namespace, its account is full or somebody cuts it, and no descriptor is left."""
import glob
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

from cases import Skip, case, run
from program import GIB, MIB, OUT_OF_MEMORY, Program, account_of

UMACTL = os.environ["UMACTL"]
SHARED = f"ceiling:{GIB},floor:0,token:feed"
SLOT, SLOTS = 128, 1024  # account.h


class Run(Program):
    """`umactl run` of a program, which says its own number. `inner`: words before the program."""

    def __init__(self, *inner, **environment):
        self.place = tempfile.TemporaryDirectory()
        os.chmod(self.place.name, 0o755)
        super().__init__("runtime", valve=None, before=[UMACTL, "run", "-q", "--valve", "--limit", "1G", "--floor", "0", "--", *inner], UMACTL_STATE=self.place.name, **environment)

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.read()  # until the job has ended, too
        self.place.cleanup()


def need(*words):
    """That the machine can start a program so."""
    try:
        can = subprocess.run([*words, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20, check=False).returncode == 0
    except OSError:
        can = False
    if not can:
        raise Skip(f"{' '.join(words)} is not to be had")


def shared_with_child(p):
    """The program takes 600 MiB of the 1 GiB, and a child that it executes is refused as much."""
    p.begin()
    p.do("take", "cuMemAlloc", 600 * MIB)
    p.send("spawn", "runtime")
    p.expect("ready")
    p.begin()
    assert p.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY, "each has a limit of its own"
    p.do("take", "cuMemAlloc", 100 * MIB)
    p.send("exit")
    assert p.read() == "0"


@case("umactl is killed: processes that begin later share the limit with those that are there")
def _():
    with Run() as p:
        p.begin()
        os.kill(p.pid, signal.SIGKILL)
        p.process.wait(20)
        shared_with_child(p)


@case("processes in a PID namespace of their own, with a /proc of it, share a limit")
def _():
    need("unshare", "-pf", "--mount-proc")
    with Run("unshare", "-pf", "--mount-proc") as p:
        shared_with_child(p)


@case("processes with a clock of their own share a limit, and nobody takes others for dead by its clock")
def _():
    clock = ("unshare", "-T", "--boottime", "100000")
    need(*clock)
    with Run(*clock) as p:
        shared_with_child(p)
    with Program("runtime", valve=SHARED) as a, Program("direct", valve=SHARED, before=clock) as b:
        a.begin()
        b.begin()
        a.do("take", "cuMemAlloc", 600 * MIB)
        assert b.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY
        b.do("take", "cuMemAlloc", 100 * MIB)
        assert a.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY
        account = a.account()
        assert account.slot(a.pid).used == 600 * MIB and account.used == 700 * MIB


@case("processes that are another user's than umactl share a limit")
def _():
    user = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    need(*user)
    with Run(*user) as p:
        shared_with_child(p)


@case("an account whose places are all taken: who comes then is held to the limit by itself")
def _():
    with Program("runtime", valve=SHARED) as a:
        a.begin()
        fd = next(fd for fd in os.listdir(f"/proc/{a.pid}/fd") if "memfd:umactl-valve" in os.readlink(f"/proc/{a.pid}/fd/{fd}"))
        with open(f"/proc/{a.pid}/fd/{fd}", "r+b", buffering=0) as account:
            first = os.fstat(account.fileno()).st_size - SLOT * SLOTS
            for slot in range(1, SLOTS):  # somebody of whom nothing is known
                os.pwrite(account.fileno(), (1).to_bytes(4, "little"), first + slot * SLOT)
        with Program("direct", valve=SHARED) as b:
            b.begin()
            b.do("take", "cuMemAlloc", 600 * MIB)
            assert b.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY
            assert "account is full" in b.log()
            assert account_of(b.pid).n_slots == 1


@case("nobody can make the account shorter, which would end all that have it mapped")
def _():
    def cut(pid, wanted):
        found = [fd for fd in os.listdir(f"/proc/{pid}/fd") if "memfd:umactl-valve" in os.readlink(f"/proc/{pid}/fd/{fd}")]
        assert found or not wanted
        for fd in found:
            try:
                with open(f"/proc/{pid}/fd/{fd}", "r+b", buffering=0) as account:
                    os.ftruncate(account.fileno(), 0)
            except PermissionError:
                continue
            raise AssertionError("it was cut")

    with Program("runtime", valve=SHARED) as a:
        a.begin()
        cut(a.pid, True)
        a.do("take", "cuMemAlloc", MIB)
    with Run() as p:
        p.begin()
        cut(p.pid, True)
        p.do("take", "cuMemAlloc", MIB)


@case("no descriptor is left: the limit is held all the same")
def _():
    with Program("direct", valve=SHARED) as p:
        p.do("init")
        n = 1 + max(int(fd) for fd in os.listdir(f"/proc/{p.pid}/fd"))
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (3 if n <= 3 else n, 4096))
        assert p.ask("retain", 0)[0] in (0, OUT_OF_MEMORY)
        p.do("take", "cuMemAlloc", 600 * MIB)
        assert p.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY, p.log()


@case("a job inside a job keeps within the outer one's limit, by a limit of its own or by none")
def _():
    for more in ((), ("--limit", "8G"), ("--limit", "8G", "--floor", "1")):
        with Run(UMACTL, "run", "-q", "--valve", *more, "--") as p:
            p.begin()
            p.do("take", "cuMemAlloc", 600 * MIB)
            assert p.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY, more
    with Run(UMACTL, "run", "-q", "--valve", "--limit", "512M", "--") as p:
        p.begin()
        assert p.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY


@case("the line of valve --env keeps what was preloaded before, however it was divided, and says when it cannot")
def _():
    def line(before):
        done = subprocess.run([UMACTL, "valve", "--env"], env={**os.environ, "LD_PRELOAD": before}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=True)
        return done.stdout.split(" ")[0].partition("libuma-valve.so")[2], "left out" in done.stderr

    assert line("/none/a.so /none/b.so:/none/c.so  ") == (":/none/a.so:/none/b.so:/none/c.so", False)
    assert line(" : ") == ("", False)
    assert line("/none/$LIB/a.so") == ("", True)


HELPER = 36  # account.h


def helper(p):
    """Does the program think that somebody makes room for it?"""
    for pid in [p.pid] + [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if "memfd:umactl-valve-" + p.token in os.readlink(f"/proc/{pid}/fd/{fd}"):
                    with open(f"/proc/{pid}/fd/{fd}", "rb", buffering=0) as account:
                        return int.from_bytes(os.pread(account.fileno(), 4, HELPER), "little")
        except OSError:
            continue
    raise AssertionError("no account")


def wait_for(what, wanted):
    for _ in range(100):
        if what() == wanted:
            return
        time.sleep(0.1)
    raise AssertionError(f"{what()}, not {wanted}")


@case("umactl is stopped or killed: only the first call that needs room waits for it")
def _():
    with Run(UMA_FAKE_CUDA=f"largest:{MIB}") as p:  # the driver refuses what is larger
        p.begin()
        with open(f"/proc/{p.ask('pid')[0]}/environ", "rb") as f:
            p.token = f.read().split(b"token:")[1][:16].decode()
        wait_for(lambda: helper(p), 1)
        os.kill(p.pid, signal.SIGSTOP)
        try:
            assert p.take("cuMemAlloc", 64 * MIB)[0] == OUT_OF_MEMORY
            wait_for(lambda: helper(p), 0)
        finally:
            os.kill(p.pid, signal.SIGCONT)
        wait_for(lambda: helper(p), 1)
        os.kill(p.pid, signal.SIGKILL)
        p.process.wait(20)
        assert p.take("cuMemAlloc", 64 * MIB)[0] == OUT_OF_MEMORY
        wait_for(lambda: helper(p), 0)


def refusals(place):
    with open(os.path.join(place, "events.jsonl"), encoding="utf-8") as f:
        return [event["detail"] for event in (json.loads(line) for line in f if line.endswith("\n")) if event["event"] == "refuse"]


@case("a program that is refused again and again leaves a record that can be read")
def _():
    began = time.monotonic()
    with Run() as p:
        p.begin()
        (place,) = glob.glob(os.path.join(p.place.name, "runs", "*"))
        for _ in range(300):
            assert p.take("cuMemAlloc", 2 * GIB)[0] == OUT_OF_MEMORY
        more = 0
        while more < 60 and not any(line.startswith("3.0 GiB") and " more since the last one told)" in line for line in refusals(place)):
            assert p.take("cuMemAlloc", 3 * GIB)[0] == OUT_OF_MEMORY
            more += 1
            time.sleep(1)
        assert more < 60, refusals(place)[-3:]
        p.process.stdin.close()
        p.process.wait(20)
        told = len(refusals(place))
        assert told <= 18 + time.monotonic() - began, told
        with open(os.path.join(place, "samples.csv"), encoding="utf-8") as f:
            assert f.read().count("refuse") <= told
        with open(os.path.join(place, "run.json"), encoding="utf-8") as f:
            assert str(300 + more) in json.dumps(json.load(f)["valve"])


if __name__ == "__main__":
    sys.exit(run())
