#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl cache where this user is not told: unknown is said, in words and as null, and never 0. Names and links that are not what they seem."""

import json
import os
import resource
import subprocess

from cache_support import MIB, PAGE, cached, dirty, nobody, place, put
from documented import check_documented
from harness import Skip, UMACTL, case, contains, environment, equal, main, run


def as_nobody(*args, code=0):
    r = subprocess.run([*nobody(), UMACTL, "cache", *args], capture_output=True, env=environment(), check=False, text=True)
    equal(r.returncode, code, r.stderr)
    return " ".join(r.stdout.split())


@case("unprivileged: another's file with unwritten data: that it may stay is said, and that --sync writes it")
def _():
    path = dirty(os.path.join(place("others"), "unwritten"), 8 * MIB)
    told = "whether all of 1 file is on storage is not known to this user"
    out = as_nobody("evict", "--dry-run", path)
    contains(out, "Would evict ? (how much is unknown) of 1 file")
    contains(out, told)
    assert "0 B" not in out.split("MemFree")[0], out
    out = as_nobody("evict", path)
    contains(out, "Evicted ? (how much is unknown) of 1 file")
    contains(out, f"{told}; data that is not written stays: --sync writes it first")
    path = dirty(path + "2", 8 * MIB)
    d = json.loads(as_nobody("evict", "--json", path))
    check_documented(d, "umactl.cache/1", 1)
    equal((d["counts"]["dirty_unknown"], d["files"][0]["dirty"]), (1, None))
    out = as_nobody("evict", "--sync", path)
    assert told not in out, out
    equal(cached(path), 0)


@case("unprivileged: --no-sync on another's file: nothing is tried, and its name stands there once")
def _():
    path = put(os.path.join(place("others"), "untried"), MIB)
    out = as_nobody("evict", "--no-sync", path, code=1)
    contains(out, "Evicted nothing of 1 file")
    contains(out, f"1 file failed, the first: {path}: the kernel does not tell which pages are dirty")
    assert cached(path) > 0


@case("unprivileged: a listing that is told nothing says so, not 0")
def _():
    path = put(os.path.join(place("others"), "listed"), MIB)
    out = as_nobody("--path", path, "--limit", "0")
    contains(out, "the kernel does not tell this user, looked at in")


@case("links of /proc/PID/fd lead out: exit 1")
def _():
    with subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
        try:
            d = run("cache", "evict", "--json", f"/proc/{p.pid}/fd").expect(1).json
            equal((d["counts"]["links_inside"], d["counts"]["links_outside"], d["files"]), (0, 3, []))
        finally:
            p.kill()


@case("a name that is not UTF-8: its bytes are there, and no other name has them")
def _():
    folder = place("bytes")
    names = (b"a\xff", b"a\\xff", b"plain")
    for name in names:
        put(os.path.join(os.fsencode(folder), name), PAGE)
    for d in (run("cache", "evict", "--json", "--dry-run", folder).expect(0).json, run("cache", "--json", "--path", folder).expect(0).json):
        found = [f for f in d["files"] if f["path"].startswith(folder + "/")]
        wanted = [("a\\xff", (os.fsencode(folder) + b"/a\xff").hex()), ("a\\xff", None), ("plain", None)]
        equal(sorted(((f["path"][len(folder) + 1:], f["path_bytes"]) for f in found), key=str), sorted(wanted, key=str))


@case("descriptors run out: that is the cause that is said, once")
def _():
    folder = place("deep")
    put(os.path.join(folder, *"abcdefghijklmnopqrst", "f"), PAGE)
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (14, 14))  # noqa: E731
    for args in (("--path", folder), ("evict", folder)):
        r = subprocess.run([UMACTL, "cache", *args], capture_output=True, env=environment(), check=False, text=True, preexec_fn=few)
        out = " ".join(r.stdout.split())
        contains(out, "incomplete: no more files may be open at a time (ulimit -n)")
        equal((out.count("ran out"), out.count("time was over"), out.count("ulimit")), (0, 0, 1), out)


@case("the time runs out: said once")
def _():
    out = " ".join(run("cache", "--all", "--timeout", "0.05").expect(0).out.split())
    contains(out, "incomplete: the time was over after")
    equal((out.count("the time"), out.count("room")), (1, 0), out)


@case("cache follow where /proc is not mounted says that")
def _():
    if os.environ.get("UMA_SANITIZED"):
        raise Skip("a sanitizer itself needs /proc")
    bare = ["unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$0" cache follow 1', UMACTL]
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "umount", "-l", "/proc"], capture_output=True, check=False).returncode:
        raise Skip("/proc cannot be unmounted here")
    r = subprocess.run(bare, capture_output=True, env=environment(), check=False, text=True)
    equal(r.returncode, 3, r.stderr)
    contains(r.stderr, "/proc is not mounted here")


main()
