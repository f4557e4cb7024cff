#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model that was just copied in fills the page cache of this machine for real: `umactl status` names it, `umactl cache evict` frees it, and the
receipt is what meminfo says, to 1 %.

The model is a folder of a Hugging Face hub cache with sparse shards: reading holes fills the page cache as data would and costs neither disk nor its
time. It grows until about a sixteenth of the machine is free, as on the machine this stands for (3.3 of 121 GiB free, 99 GiB cache). The GPU that
makes page cache a problem is the scripted one. On large machines, and where others hold most of the memory, the test is skipped.
"""
import contextlib
import json
import mmap
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from disk import TMPFS, file_system  # noqa: E402

UMACTL = os.environ["UMACTL"]
GIB = 1 << 30
MOST = 64 * GIB  # filling more takes minutes
NAME = "Made-Up/Freshly-Copied-99B"


def meminfo():
    with open("/proc/meminfo", encoding="ascii") as f:
        return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in f}


def run(*arguments, environment, codes=(0,)):
    done = subprocess.run([UMACTL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, timeout=120, check=False)
    assert done.returncode in codes, f"umactl {' '.join(arguments)}: {done.returncode}: {done.stderr.decode(errors='replace')}"
    return done.stdout.decode()


def hold(stack, total):
    """Two fifths of the machine taken as a GPU's driver takes them, which no control group counts: page cache is counted, and a group's limit may be below what
    makes memory short. False: not for this user."""
    for _ in range(total * 2 // 5 // GIB):
        job = stack.enter_context(subprocess.Popen([os.environ["UMA_HOLD"], "packet", str(GIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                   stderr=subprocess.DEVNULL))
        if job.stdout.readline() != b"ready\n":
            return False
    return True


def fill(folder):
    """Shards of 1 GiB, mapped and brought in until the machine's free memory is short, then unmapped. Mapped while it lasts, because a machine may page out cold
    cache that nobody maps as fast as it is read."""
    blobs = os.path.join(folder, "hub", "models--" + NAME.replace("/", "--"), "blobs")
    snapshot = os.path.join(os.path.dirname(blobs), "snapshots", "0" * 40)
    os.makedirs(blobs)
    os.makedirs(snapshot)
    total = meminfo()["MemTotal"]
    maps = []
    while len(maps) < total // 3 // GIB or meminfo()["MemFree"] >= total // 16 + GIB:  # what else is cached gives way
        assert len(maps) < total // GIB, "memory does not get short"
        n = len(maps) + 1
        blob = os.path.join(blobs, f"{n:064x}")
        with open(blob, "wb") as f:
            f.truncate(GIB)
        os.symlink(os.path.relpath(blob, snapshot), os.path.join(snapshot, f"model-{n:05d}.safetensors"))
        with open(blob, "rb") as f:
            maps.append(mmap.mmap(f.fileno(), GIB, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ))
    for shard in maps:
        shard.close()


def check(folder):
    """Why it cannot be seen here, or None."""
    with contextlib.ExitStack() as stack:
        if not hold(stack, meminfo()["MemTotal"]):
            return "memory as a driver has it is for root"
        fill(folder)
        named_and_freed(folder)
    return None


def named_and_freed(folder):
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": folder, "HF_HOME": folder, "UMACTL_NVML": os.environ["UMA_FAKE_LIBRARY"],
                   "UMA_FAKE_NVML": os.path.join(os.environ["UMA_SCENARIOS"], "gb10-idle.scenario")}
    for name in ("UMACTL_PROBE", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            environment[name] = os.environ[name]
    status = json.loads(run("status", "--json", environment=environment))
    problems = {problem["id"]: problem for problem in status["problems"]}
    assert "cache-starves-cuda" in problems, f"status does not say that page cache starves CUDA: {status['headroom']}"
    problem = problems["cache-starves-cuda"]
    assert NAME in problem["evidence"] and NAME in problem["remedy"], f"status does not name the model: {problem}"
    assert problem["remedy"].startswith("umactl cache evict "), problem["remedy"]
    listing = json.loads(run("cache", "--json", environment=environment))
    held = sum(f["resident"] or 0 for f in listing["files"] if f["model"] == NAME)
    assert held > meminfo()["MemTotal"] // 4, f"umactl cache shows {held} bytes of the model"
    before = meminfo()
    receipt = json.loads(run("cache", "evict", "--model", NAME, "--json", environment=environment))
    after = meminfo()
    fell = before["Cached"] - after["Cached"]
    print(f"# {held / GIB:.2f} GiB of the model resident; receipt {receipt['evicted'] / GIB:.3f} GiB evicted, Cached fell by {fell / GIB:.3f}, "
          f"MemFree rose by {(after['MemFree'] - before['MemFree']) / GIB:.3f}, in {receipt['seconds']:.2f} s")
    print(f"# status: {problem['evidence']}")
    print(f"# remedy: {problem['remedy']}")
    assert abs(receipt["evicted"] - fell) <= fell / 100, "the receipt is off by more than 1 %"
    gone = json.loads(run("status", "--json", environment=environment))
    assert "cache-starves-cuda" not in {p["id"] for p in gone["problems"]}, "the problem is still there"


def skip_reason(folder):
    memory = meminfo()
    if memory["MemTotal"] > MOST:
        return "filling the memory of a machine this large takes too long"
    if memory["MemAvailable"] < memory["MemTotal"] * 4 // 5:
        return "less than four fifths of the memory are available"
    if file_system(folder) == TMPFS:
        return "the folder for temporary files is in memory"
    return None


def main():
    print("1..1")
    what = "a freshly copied model is named by status and freed by evict, to 1 % of meminfo"
    with tempfile.TemporaryDirectory(prefix="umactl-fresh-", dir=os.environ.get("UMA_DISK", "/var/tmp")) as folder:
        reason = skip_reason(folder)
        if reason:
            print(f"ok 1 - {what} # SKIP {reason}")
            return 0
        try:
            reason = check(folder)
        except AssertionError as wrong:
            for line in str(wrong).splitlines():
                print(f"# {line[:600]}")
            print(f"not ok 1 - {what}")
            return 1
    print(f"ok 1 - {what}" + (f" # SKIP {reason}" if reason else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
