#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The valve at the end of real memory: the driver's bytes leave the pool (packet rings, as root), and no process's RSS shows it. At most 1.5 GiB is taken, for seconds.

Others use this machine's memory at the same time: what is compared with the machine's figures has a tolerance.
"""
import os
import select
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from disk import cached, disk_places  # noqa: E402
from cases import Skip, case, run  # noqa: E402
from program import GIB, MIB, OUT_OF_MEMORY, Program  # noqa: E402

TOLERANCE = 384 * MIB


def meminfo(name):
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(name + ":"))


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS:"))


def need(free=3 * GIB):
    if os.geteuid() != 0:
        raise Skip("packet rings are for root")
    if meminfo("MemFree") < free:
        raise Skip(f"less than {free >> 30} GiB are free")


@case("the floor: a greedy program gets error 2 while the machine still has it, and nothing was in its RSS", tries=3)
def _():
    need()
    floor = meminfo("MemAvailable") - GIB
    with Program("runtime", valve=f"floor:{floor}", fake="memory:ring") as p:
        p.begin()
        begin, n = meminfo("MemAvailable"), 0
        while p.take("cuMemAlloc", 32 * MIB)[0] == 0:
            n += 1
            assert n < 100, "no end"
            assert meminfo("MemAvailable") >= floor - TOLERANCE, "past the floor"
        assert n >= 8, p.log()
        left = meminfo("MemAvailable")
        assert floor - TOLERANCE <= left <= floor + TOLERANCE, (floor, left)
        assert begin - left >= n * 32 * MIB - TOLERANCE and rss(p.pid) < 64 * MIB, "the memory was not real"
        assert p.account().used == n * 32 * MIB == p.books()[0]
        assert p.account().events[-1][0] == "refused-floor" and "stay with it" in p.log(), p.log()
        assert p.do("info")[0] < 32 * MIB + TOLERANCE
        assert p.end() == 0


@case("the floor, with many threads at once", tries=3)
def _():
    need()
    floor = meminfo("MemAvailable") - GIB
    with Program("direct", valve=f"floor:{floor}", fake="memory:ring") as p:
        p.begin()
        p.send("threads", 8, 60, 16 * MIB)
        lowest = meminfo("MemAvailable")
        while not select.select([p.process.stdout], [], [], 0.002)[0]:
            lowest = min(lowest, meminfo("MemAvailable"))
        failed, refused = map(int, p.read().split())
        lowest = min(lowest, meminfo("MemAvailable"))
        assert failed == 0 and lowest >= floor - TOLERANCE, (failed, refused, lowest, floor)
        p.do("pool-trim", p.do("pool-of-device", 0), 0)
        assert (p.account().used, p.account().under_way) == (0, 0)


def measured(p, size, *words):
    """What was made, and whether it was counted as so much: others of the machine may have taken or freed memory meanwhile."""
    before = p.account().overhead if p.account() else 0
    key = p.do(*words)
    return key, abs(p.account().overhead - before - size) < size // 4


@case("contexts and code are counted as measured", tries=3)
def _():
    need()
    with Program("runtime", valve=None, fake="memory:ring") as other, Program("runtime", valve="floor:0", fake=f"memory:ring,context:{512 * MIB},module:{128 * MIB}") as p:
        other.begin()
        for _ in range(24):  # the processors' own lists of free pages, which MemFree does not count, are emptied first, by somebody who keeps what was on them
            before = meminfo("MemFree")
            other.do("take", "cuMemAlloc", 64 * MIB)
            if before - meminfo("MemFree") > 48 * MIB:
                break
        else:
            raise Skip("others free too much at the moment")
        p.do("init")
        contexts = [measured(p, 512 * MIB, "context", 0)]
        contexts.append(measured(p, 512 * MIB, "context", 0))
        codes = [measured(p, 128 * MIB, "take", "cuModuleLoadData") for _ in range(3)]
        assert any(near for _, near in contexts), "no context was counted as what it took"
        assert any(near for _, near in codes), "no code was counted as what it took"
        before = p.account().overhead
        p.do("give", "cuModuleLoadData", codes[0][0])
        assert p.account().overhead <= before
        for context, _ in contexts:  # code goes with its context
            p.do("context-destroy", context)
        assert (p.account().overhead, p.account().used) == (0, 0)


@case("a driver that refuses while the pool is page cache: without the valve out of memory, with it the program's own model files leave and the call succeeds", tries=3)
def _():
    size, want = 512 * MIB, 64 * MIB
    for place in disk_places(overlay=False):
        break
    else:
        raise Skip("no disk to put a file on")
    with tempfile.TemporaryDirectory(dir=place) as folder:
        path = os.path.join(folder, "model.safetensors")
        for valve, expected in ((None, OUT_OF_MEMORY), ("floor:0", 0)):
            with open(path, "wb") as f:
                for _ in range(size // MIB):
                    f.write(os.urandom(4096) * 256)
                f.flush()
                os.fsync(f.fileno())
            with open(path, "rb") as f:
                while f.read(1 << 20):
                    pass
            if cached(path) < size * 3 // 4:
                raise Skip("the file does not stay in the cache here")
            enough = meminfo("MemFree") - want + size // 2  # what the driver wants to see: not there now, there when the file has gone
            with Program("runtime", valve=valve, fake=f"context:0,least-free:{enough}") as p:
                p.do("init")
                p.do("open", path)
                r = p.ask("take", "cuMemCreate", want)[0]
                assert r == expected, (valve, r, cached(path) >> 20, p.log())
                if valve:
                    assert cached(path) < size // 8
                    assert [e[0] for e in p.account().events] == ["made-room", "retried"] and p.account().used == want, p.account().events


if __name__ == "__main__":
    sys.exit(run())
