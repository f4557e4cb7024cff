#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl run: the peak of a job's memory against the kernel's own figures, and what of it is mapped files."""

import csv
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from disk import cached, disk_places  # noqa: E402
from harness import UMACTL, Skip, add, case, equal, main  # noqa: E402
from run_support import PYTHON, Sandbox  # noqa: E402

LOADER = os.environ["UMA_LOADER"]
SIZE = 256 << 20
NO_GROUPS = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"]


def within(got, expected, share, what):
    assert got is not None and abs(got - expected) <= share * expected, f"{what}: {got} against {expected} ({(got or 0) / expected - 1:+.2%})"


def limited(peak):
    """The group's mark is the limit. The kernel adds up memory.stat in its own time: what was read may be a little above the mark, and then is the limit."""
    assert peak["cgroup"] <= peak["anonymous_and_shared_at_most"] <= 1.02 * peak["cgroup"], peak


def finished(child, code=0, timeout=120):
    out, err = child.communicate(timeout=timeout)
    text = err.decode()
    equal(child.returncode, code, text)
    return out, text


def evict(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def mapped(group, cold, hold):
    """A loader that maps a file privately and read-only, copies it and unmaps it: its memory is one copy, whatever was resident meanwhile."""
    where = next(disk_places(), None)
    if not where:
        raise Skip("no folder on a disk to write to")
    if not group and os.geteuid() != 0:
        raise Skip("only root can hide control groups")
    path = os.path.join(where, f"uma-peak-{os.getpid()}.safetensors")
    try:
        subprocess.run([LOADER, "make", path, str(SIZE)], check=True)
        with Sandbox() as s:
            if cold:
                evict(path)
                assert cached(path) < SIZE // 8, "the file stays in the cache"
            argv = [*([] if group else NO_GROUPS), UMACTL, "run", "--", LOADER, "load", path, "private", "file", hold]
            child = subprocess.run(argv, env=s.env(), capture_output=True, check=False)
            err = child.stderr.decode()
            if not group and ("unshare" in err or "mount" in err):
                raise Skip("no mount namespace can be made")
            equal(child.returncode, 0, err)
            peak = s.record()["peak"]
            if group and peak["cgroup"] is None:
                raise Skip("no group with a high mark: " + str(s.record()["cgroup_note"]))
            equal(peak["cgroup"] is not None, group)
            least, most = peak["anonymous_and_shared"], peak["anonymous_and_shared_at_most"]
            assert peak["resident"] > 1.9 * SIZE, peak
            # the loader's own heap and stack are some 100 KiB
            assert (0 if least is None else least) <= 1.02 * SIZE and most >= 0.98 * SIZE, peak
            if float(hold) > 0:
                assert least >= 0.98 * SIZE, peak
            if group:
                limited(peak)
            line = next(x for x in err.splitlines() if "peak job" in x)
            figure = re.search(r"(at least |at most )?([0-9.?]+)( MiB| KiB| GiB)? anonymous and shared", line)
            equal(figure.group(1), None if least and most <= 1.02 * least else "at least " if least is not None else "at most ", line)
    finally:
        if os.path.exists(path):
            os.unlink(path)


for _group, _where in ((True, "in a group"), (False, "without a group")):
    for _cold, _cache in ((True, "cold"), (False, "warm")):
        for _hold, _how in (("1", "seen twice"), ("0", "ended at once")):
            add(f"a mapped file that is copied is not memory of the job: {_where}, {_cache}, {_how}", mapped, _group, _cold, _hold)


# Holds 200 MiB of memory of its own while a file comes into the page cache and goes again in much less time than there is between two readings.
CHURN = """
import mmap, os, sys, time
path, size, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
m = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for i in range(0, size, 4096): m[i] = 1
time.sleep(0.7)
fd = os.open(path, os.O_RDONLY)
buffer = bytearray(1 << 20)
for _ in range(rounds):
    at = 0
    while n := os.preadv(fd, [buffer], at): at += n
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    time.sleep(0.07)
time.sleep(0.3)
with open("/proc/self/status") as f: values = dict(line.split(":", 1) for line in f)
print(int(values["VmHWM"].split()[0]) * 1024, int(values["RssFile"].split()[0]) * 1024)
"""


@case("page cache that comes and goes between two readings is not memory of the job")
def churn():
    where, own, file = next(disk_places(), None), 200 << 20, 96 << 20
    if not where:
        raise Skip("no folder on a disk to write to")
    path = os.path.join(where, f"uma-churn-{os.getpid()}")
    try:
        with open(path, "wb") as f:
            for _ in range(file >> 20):
                f.write(os.urandom(1 << 20))
        evict(path)
        with Sandbox() as s:
            out, err = finished(s.start("--", PYTHON, "-c", CHURN, path, str(own), "12"))
            peak, (mark, mapped_files) = s.record()["peak"], map(int, out.split())
            if peak["cgroup"] is None:
                raise Skip("no group with a high mark: " + str(s.record()["cgroup_note"]))
            assert peak["cgroup"] >= own + file // 2, f"the file was not charged to the job: {peak}"
            within(peak["anonymous_and_shared"], mark - mapped_files, 0.02, "anonymous and shared against what the job had")
            limited(peak)
            assert re.search("at least [0-9]+ MiB anonymous and shared", err), err
            with open(os.path.join(s.folder(), "samples.csv"), newline="", encoding="utf-8") as f:
                most = max(int(r["job.memory.max"]) for r in csv.DictReader(f) if r["job.memory.max"])
            equal(most, peak["anonymous_and_shared"], "rows hold the peak too")
    finally:
        if os.path.exists(path):
            os.unlink(path)


@case("what lies between two readings is in the limit: a spike of 300 MiB")
def spike():
    job = ("import mmap, time\n"
           "time.sleep(0.7)\n"
           "m = mmap.mmap(-1, 300 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
           "for i in range(0, 300 << 20, 4096): m[i] = 1\n"
           "m.close()\n"
           "time.sleep(0.7)\n")
    with Sandbox() as s:
        finished(s.start("-q", "--", PYTHON, "-c", job))
        peak = s.record()["peak"]
        assert 300 << 20 <= peak["anonymous_and_shared_at_most"] <= 340 << 20, peak
        assert peak["anonymous_and_shared"] <= 340 << 20, peak


@case("workers without a group: pages that they share are not counted for each")
def workers():
    if os.geteuid() != 0:
        raise Skip("only root can hide control groups")
    job = ("import mmap, os, time\n"
           "m = mmap.mmap(-1, 128 << 20)\n"
           "for i in range(0, 128 << 20, 4096): m[i] = 1\n"
           "time.sleep(1.1)\n"
           "for n in range(4):\n"
           "    if os.fork() == 0:\n"
           "        s = sum(m[i] for i in range(0, 128 << 20, 4096))\n"
           "        time.sleep(1.5); os._exit(0)\n"
           "    time.sleep(0.3)\n"
           "time.sleep(1.8)\n")
    with Sandbox() as s:
        child = subprocess.run([*NO_GROUPS, UMACTL, "run", "-q", "--", PYTHON, "-c", job], env=s.env(), capture_output=True, check=False)
        if b"unshare" in child.stderr or b"mount" in child.stderr:
            raise Skip("no mount namespace can be made")
        equal(child.returncode, 0, child.stderr)
        peak = s.record()["peak"]
        equal(peak["cgroup"], None)
        assert 128 << 20 <= peak["anonymous_and_shared"] <= 170 << 20, f"128 MiB and five interpreters are there: {peak}"


@case("without /proc the job runs, and umactl says what is missing")
def no_proc():
    if os.environ.get("UMA_SANITIZED"):
        raise Skip("a sanitizer itself needs /proc")
    if os.geteuid() != 0:
        raise Skip("only root can hide /proc")
    with Sandbox() as s:
        hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        child = subprocess.run([*hide, UMACTL, "run", "--", "sleep", "0.3"], env=s.env(), capture_output=True, check=False)
        err = child.stderr.decode()
        if "unshare" in err or "mount:" in err:
            raise Skip("no mount namespace can be made")
        equal(child.returncode, 0, err)
        assert "/proc does not list umactl itself: it is not mounted here" in err and "Bad file descriptor" not in err, err


@case("a record that the disk has no room for is called incomplete")
def full():
    if os.geteuid() != 0:
        raise Skip("only root can mount a small tmpfs")
    with Sandbox() as s:
        script = 'mkdir "$UMACTL_STATE" && mount -t tmpfs -o size=1M none "$UMACTL_STATE" && { head -c 2M /dev/zero >"$UMACTL_STATE/x" 2>/dev/null; exec "$@"; }'
        child = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", UMACTL, "run", "--", "sleep", "0.1"], env=s.env(), capture_output=True, check=False)
        err = child.stderr.decode()
        if "unshare" in err or "mount:" in err:
            raise Skip("no mount namespace can be made")
        equal(child.returncode, 0, err)
        line = next(x for x in err.splitlines() if x.startswith("  record "))
        assert "(incomplete, could not be written: run.json," in line, err


@case("shared memory of forked workers is counted once")
def shared():
    job = ("import mmap, os, time\n"
           "m = mmap.mmap(-1, 128 << 20)\n"
           "x = bytearray(os.urandom(1) * (128 << 20))\n"
           "for i in range(0, 128 << 20, 4096): m[i] = 1\n"
           "for n in range(4):\n"
           "    if os.fork() == 0:\n"
           "        s = sum(m[i] for i in range(0, 128 << 20, 4096)) + x[5]\n"
           "        time.sleep(1.5); os._exit(0)\n"
           "time.sleep(1.8)\n")
    with Sandbox() as s:
        finished(s.start("-q", "--", PYTHON, "-c", job))
        peak = s.record()["peak"]
        assert 256 << 20 <= peak["anonymous_and_shared"] <= 330 << 20, f"256 MiB are there, once: {peak}"
        assert peak["resident"] > 600 << 20, f"and the sum of resident sizes counts them five times: {peak}"


# What the kernel itself says of the job, read by the job: its high mark (VmHWM, ru_maxrss), and of its cgroup (v1's memory hierarchy or v2) the
# high mark and, after each step, anonymous and shared memory.
TORCH = """
import os, resource, sys, time, torch
seconds, width, batch = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
group = None
for line in open("/proc/self/cgroup"):
    _, controllers, path = line.rstrip().split(":", 2)
    if "memory" in controllers.split(",") or not controllers and group is None:
        group = ("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup") + path

def group_says(name):
    try:
        return open(group + "/" + name).read()
    except OSError:
        return ""

def anonymous_and_shared():
    stat = dict(line.split() for line in group_says("memory.stat").splitlines())
    keys = ("total_rss", "total_shmem") if "total_rss" in stat else ("anon", "shmem")
    return sum(int(stat.get(k, 0)) for k in keys)

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1024, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1024))
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(batch, 1024)
end, step, most = time.monotonic() + seconds, 0, 0
while step < 4 or time.monotonic() < end:
    begun = time.monotonic()
    optimizer.zero_grad()
    loss = ((model(x) - x) ** 2).mean()
    loss.backward()
    most = max(most, anonymous_and_shared())
    optimizer.step()
    most = max(most, anonymous_and_shared())
    step += 1
    print("step", step, "loss", loss.item(), "seconds", round(time.monotonic() - begun, 3), flush=True)
print("kernel ru_maxrss", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
with open("/proc/self/status") as f:
    values = dict(line.split(":", 1) for line in f)
print("kernel VmHWM", int(values["VmHWM"].split()[0]) * 1024)
print("kernel RssFile", int(values["RssFile"].split()[0]) * 1024)
print("kernel group_peak", (group_says("memory.max_usage_in_bytes") or group_says("memory.peak") or "0").strip())
print("kernel group_anonymous_and_shared", most)
"""

# What the summary calls the peak is its first figure.
HEADLINE = re.compile(r"peak job +([0-9.]+) (MiB|GiB) resident")


@case("a real PyTorch training: what is called the peak is within 2 % of the kernel's own figure")
def torch():
    python = next((p for p in (PYTHON, "/usr/bin/python3") if subprocess.run([p, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"], check=False).returncode == 0), None)
    if not python:
        raise Skip("PyTorch is not installed (python3-torch)")
    with Sandbox() as s:
        out, err = finished(s.start("--", python, "-c", TORCH, *os.environ.get("UMA_TORCH", "0 2048 32").split()), timeout=300)
        text = out.decode()
        losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", text)]
        equal(losses[-1] < losses[0], True, "it trains")
        kernel = {name: int(value) for name, value in re.findall(r"kernel (\w+) (\d+)", text)}
        peak = s.record()["peak"]
        for line in [f"{k} {v}" for k, v in peak.items()] + [f"kernel {k} {v}" for k, v in kernel.items()] + err.splitlines()[:2] + text.splitlines()[:1]:
            print(f"# {line}")
        number, unit = HEADLINE.search(err).groups()
        within(float(number) * {"MiB": 1 << 20, "GiB": 1 << 30}[unit], kernel["ru_maxrss"], 0.02, "the summary's peak against ru_maxrss")
        within(peak["resident"], kernel["VmHWM"], 0.02, "resident against VmHWM")
        within(peak["process_resident"], kernel["ru_maxrss"], 0.005, "the largest process against ru_maxrss")
        # what the kernel's high mark holds beyond anonymous and shared memory is the mapped libraries
        had = kernel["ru_maxrss"] - kernel["RssFile"]
        equal(peak["anonymous_and_shared"] <= 1.02 * had and peak["anonymous_and_shared_at_most"] >= 0.98 * had, True, f"at least and at most of {had}: {peak}")
        if peak["cgroup"] is not None and kernel["group_peak"]:
            within(peak["cgroup"], kernel["group_peak"], 0.02, "the group against its own high mark")


main()
