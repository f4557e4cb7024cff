#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What went wrong in earlier libraries that stand before the driver, each by the issue in which it was told; and what programs read."""
import os
import re
import subprocess
import sys
import time

from cases import case, names, run
from program import CALLS, GIB, LIBRARIES, MIB, OUT_OF_MEMORY, VALVE, Program

SIZE = 64 * MIB
TOLERANCE = 512 * MIB  # others use this machine's memory, too, while two figures of it are read


def meminfo(name):
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(name + ":"))


def near(a, b):
    return abs(a - b) <= TOLERANCE


# ---- the table ----


@case("works where NVML does not say the memory's total (KAI-Scheduler#1967, HAMi#1511)")
def _():
    with Program("runtime", valve=f"ceiling:{GIB},floor:0,report:raw") as p:
        p.begin()
        assert p.ask("nvml", 1)[0] == 3, "this NVML says it"
        assert p.take("cuMemAlloc", SIZE)[0] == 0 and p.take("cuMemAlloc", GIB)[0] == OUT_OF_MEMORY
    with Program("runtime", UMA_FAKE_NVML="/nonexistent") as p:
        p.begin()
        assert p.take("cuMemAlloc", SIZE)[0] == 0 and p.take("cuMemAlloc", GIB)[0] == OUT_OF_MEMORY


@case("cuMemGetInfo with NULL for one or both (HAMi-core#333)")
def _():
    for report in ("pool", "raw"):
        with Program("runtime", valve=f"ceiling:{GIB},floor:0,report:{report}") as p:
            p.begin()
            whole = p.do("info")
            assert near(p.do("info", "null-free")[1], whole[1]) and p.do("info", "null-free")[0] == 0
            assert near(p.do("info", "null-total")[0], whole[0]) and p.do("info", "null-total")[1] == 0
            assert p.do("info", "null-free,null-total") == [0, 0]


@case("cuMemCreate in a place that is no device, or a device that is not there (HAMi-core#187)")
def _():
    with Program("runtime") as p:
        p.begin()
        for kind in (2, 3, 4):  # the host, and its NUMA nodes: memory of the same pool here
            r, key = p.take("cuMemCreate", SIZE, kind | 7 << 8)
            assert r == 0, (kind, r)
            assert p.account().used == SIZE == p.books()[0], kind
            p.do("give", "cuMemCreate", key)
        assert p.take("cuMemCreate", SIZE, 1 | 9 << 8)[0] == 101
        assert p.take("cuMemCreate", SIZE, 99)[0] == 1
        assert p.account().used == 0
    with Program("runtime", fake="integrated:0") as p:  # the host's memory is not the device's there
        p.begin()
        assert p.take("cuMemCreate", 2 * GIB, 2)[0] == 0
        assert p.take("cuMemCreate", 2 * GIB, 1)[0] == OUT_OF_MEMORY


@case("arguments that are NULL (HAMi-core#182)")
def _():
    with Program("direct") as p:
        p.begin()
        for size in (0, 1, SIZE, 2**63, 2**64 - 1):
            answers = p.ask("invalid", size)
            assert 0 not in answers, answers
        assert p.account().used == 0
        assert p.end() == 0, p.log()


@case("allocations of a library that is linked to the driver and loaded late (HAMi-core#74)")
def _():
    for route in ("extension", "deepbind"):
        with Program(route) as p:
            p.begin()
            assert p.take("cuMemAlloc", SIZE)[0] == 0 and p.account().used == SIZE
            assert p.take("cuMemAlloc", GIB)[0] == OUT_OF_MEMORY


@case("a large program starts under the preload (HAMi-core#61)")
def _():
    env = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": VALVE, "UMACTL_VALVE": "floor:0", "LD_LIBRARY_PATH": LIBRARIES}
    script = "import ctypes, threading; cuda = ctypes.CDLL('libcuda.so.1'); assert cuda.cuInit(0) == 0; n = ctypes.c_int(); assert cuda.cuDeviceGetCount(ctypes.byref(n)) == 0; print(n.value)"
    run_it = subprocess.run([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (run_it.returncode, run_it.stdout, run_it.stderr) == (0, "1\n", ""), run_it


@case("readers say one truth (HAMi-core#181): under report:pool, what the job may take and its limit")
def _():
    for route in ("direct", "runtime", "extension"):
        with Program(route, valve=f"ceiling:{GIB},floor:0,report:pool") as p:
            p.begin()
            p.do("take", "cuMemAlloc", SIZE)
            a = p.account()
            left = GIB - a.used - a.overhead
            assert p.do("info") == [left, GIB], (p.do("info"), left)
            assert p.do("total", 0) == GIB
            for version in (1, 2):
                assert p.do("nvml", version) == [left, GIB, GIB - left], p.ask("nvml", version)
            assert p.take("cuMemAlloc", left + 1)[0] == OUT_OF_MEMORY
            assert p.take("cuMemAlloc", left)[0] == 0, "what was said to be free cannot be had"
            assert p.do("info")[0] == 0


@case("readers say one truth: without a limit, the machine's, cache counted as free and the floor not")
def _():
    floor = 2 * GIB
    with Program("runtime", valve=f"floor:{floor}") as p:
        p.begin()
        free, total = p.do("info")
        assert total == meminfo("MemTotal") == p.do("total", 0)
        assert near(free, meminfo("MemAvailable") - floor), (free, meminfo("MemAvailable"))
        free_nvml, total_nvml, _ = p.do("nvml", 2)
        assert total_nvml == total and near(free_nvml, free)


@case("report:raw leaves the driver's answers, and NVML's")
def _():
    with Program("runtime", valve=f"ceiling:{GIB},floor:0,report:raw") as p:
        p.begin()
        free, total = p.do("info")
        assert total == meminfo("MemTotal") == p.do("total", 0)
        assert near(free, meminfo("MemFree"))
        assert p.ask("nvml", 1)[0] == p.ask("nvml", 2)[0] == 3


@case("NVML is answered also in a program that has not begun with CUDA")
def _():
    with Program("none", valve=f"ceiling:{GIB},floor:0") as p:
        for version in (1, 2):
            assert p.do("nvml", version) == [GIB, GIB, 0], p.ask("nvml", version)


@case("a GPU with memory of its own: the limit holds, the machine's figures say nothing, readers are the driver's")
def _():
    with Program("runtime", valve=f"ceiling:{GIB},floor:{1 << 50}", fake=f"integrated:0,total:{8 * GIB}") as p:
        p.begin()
        assert p.take("cuMemAlloc", SIZE)[0] == 0
        assert p.take("cuMemAlloc", GIB)[0] == OUT_OF_MEMORY
        free, total = p.do("info")
        assert (free, total) == (8 * GIB - SIZE, 8 * GIB), (free, total)
        for call in ("cuMemAllocHost", "cuMemHostAlloc"):  # the machine's memory, which is another there
            r, key = p.take(call, 2 * GIB)
            assert r == 0 and p.account().used == SIZE, (call, r, p.account().used)
            p.do("give", call, key)
        assert p.account().used == SIZE
    with Program("runtime", valve=f"ceiling:{GIB},floor:0,report:pool", fake=f"integrated:0,total:{8 * GIB}") as p:
        p.begin()
        p.do("take", "cuMemAlloc", SIZE)
        assert p.do("info") == [GIB - SIZE, GIB], p.ask("info")
        assert p.do("total", 0) == GIB


@case("entry points by CUDA version, also 13's (HAMi-core#233)")
def _():
    for driver in (11040, 11080, 12000, 12080, 13000):
        with Program("dlopen", fake=f"driver:{driver}") as p:
            p.do("init")
            for version in (2000, 3010, 3020, 4000, 6050, 10020, 11020, 11040, 12000, 12050, 12080, 13000, 13010):
                for name in ("cuMemAlloc", "cuMemFree", "cuCtxCreate", "cuMemAllocAsync", "cuGetProcAddress", "cuMemGetInfo", "cuLibraryLoadData", "cuNoSuchThing", "cuInit"):
                    with_valve = p.ask("which", name, version, 2)
                    known = p.ask("which-exported", name, version, 2)
                    assert with_valve == known, (driver, name, version, with_valve, known)


@case("no file is left that a later job could find (HAMi-core#7): the account goes with its last process")
def _():
    before = {f for folder in ("/tmp", "/dev/shm", "/run", os.path.dirname(VALVE)) for f in os.listdir(folder) if "valve" in f}
    with Program("runtime", valve=f"ceiling:{GIB},floor:0,token:ab12") as p:
        p.begin()
        p.do("take", "cuMemAlloc", 512 * MIB)
        pid = p.pid
        p.process.kill()
        p.process.wait()
    with Program("runtime", valve=f"ceiling:{GIB},floor:0,token:ab12") as p:
        p.begin()
        assert p.take("cuMemAlloc", 768 * MIB)[0] == 0
        assert p.account().slot(pid) is None
    after = {f for folder in ("/tmp", "/dev/shm", "/run", os.path.dirname(VALVE)) for f in os.listdir(folder) if "valve" in f}
    assert before == after, after - before


@case("every call that takes memory, not one alone (alnair#46, vcuda-controller#30)")
def _():
    with Program("runtime", valve=f"ceiling:{512 * MIB},floor:0") as p:
        p.begin()
        pool = p.do("pool-create")
        p.do("take", "cuMemAlloc", 480 * MIB)
        for call in CALLS:
            assert p.take(call, SIZE, pool if call == "cuMemAllocFromPoolAsync" else 0)[0] == OUT_OF_MEMORY, call
        assert p.ask("graph", SIZE)[0] == OUT_OF_MEMORY
        assert p.books()[0] == 480 * MIB


@case("a runtime that is linked in and asks for all by cuGetProcAddress (ucx#6038, pytorch-malloc#2)")
def _():
    for route in ("runtime", "runtime-v1", "runtime-legacy", "runtime-per-thread"):
        with Program(route) as p:
            p.begin()
            for call in ("cuMemAlloc", "cuMemAllocAsync"):
                assert p.take(call, 2 * GIB)[0] == OUT_OF_MEMORY
            assert p.books()[2] == 1, "the context alone asked the driver"


@case("the rest of NVML is the driver's own (forum thread 358869)")
def _():
    exported = subprocess.run(["nm", "-D", "--defined-only", VALVE], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert sorted(re.findall(r"\bnvml\w+", exported)) == ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"], exported


@case("docs/valve.md names the test of each fault, and each is here")
def _():
    with open(os.environ["UMA_VALVE_DOCUMENT"], encoding="utf-8") as f:
        section = f.read().split("## What earlier libraries got wrong")[1].split("\n## ")[0]
    named = [row.split("|")[3].strip() for row in section.splitlines() if row.startswith("|") and not row.startswith(("| fault", "|---"))]
    mine = names()
    assert len(named) >= 12 and set(named) <= set(mine), set(named) - set(mine)
    assert {n for n in mine if re.search(r"#\d|thread \d", n)} <= set(named), {n for n in mine if re.search(r"#\d|thread \d", n)} - set(named)


# ---- others that stand before the driver ----


@case("another library behind the valve that hands calls on by RTLD_NEXT")
def _():
    for route in ("direct", "default"):
        with Program(route, preload_after=os.environ["UMA_BEHIND_LIBRARY"]) as p:
            p.begin()
            assert p.take("cuMemAlloc", SIZE)[0] == 0
            assert p.account().used == SIZE == p.books()[0]
            assert p.take("cuMemAlloc", GIB)[0] == OUT_OF_MEMORY
            assert p.ask("behind")[0] >= 1


@case("libcuda closed after a look, and used later by a library that is linked to it")
def _():
    with Program("dlopen") as p:
        p.do("init")
        p.do("reopen", "extension")
        p.begin()
        assert p.take("cuMemAlloc", SIZE)[0] == 0 and p.account().used == SIZE == p.books()[0]
        assert p.end() == 0, p.log()


# ---- what the driver refuses ----


@case("the driver's refusals are passed on, by number, for want of a piece, and while free memory is short")
def _():
    for fake, size in ((f"largest:{32 * MIB}", SIZE), (f"least-free:{1 << 50}", SIZE), (f"total:{32 * MIB}", SIZE)):
        with Program("runtime", fake=fake + ",context:0", valve="floor:0") as p:
            p.do("init")
            if "least-free" not in fake:
                p.do("retain", 0)
                assert p.take("cuMemAlloc", size)[0] == OUT_OF_MEMORY, fake
            else:
                assert p.ask("retain", 0)[0] == OUT_OF_MEMORY
            a = p.account()
            assert (a.used, a.under_way, a.overhead, a.slots[0].refused) == (0, 0, 0, 0), (fake, a.used, a.overhead)


@case("a driver that is slow keeps nobody else waiting")
def _():
    with Program("runtime", fake="latency-us:20000") as p:
        p.begin()
        began = time.monotonic()
        failed, _ = p.ask("threads", 16, 10, MIB)
        assert failed == 0
        assert time.monotonic() - began < 16 * 10 * 0.02, "one after another"
        p.do("pool-trim", p.do("pool-of-device", 0), 0)
        assert p.account().used == 0


# ---- the log, the settings ----


@case("the line: which call, how much, to whom, what the job has and its limit, who holds it; and an event")
def _():
    with Program("runtime") as p:
        p.begin()
        p.do("take", "cuMemAlloc", 512 * MIB)
        assert p.take("cuMemAllocManaged", GIB)[0] == OUT_OF_MEMORY
        line = p.log()
        held = r"512(\.\d)? MiB"
        assert re.fullmatch(rf"umactl valve: cuMemAllocManaged of 1\.0 GiB answered with out of memory to valve_routes \({p.pid}\): the job has {held} of its limit of 1\.0 GiB; "
                            rf"held by valve_routes \({p.pid}\) {held}\n", line), line
        kind, size, used, _ = p.account().events[-1]
        assert (kind, size) == ("refused-ceiling", GIB) and near(used, 512 * MIB)


@case("the line at the machine's floor says what is available and what stays")
def _():
    with Program("runtime", valve=f"floor:{1 << 50}") as p:
        p.do("init")
        assert p.ask("retain", 0)[0] == OUT_OF_MEMORY
        assert re.search(r"cuDevicePrimaryCtxRetain of 256 MiB answered with out of memory .*the machine has [\d.]+ GiB available, of which 1\.0 PiB stay with it", p.log()), p.log()
        assert p.account().events[-1][0] == "refused-floor"


@case("one line a second: a thousand refusals say so in two, with their number")
def _():
    with Program("runtime") as p:
        p.begin()
        began = time.monotonic()
        for _ in range(300):
            assert p.take("cuMemAlloc", 2 * GIB)[0] == OUT_OF_MEMORY
        took = time.monotonic() - began
        time.sleep(1.05)
        p.take("cuMemAlloc", 2 * GIB)
        lines = p.log().splitlines()
        assert 2 <= len(lines) <= 3 + took, lines
        assert re.search(r"\(and \d+ more since the last line\)$", lines[-1]), lines[-1]
        assert p.account().slots[0].refused == 301


@case("settings that are not understood are passed over with one line, and the others hold")
def _():
    with Program("runtime", valve=f"ceiling:{GIB},bogus:1,floor:0,report:loud,ceiling:9x") as p:
        p.begin()
        assert p.take("cuMemAlloc", 2 * GIB)[0] == OUT_OF_MEMORY
        assert p.log().splitlines()[0] == "umactl valve: UMACTL_VALVE: not understood, passed over: bogus:1", p.log()


@case("off: loaded, and does nothing")
def _():
    for route in ("direct", "runtime", "extension", "default", "next"):
        with Program(route, valve="off") as p:
            p.begin()
            assert p.take("cuMemAlloc", 4 * GIB)[0] == 0
            assert p.account() is None and not p.log()


@case("without the variable: no limit, the machine's own floor, an account of its own")
def _():
    with Program("runtime", valve="") as p:
        p.begin()
        assert p.take("cuMemAlloc", SIZE)[0] == 0
        a = p.account()
        assert a.used == SIZE and a.ceiling == 2**64 - 1 and a.floor > 0
        assert not p.log()


@case("a program that never comes to CUDA: nothing is opened, mapped or written")
def _():
    with Program("none") as p:
        assert p.account() is None
        fds = os.listdir(f"/proc/{p.pid}/fd")
        assert len(fds) <= 4, fds
        assert p.end() == 0 and not p.log()


@case("a program that closes all its descriptors")
def _():
    with Program("runtime", valve=f"ceiling:{GIB},floor:1") as p:
        p.begin()
        p.do("take", "cuMemAlloc", SIZE)
        p.do("close-all")
        assert p.take("cuMemAlloc", SIZE)[0] == 0, p.log()
        assert p.take("cuMemAlloc", GIB)[0] == OUT_OF_MEMORY
        assert p.do("info")[1] == GIB
        assert "limit of 1.0 GiB" in p.log()


if __name__ == "__main__":
    sys.exit(run())
