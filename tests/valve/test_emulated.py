#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library of another architecture, under user-mode emulation: its way in is assembly, which the other tests see on this machine's alone."""
import os
import sys

from cases import case, run
from program import GIB, MIB, OUT_OF_MEMORY, Program

ROUTES = ["direct", "dlopen", "default", "next", "own-handle", "extension", "deepbind", "runtime", "runtime-legacy", "runtime-per-thread", "runtime-v1", "per-thread", "several"]


@case("each route comes to the valve: it takes, is refused above the limit, and gives back")
def _():
    for route in ROUTES:
        with Program(route) as p:
            p.begin()
            key = p.do("take", "cuMemAlloc", 64 * MIB)
            assert p.take("cuMemAlloc", GIB)[0] == OUT_OF_MEMORY, route
            account = p.account()
            assert account.used == 64 * MIB == p.books()[0], (route, account.used)
            assert account.slots[0].refused == 1, route
            p.do("give", "cuMemAlloc", key)
            assert p.account().used == 0 == p.books()[0], route


@case("a library that stands behind the valve is still called, and so is the driver")
def _():
    with Program("direct", preload_after=os.environ["UMA_BEHIND_LIBRARY"]) as p:
        p.begin()
        p.do("take", "cuMemAlloc", MIB)
        assert p.ask("behind")[0] > 0
        assert p.account().used == MIB


@case("the library is closed and opened again")
def _():
    with Program("dlopen") as p:
        p.begin()
        p.do("take", "cuMemAlloc", MIB)
        assert p.ask("reopen")[0] == 0
        p.do("take", "cuMemAlloc", MIB)
        assert p.account().used == 2 * MIB


@case("threads that take and give back by all calls leave nothing")
def _():
    with Program("runtime") as p:
        p.begin()
        failed, _ = p.ask("threads", 4, 200, 8 * MIB)
        assert failed == 0
        p.ask("pool-trim", p.do("pool-of-device", 0), 0)
        account = p.account()
        assert (account.used, account.under_way) == (0, 0) and p.books()[0] == 0


if __name__ == "__main__":
    sys.exit(run())
