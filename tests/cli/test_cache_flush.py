#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl cache evict --all: what it drops, when it refuses, and what it says came back."""

import json
import os
import re
import shutil
import subprocess
import sys

from cache_support import MIB, nobody, place, put
from documented import check_documented
from harness import Skip, UMACTL, add, case, contains, environment, equal, main, run

# In a mount namespace of its own, with files in the place of the kernel's two switches: what is written is seen, and nothing is dropped.
WITHOUT_SWITCHES = """
set -e
mount --bind "$1/drop" /proc/sys/vm/drop_caches
mount --bind "$1/compact" /proc/sys/vm/compact_memory
shift
exec "$@"
"""


def all_of_it(*args):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skip("needs root and unshare")
    folder = place("switches")
    for name in ("drop", "compact"):
        with open(os.path.join(folder, name), "wb"):
            pass
    r = subprocess.run(["unshare", "-m", "sh", "-c", WITHOUT_SWITCHES, "sh", folder, UMACTL, "cache", "evict", "--all", *args],
                       capture_output=True, env=environment(), check=False, timeout=60)
    if b"mount:" in r.stderr or b"unshare" in r.stderr:
        raise Skip(f"no mount namespace: {r.stderr.decode().strip()}")
    with open(os.path.join(folder, "drop"), "rb") as f, open(os.path.join(folder, "compact"), "rb") as g:
        return r, f.read(), g.read()


class Trainer:
    """What looks like a job that trains: a trainer's script with 96 MiB of memory."""

    def __enter__(self):
        folder = place("trainer/LLaMA-Factory/src")
        script = os.path.join(folder, "train.py")
        with open(script, "w", encoding="ascii") as f:
            f.write("import sys\nm = bytearray(96 << 20)\nm[::4096] = b'x' * len(m[::4096])\nprint('ready', flush=True)\nsys.stdin.read()\n")
        self.child = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.child.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_):
        self.child.communicate()


class Loader:
    """What reads weights again and again, as fast as it can."""

    def __enter__(self):
        path = put(os.path.join(place("loader"), "model.safetensors"), 32 * MIB)
        code = "import sys\nf = open(sys.argv[1], 'rb', buffering=0)\nprint('ready', flush=True)\nwhile True:\n f.seek(0)\n while f.read(1 << 20): pass\n"
        self.child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
        assert self.child.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.communicate()


def only_ours(text, pid):
    """One job is named; on a machine where others work it may be one of theirs."""
    named = int(re.search(r"\(pid (\d+)", text).group(1))
    if named != pid:
        raise Skip(f"another job of this machine is named: {text.strip()}")


@case("--all: page cache, then slab and pools, then compaction; the ledger after each")
def _():
    r, drop, compact = all_of_it("--force", "--json")
    equal((r.returncode, r.stderr), (0, b""))
    # two writes of two bytes each; a file keeps the last one
    equal((drop, compact), (b"2\n", b"1\n"))
    d = json.loads(r.stdout)
    check_documented(d, "umactl.cache/1", 2)
    equal([s["step"] for s in d["steps"]], ["before", "page_cache", "slab", "compact"])
    for step in d["steps"]:
        assert sum(row["bytes"] for row in step["ledger"]) > 0
        for key in ("largest_free_block", "free_in_large_blocks", "driver_pools", "free"):
            assert key in step
    r, _, _ = all_of_it("--force")
    contains(r.stdout.decode(), "WHAT CAME BACK")
    contains(r.stdout.decode(), "driver pools")
    contains(r.stdout.decode(), "largest free block")


@case("--all --dry-run writes nothing")
def _():
    r, drop, compact = all_of_it("--dry-run", "--force")
    equal((r.returncode, drop, compact), (0, b"", b""))
    contains(r.stdout.decode(), "Would drop up to ")
    r, drop, _ = all_of_it("--dry-run", "--force", "--json")
    equal((r.returncode, drop), (0, b""))
    check_documented(json.loads(r.stdout), "umactl.cache/1", 3)


def refused(said, *args):
    r = run("cache", "evict", *args).expect(2, err=None)
    contains(r.err, said)
    equal(r.out, "")


for _args, _said in ((("--all", "--no-sync"), "--no-sync"), (("--all", "--no-sync", "--dry-run"), "--no-sync"),
                     (("--all", "--sync", "--no-sync"), "contradict"), (("--all", "--larger-than", "1M"), "--larger-than"),
                     (("--all", "--path", "/"), "--path"), (("--all", "--all-models"), "give one of them"), (("--all", "/"), "give one of them"),
                     (("--force", "/"), "--force"), (("--force", "--all-models"), "--force")):
    add("refused: " + " ".join(_args), refused, _said, *_args)


@case("--all is refused while a job trains, and names it; --force does it")
def _():
    with Trainer() as trainer:
        r, drop, compact = all_of_it()
        equal((r.returncode, drop, compact, r.stdout), (1, b"", b"", b""))
        only_ours(r.stderr.decode(), trainer.child.pid)
        contains(r.stderr.decode(), "trains")
        contains(r.stderr.decode(), "--force")
        r, drop, _ = all_of_it("--force")
        equal((r.returncode, drop), (0, b"2\n"))


@case("--all is refused while a job loads weights, and names it")
def _():
    with Loader() as loader:
        r, drop, _ = all_of_it()
        equal((r.returncode, drop), (1, b""))
        only_ours(r.stderr.decode(), loader.child.pid)
        contains(r.stderr.decode(), "loads weights at")


@case("--all without root: which right is missing, and what works without")
def _():
    front = nobody()
    r = subprocess.run([*front, UMACTL, "cache", "evict", "--all", "--force"], capture_output=True, env=environment(), check=False)
    equal((r.returncode, r.stdout), (1, b""))
    contains(r.stderr.decode(), "root")
    contains(r.stderr.decode(), "umactl cache evict --all-models")


main()
