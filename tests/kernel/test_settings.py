#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl cache advise --apply and --undo on the kernel's own settings, for some tenths of a second: vm.dirty_* of this machine, and the readahead of a loop
device made for this. Whatever happens to the test, Ctrl-C and a kill too, a process beside it puts the machine's settings back."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

UMACTL = os.environ["UMACTL"]
PAIRS = (("dirty_background_bytes", "dirty_background_ratio"), ("dirty_bytes", "dirty_ratio"))


def get(path):
    with open(path, encoding="ascii") as f:
        return f.read().strip()


def put(path, value):
    with open(path, "w", encoding="ascii") as f:
        f.write(value)


def vm(name):
    return "/proc/sys/vm/" + name


def settings():
    return {name: get(vm(name)) for pair in PAIRS for name in pair}


def put_back(before):
    for bytes_, ratio in PAIRS:
        if (get(vm(bytes_)), get(vm(ratio))) != (before[bytes_], before[ratio]):
            name = bytes_ if before[bytes_] != "0" else ratio
            put(vm(name), before[name])


@contextlib.contextmanager
def guarded(before):
    """A process of its own session waits for the end of this one, however that comes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        while os.read(reading, 1):
            pass
        put_back(before)
        os._exit(0)
    os.close(reading)
    try:
        yield
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def advise(state, *args, code=0):
    # the end of the pipe to the guard is not inherited: subprocess closes what it is not told to keep
    done = subprocess.run([UMACTL, "cache", "advise", *args], env={"PATH": "/usr/bin:/bin", "UMACTL_STATE": state}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout


def why_not():
    if os.geteuid() != 0:
        return "needs root"
    if not os.access(vm("dirty_bytes"), os.W_OK):
        return "/proc/sys is read-only here"
    return None


def pairs(state):
    before = settings()
    helps = {a["id"] for a in json.loads(advise(state, "--json"))["advice"] if a["applied_by_default"]} & {"dirty-background", "dirty-limit"}
    if not helps or any((before[b] == "0") == (before[r] == "0") for b, r in PAIRS):
        return "vm.dirty_* are as advised here, or unusual"
    with guarded(before):
        names = ",".join(sorted(helps))
        out = json.loads(advise(state, "--apply", names, "--json"))
        now = settings()
        assert out["complete"] and {c["outcome"] for c in out["changes"]} == {"set"}, out
        for change in out["changes"]:
            own, other = os.path.basename(change["path"]), os.path.basename(change["counterpart"]["path"])
            assert (now[own], now[other]) == (change["set"], "0"), now
            assert (change["before"], change["counterpart"]["before"]) == (before[own], before[other]), change
        # somebody sets a ratio meanwhile: left alone, and forced
        own, other = [p for p in PAIRS if p[0].startswith("dirty_background")][0]
        if "dirty-background" in helps:
            put(vm(other), "7")
            text = " ".join(advise(state, "--undo", code=1).split())
            assert f"somebody set vm.{other} = 7" in text and "left alone" in text, text
            assert (get(vm(own)), get(vm(other))) == ("0", "7")
            advise(state, "--undo", "--force")
        else:
            advise(state, "--undo")
        assert settings() == before, (settings(), before)
    return None


def interrupted(state):
    """SIGINT at many moments: nothing, or all of it with a record; and undo puts it back."""
    before = settings()
    if any((before[b] == "0") == (before[r] == "0") for b, r in PAIRS):
        return "vm.dirty_* are unusual"
    with guarded(before):
        for step in range(12):
            child = subprocess.Popen([UMACTL, "cache", "advise", "--apply"], env={"PATH": "/usr/bin:/bin", "UMACTL_STATE": state},
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                child.wait(0.002 * step)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGINT)
            child.wait(60)
            if not os.path.exists(os.path.join(state, "tuning.json")):
                assert settings() == before, settings()
            advise(state, "--undo")
            assert settings() == before, settings()
    return None


def readahead(state):
    """Taken back through sysfs, by a record as --apply leaves it: advice leaves loop devices out."""
    image = os.path.join(state, "image")
    with open(image, "wb") as f:
        f.truncate(4 << 20)
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    if made.returncode:
        return "no loop device: " + made.stderr.strip().splitlines()[-1][:100]
    device = made.stdout.strip()
    try:
        path = f"sys/block/{os.path.basename(device)}/queue/read_ahead_kb"
        old = get("/" + path)
        put("/" + path, "4096")
        record = {"schema": "umactl.tuning/1", "boot_id": get("/proc/sys/kernel/random/boot_id"), "changes": [
            {"id": "readahead-loop", "path": path, "before": old, "set": "4096", "restore_path": path, "restore": old, "time": 0}]}
        with open(os.path.join(state, "tuning.json"), "w", encoding="ascii") as f:
            json.dump(record, f)
        put("/" + path, "512")
        assert "somebody set 512" in " ".join(advise(state, "--undo", code=1).split())
        put("/" + path, "4096")
        assert f"restored: {old}" in advise(state, "--undo")
        assert get("/" + path) == old
    finally:
        subprocess.run(["losetup", "--detach", device], check=False)
    return None


def main():
    cases = (("vm.dirty_*: the pair is set, told and restored", pairs), ("interrupted at many moments", interrupted), ("readahead of a loop device", readahead))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    failed = 0
    print(f"1..{len(cases)}")
    for number, (name, function) in enumerate(cases, 1):
        state = tempfile.mkdtemp()
        try:
            skip = why_not() or function(state)
            print(f"ok {number} - {name}" + (f" # SKIP {skip}" if skip else ""), flush=True)
        except AssertionError as error:
            failed += 1
            print(f"# {error}\nnot ok {number} - {name}", flush=True)
        finally:
            shutil.rmtree(state)
    sys.exit(1 if failed else 0)


main()
