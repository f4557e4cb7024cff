#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every route to the driver, by every call that takes, frees or reports memory, in every kind of process: one table of each, all combinations made from them, and one that was not tried fails.

`test_matrix.py --table` prints the tables of docs/valve.md; the document has to say the same.
"""
import os
import re
import sys

from cuda import ENTRIES
from cases import case, run
from program import GIB, LIBRARIES, MIB, OUT_OF_MEMORY, Program

SIZE = 64 * MIB
DOCUMENT = os.environ["UMA_VALVE_DOCUMENT"]

ROUTES = {
    "direct": "a program that is linked to libcuda",
    "dlopen": "dlopen(3), and dlsym(3) with its handle",
    "default": "dlsym(RTLD_DEFAULT)",
    "next": "dlsym(RTLD_NEXT)",
    "own-handle": "dlsym with the handle of dlopen(NULL)",
    "extension": "a library that is linked to libcuda, loaded late, as an interpreter's",
    "deepbind": "the same, with RTLD_DEEPBIND",
    "runtime": "cuGetProcAddress_v2 by dlsym, all others from it, as the CUDA runtime, shared or static",
    "runtime-legacy": "the same, with the flag for the legacy stream",
    "runtime-per-thread": "the same, with the flag for the per-thread stream: _ptsz",
    "runtime-v1": "cuGetProcAddress of before CUDA 12",
    "per-thread": "dlsym of the names that end in _ptsz",
    "several": "two libraries by two routes: what one allocates, the other frees",
}

# Calls by what their bytes are: "bytes", as the call says; "overhead", measured around the call; "reader". With each, the functions of the driver that are called, by the names that it exports.
ROWS = {
    "cuMemAlloc": ("bytes", {"cuMemAlloc_v2", "cuMemFree_v2"}),
    "cuMemAllocPitch": ("bytes", {"cuMemAllocPitch_v2", "cuMemFree_v2"}),
    "cuMemAllocManaged": ("bytes", {"cuMemAllocManaged", "cuMemFree_v2"}),
    "cuMemAllocHost": ("bytes", {"cuMemAllocHost_v2", "cuMemFreeHost"}),
    "cuMemHostAlloc": ("bytes", {"cuMemHostAlloc", "cuMemFreeHost"}),
    "cuMemCreate": ("bytes", {"cuMemCreate", "cuMemRelease"}),
    "cuMemMap": ("bytes", {"cuMemCreate", "cuMemMap", "cuMemRetainAllocationHandle", "cuMemRelease", "cuMemUnmap"}),
    "cuMemAllocAsync": ("bytes", {"cuMemAllocAsync", "cuMemFreeAsync", "cuMemPoolTrimTo"}),
    "cuMemAllocFromPoolAsync": ("bytes", {"cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuMemPoolTrimTo", "cuMemPoolDestroy"}),
    "cuArrayCreate": ("bytes", {"cuArrayCreate_v2", "cuArrayDestroy"}),
    "cuArray3DCreate": ("bytes", {"cuArray3DCreate_v2", "cuArrayDestroy"}),
    "cuMipmappedArrayCreate": ("bytes", {"cuMipmappedArrayCreate", "cuMipmappedArrayDestroy"}),
    **{f"{add}+{launch}": ("bytes", ({add} if add != "captured" else {"cuMemAllocAsync"}) | {launch, "cuDeviceGraphMemTrim"})
       for add in ("cuGraphAddMemAllocNode", "cuGraphAddNode", "cuGraphAddNode_v2", "captured") for launch in ("cuGraphLaunch", "cuGraphUpload")},
    **{f"{create}+{destroy}": ("overhead", {create, destroy}) for create in ("cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4") for destroy in ("cuCtxDestroy", "cuCtxDestroy_v2")},
    "cuGreenCtxCreate": ("overhead", {"cuGreenCtxCreate", "cuGreenCtxDestroy"}),
    **{f"cuDevicePrimaryCtxRetain+{end}": ("overhead", {"cuDevicePrimaryCtxRetain", end})
       for end in ("cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2")},
    **{load: ("overhead", {load, "cuModuleUnload"}) for load in ("cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary")},
    **{load: ("overhead", {load, "cuLibraryUnload"}) for load in ("cuLibraryLoadData", "cuLibraryLoadFromFile")},
    "cuMemGetInfo": ("reader", {"cuMemGetInfo_v2"}),
    "cuDeviceTotalMem": ("reader", {"cuDeviceTotalMem_v2"}),
    "nvmlDeviceGetMemoryInfo": ("reader", {"nvmlDeviceGetMemoryInfo"}),
    "nvmlDeviceGetMemoryInfo_v2": ("reader", {"nvmlDeviceGetMemoryInfo_v2"}),
}

PROCESSES = {
    "plain": "a program",
    "fork": "a child of fork(2), which begins with CUDA itself",
    "fork, exec": "a child that executes the program again",
    "8 threads": "eight threads that make the same call at once",
    "reopened": "the library closed and opened again",
    "second device": "a context on another device than the first",
}

FIND = {"cuGetProcAddress", "cuGetProcAddress_v2"}
PER_THREAD = ("runtime-per-thread", "per-thread")
FULL = GIB  # the limit


def exported():
    """Every function that the valve stands before: {name: is of the per-thread kind}."""
    with open(ENTRIES, encoding="utf-8") as f:
        return {name: per_thread == "true" for name, per_thread in re.findall(r"X\((\w+), \w+, \d+, (true|false)\)", f.read())}


# ---- one call ----


def state(p):
    a, books = p.account(), p.books()
    return (a.used, a.overhead, a.under_way, books[0], books[1])


def bring_back(p, call, extra):
    """After a call's own counterpart: what pools and graphs keep."""
    if call.startswith(("cuGraph", "captured")):
        p.do("graph-trim", p.device)
    elif call.endswith("Async"):
        p.do("synchronize")
        p.do("pool-trim", extra or p.do("pool-of-device", p.device), 0)
    if extra:
        p.do("pool-destroy", extra)


def make_extra(p, call):
    return p.do("pool-create", p.device) if call == "cuMemAllocFromPoolAsync" else 0


def check_bytes(p, call):
    before = state(p)
    extra = make_extra(p, call)
    asked, refused = p.books()[2], p.account().slot(p.pid).refused
    r, key = p.take(call, SIZE, extra)
    assert r == 0, (call, r, p.log())
    held = state(p)
    assert held[0] == before[0] + SIZE == held[3] and held[2] == 0, (call, "counted", held)
    r, _ = p.take(call, 2 * FULL, extra)
    assert (r, state(p)) == (OUT_OF_MEMORY, held), (call, "over the limit", r, state(p))
    assert p.account().slot(p.pid).refused == refused + 1 and p.books()[2] == asked + 1, (call, "the driver was asked for what was refused")
    p.do("refuse", 1, 100)
    r, _ = p.take(call, 2 * SIZE, extra)
    p.do("refuse", 0, 0)
    assert (r, state(p)) == (OUT_OF_MEMORY, held), (call, "the driver's own refusal", r, state(p))
    p.do("give", call, key)
    bring_back(p, call, extra)
    assert state(p) == before, (call, "given back", before, state(p))


def check_overhead(p, call):
    before = state(p)
    r, key = p.take(call, 0)
    assert r == 0, (call, r, p.log())
    p.do("give", call, key)
    assert state(p) == before, (call, state(p))
    r, filling = p.take("cuMemAlloc", FULL - before[1])
    assert r == 0 and p.take(call, 0)[0] == OUT_OF_MEMORY, (call, "at the limit")
    p.do("give", "cuMemAlloc", filling)
    assert state(p) == before, (call, state(p))


def check_reader(p, call):
    key = p.do("take", "cuMemAlloc", SIZE)
    used = SIZE + p.account().overhead  # of the context: what the machine had less around its making, whoever took it
    if call == "cuMemGetInfo":
        assert p.do("info") == [FULL - used, FULL], p.ask("info")
    elif call == "cuDeviceTotalMem":
        assert p.do("total", p.device) == FULL
    else:
        assert p.do("nvml", 2 if call.endswith("_v2") else 1) == [FULL - used, FULL, used], p.ask("nvml", 1)
    p.do("give", "cuMemAlloc", key)


def check_threads(p, call):
    """Both so that all fit, and so that they meet the limit."""
    kind = ROWS[call][0]
    before = state(p)
    for size, rounds in ((4 * MIB, 8), (256 * MIB, 4)):
        extra = make_extra(p, call)
        if call.startswith("nvml"):
            overhead = p.account().overhead
            assert p.do("nvml", 2 if call.endswith("_v2") else 1) == [FULL - overhead, FULL, overhead]
            continue
        failed, refused = p.ask("threads-of", call, 8, rounds, size, extra)
        assert failed == 0, (call, failed)
        assert size > 4 * MIB or kind == "overhead" or refused == 0, (call, refused)  # of contexts, much is asked for and less is taken
        bring_back(p, call, extra)
        assert state(p) == before, (call, size, state(p))


# ---- one route in one kind of process ----

tried = set()


def check_functions(route, p):
    """Each function that the route has found is the valve's, and the right one."""
    words = p.send("functions") or p.read().split()
    got = dict(zip(words[::2], words[1::2]))
    names = exported()
    assert set(names) - {n for n, per_thread in names.items() if per_thread} - FIND - {n for n in names if n.startswith("nvml")} <= set(got), "routes.c does not know all"
    for name, found in got.items():
        expected = name + "_ptsz" if route in PER_THREAD and names.get(name + "_ptsz") else name if name in names else "-"
        assert found == expected, (route, name, found, expected)


def begin(route, process, p):
    if process.startswith("fork"):
        p.parent, p.pid = p.pid, p.ask("fork")[0]
        if process == "fork, exec":
            p.send("exec", route)
            p.expect("ready")
    if process == "reopened":
        p.do("reopen")
    p.do("init")
    p.device = 1 if process == "second device" else 0
    p.do("retain", p.device)


def combine(route, process):
    with Program(route, valve=f"ceiling:{FULL},floor:0,report:pool", fake="devices:3") as p:
        begin(route, process, p)
        check_functions(route, p)
        for call, (kind, _) in ROWS.items():
            if process == "8 threads":
                check_threads(p, call)
            else:
                {"bytes": check_bytes, "overhead": check_overhead, "reader": check_reader}[kind](p, call)
            tried.add((route, process, call))
        p.do("release", p.device)
        assert state(p) == (0, 0, 0, 0, 0), state(p)
        if process.startswith("fork"):
            p.send("exit")
            assert p.read() == "0", "the child's end"
        assert p.end() == 0, p.log()


for _route in ROUTES:
    for _process in PROCESSES:
        case(f"{_route}, {_process}: every call is counted, refused over the limit and given back")(lambda route=_route, process=_process: combine(route, process))


# ---- nothing is missing ----


@case("every function that the valve stands before is in the table of calls")
def _():
    covered = {name for _, names in ROWS.values() for name in names}
    plain = {name for name, per_thread in exported().items() if not per_thread} - FIND
    assert covered == plain, covered ^ plain
    variants = {name.removesuffix("_ptsz") for name, per_thread in exported().items() if per_thread}
    assert variants <= covered, variants - covered


@case("every route by every call in every kind of process was tried")
def _():
    if len(sys.argv) > 1:
        return
    missing = {(r, p, c) for r in ROUTES for p in PROCESSES for c in ROWS} - tried
    assert not missing, f"{len(missing)} of {len(ROUTES) * len(PROCESSES) * len(ROWS)}: {sorted(missing)[:20]}"


def tables():
    lines = [f"{len(ROUTES)} routes, {len(ROWS)} calls, {len(PROCESSES)} kinds of process: {len(ROUTES) * len(PROCESSES) * len(ROWS):,} combinations.", ""]
    lines += ["| route | |", "|---|---|", *(f"| {name} | {what} |" for name, what in ROUTES.items()), ""]
    lines += ["| process | |", "|---|---|", *(f"| {name} | {what} |" for name, what in PROCESSES.items()), ""]
    how = {"bytes": "as many bytes as the call says, or the driver's pool has", "overhead": "the difference of free memory around the call", "reader": "what it answers"}
    lines += ["| counted | by functions of the driver |", "|---|---|"]
    for kind, what in how.items():
        names = {name: None for of, called in ROWS.values() if of == kind for name in sorted(called)}  # each once, in the order of the rows
        lines.append(f"| {what} | {', '.join(name + ('[_ptsz]' if exported().get(name + '_ptsz') else '') for name in names)} |")
    return "\n".join(lines) + "\n"


@case("docs/valve.md has these tables")
def _():
    with open(DOCUMENT, encoding="utf-8") as f:
        assert tables() in f.read(), "test_matrix.py --table prints what it should say"


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        print(tables(), end="")
        sys.exit(0)
    sys.exit(run())
