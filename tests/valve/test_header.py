#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The valve's list of entry points against NVIDIA's headers: all that take memory, in all their versions, with the types that they have. Skipped where no toolkit is installed, but for the two lists against each other."""
import os
import re
import subprocess
import sys
import tempfile

from cuda import compiler, entries, toolkit, version_of
from cases import Skip, case, run

CALLS = os.environ["UMA_VALVE_CALLS"]
LAYOUT = os.environ["UMA_VALVE_LAYOUT"]
SOURCES = os.environ["UMA_VALVE_SOURCES"]
HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h")
HOOKED = ("takes", "measured", "follows", "gives-back", "reads", "finds")
OTHERS = ("anothers", "within", "moves", "nothing")
# a name that says so, of a function that is not hooked: each was read about, and is where it belongs
ALLOCATING = re.compile(r"Alloc|Create|Load|Retain|Import|Reserve|Register|Pool")


def classes():
    """Class: [names]; each name once."""
    found, current = {}, None
    with open(CALLS, encoding="utf-8") as f:
        for line in f:
            if line.startswith("["):
                current = found.setdefault(re.match(r"\[([a-z-]+)\]", line).group(1), [])
            elif current is not None and not line.startswith("#"):
                current.extend(line.split())
    return found


def header(folder, name):
    try:
        with open(os.path.join(folder, "include", name), encoding="utf-8", errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def functions(folder):
    names = set()
    for name in HEADERS:
        names |= {re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", n) for n in re.findall(r"CUDAAPI\s+(cu\w+)\s*\(", header(folder, name))}
    return names


@case("every function is in one class, and those that have a hook are those of the valve's list")
def _():
    found = classes()
    assert set(found) == set(HOOKED + OTHERS), set(found) ^ set(HOOKED + OTHERS)
    names = [n for c in found.values() for n in c]
    assert len(names) == len(set(names)) > 400, sorted(n for n in set(names) if names.count(n) > 1)
    hooked = {n for c in HOOKED for n in found[c]}
    assert hooked == set(entries()), hooked ^ set(entries())


@case("every function of the toolkit's headers is known: a new one that takes memory would pass uncounted")
def _():
    folder = toolkit()
    known = {n for c in classes().values() for n in c}
    new = functions(folder) - known
    told = sorted(n for n in new if ALLOCATING.search(n))
    assert not new, f"CUDA {version_of(folder)} has functions that driver-calls.txt does not know; read what they do with memory, first of: {told}; all: {sorted(new)}"


@case("every name that the valve stands before is a function of the toolkit's")
def _():
    folder = toolkit()
    if version_of(folder) < 12050:
        raise Skip("a toolkit from before the newest entries")
    assert set(entries()) <= functions(folder), set(entries()) - functions(folder)


@case("every version of a hooked function, and every variant of the per-thread stream, since the CUDA version in which it came")
def _():
    folder = toolkit()
    text = header(folder, "cudaTypedefs.h")
    if not text:
        raise Skip("the toolkit has no cudaTypedefs.h")
    theirs = {}
    for base, since, variant in re.findall(r"PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)\(", text):
        theirs.setdefault(base, set()).add((int(since), bool(variant)))
    for base, ours in entries().items():
        have = theirs.get(base, set())
        if any(since >= 3020 for since, _ in have):  # before: sizes of 32 bits, of functions that have a later form; they pass
            later = {v for v in have if v[0] >= 3020 or (v in ours)}
        else:
            later = have
        assert later == {v for v in ours if v[0] <= version_of(folder)}, (base, sorted(later), sorted(ours))


@case("types and numbers of the driver's are as the toolkit has them")
def _():
    folder = toolkit()
    said = []
    with tempfile.TemporaryDirectory() as work:
        for name, options in (("ours", ["-DOURS", "-I" + SOURCES]), ("theirs", ["-I" + os.path.join(folder, "include")])):
            program = os.path.join(work, name)
            subprocess.run([compiler(), *options, LAYOUT, "-o", program], check=True, timeout=120)
            said.append(subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True, timeout=20).stdout.splitlines())
    assert len(said[0]) > 30 and said[0] == said[1], [pair for pair in zip(*said) if pair[0] != pair[1]]


if __name__ == "__main__":
    sys.exit(run())
