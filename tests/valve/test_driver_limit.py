#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The driver's own limit: umactl valve --probe, --set, --get, --release and umactl run --limit before a management library and a CUDA driver without a GPU, on this machine's own cgroup v2."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases
from cases import Skip

UMACTL, FAKES = os.environ["UMACTL"], os.environ["UMA_FAKES"]
MIB, NONE = 1 << 20, (1 << 64) - 1
MOUNTS = [m for m in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") if os.path.exists(m + "/cgroup.procs")]
GPU = "gpu\nname NVIDIA GB10\nuuid GPU-5a1fc0de-0000-4000-8000-00000000b10a\npci 0000000F:01:00.0\ncelsius 36\n"


def leaf(pid="self"):
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
        line = next(line for line in f if line.startswith("0::"))
    return (MOUNTS[0] + line[3:].strip()).rstrip("/")


def can_make_groups():
    if os.geteuid() != 0 or not MOUNTS:
        return False
    try:
        path = leaf() + f"/uma-test-{os.getpid()}"
        os.mkdir(path)
        os.rmdir(path)
        return True
    except OSError:
        return False


class Machine:
    """A driver by a scenario: `more` lines of it, GPUs after them, whether CUDA holds the limit."""

    def __init__(self, more="", holds=True, library="", gpus=GPU, driver="615.10", cuda=True):
        self.folder = tempfile.mkdtemp(prefix="uma-driver-limit-")
        self.library = os.path.join(FAKES, library, "libnvidia-ml.so.1")
        self.holds, self.cuda = holds, cuda
        self.scenario(more, gpus, driver)

    def scenario(self, more="", gpus=GPU, driver="615.10"):
        with open(self.folder + "/new", "w", encoding="utf-8") as f:
            f.write(f"driver {driver}\n{more.replace('@', self.folder)}\n{gpus}")
        os.rename(self.folder + "/new", self.folder + "/scenario")

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "UMACTL_ROOT")}
        env.update(UMACTL_NVML=self.library, UMA_FAKE_NVML=self.folder + "/scenario", UMACTL_RUN=self.folder + "/run", HOME=self.folder, XDG_STATE_HOME=self.folder,
                   LD_LIBRARY_PATH=FAKES + "/cuda" if self.cuda else "/nowhere", UMA_FAKE_CUDA=f"limits:{self.folder}/limits" if self.holds else "memory:count")
        env.update(more)
        return env

    def run(self, *words, status=None, **more):
        r = subprocess.run([UMACTL, *words], env=self.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert status is None or r.returncode == status, (r.returncode, r.stdout, r.stderr)
        return r

    def probe(self, *words, status=None, **more):
        r = self.run("valve", "--probe", "--json", *words, **more)
        assert status is None or r.returncode == status, (r.returncode, r.stdout, r.stderr)
        return json.loads(r.stdout)

    def book(self):
        """What the driver has: {(kind, group): (first, second)}."""
        try:
            with open(self.folder + "/limits", encoding="utf-8") as f:
                lines = [line.split() for line in f]
        except FileNotFoundError:
            return {}
        return {(w[0], w[4]): (int(w[2]), int(w[3])) for w in lines}

    def limits(self):
        return {g: v for (kind, g), v in self.book().items() if kind == "limit" and v != (0, NONE) and os.path.isdir(g)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)


LIMITS = "limits-file @/limits"


def steps(backend):
    return {s["step"]: s["passed"] for s in backend["steps"]}


def left_groups():
    return [os.path.join(at, d) for at, dirs, _ in os.walk(MOUNTS[0]) for d in dirs if d.startswith("umactl_limit-")]


@contextlib.contextmanager
def container(*deeper):
    """A process in a leaf below a group of its own, as a container's: (the leaf, its pid)."""
    paths = [leaf() + f"/uma-test-{os.getpid()}"]
    for name in deeper:
        paths.append(paths[-1] + "/" + name)
    for path in paths:
        os.mkdir(path)
    process = subprocess.Popen(["sleep", "100"])
    try:
        with open(paths[-1] + "/cgroup.procs", "w", encoding="utf-8") as f:
            f.write(str(process.pid))
        yield paths[-1], process.pid
    finally:
        process.kill()
        process.wait()
        for path in reversed(paths):
            for _ in range(200):
                try:
                    os.rmdir(path)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)


def set_by_another(machine, group, soft, hard):
    """As a container toolkit does, with the library itself."""
    code = ("import ctypes,sys\n"
            "class L(ctypes.Structure): _fields_=[('n',ctypes.c_char_p),('s',ctypes.c_ulonglong),('h',ctypes.c_ulonglong)]\n"
            "n=ctypes.CDLL(sys.argv[1]); d=ctypes.c_void_p(); c=ctypes.c_uint()\n"
            "assert n.nvmlInit_v2()==0 and n.nvmlDeviceGetCount_v2(ctypes.byref(c))==0 and n.nvmlDeviceGetHandleByIndex_v2(0,ctypes.byref(d))==0\n"
            "sys.exit(n.nvmlDeviceSetMemoryLimits_v1(d,ctypes.byref(L(sys.argv[2].encode(),int(sys.argv[3]),int(sys.argv[4])))))\n")
    subprocess.run([sys.executable, "-c", code, machine.library, group, str(soft), str(hard)], env=machine.environment(), check=True, timeout=20)


def case(function):
    cases.case(function.__name__.replace("_", " "))(function)
    return function


# ---- the probe --------------------------------------------------------------------------------------------------


@case
def a_driver_that_holds_its_limit_is_believed_because_a_child_was_refused():
    with Machine(LIMITS) as m:
        answer = m.probe(status=0)
        assert answer["driver"]["state"] == "holds" == answer["interposer"]["state"], answer
        assert steps(answer["driver"]) == {"library": True, "symbols": True, "group": True, "without": True, "set": True, "read-back": True, "dmem": None, "refused": True,
                                           "taken-back": True, "afterwards": True}, answer
        assert answer["driver_version"] == "615.10" and answer["dmem"] is None and answer["kept"] is True
        assert not m.limits() and not left_groups()


@case
def set_but_not_enforced_is_noticed():
    with Machine(LIMITS, holds=False) as m:
        answer = m.probe(status=0)
        assert answer["driver"]["state"] == "not-enforced", answer
        assert steps(answer["driver"])["set"] and steps(answer["driver"])["read-back"] and steps(answer["driver"])["refused"] is False
        assert not m.limits() and not left_groups()
        m.run("run", "-q", "--no-valve", "--limit", "1G", "true", status=125)


@case
def taken_and_not_there_when_it_is_read_back():
    with Machine(LIMITS + "\nlimits-ignored") as m:
        answer = m.probe()
        assert answer["driver"]["state"] == "not-read-back" and steps(answer["driver"])["read-back"] is False, answer


@case
def unsupported():
    with Machine() as m:
        assert m.probe(status=0)["driver"]["state"] == "unsupported"
        assert not left_groups()
    with Machine("missing nvmlDeviceSetMemoryLimits\n" + LIMITS) as m:
        assert m.probe()["driver"]["state"] == "unsupported"


@case
def a_library_of_r580_has_no_such_calls():
    for library in ("r580", "old"):
        with Machine("", gpus=GPU, library=library, driver="580.126.09") as m:
            answer = m.probe(status=0)
            assert answer["driver"]["state"] == "no-symbols", answer
            assert steps(answer["driver"]) == {"library": True, "symbols": False}
            assert answer["interposer"]["state"] == "holds"


@case
def the_driver_refuses_whoever_may_not():
    with Machine("value nvmlDeviceSetMemoryLimits = 4\n" + LIMITS) as m:
        answer = m.probe(status=0)
        assert answer["driver"]["state"] == "no-permission", answer
        assert "root" in next(s["detail"] for s in answer["driver"]["steps"] if s["step"] == "set")


@case
def no_library_no_driver_no_cuda():
    with Machine(LIMITS) as m:
        assert m.probe(UMACTL_NVML="/nowhere/libnvidia-ml.so.1")["driver"]["state"] == "no-library"
    with Machine("value nvmlInit = 9") as m:
        assert m.probe()["driver"]["state"] == "no-driver"
    with Machine(LIMITS, cuda=False) as m:
        answer = m.probe(status=3)
        assert (answer["interposer"]["state"], answer["driver"]["state"]) == ("untested", "untested"), answer
        assert steps(answer["driver"])["read-back"] is True, "what can be tried without CUDA is tried"
        assert not m.limits() and not left_groups()


@case
def a_library_that_hangs_is_killed_and_a_child_that_dies_is_no_refusal():
    with Machine("hang nvmlDeviceSetMemoryLimits\n" + LIMITS) as m:
        began = time.monotonic()
        assert m.probe()["driver"]["state"] == "hung"
        assert time.monotonic() - began < 30 and not left_groups()
    with Machine("crash nvmlDeviceGetMemoryLimits\n" + LIMITS) as m:
        assert m.probe()["driver"]["state"] == "failed"


@case
def a_refusal_without_a_limit_says_nothing():
    with Machine(LIMITS) as m:
        answer = m.probe(status=3, UMA_FAKE_CUDA=f"limits:{m.folder}/limits,total:{32 * MIB}")
        assert (answer["interposer"]["state"], answer["driver"]["state"]) == ("untested", "untested"), answer


@case
def every_gpu_has_to_take_it():
    with Machine(LIMITS, gpus=GPU + GPU + "value nvmlDeviceSetMemoryLimits = 3\n") as m:
        assert m.probe()["driver"]["state"] == "unsupported"
        assert not m.limits(), "and the one that took it gives it back"


@case
def the_kernel_is_a_second_witness():
    with Machine(LIMITS + "\nlimits-dmem @/tree") as m:
        os.makedirs(m.folder + "/tree/sys/fs/cgroup")
        with open(m.folder + "/tree/sys/fs/cgroup/dmem.capacity", "w", encoding="utf-8") as f:
            f.write(f"drm/0000:00:02.0/stolen 1048576\nnvidia/0000:01:00.0/vidmem {8 << 30}\n")
        answer = m.probe("--root", m.folder + "/tree")
        assert steps(answer["driver"])["dmem"] is True and answer["driver"]["state"] == "holds", answer
        assert answer["dmem"] == {"capacity": 8 << 30, "max": 64 * MIB, "current": 0}, answer
    with Machine(LIMITS) as m:
        os.makedirs(m.folder + "/tree/sys/fs/cgroup")
        with open(m.folder + "/tree/sys/fs/cgroup/dmem.capacity", "w", encoding="utf-8") as f:
            f.write("nvidia/0000:01:00.0/vidmem 1\n")
        assert steps(m.probe("--root", m.folder + "/tree")["driver"])["dmem"] is False


# ---- one group, by hand -----------------------------------------------------------------------------------------


@case
def the_leaf_of_a_container_is_set_read_and_released():
    with Machine(LIMITS) as m, container("docker", "leaf") as (group, pid):
        said = m.run("valve", "--set", "--pid", str(pid), "--limit", "256M", status=0).stdout
        assert group in said and "256 MiB" in said, said
        assert m.limits() == {group: (0, 256 * MIB)}
        answer = json.loads(m.run("valve", "--get", "--cgroup", group, "--json", status=0).stdout)
        assert answer["cgroup"] == group and answer["gpus"] == [{"limit": 256 * MIB, "guaranteed": 0, "used": 0}], answer
        m.run("valve", "--release", "--pid", str(pid), status=0)
        assert not m.limits()
        assert json.loads(m.run("valve", "--get", "--pid", str(pid), "--json", status=0).stdout)["gpus"][0]["limit"] is None
        # a driver that says "not supported" of a group without a limit, as some have seen it
        m.run("valve", "--set", "--pid", str(pid), "--limit", "256M", status=0)
        m.scenario("value nvmlDeviceGetMemoryLimits = 3\n" + LIMITS)
        m.run("valve", "--release", "--pid", str(pid), status=0)
        assert not m.limits()
        m.run("valve", "--get", "--pid", str(pid), status=1)


@case
def a_soft_limit_is_given_back_to_the_groups_above():
    with Machine(LIMITS) as m, container("docker", "leaf") as (group, pid):
        above = os.path.dirname(group)
        set_by_another(m, group, 64 * MIB, NONE)
        assert m.book()[("reserve", above)][0] == 64 * MIB
        m.run("valve", "--set", "--pid", str(pid), "--limit", "256M", status=0)
        assert m.limits() == {group: (64 * MIB, 256 * MIB)}, "another's guarantee stays under a limit that leaves room for it"
        m.run("valve", "--set", "--pid", str(pid), "--limit", "32M", status=0)
        assert m.limits() == {group: (32 * MIB, 32 * MIB)} and m.book()[("reserve", above)][0] == 32 * MIB
        m.run("valve", "--release", "--pid", str(pid), status=0)
        assert not m.limits() and all(v[0] == 0 for k, v in m.book().items() if k[0] == "reserve"), m.book()


@case
def the_fault_that_this_is_about_exists():
    with Machine(LIMITS) as m:
        with container("leaf") as (group, _):
            set_by_another(m, group, 64 * MIB, NONE)
        assert m.book()[("reserve", os.path.dirname(group))][0] == 64 * MIB, "a leaf that is only deleted keeps its part of those above"


@case
def groups_that_are_none_are_refused_with_the_reason():
    with Machine(LIMITS) as m:
        for words, said in ((("--cgroup", MOUNTS[0]), "not below"), (("--cgroup", "/etc"), "not below"), (("--cgroup", MOUNTS[0] + "/none"), "no group"),
                            (("--cgroup", MOUNTS[0] + "/../x"), "not below"), (("--pid", "4194304"), "4194304")):
            r = m.run("valve", "--set", *words, "--limit", "1G", status=3)
            assert said in r.stderr, (words, r.stderr)
        with open("/proc/1/cgroup", encoding="utf-8") as f:
            if "0::/\n" in f.read():
                assert "whole machine" in m.run("valve", "--set", "--pid", "1", "--limit", "1G", status=3).stderr
        assert not m.limits()


@case
def setting_needs_root_and_says_so():
    with Machine(LIMITS) as m, container("leaf") as (_, pid):
        os.chmod(m.folder, 0o755)
        r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", UMACTL, "valve", "--set", "--pid", str(pid), "--limit", "1G"],
                           env=m.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
        if r.returncode in (126, 127) or "umactl-probe" in r.stderr:
            raise Skip("another user cannot start what was built here")
        assert r.returncode == 1 and "root" in r.stderr, (r.returncode, r.stderr)


# ---- a job ------------------------------------------------------------------------------------------------------

SHOW = "grep ^0:: /proc/self/cgroup; cat {}/limits"


@case
def a_job_is_in_a_group_that_the_driver_holds_before_its_first_instruction():
    for more in ((), ("--no-valve",)):
        with Machine(LIMITS) as m:
            m.probe(status=0)
            r = m.run("run", "-q", *more, "--limit", "1G", "--", "sh", "-c", SHOW.format(m.folder), status=0)
            group = MOUNTS[0] + r.stdout.splitlines()[0][3:]
            assert os.path.basename(group).startswith("umactl_limit-"), r.stdout
            assert f"limit 0 0 {1 << 30} {group}" in r.stdout, r.stdout
            assert not m.limits() and not left_groups()
            said = m.run("run", *more, "--limit", "1G", "--", "true", status=0).stderr
            assert ("1.0 GiB (the driver's, too)" if not more else "1.0 GiB, held by the driver") in said, said
            with open(said.rsplit("record", 1)[1].strip() + "/run.json", encoding="utf-8") as f:
                assert json.load(f)["driver_limit"] == 1 << 30


@case
def the_driver_alone_refuses_what_is_over_the_limit():
    with Machine(LIMITS) as m:
        m.probe(status=0)
        script = f"printf 'begin\\ntake {96 * MIB}\\n' | {os.environ['UMACTL_CUDA']} $$"
        assert "take 2" in m.run("run", "-q", "--no-valve", "--limit", "64M", "--", "sh", "-c", script + "; true").stdout
        assert "take 0" in m.run("run", "-q", "--no-valve", "--limit", "128M", "--", "sh", "-c", script + "; true").stdout


@case
def without_a_proof_the_driver_is_left_alone():
    with Machine(LIMITS) as m:
        r = m.run("run", "-q", "--limit", "1G", "--", "sh", "-c", SHOW.format(m.folder))
        assert "umactl_limit" not in r.stdout and "driver" not in r.stderr, (r.stdout, r.stderr)
        r = m.run("run", "-q", "--no-valve", "--limit", "1G", "--", "echo", "ran", status=125)
        assert "nothing here holds it" in r.stderr and "ran" not in r.stdout


@case
def without_a_valve_that_can_be_used_the_driver_holds_the_limit_or_the_job_is_not_started():
    with Machine(LIMITS) as m:
        missing = {"UMACTL_VALVE_LIBRARY": "/nonexistent/library"}
        r = m.run("run", "-q", "--limit", "1G", "--", "echo", "ran", status=125, **missing)
        assert "nothing here holds it" in r.stderr and "runs without" not in r.stderr and "ran" not in r.stdout, (r.stdout, r.stderr)
        assert "runs without" in m.run("run", "-q", "--valve", "--", "echo", "ran", status=0, **missing).stderr
        m.probe()
        assert "ran" in m.run("run", "-q", "--limit", "1G", "--", "echo", "ran", status=0, **missing).stdout
        assert not m.limits() and not left_groups()


@case
def a_proof_that_another_could_have_written_is_none():
    with Machine(LIMITS) as m:
        m.probe(status=0)
        file = m.folder + "/run/driver-limit"
        run = ("run", "-q", "--no-valve", "--limit", "1G", "true")
        m.run(*run, status=0)
        for change, undo in ((lambda: os.chmod(file, 0o666), lambda: os.chmod(file, 0o644)), (lambda: os.chmod(m.folder + "/run", 0o777), lambda: os.chmod(m.folder + "/run", 0o755)),
                             (lambda: os.chown(file, 65534, 65534), lambda: os.chown(file, 0, 0))):
            change()
            m.run(*run, status=125)
            undo()
            m.run(*run, status=0)
        with open(file, encoding="utf-8") as f:
            good = f.read()
        for text in (good.replace("holds", "does-not"), good.replace("boot ", "boot 0"), "", good + "x", good[:-1]):
            with open(file, "w", encoding="utf-8") as f:
                f.write(text)
            m.run(*run, status=125)
        os.rename(file, file + "2")
        os.symlink(file + "2", file)
        m.run(*run, status=125)


@case
def another_driver_than_the_one_that_was_tried_is_not_believed():
    with Machine(LIMITS) as m:
        m.probe(status=0)
        m.scenario(LIMITS, driver="620.1")
        r = m.run("run", "-q", "--no-valve", "--limit", "1G", "true", status=125)
        assert "another driver" in r.stderr and not m.limits() and not left_groups()
        m.scenario("value nvmlDeviceSetMemoryLimits = 3\n" + LIMITS)
        r = m.run("run", "-q", "--limit", "1G", "true", status=0)
        assert "the driver does not hold the limit this time" in r.stderr and "the valve does" in r.stderr, r.stderr


@case
def a_killed_umactl_leaves_a_limit_to_its_job_and_nothing_after_it():
    with Machine(LIMITS) as m:
        m.probe(status=0)
        umactl = subprocess.Popen([UMACTL, "run", "-q", "--limit", "1G", "--", "sh", "-c", "echo $$; exec sleep 100"], env=m.environment(), stdout=subprocess.PIPE, text=True)
        job = int(umactl.stdout.readline())
        umactl.kill()  # and nobody waits for it: what is only a zombie owns nothing
        group = leaf(job)
        assert m.limits() == {group: (0, 1 << 30)}
        m.run("run", "-q", "--limit", "2G", "true", status=0)
        assert m.limits() == {group: (0, 1 << 30)}, "its job still runs, and what was asked for holds"
        set_by_another(m, group, 64 * MIB, 1 << 30)
        os.kill(job, signal.SIGKILL)
        for _ in range(500):
            with open(group + "/cgroup.events", encoding="utf-8") as f:
                if "populated 0" in f.read():
                    break
            time.sleep(0.01)
        m.run("run", "-q", "--limit", "2G", "true", status=0)
        assert not os.path.exists(group) and not m.limits() and not left_groups()
        assert all(v[0] == 0 for k, v in m.book().items() if k[0] == "reserve"), m.book()
        umactl.wait()


@case
def the_next_probe_finds_what_a_killed_run_left_too():
    with Machine(LIMITS) as m:
        group = leaf() + "/umactl_limit-4194303-77-0"
        os.mkdir(group)
        set_by_another(m, group, 64 * MIB, 1 << 30)
        answer = m.probe(status=0)
        assert answer["groups_removed"] == 1 and not os.path.exists(group), answer
        assert all(v[0] == 0 for k, v in m.book().items() if k[0] == "reserve"), m.book()


@case
def a_job_that_cannot_be_executed_leaves_no_group():
    with Machine(LIMITS) as m:
        m.probe(status=0)
        m.run("run", "-q", "--limit", "1G", "--", "/nowhere/program", status=127)
        assert not m.limits() and not left_groups()


@case
def what_a_job_leaves_behind_keeps_its_limit():
    with Machine(LIMITS) as m:
        m.probe(status=0)
        r = m.run("run", "-q", "--limit", "1G", "--", "sh", "-c", "setsid sleep 100 >/dev/null 2>&1 </dev/null & echo $!", status=0)
        left = int(r.stdout)
        try:
            assert m.limits() == {leaf(left): (0, 1 << 30)}
        finally:
            os.kill(left, signal.SIGKILL)
        for _ in range(500):
            if not os.path.exists(f"/proc/{left}"):
                break
            time.sleep(0.01)
        m.probe(status=0)
        assert not m.limits() and not left_groups()


@case
def the_command_line():
    with Machine(LIMITS) as m:
        for words, said in ((["--set", "--limit", "1G"], "which group"), (["--set", "--pid", "1"], "--limit"), (["--get", "--pid", "x"], "not the number"),
                            (["--get", "--pid", "1", "--cgroup", "/sys/fs/cgroup/x"], "one of them"), (["--probe", "--set"], "give one"), (["--probe", "--pid", "1"], "go with --set"),
                            (["--probe", "--limit", "1G"], "--set"), (["--env", "--json"], "--json"), ([], "missing")):
            r = m.run("valve", *words, status=2)
            assert said in r.stderr, (words, r.stderr)


if __name__ == "__main__":
    sys.exit(cases.run(skip_all=None if can_make_groups() else "no root, or no group of cgroup v2 can be made"))
