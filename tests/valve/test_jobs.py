#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Processes of one job: one account and one limit, children, programs that they execute, and those that die."""
import os
import sys
import time

from cases import case, run
from program import GIB, MIB, OUT_OF_MEMORY, Holder, Program, account_of

SIZE = 64 * MIB
SHARED = f"ceiling:{GIB},floor:0,token:cafe"


def pair(**environment):
    return Program("runtime", **environment).begin(), Program("direct", **environment).begin()


def share(a, b):
    a.do("take", "cuMemAlloc", 600 * MIB)
    assert b.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY
    key = b.do("take", "cuMemAlloc", 300 * MIB)
    assert a.take("cuMemAlloc", 200 * MIB)[0] == OUT_OF_MEMORY
    account = b.account()
    assert account.slot(a.pid).used == 600 * MIB and account.slot(b.pid).used == 300 * MIB and account.used == 900 * MIB
    assert a.do("info")[0] == b.do("info")[0] == account.ceiling - account.used - account.overhead
    b.do("give", "cuMemAlloc", key)
    assert a.take("cuMemAlloc", 200 * MIB)[0] == 0
    assert (a.account().slot(a.pid).used, a.account().slot(b.pid).used) == (800 * MIB, 0)


@case("two processes with one token share a limit")
def _():
    a, b = pair(valve=SHARED)
    with a, b:
        share(a, b)


@case("two processes share the account that the environment names, and its limit is what holds")
def _():
    with Holder(GIB) as holder:
        a, b = pair(valve=f"ceiling:{1 << 50},floor:{1 << 50}", UMACTL_VALVE_ACCOUNT=holder.name)
        with a, b:
            share(a, b)
            assert holder.account().slot(a.pid).used == 800 * MIB


@case("the most that a job had is what it was given, not what it asked for")
def _():
    with Program("runtime", valve="floor:0") as p:
        p.begin()
        for call in ("cuMemAlloc", "cuMemAllocAsync"):
            assert p.take(call, 1 << 50)[0] == OUT_OF_MEMORY
        assert p.account().most == 0
        key = p.do("take", "cuMemAlloc", SIZE)
        p.do("give", "cuMemAlloc", key)
        p.do("take", "cuMemAlloc", SIZE // 2)
        assert p.account().most == SIZE


@case("two jobs do not share")
def _():
    with Program("runtime", valve=SHARED) as a, Program("runtime", valve=SHARED.replace("cafe", "cafe0")) as b, Program("runtime") as c:
        for p in (a, b, c):
            p.begin()
            p.do("take", "cuMemAlloc", 700 * MIB)
            assert p.account().n_slots == 1


@case("what the environment names is not there, or another's: the job's own account")
def _():
    with Holder(GIB) as holder:
        pid, start, fd, inode = holder.name.split(":")
    with Holder(GIB) as other:
        o_pid, o_start, o_fd, o_inode = other.name.split(":")
        for name in (f"{pid}:{start}:{fd}:{inode}", f"{o_pid}:{int(o_start) + 1}:{o_fd}:{o_inode}", f"{o_pid}:{o_start}:{o_fd}:{int(o_inode) + 1}", f"{o_pid}:{o_start}:0:{o_inode}", "", "1", "::::",
                     f"{'9' * 40}:1:1:1", f"{o_pid}:{o_start}:{o_fd}:{o_inode}:1", "-1:1:1:1", "1:2:3:x"):
            with Program("runtime", valve=f"ceiling:{512 * MIB},floor:0", UMACTL_VALVE_ACCOUNT=name) as p:
                p.begin()
                assert p.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY, name
                assert p.account().n_slots == 1, name
        assert other.account().n_slots == 0


@case("many that begin at once make one account")
def _():
    programs = [Program("runtime", valve=SHARED) for _ in range(12)]
    for p in programs:
        p.send("init")
        p.send("retain", 0)
        p.send("take", "cuMemAlloc", MIB)
    for p in programs:
        for _ in range(3):
            assert p.read().split()[0] == "0", p.log()
    account = programs[0].account()
    assert sorted(s.pid for s in account.slots) == sorted(p.pid for p in programs), account.n_slots
    assert account.used == 12 * MIB
    for p in programs:
        p.end()


@case("many that take at once never have more than the limit, and one of them always gets what is left")
def _():
    programs = [Program("runtime", valve=SHARED).begin() for _ in range(6)]
    for _ in range(8):
        for p in programs:
            p.send("take", "cuMemAlloc", SIZE)
        answers = [p.read().split()[0] for p in programs]
        assert set(answers) <= {"0", "2"}
    account = programs[0].account()
    held = sum(p.books()[0] for p in programs)
    assert account.used == held and held + account.overhead <= GIB, (account.used, held)
    assert held >= GIB - 2 * SIZE, (held // MIB, "what was left, nobody could have")
    for p in programs:
        p.end()


@case("a killed process's bytes come back, to calls and to readers")
def _():
    a, b = pair(valve=SHARED)
    with a, b:
        a.do("take", "cuMemAlloc", 900 * MIB)
        assert b.take("cuMemAlloc", 500 * MIB)[0] == OUT_OF_MEMORY
        a.process.kill()
        a.process.wait()
        assert b.do("info")[0] >= 900 * MIB
        assert b.take("cuMemAlloc", 900 * MIB)[0] == 0
        assert b.account().slot(a.pid) is None


@case("so do those of one that exits without freeing")
def _():
    a, b = pair(valve=SHARED)
    with a, b:
        a.do("take", "cuMemAlloc", 900 * MIB)
        assert b.take("cuMemAlloc", 900 * MIB)[0] == OUT_OF_MEMORY
        a.end()
        assert b.take("cuMemAlloc", 900 * MIB)[0] == 0


@case("an executed program begins with nothing")
def _():
    for route in ("runtime", "direct"):
        with Program(route, valve=SHARED) as p:
            p.begin()
            p.do("take", "cuMemAlloc", 900 * MIB)
            p.send("exec", "runtime" if route == "runtime" else "direct")
            p.expect("ready")
            p.begin()
            assert p.account().used == 0
            assert p.take("cuMemAlloc", 900 * MIB)[0] == 0
            assert p.account().n_slots == 1


@case("also one that has nothing to do with CUDA: others of the job may have what the old one had")
def _():
    a, b = pair(valve=SHARED)
    with a, b:
        a.do("take", "cuMemAlloc", 900 * MIB)
        assert b.take("cuMemAlloc", 500 * MIB)[0] == OUT_OF_MEMORY
        a.send("exec-other")
        a.send("hello")
        assert a.read() == "hello"
        assert b.take("cuMemAlloc", 900 * MIB)[0] == 0


@case("a child of fork begins with nothing, under the same limit")
def _():
    with Program("runtime", valve=SHARED) as p:
        child = p.ask("fork")[0]  # before the driver begins: it works in both
        p.begin()
        p.do("take", "cuMemAlloc", 600 * MIB)
        account = p.account() if p.account() else account_of(child)
        assert account.slot(child).used == 600 * MIB
        assert p.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY
        p.send("exit")
        assert p.read() == "0"
        p.begin()
        assert p.take("cuMemAlloc", 600 * MIB)[0] == 0, "the child's bytes are gone with it"
        assert p.account().slot(p.pid).used == 600 * MIB


@case("a child of fork whose parent has begun: the driver refuses it, and nothing of it is counted or given back")
def _():
    with Program("runtime", valve=SHARED) as p:
        p.begin()
        key = p.do("take", "cuMemAlloc", 600 * MIB)
        p.ask("fork")
        assert p.take("cuMemAlloc", SIZE)[0] == 3
        assert p.ask("give", "cuMemAlloc", key)[0] == 3
        assert p.ask("init")[0] == 3
        assert p.account().slot(p.pid).used == 600 * MIB
        p.send("exit")
        assert p.read() == "0"
        assert p.account().used == 600 * MIB
        p.do("give", "cuMemAlloc", key)
        assert p.account().used == 0 == p.books()[0]


@case("children of vfork and posix_spawn, which execute, share the limit while their parent waits")
def _():
    for how in ("vfork", "spawn"):
        with Program("runtime", valve=SHARED) as p:
            p.begin()
            p.do("take", "cuMemAlloc", 600 * MIB)
            p.send(how, "runtime")
            p.expect("ready")
            p.begin()
            assert p.take("cuMemAlloc", 600 * MIB)[0] == OUT_OF_MEMORY, how
            assert p.take("cuMemAlloc", 300 * MIB)[0] == 0, how
            assert p.account().used == 900 * MIB, how
            p.send("exit")
            assert p.read() == "0"
            assert p.take("cuMemAlloc", 400 * MIB)[0] == 0, how


@case("an executed child that does not come to CUDA has no descriptor of the account")
def _():
    with Program("runtime", valve=SHARED) as p:
        p.begin()
        p.do("take", "cuMemAlloc", SIZE)
        p.send("spawn", "none")
        p.expect("ready")
        child = p.ask("pid")[0]
        assert account_of(child) is None
        assert all("memfd" not in os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd"))
        p.send("exit")
        p.read()


@case("threads and children together: the account comes back to nothing")
def _():
    with Program("runtime", valve=f"ceiling:{512 * MIB},floor:0,token:beef") as p:
        children = [Program("direct", valve=f"ceiling:{512 * MIB},floor:0,token:beef").begin() for _ in range(3)]
        p.begin()
        for q in (p, *children):
            q.send("threads", 4, 800, 8 * MIB)
        results = [list(map(int, q.read().split())) for q in (p, *children)]
        assert all(failed == 0 for failed, _ in results), results
        for q in (p, *children):
            q.do("pool-trim", q.do("pool-of-device", 0), 0)
        account = p.account()
        assert (account.used, account.under_way) == (0, 0), (account.used, account.under_way)
        for q in children:
            q.end()


@case("the environment is not changed, and the program's own files are where they were")
def _():
    with Program("runtime", valve=SHARED) as p, Program("runtime", valve=SHARED) as second, Holder(GIB) as holder:
        # one that makes the account, one that finds it, one that is given its name
        with Program("runtime", UMACTL_VALVE_ACCOUNT=holder.name) as third:
            for q in (p, second, third):
                q.begin()
                fds = sorted(int(fd) for fd in os.listdir(f"/proc/{q.pid}/fd"))
                assert [fd for fd in fds if 2 < fd < 300] == [], fds
        assert b"UMACTL_VALVE_ACCOUNT" not in open(f"/proc/{p.pid}/environ", "rb").read()


if __name__ == "__main__":
    began = time.monotonic()
    code = run()
    print(f"# {time.monotonic() - began:.1f} s")
    sys.exit(code)
