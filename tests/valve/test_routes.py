#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the valve counts, of calls whose bytes are not simply their argument: handles, pools, graphs, contexts; what the driver refuses is counted as nothing. Every route by every call: test_matrix.py."""
import sys

from cases import case, run
from program import CALLS, GIB, MIB, OUT_OF_MEMORY, Program

SIZE = 64 * MIB


def of_pool(call):
    return call.endswith("Async")


def take_and_give(p, call):
    extra = p.do("pool-create") if call == "cuMemAllocFromPoolAsync" else 0
    before = p.account()
    asked = p.books()[2]
    r, key = p.take(call, SIZE, extra)
    assert r == 0, (call, r, p.log())
    held = p.account()
    assert held.used == before.used + SIZE and held.under_way == 0, (call, "counted", held.used - before.used, held.under_way)
    assert held.used == p.books()[0], (call, "books", held.used, p.books())

    r, _ = p.take(call, 2 * GIB, extra)
    assert r == OUT_OF_MEMORY, (call, "over the limit", r)
    refused = p.account()
    assert refused.used == held.used and refused.under_way == 0, (call, "a refused call counts")
    assert refused.slots[0].refused == held.slots[0].refused + 1, (call, "refusals", refused.slots[0].refused, held.slots[0].refused)
    assert p.books()[2] == asked + 1, (call, "the driver was asked for what was refused")

    p.do("refuse", 1, 100)  # by the driver itself: what cannot be helped is passed on
    r, _ = p.take(call, SIZE, extra)
    p.do("refuse", 0, 0)
    assert r == OUT_OF_MEMORY, (call, "the driver's refusal", r)
    assert (p.account().used, p.account().under_way) == (held.used, 0), (call, "the driver's refusal counts")
    assert p.account().slots[0].refused == refused.slots[0].refused, (call, "the driver's refusal is not the valve's")

    p.do("give", call, key)
    if of_pool(call):
        p.do("synchronize")
        p.do("pool-trim", extra or p.do("pool-of-device", 0), 0)
    if extra:
        p.do("pool-destroy", extra)
    after = p.account()
    assert (after.used, after.under_way) == (before.used, 0), (call, "given back", after.used - before.used)
    assert p.books()[0] == after.used, (call, "books at the end")


def virtual(p):
    """A handle whose bytes stay as long as it is referred to or mapped, in either order of letting go."""
    begin = p.account().used
    for release_first in (True, False):
        at = p.do("reserve", SIZE)
        r, handle = p.take("cuMemCreate", SIZE)
        assert r == 0
        p.do("map", at, SIZE, handle)
        again = p.do("retain-handle", at)
        assert again == handle
        steps = [("give", "cuMemCreate", handle), ("give", "cuMemCreate", handle), ("unmap", at, SIZE)]
        for step in steps if release_first else reversed(steps):
            assert p.account().used == begin + SIZE, (release_first, step)
            p.do(*step)
        assert p.account().used == begin == p.books()[0], release_first


def graphs(p):
    """Whichever way a graph comes to need memory: it counts when it is launched or uploaded, not sooner and not only at the next call."""
    begin = p.account().used
    for how in ("", "node", "node-v2", "captured"):
        for step in ("launch", "upload"):
            p.do("graph", SIZE, how, step)
            assert p.account().used == begin + SIZE == p.books()[0], (how, step, p.account().used, p.books())
            r = p.ask("graph", 2 * GIB, how, step)[0]
            assert r == OUT_OF_MEMORY, (how, step, r)
            assert p.account().used == begin + SIZE == p.books()[0], (how, step, p.account().used, p.books())
            p.do("graph-trim", 0)
            assert p.account().used == begin == p.books()[0], (how, step)


@case("a handle's bytes stay as long as it is referred to or mapped; graphs count when they run, however they came to need memory")
def _():
    for route in ("runtime", "direct"):
        with Program(route) as p:
            p.begin()
            virtual(p)
            graphs(p)


def same_answers(route, valve):
    with Program(route, valve=valve) as p:
        p.do("init")
        p.do("context", 0)
        p.do("take", "cuMemAlloc", GIB - MIB)  # not even code would fit
        return p.ask("invalid", SIZE), p.ask("invalid", 4 * GIB), p.books()[4]


@case("what the driver refuses as invalid it is asked, with the arguments as they are, also over the limit")
def _():
    for route in ("direct", "runtime", "per-thread"):
        plain = same_answers(route, None)
        under = same_answers(route, f"ceiling:{GIB},floor:0")
        assert plain[:2] == under[:2], [(i, a, b) for i, (a, b) in enumerate(zip(plain[0] + plain[1], under[0] + under[1])) if a != b]
        assert all(r not in (0, OUT_OF_MEMORY) for r in plain[0]), plain[0]


@case("invalid arguments are counted as nothing")
def _():
    with Program("runtime") as p:
        p.begin()
        p.ask("invalid", SIZE)
        a = p.account()
        assert (a.used, a.under_way, p.books()[0], a.slots[0].refused) == (0, 0, 0, 0), vars(a)


@case("before cuInit and without a context, the driver's answer is passed on and nothing is counted")
def _():
    for route in ("direct", "runtime"):
        with Program(route) as p:
            for call in CALLS[:6]:
                assert p.take(call, SIZE)[0] == 3, call
            p.do("init")
            assert p.take("cuMemAlloc", SIZE)[0] == 201
            assert p.ask("info")[0] == 201
            a = p.account()
            assert (a.used, a.under_way) == (0, 0)


@case("the driver's own calls through its exported names are counted once")
def _():
    for route in ("direct", "extension", "runtime"):
        with Program(route, fake="nested") as p:
            p.begin()
            for call in ("cuMemAllocPitch", "cuMemAllocManaged", "cuMemHostAlloc"):
                take_and_give(p, call)


@case("a free of what nobody has is passed on, and what is held stays counted")
def _():
    with Program() as p:
        p.begin()
        _, key = p.take("cuMemAlloc", SIZE)
        assert p.ask("give", "cuMemAlloc", key + 1)[0] == 1
        assert p.ask("give", "cuMemAllocHost", key)[0] == 1
        assert p.account().used == SIZE
        p.do("give", "cuMemAlloc", key)
        assert p.ask("give", "cuMemAlloc", key)[0] == 1, "twice"
        assert p.account().used == 0


@case("what was allocated in the order of a stream may be freed plainly, and the other way round")
def _():
    with Program() as p:
        p.begin()
        _, a = p.take("cuMemAllocAsync", SIZE)
        p.do("give", "cuMemAlloc", a)
        _, b = p.take("cuMemAlloc", SIZE)
        p.do("give", "cuMemAllocAsync", b)
        p.do("pool-trim", p.do("pool-of-device", 0), 0)
        assert p.account().used == 0 == p.books()[0], (p.account().used, p.books())


@case("a pool counts what it has reserved, not the sum of the calls")
def _():
    with Program() as p:
        p.begin()
        keys = [p.do("take", "cuMemAllocAsync", MIB) for _ in range(8)]
        assert p.account().used == 32 * MIB == p.books()[0], p.account().used
        for key in keys:
            p.do("give", "cuMemAllocAsync", key)
        assert p.account().used == 32 * MIB


@case("a pool that has given back leaves room for other calls")
def _():
    with Program() as p:
        p.begin()
        key = p.do("take", "cuMemAllocAsync", 768 * MIB)
        p.do("give", "cuMemAllocAsync", key)
        p.do("synchronize")
        assert p.books()[0] == 0
        assert p.take("cuMemAlloc", 768 * MIB)[0] == 0, p.log()
        assert p.account().used == 768 * MIB and p.account().slots[0].refused == 0 and not p.log(), p.log()


@case("what a pool keeps for its threshold stays counted")
def _():
    with Program() as p:
        p.begin()
        pool = p.do("pool-of-device", 0)
        p.do("pool-keep", pool, 1 << 40)
        key = p.do("take", "cuMemAllocAsync", 768 * MIB)
        p.do("give", "cuMemAllocAsync", key)
        p.do("synchronize")
        assert p.take("cuMemAlloc", 512 * MIB)[0] == OUT_OF_MEMORY
        assert p.take("cuMemAllocAsync", 768 * MIB)[0] == 0, "out of what the pool has"


@case("one call unmaps many handles; one that the driver refuses changes nothing")
def _():
    piece, n = 2 * MIB, 150
    with Program() as p:
        p.begin()
        at = p.do("reserve", n * piece)
        for i in range(n):
            handle = p.do("take", "cuMemCreate", piece)
            p.do("map", at + i * piece, piece, handle)
            p.do("give", "cuMemCreate", handle)
        for wrong in (n * piece - 1, 3 * piece + 1):
            assert p.ask("unmap", at, wrong)[0] == 1
            assert p.account().used == n * piece == p.books()[0], wrong
        p.do("unmap", at, 3 * piece)
        assert p.account().used == (n - 3) * piece == p.books()[0]
        p.do("unmap", at + 3 * piece, (n - 3) * piece)
        assert p.account().used == 0 == p.books()[0]


@case("a handle that is mapped twice in the range: as often let go of, or kept when the driver refuses")
def _():
    with Program() as p:
        p.begin()
        at = p.do("reserve", 2 * SIZE)
        handle = p.do("take", "cuMemCreate", SIZE)
        p.do("map", at, SIZE, handle)
        p.do("map", at + SIZE, SIZE, handle)
        p.do("give", "cuMemCreate", handle)
        assert p.ask("unmap", at, 2 * SIZE - 1)[0] == 1
        p.do("unmap", at, SIZE)
        assert p.account().used == SIZE == p.books()[0]
        p.do("unmap", at + SIZE, SIZE)
        assert p.account().used == 0 == p.books()[0]


@case("several contexts and devices: what goes with a context goes with it")
def _():
    for version in ("v2", "v3", "v4"):
        with Program(valve=f"ceiling:{4 * GIB},floor:0", fake="devices:2") as p:
            p.do("init")
            first = p.do("context", 0, version)
            p.do("take", "cuMemAlloc", SIZE)
            p.do("take", "cuMemAllocHost", SIZE)
            p.do("take", "cuModuleLoadData")
            second = p.do("context", 1, version)
            p.do("take", "cuMemAlloc", SIZE)
            p.do("take", "cuMemCreate", SIZE)
            assert p.account().used == 4 * SIZE == p.books()[0]
            p.do("context-destroy", first)
            assert p.account().used == 2 * SIZE == p.books()[0], p.account().used
            p.do("context-destroy", second)
            assert p.account().used == SIZE == p.books()[0], "what cuMemCreate made is of no context"
            assert p.account().overhead == 0


@case("a green context is counted as what it takes, and ends")
def _():
    with Program(valve=f"ceiling:{GIB},floor:0") as p:
        p.begin()
        p.do("take", "cuMemAlloc", 800 * MIB)
        context = p.do("green", 0)
        p.do("green-destroy", context)
        assert (p.account().used, p.account().overhead, p.books()[1]) == (800 * MIB, 0, 0), vars(p.account())
        p.do("take", "cuMemAlloc", GIB - 800 * MIB)
        assert p.ask("green", 0)[0] == OUT_OF_MEMORY, "a context where nothing is left"


@case("a primary context goes with its last user, or is reset, and with it what it held")
def _():
    with Program(fake="devices:2") as p:
        p.do("init")
        for end in ("release", "reset"):
            p.do("retain", 1)
            p.do("retain", 1)
            p.do("take", "cuMemAlloc", SIZE)
            if end == "release":
                p.do("release", 1)
                assert p.account().used == SIZE
            p.do(end, 1)
            assert (p.account().used, p.account().overhead, *p.books()[:2]) == (0, 0, 0, 0), (end, p.account().used)


@case("libcuda closed and opened again")
def _():
    for route in ("dlopen", "runtime", "default"):
        with Program(route) as p:
            p.do("reopen")
            p.begin()
            key = p.do("take", "cuMemAlloc", SIZE)
            assert p.account().used == SIZE
            p.do("give", "cuMemAlloc", key)
            p.do("reopen")
            take_and_give(p, "cuMemAllocAsync")
            assert p.account().used == 0


@case("a driver in a namespace of its own (dlmopen): what the calls say is counted, refused and given back")
def _():
    with Program("namespace") as p:
        p.begin()
        key = p.do("take", "cuMemAlloc", SIZE)
        assert p.account().used == SIZE
        assert p.take("cuMemAlloc", GIB)[0] == OUT_OF_MEMORY
        p.do("give", "cuMemAlloc", key)
        assert p.account().used == 0
        p.do("release", 0)
        assert p.end() == 0, p.log()


@case("threads: the account is exact after a storm of calls, and never over the limit")
def _():
    for route in ("direct", "runtime-per-thread"):
        with Program(route, valve=f"ceiling:{512 * MIB},floor:0") as p:
            p.begin()
            failed, refused = p.ask("threads", 8, 2000, 4 * MIB)
            assert failed == 0, failed
            assert refused > 0, "the limit was never met"
            p.do("pool-trim", p.do("pool-of-device", 0), 0)
            a = p.account()
            assert (a.used, a.under_way, p.books()[0]) == (0, 0, 0), (a.used, a.under_way, p.books())


@case("imported memory is another's: it is not counted, and letting it go takes nothing off")
def _():
    with Program() as p:
        p.begin()
        p.do("take", "cuMemAlloc", SIZE)
        imported = p.do("import")
        p.do("give", "cuMemCreate", imported)
        assert p.account().used == SIZE


if __name__ == "__main__":
    sys.exit(run())
