#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bad input, failing resources and unlucky moments. Whatever happens, an answer comes in time, is whole and well formed, and says in one line
what is wrong: no crash, no hang, no half of a file, no control byte. What is tried is drawn with a fixed seed."""

import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from harness import (SCENARIOS, UMACTL, Result, Skip, add, assert_clean_text, case, check_status, contains, environment, equal, machine, main, run)
from run_support import Sandbox, end_process, wait_until

SANITIZED = bool(os.environ.get("UMA_SANITIZED"))
# Seconds for anything but a hanging driver. Far above what it takes, because the machine may be busy; a hang is for ever.
BOUND = 20
# Seconds for files and allocations that take their turn: what is not reached on a busy machine, is on another day.
BUDGET = 2
COMMANDS = (["status"], ["status", "--all"], ["status", "--json"], ["snapshot"], ["snapshot", "--redact"],
            ["require", "--bytes", "1G", "--contiguous", "4M"], ["require", "--bytes", "1G", "--json"])


def limited(which, value):
    return lambda: resource.setrlimit(which, (value, value))


def invariants(args, codes=(0, 1, 3), env=None, stdin=subprocess.DEVNULL, before=None, pass_fds=()):
    """Run, and assert what holds for every input. Returns the result."""
    start = time.monotonic()
    child = subprocess.Popen([UMACTL, *args], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env or environment(),
                             preexec_fn=before, pass_fds=pass_fds)
    try:
        out, err = child.communicate(timeout=BOUND)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise AssertionError(f"{args}: no end within {BOUND} s") from None
    r = Result(child.returncode, out, err, time.monotonic() - start)
    assert r.code in codes, f"{args}: exit status {r.code}, stderr {err[-2000:]!r}"
    assert b"Sanitizer" not in err and b"runtime error" not in err, err[-2000:]
    assert_clean_text(out)
    assert_clean_text(err)
    if r.code == 3 and not out and args[0] != "run":
        equal(r.err.count("\n"), 1, f"{args}: lines on stderr ({r.err!r})")
    if out and "--json" in args and args[0] == "status":
        check_status(r.json)
        numbers(r.json)
    elif out and ("--json" in args or args[0] == "snapshot"):
        numbers(r.json)
    return r


def numbers(value):
    """JSON readers hold whole numbers as signed 64 bits."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            numbers(one)
    elif isinstance(value, int):
        assert -(1 << 63) <= value < 1 << 63, value


# ---- documents -------------------------------------------------------------------------------------------------------

WHOLE = None


def whole():
    global WHOLE
    WHOLE = WHOLE or run("snapshot", "--root", machine("spark-serving")).expect(0).out_bytes
    return WHOLE


def document(data, name, codes=(3,)):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "snapshot.json")
        with open(path, "wb") as f:
            f.write(data)
        for args in (["status", "--json"], ["require", "--bytes", "1"], ["snapshot"]):
            r = invariants([*args, "--from", path], codes)
            if not r.out:
                contains(r.err, path)
    return name


@case("a snapshot that is cut anywhere is refused")
def _():
    text = whole()
    for n in sorted(random.Random(1).sample(range(len(text) - 1), 25)):
        document(text[:n], n)


@case("documents that are none, by name")
def _():
    text = whole()
    start = b'{"schema":"umactl.snapshot/1"'
    status = run("status", "--json", "--root", machine("spark-serving")).expect(0).out_bytes
    for data in (b"\0", b"null", b"1", b"[]", b"{}", b"\xff\xfe", b"[" * 100000, b'{"a":' * 100000, status, text.replace(b"\n", b"\0\n", 1),
                 text.replace(b"{", b'{"schema":"x",', 1), text.replace(b'"spark', b'"\xff', 1), start + b',"time":NaN}', start + b',"time":1e999}',
                 start + b',"meminfo":{"mem_total":18446744073709551616}}', start + b',"meminfo":{"mem_total":-1}}',
                 start + b',"zones":{"zones":[{"blocks":[' + b"1," * 100 + b"1]}]}}", start + b',"processes":{"list":[{"pid":null}]}}',
                 start + b',"processes":{"list":[{"pid":7,"cgroup":3}]}}', start + b"} x"):
        document(data, data[:20])
    document(start + b"}", "an empty machine", (0, 3))


@case("numbers at the ends of their range, wherever there is one")
def _():
    text = whole().decode()
    rng = random.Random(2)
    for value in ("0", "1", "-1", "9223372036854775807", "9223372036854775808", "1e308", "-1e308", "0.5", "null", '""', "[]", "{}"):
        data = re.sub(r": -?[0-9][0-9.e+-]*", lambda m, value=value: ": " + value if rng.random() < 0.02 else m[0], text)
        document(data.encode(), value, (0, 1, 3))
    # what the format takes as it is: all bytes and counts at once
    skip = r'"(?!pid|ppid|cgroup|container|uid|threads|version|id|node|index|numa_node|hwmon|time|schema)[a-z_0-9]+": '
    for value in ("0", "1", "9223372036854775807"):
        document(re.sub(f"({skip})[0-9]+(?=[,\\n ])", lambda m, value=value: m[1] + value, text).encode(), value, (0, 1, 3))


@case("what cannot be a document: folders, devices, loops, nothing, standard input that is closed")
def _():
    with tempfile.TemporaryDirectory() as d:
        os.symlink("loop", os.path.join(d, "loop"))
        for path in (d, "/dev/null", "/dev/zero", "/nonexistent/x", os.path.join(d, "loop"), "/proc/self/mem", "/proc/meminfo"):
            contains(invariants(["status", "--from", path], (3,)).err, path)
        contains(invariants(["status", "--from", "a\n\x1b[2J"], (3,)).err, "a\\n\\x1b[2J")
        contains(invariants(["status", "--from", "-"], (3,), before=lambda: os.close(0)).err, "standard input")


# ---- folders ---------------------------------------------------------------------------------------------------------

NUMBERS = (b"0", b"-1", b"2147483648", b"9223372036854775808", b"18446744073709551615", b"18446744073709551616", b"1e999", b"nan")


def variants(data, rng):
    yield b""
    yield data[:1]
    yield data[:rng.randrange(len(data) + 1)]
    yield data[:rng.randrange(len(data) + 1)]
    yield data.replace(b"\n", b"\r\n")
    yield data.replace(b"\n", b" ")
    yield data.replace(b" ", b"\0")
    yield data.replace(b"\n", b"\x1b[2J\xc2\x9b1m\xe2\x80\xae\n")
    yield bytes(range(256)) * 16
    yield b"x" * 3000000
    yield (data + b"\n") * (500000 // (len(data) + 1) + 1)
    for number in NUMBERS:
        yield re.sub(rb"\d+", number, data)
        yield re.sub(rb"\d+", lambda m, number=number: number if rng.random() < 0.3 else m[0], data)


def make_special(path, data, kind):
    if kind == "loop":
        os.symlink(os.path.basename(path), path)
    elif kind == "outside":
        os.symlink("../" * 20 + "etc/passwd", path)
    elif kind == "absolute":
        os.symlink("/etc/passwd", path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as s:
            here = os.getcwd()
            os.chdir(os.path.dirname(path))
            s.bind(os.path.basename(path))
            os.chdir(here)


def files_of(root):
    return sorted(os.path.join(d, f) for d, _, names in os.walk(root) for f in names)


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    elif os.path.lexists(path):
        os.unlink(path)


def damaged_folder(name):
    rng = random.Random(name)
    end = time.monotonic() + BUDGET
    with tempfile.TemporaryDirectory() as d:
        root = os.path.join(d, "m")
        shutil.copytree(machine(name), root, symlinks=True)
        files = files_of(root)
        rng.shuffle(files)
        for path in files:
            if time.monotonic() > end:
                break
            with open(path, "rb") as f:
                data = f.read()
            for change in rng.sample(list(variants(data, rng)), 3):
                with open(path, "wb") as f:
                    f.write(change)
                invariants([*rng.choice(COMMANDS), "--root", root])
            kind = rng.choice(("loop", "outside", "absolute", "fifo", "folder", "socket", "missing"))
            remove(path)
            make_special(path, data, kind)
            r = invariants([*rng.choice(COMMANDS), "--root", root])
            assert b"root:x:0" not in r.out_bytes + r.err_bytes, f"{path}: {kind}"
            remove(path)
            with open(path, "wb") as f:
                f.write(data)


for _name in ("spark-serving", "strix-halo", "hostile-processes"):
    add(f"{_name}: any file may be anything", damaged_folder, _name)


@case("names in /proc that are no process; a pid that no kernel gives")
def _():
    with tempfile.TemporaryDirectory() as d:
        root = os.path.join(d, "m")
        shutil.copytree(machine("spark-serving"), root, symlinks=True)
        for name in ("99999999999", "0", "-1", "007", "12a", "4294967297", "2147483648", "4194305", "+5", "1 "):
            shutil.copytree(os.path.join(root, "proc", "5162"), os.path.join(root, "proc", name))
        first = invariants(["status", "--json", "--root", root], (0,)).json
        equal(first["holders"], run("status", "--json", "--root", machine("spark-serving")).expect(0).json["holders"])
        text = run("snapshot", "--root", root).expect(0).out
        equal(run("status", "--json", "--from", "-", stdin=text).expect(0).json["holders"], first["holders"])


@case("meminfo that contradicts itself: no part of the pool is larger than the pool")
def _():
    rng = random.Random(4)
    with open(os.path.join(machine("spark-hugetlb"), "proc", "meminfo"), encoding="ascii") as f:
        lines = f.read().splitlines()
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "proc"))
        for _round in range(40):
            with open(os.path.join(root, "proc", "meminfo"), "w", encoding="ascii") as f:
                for line in lines:
                    key = line.split(":")[0]
                    if rng.random() < 0.4:
                        line = f"{key}: {rng.choice((0, 1, 10**6, 10**9, 2**43, 2**53, 2**54, 2**64 - 1))}{'' if 'HugePages_' in key else ' kB'}"
                    f.write(line + "\n")
            r = invariants(["status", "--json", "--root", root])
            if r.out and r.json["headroom"]["total"] is not None:
                h = r.json["headroom"]
                for key in ("now", "available", "reclaimable_cache", "driver_pools", "budget", "hugetlb_available", "cma_lost"):
                    assert h[key] is None or 0 <= h[key] <= h["total"], (key, h)


# ---- the probe -------------------------------------------------------------------------------------------------------

PROBES = {
    "nothing": "exit 0", "fails": "exit 7", "is killed": "kill -9 $$", "closes": "exec 3>&-; sleep 5", "garbage": "head -c 5000 /dev/urandom >&3",
    "half": "head -c 8 <&3 >&3; exit 1", "its own question": "head -c 16 <&3 >&3; sleep 5", "stops": "kill -STOP $$",
    "a child keeps the socket": "(sleep 4) & exit 0",
}


def stand_in(body):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "probe")
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\n" + body + "\n")
        os.chmod(path, 0o755)
        probed({"UMACTL_PROBE": path})


def probed(changes):
    env = environment(UMACTL_NVML="libnvidia-ml.so.1", **changes)
    r = invariants(["status", "--json", "--root", machine("spark-idle")], (0,), env=env)
    assert r.seconds < (5 if SANITIZED else 3.5), f"{r.seconds:.2f} s"
    source = r.json["gpu_source"]
    equal(source["state"], "failed")
    assert source["detail"], source
    ids = [p["id"] for p in r.json["problems"]]
    assert ("nvml-hung" if source["hung"] else "nvml-absent") in ids, (source, ids)


for _name, _body in PROBES.items():
    add(f"a probe that: {_name}", stand_in, _body)
for _path in ("/nonexistent/probe", "/tmp", "/dev/null", "x" * 5000, "a\n\x1b[2J"):
    add(f"UMACTL_PROBE={_path[:30]!r}", probed, {"UMACTL_PROBE": _path})


@case("a driver that was upgraded under the running kernel is a problem that is told")
def _():
    env = environment(UMACTL_NVML=os.environ["UMA_FAKE_LIBRARY"], UMA_FAKE_NVML=os.path.join(SCENARIOS, "version-mismatch.scenario"))
    d = invariants(["status", "--json", "--root", machine("spark-idle")], (0,), env=env).json
    contains("".join(p["evidence"] for p in d["problems"] if p["id"] == "nvml-absent"), "mismatch")


# ---- resources -------------------------------------------------------------------------------------------------------


@case("few descriptors: an answer or a reason")
def _():
    with Sandbox() as box:
        for n in (4, 5, 6, 7, 8, 10, 12, 16, 24):
            for args in (["status", "--json"], ["snapshot", "--root", machine("spark-serving")], ["require", "--bytes", "1"]):
                invariants(args, (0, 3), before=limited(resource.RLIMIT_NOFILE, n))
            r = invariants(["run", "--", "sh", "-c", "exit 5"], (5, 125), env=box.env(), before=limited(resource.RLIMIT_NOFILE, n))
            assert r.code == 5 or r.err, n
        for folder in box.records():  # where there was a descriptor to write it with
            path = os.path.join(folder, "run.json")
            assert os.listdir(folder), folder
            if os.path.exists(path):
                with open(path, encoding="utf-8") as f:
                    assert json.load(f)["state"] in ("ended", "failed"), folder


@case("a file size limit leaves no half of a file")
def _():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out.json")
        for n in (0, 1, 1000):
            r = invariants(["snapshot", "-o", path, "--root", machine("spark-serving")], (3,), before=limited(resource.RLIMIT_FSIZE, n))
            contains(r.err, path)
            equal(os.listdir(d), [])


@case("closed standard files: nothing of what is said goes into a file that took their place")
def _():
    for closed in itertools.product((False, True), repeat=3):
        def close(closed=closed):
            for fd, wanted in enumerate(closed):
                if wanted:
                    os.close(fd)
        with Sandbox() as box:
            csv = box.file("x.csv")
            r = invariants(["run", "--csv", csv, "--", "sh", "-c", "echo out; echo err >&2; exit 3"], (3,), env=box.env(), before=close)
            equal(r.out, "" if closed[1] else "out\n", closed)
            with open(csv, encoding="utf-8") as f:
                rows = f.read().splitlines()
            equal({row.count(",") for row in rows}, {rows[0].count(",")}, f"{closed}: {rows}")
            box.record()
            box.events()
            with open(os.path.join(box.folder(), "samples.csv"), encoding="utf-8") as f:
                equal(len({row.count(",") for row in f}), 1, closed)
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "out.json")
            invariants(["snapshot", "-o", path, "--root", machine("spark-idle")], (0,), before=close)
            with open(path, encoding="utf-8") as f:
                json.load(f)
        r = invariants(["status", "--root", machine("spark-idle")], (0, 3), before=close) if not closed[2] else None
        assert not r or r.code == (3 if closed[1] else 0), closed


def failing_malloc(args, once, codes):
    if SANITIZED:
        raise Skip("a sanitizer has an allocator of its own")
    with Sandbox() as box:
        end = time.monotonic() + BUDGET
        first = run(*args, env=box.env(LD_PRELOAD=os.environ["UMA_FAILING_MALLOC"], UMA_MALLOCS="0"))
        assert first.code != 0 or once, f"{args}: succeeds without any memory: the library is not in the way"
        counts = list(range(0, 250, 3)) + [250 + 3 * i * i for i in range(1, 60)]
        random.Random(str(args)).shuffle(counts)
        for n in counts:
            if time.monotonic() > end:
                break
            env = box.env(LD_PRELOAD=os.environ["UMA_FAILING_MALLOC"], UMA_MALLOCS=str(n), UMA_MALLOC_ONCE="1" if once else None)
            r = invariants(args, codes, env=env)
            assert r.code == 0 or r.out or r.err, f"{args}: silent after {n} allocations"


for _args, _codes in ((["status", "--root", machine("spark-serving")], (0, 3)), (["snapshot", "--root", machine("hostile-processes")], (0, 3)),
                      (["run", "--", "/bin/true"], (0, 125)), (["guard", "policy", "--json"], (0, 3)), (["guard", "status"], (1, 3)),
                      (["plan", "train", "--model", "Qwen/Qwen3-30B-A3B", "--budget", "20G"], (1, 2, 3)),
                      (["plan", "serve", "--params", "8B", "--engine", "vllm", "--budget", "9G", "--json"], (1, 2, 3)),
                      (["plan", "train", "--params", "7B", "--sweep", "seq=1,2,batch=1,2", "--budget", "20G"], (0, 2, 3))):
    for _once in (False, True):
        add(f"{_args[0]}: {'one allocation fails' if _once else 'memory runs out'}", failing_malloc, _args, _once, _codes)


# ---- unlucky moments -------------------------------------------------------------------------------------------------


@case("umactl run killed at any moment: the record can be read, and says who the job is once there is one")
def _():
    rng = random.Random(5)
    states = set()
    rounds = 0
    while rounds < 8 or (not states and rounds < 24):  # on a busy machine the first rounds may all end before there is a record
        rounds += 1
        with Sandbox() as box:
            mark = box.file("mark")
            child = box.start("--interval", "0.05", "--", "sh", "-c", f"echo $$ >{mark}; sleep 0.5", start_new_session=True)
            time.sleep(rng.random() * 0.3 * max(1, rounds - 7))
            child.kill()
            child.communicate(timeout=20)
            for folder in box.records():
                files = os.listdir(folder)
                for name in files:
                    if name.endswith(".json") and not name.startswith("."):
                        with open(os.path.join(folder, name), encoding="utf-8") as f:
                            d = json.load(f)
                        if name == "run.json":
                            states.add(d["state"])
                box.events() if "events.jsonl" in files else None
                if os.path.exists(mark):
                    assert "run.json" in files, files
    assert states <= {"running", "ended"} and states, states


@case("four runs that begin one new CSV at the same moment: one header")
def _():
    for _round in range(4):
        with Sandbox() as box:
            csv = box.file("x.csv")
            children = [box.start("--name", "same", "--interval", "0.05", "--csv", csv, "--", "sleep", "0.2") for _ in range(4)]
            for child in children:
                child.communicate(timeout=30)
                equal(child.returncode, 0)
            with open(csv, encoding="utf-8") as f:
                lines = f.read().splitlines()
            equal(sum(line.startswith("timestamp") for line in lines), 1)
            equal(len({line.count(",") for line in lines}), 1)
            equal(len(box.records()), 4)


@case("a folder that changes while it is read")
def _():
    with tempfile.TemporaryDirectory() as d:
        root = os.path.join(d, "m")
        shutil.copytree(machine("hostile-processes"), root, symlinks=True)
        mess = subprocess.Popen([sys.executable, "-c", """
import os, random, sys, time
root, rng, end = sys.argv[1], random.Random(6), time.monotonic() + 2
files = [os.path.join(d, f) for d, _, names in os.walk(root) for f in names]
whole = {f: open(f, "rb").read() for f in files}
while time.monotonic() < end:
    f = rng.choice(files)
    try:
        kind = rng.randrange(4)
        if kind == 0:
            os.unlink(f)
        elif kind == 1:
            os.truncate(f, 0)
        elif kind == 2:
            d = os.path.dirname(f)
            os.rename(d, d + ".x")
            time.sleep(0.0005)
            os.rename(d + ".x", d)
        else:
            open(f, "wb").write(whole[f])
    except OSError:
        pass
""", root])
        try:
            while mess.poll() is None:
                for args in (["status", "--json"], ["snapshot"]):
                    invariants([*args, "--root", root])
        finally:
            mess.kill()
            mess.wait()


@case("processes come and go in great number while they are read and while a job runs")
def _():
    with Sandbox() as box:
        churn = subprocess.Popen(["sh", "-c", "i=0; while [ $i -lt 4000 ]; do (exit 0) & (exit 0); i=$((i+1)); done; wait"], start_new_session=True)
        try:
            for args in (["status", "--json"], ["snapshot"], ["status", "--all"]):
                invariants(args, (0,))
            folder = box.file("capture")
            invariants(["snapshot", "--folder", folder], (0,))
            invariants(["status", "--json", "--root", folder], (0,))
            code, _, err = box.run("--", "sh", "-c", "i=0; while [ $i -lt 300 ]; do (exit 0) & i=$((i+1)); done; wait; exit 9")
            equal(code, 9, err)
        finally:
            os.killpg(churn.pid, signal.SIGKILL)
            churn.wait()


@case("the record's folder is removed, or becomes another, under the run")
def _():
    for act in ("rm -rf {s}", "rm -rf {s}; echo x > {s}", "mv {s} {s}.x; ln -s /etc {s}"):
        with Sandbox() as box:
            code, _, err = box.run("--", "sh", "-c", "sleep 0.3; " + act.format(s=box.state) + "; exit 4")
            equal(code, 4, err)
            contains(err.decode(), "exit 4")


@case("a job that signals, limits and stops its own umactl")
def _():
    with Sandbox() as box:
        program = "import os, resource, signal, sys, time\np = os.getppid()\n"
        for body, expected in (("os.kill(p, signal.SIGSTOP); time.sleep(.3); os.kill(p, signal.SIGCONT); sys.exit(6)", 6),
                               ("resource.prlimit(p, resource.RLIMIT_NOFILE, (1, 1)); time.sleep(1.2); sys.exit(6)", 6),
                               ("resource.prlimit(p, resource.RLIMIT_FSIZE, (0, 0)); time.sleep(.7); sys.exit(6)", 6),
                               ("os.closerange(0, 1024); os._exit(6)", 6), ("os.kill(p, signal.SIGTERM); time.sleep(9)", 143),
                               ("os.kill(os.getpid(), 40)", 168)):
            env = box.env(ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")  # its leak check needs descriptors
            code, _, err = box.run("--", sys.executable, "-c", program + body, env=env)
            equal(code, expected, f"{body}: {err[-300:]!r}")


LEAVER = """
import os, sys, time
lines = [line.rstrip("\\n").split(":", 2) for line in open("/proc/self/cgroup")]
one = [l[2] for l in lines if "memory" in l[1].split(",")]
mine = "/sys/fs/cgroup/memory" + one[0] if one else "/sys/fs/cgroup" + [l[2] for l in lines if not l[1]][0]
if "/umactl-" not in mine or not os.path.isdir(mine):
    sys.exit(77)
other = f"{os.path.dirname(mine)}/left-{os.getpid()}"
try:
    os.mkdir(other)
    with open(other + "/cgroup.procs", "w") as f:
        f.write("0")
except OSError:
    os.path.isdir(other) and os.rmdir(other)
    sys.exit(77)
held = bytearray(64 << 20)
time.sleep(1.2)
with open(mine + "/cgroup.procs", "w") as f:
    f.write("0")
os.rmdir(other)
"""


@case("a job that leaves its control group, as containers do, is counted all the same")
def _():
    with Sandbox() as box:
        code, _, err = box.run("--", sys.executable, "-c", LEAVER)
        if code == 77:
            raise Skip("no groups can be made here")
        equal(code, 0, err)
        peak = box.record()["peak"]["anonymous_and_shared"]
        assert 64 << 20 <= peak <= 96 << 20, f"{peak / (1 << 20):.1f} MiB"


# ---- the command line ------------------------------------------------------------------------------------------------


@case("values that are none: the option is named, nothing is run")
def _():
    with Sandbox() as box:
        mark = box.file("ran")
        for value in ("", "-1", "nan", "inf", "1e309", "0x10", "1GG", "99999999999999999999999G", "\x1b[2J", os.fsdecode(b"\xff"), "x" * 70000, "--"):
            for option, extra in (("--need", []), ("--wait", ["--need", "1"]), ("--interval", [])):
                r = invariants(["run", *extra, option, value, "--", "touch", mark], (125,), env=box.env())
                contains(r.err.splitlines()[0], option + ": ")
            for option in ("--bytes", "--contiguous", "--wait"):
                r = invariants(["require", "--bytes", "1", option, value], (2,))
                contains(r.err.splitlines()[0], option + ": ")
        for option in ("--name", "--csv"):
            contains(invariants(["run", option, "", "--", "touch", mark], (125,), env=box.env()).err, option + ": the name is empty")
        contains(invariants(["snapshot", "--folder", ""], (2,)).err, "--folder: the name is empty")
        assert not os.path.exists(mark)
        equal(box.records(), [])


@case("--name cannot leave the state directory, whatever it is")
def _():
    for name in ("../../x", "/abs", "..", ".", "a/b", "a\nb", "\x1b[2J", os.fsdecode(b"\xff\xfe"), "x" * 100000, "-", "--", "%s%n", "\u202e", " "):
        with Sandbox() as box:
            invariants(["run", "--name", name, "--", "true"], (0,), env=box.env())
            folder = os.path.basename(box.folder())
            assert re.fullmatch(r"[0-9]{8}T[0-9]{6}Z-[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}-[0-9]+", folder), folder
            equal(box.record()["id"], folder)
            equal(sorted(os.listdir(box.path)), ["state"])


main()
