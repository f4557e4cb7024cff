# SPDX-License-Identifier: MIT
"""Cases of a script, run one after the other and told as TAP. Words on the command line choose those whose names have one of them."""
import sys
import time
import traceback


class Skip(Exception):
    pass


_cases = []


def case(name, tries=1):
    """`tries`: of a case that reads the machine's own figures, which others move meanwhile; a fault of the valve's own is there every time."""

    def add(function):
        def with_tries():
            for left in range(tries - 1, -1, -1):
                try:
                    return function()
                except AssertionError:
                    if left == 0:
                        raise
                    print("# tried again: " + traceback.format_exc().strip().rsplit("\n", 1)[-1], flush=True)

        _cases.append((name, with_tries))
        return function

    return add


def names():
    return [name for name, _ in _cases]


def run(skip_all=None):
    """`skip_all`: why none of them can be run here."""
    print(f"1..{len(_cases)}")
    failed = 0
    only = sys.argv[1:]
    for number, (name, function) in enumerate(_cases, 1):
        if only and not any(word in name for word in only):
            print(f"ok {number} - {name} # SKIP not asked for", flush=True)
            continue
        if skip_all:
            print(f"ok {number} - {name} # SKIP {skip_all}", flush=True)
            continue
        began = time.monotonic()
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
        except Exception:  # noqa: BLE001: a test that breaks has failed, whatever broke it
            failed += 1
            print("# " + traceback.format_exc().strip().replace("\n", "\n# "))
            print(f"not ok {number} - {name}", flush=True)
        if time.monotonic() - began > 5:
            print(f"# took {time.monotonic() - began:.1f} s")
    return 1 if failed else 0
