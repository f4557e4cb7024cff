#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The valve's file: what it exports, what it needs, and that it loads with the oldest C library that it is for. Read with readelf, which understands every architecture."""
import os
import re
import subprocess
import sys

VALVE, ENTRIES = os.environ["UMA_VALVE"], os.environ["UMA_VALVE_ENTRIES"]
OLDEST = (2, 31)


def readelf(*options):
    return subprocess.run(["readelf", "--wide", *options, VALVE], stdout=subprocess.PIPE, text=True, check=True).stdout


def exported():
    """Of the dynamic symbols those that are defined, without what the linker itself may add."""
    names = set()
    for line in readelf("--dyn-syms").splitlines():
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdigit() and words[6] != "UND" and words[4] in ("GLOBAL", "WEAK"):
            names.add(words[7].split("@")[0])
    return names


def check_exports():
    with open(ENTRIES, encoding="utf-8") as f:
        entries = set(re.findall(r"X\((\w+), \w+, \d+, (?:true|false)\)", f.read()))
    assert len(entries) > 40, entries
    wanted = entries | {"dlsym", "dlopen"}
    assert exported() == wanted, (exported() - wanted, wanted - exported())


def check_versions():
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", readelf("--version-info"))}
    assert versions and max(versions) <= OLDEST, versions
    assert not re.search(r"GLIBC_PRIVATE|GLIBCXX|GCC_", readelf("--version-info"))


def check_needed():
    needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", readelf("--dynamic")))
    assert needed <= {"libc.so.6", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, needed


def check_no_allocation():
    undefined = {line.split()[7].split("@")[0] for line in readelf("--dyn-syms").splitlines() if " UND " in line and len(line.split()) >= 8}
    forbidden = {"malloc", "calloc", "realloc", "free", "printf", "fprintf", "snprintf", "fopen", "opendir", "readdir", "strdup", "setlocale", "pthread_mutex_lock", "fork", "atexit", "__cxa_atexit",
                 "exit", "abort", "__tls_get_addr", "dlsym", "dlopen"}
    assert not undefined & forbidden, undefined & forbidden


def check_segments():
    headers = readelf("--program-headers")
    stack = re.search(r"GNU_STACK.*", headers)
    assert stack and "RWE" not in stack.group(0), stack
    assert "TEXTREL" not in readelf("--dynamic")
    assert "BIND_NOW" in readelf("--dynamic") or "NOW" in readelf("--dynamic"), "a lookup in the middle of a hook would allocate"


CHECKS = [("exports the entries, dlsym and dlopen, and nothing else", check_exports),
          (f"needs no symbol version newer than GLIBC_{OLDEST[0]}.{OLDEST[1]}", check_versions),
          ("needs the C library alone", check_needed),
          ("calls nothing that allocates, locks or ends the program", check_no_allocation),
          ("is bound when it is loaded, with no executable stack and no text relocation", check_segments)]

if __name__ == "__main__":
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (name, check) in enumerate(CHECKS, 1):
        try:
            check()
            print(f"ok {number} - {name}")
        except AssertionError as problem:
            failed += 1
            print(f"# {problem}\nnot ok {number} - {name}")
    sys.exit(failed > 0)
