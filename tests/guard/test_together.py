#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uma-guard and uma-guard-helper together, as the two units run them: what one finds out and the other goes by, what one asks for and the other does, and what is left where the helper is not.

The machine's memory is a file of the test (support.py), the driver is the fake NVML, the weight files, the jobs and all signals are real.
"""

import json
import os
import signal
import subprocess
import time

from helper_support import Helper, start_of
from support import AVAILABLE, GROW, MIB, POLICY, Guard, Machine, Victim, can_unshare, children, stopped, until

from cache_support import cached, fill, place, put
from harness import UMACTL, Skip, case, contains, equal, main

GPU = "driver 580.95.05\ngpu\nname NVIDIA GB10\nuuid GPU-5a1fc0de\npci 0000000F:01:00.0\n"
GROWS = ("--rate", 150, "--most", 440)
# slow and smooth, so that no 50 ms look like a rate at which a warning or SIGTERM would be too late
SLOW = ("--rate", 25, "--most", 300, "--step", 1)
NEAR = 340 * MIB
# Stopped once and for a second, then it must go: with time enough for a warning and for SIGTERM.
ENDS = POLICY.replace("BrakeMost=60", "BrakeMost=1\nBrakeTimes=1") + "[Warn]\nWarnGrace=2\n"


def descendants(pid):
    found = [pid]
    for one in found:
        found += children(one)
    return found


class Job:
    """grow below umactl run."""

    def __init__(self, chain, *options, grow=GROWS):
        command = [UMACTL, "run", "--no-valve", *options, "--", GROW, "--wait", *[str(a) for a in grow]]
        self.child = subprocess.Popen(command, env=chain.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=chain.helper.path)
        self.pid = self.child.pid
        line = self.child.stdout.readline()
        assert line.startswith(b"ready "), (line, self.child.stderr.read())
        self.grows = int(line.split()[1])
        chain.machine.victims.append(self)

    def begin(self):
        os.kill(self.grows, signal.SIGUSR1)

    def tree(self):
        return [self.grows]  # umactl is not stopped, and holds little

    def end(self):
        for pid in descendants(self.pid)[::-1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.child.communicate()


class Chain:
    """with Chain(...) as chain: a machine, its guard and its helper."""

    def __init__(self, scenario=None, policy=POLICY, available=AVAILABLE, **helper_environment):
        if not can_unshare():
            raise Skip("no mount namespace may be made here")
        self.machine = Machine(available)
        self.helper = Helper(scenario, policy, **helper_environment)
        self.policy = policy
        self.guard = None
        self.registers = self.helper.file("registers")  # of what umactl run declares
        os.mkdir(self.registers)

    def __enter__(self):
        try:
            self.helper.start()
            self.guard = Guard(self.machine, self.policy, run=self.helper.run, env={"UMACTL_WARN_FOLDER": self.helper.warn}, shared_memory=self.registers)
        except BaseException:
            self.close()
            raise
        return self

    def environment(self):
        return {**self.helper.env, "UMACTL_STATE": self.helper.file("state"), "UMACTL_RESERVATIONS": self.registers}

    def victim(self, *arguments, **keywords):
        victim = Victim(*(arguments or GROWS), **keywords)
        self.machine.victims.append(victim)
        return victim

    def has_gpu(self, pid, size):
        self.helper.put("scenario", GPU + f"process {pid} {size}\n")

    def status(self, *options):
        r = subprocess.run([UMACTL, "guard", "status", "--run-folder", self.helper.run, "--state-folder", self.guard.state_folder, *options],
                           env=self.environment(), capture_output=True, text=True)
        equal((r.returncode, r.stderr), (0, ""))
        return r.stdout

    def document(self):
        return json.loads(self.status("--json"))

    def close(self):
        for victim in self.machine.victims:
            victim.end()
        if self.guard:
            self.guard.close()
        if self.helper.process and self.helper.process.poll() is None:
            os.kill(self.helper.process.pid, signal.SIGCONT)
        self.helper.__exit__()
        self.machine.close()

    def __exit__(self, kind, error, trace):
        if error is not None:
            print("# " + (self.guard.text() + "\n" + self.helper.log).replace("\n", "\n# "), flush=True)
        self.close()
        return False


def stops(victim):
    victim.begin()
    until(lambda: all(stopped(pid) for pid in victim.tree()), why="stopped")


# ---- what the driver says ----------------------------------------------------------------------------------------------


@case("GPU bytes of each process: from the driver through the helper into the guard's table, with their age")
def _():
    with Chain(GPU) as c:
        victim = c.victim()
        c.has_gpu(victim.pid, 300 * MIB)
        until(lambda: c.guard.ask("status")["gpu_bytes"] == str(300 * MIB), why="the driver's figures")
        document = c.document()
        equal(document["gpu_bytes"], 300 * MIB)
        assert 0 <= document["gpu_age_seconds"] < 10, document
        contains(c.status(), "GPU        300 MiB by processes, as the driver said ")
        stops(victim)
        c.guard.wait_for("stopped 'grow'")
        until(lambda: c.guard.receipts("brake"), why="the receipt")
        who = c.document()["last"][-1]["candidates"][0]
        equal((who["pid"], who["gpu_bytes"]), (victim.pid, 300 * MIB))


# ---- a job's warning ---------------------------------------------------------------------------------------------------


@case("a job of umactl run --warn hears its warning before SIGTERM; one without a mark only SIGTERM")
def _():
    with Chain(policy=ENDS, available=NEAR) as c:
        job = Job(c, "--warn", "USR2", grow=(*SLOW, "--heed"))
        job.begin()
        out, err = job.child.communicate(timeout=30)
        contains(err.decode(), "SIGUSR2 was sent to 1 of its processes")
        assert out.index(b"warned") < out.index(b"term"), out
        c.guard.wait_for("warned 'grow'")
        done = [r["action"] for r in c.guard.trail() if r["kind"] == "receipt"]
        equal([action for action in done if action in ("warn", "term", "kill")], ["warn", "term"])  # no kill
        warned, told = c.guard.receipts("warn")[0], c.guard.receipts("term")[0]
        equal(warned["result"], "0")
        assert int(told["monotonic"]) - int(warned["monotonic"]) > 1_000_000_000, "no time between"
        contains(c.helper.log, f"warned 1 jobs of the tree of process {job.grows}")
    with Chain(policy=ENDS, available=NEAR) as c:
        job = Job(c, grow=SLOW)
        job.begin()
        out, err = job.child.communicate(timeout=30)
        assert b"term" in out and b"warned" not in out, out
        equal(c.guard.receipts("warn"), [])
        assert "warned" not in c.helper.log, c.helper.log


@case("where there is no helper nobody is said to be warned, and the job is ended all the same")
def _():
    with Chain(policy=ENDS, available=NEAR) as c:
        c.helper.process.kill()
        c.helper.process.wait()
        job = Job(c, "--warn", "USR2", grow=SLOW)
        job.begin()
        out, err = job.child.communicate(timeout=30)
        assert b"term" in out and b"warned" not in out, out
        c.guard.wait_for("could not warn 'grow'")
        equal([r["result"] in ("-107", "-111") for r in c.guard.receipts("warn")], [True])  # ENOTCONN, ECONNREFUSED
        equal(len(c.guard.receipts("term")), 1)


# ---- room --------------------------------------------------------------------------------------------------------------


ROOM = POLICY.replace("Room=no", "Room=yes\nRoomEvery=60\nFreeFloor=100M")


@case("room: where cache is in the way of free memory, clean pages of weight files leave, and the trail has it")
def _():
    hub = place("guard-together")
    path = put(os.path.join(hub, "hub", "models--a--big", "snapshots", "1", "model.safetensors"), 256 * MIB)
    with Chain(policy=ROOM, HF_HOME=hub) as c:
        fill(path)
        before = cached(path)
        if before < 250 * MIB:
            raise Skip("the machine does not keep the file in its cache")
        os.utime(path, (1, 1))
        c.machine.cache = 460 * MIB  # and 52 MiB are free
        c.helper.says("room: asked for ")
        left = cached(path)
        assert 48 * MIB <= before - left <= 192 * MIB, f"{(before - left) / MIB} MiB left"
        until(lambda: c.guard.receipts("room"), why="the receipt")
        c.guard.wait_for("asked for room: ")
        equal([(r["result"], r["reason"]) for r in c.guard.receipts("room")], [("0", "page cache is in the way")])
        equal(len([r for r in c.guard.trail() if r["kind"] == "receipt"]), 1)


@case("room: asked for again and again it is written down once in ten minutes, and when something else comes of it")
def _():
    with Chain(policy=ROOM.replace("RoomEvery=60", "RoomEvery=1")) as c:
        c.machine.cache = 460 * MIB
        until(lambda: c.helper.log.count("room: asked for") >= 3, why="three requests")
        equal([r["result"] for r in c.guard.receipts("room")], ["0"])
        equal(len([r for r in c.guard.trail() if r["kind"] == "decision"]), 1)
        assert int(c.guard.ask("status")["actions"]) >= 3
        equal(c.helper.stop(), 0)
        c.guard.wait_for("could not ask for room: ")
        time.sleep(2.5)
        equal(len(c.guard.receipts("room")), 2)
        c.helper.start()
        until(lambda: len(c.guard.receipts("room")) == 3, why="asked again")
        equal(c.guard.receipts("room")[-1]["result"], "0")


@case("room: asked of nobody is not asked")
def _():
    with Chain(policy=ROOM) as c:
        equal(c.helper.stop(), 0)
        c.machine.cache = 460 * MIB
        c.guard.wait_for("could not ask for room: ")
        until(lambda: c.guard.receipts("room"), why="the receipt")
        equal([r["result"] for r in c.guard.receipts("room")], ["-107"])  # ENOTCONN


# ---- what a job declared -----------------------------------------------------------------------------------------------

FAR = POLICY.replace("HardFloor=64M", "HardFloor=64M\nHorizon=1")


@case("a load inside what umactl run --need declared is let pass; the same load of nobody's is stopped, and so is what goes beyond it")
def _():
    load = ("--rate", 150, "--most", 160)
    with Chain(policy=FAR) as c:
        job = Job(c, "--need", "190M", grow=load)
        time.sleep(1.2)  # a register that is new is found within a second
        job.begin()
        until(lambda: b"full" in job.child.stdout.readline(), why="it has it all")
        time.sleep(0.3)
        assert not any(stopped(pid) for pid in job.tree())
        equal(c.guard.receipts("brake"), [])
    with Chain(policy=FAR) as c:
        job = Job(c, grow=load)
        stops(job)
        c.guard.wait_for("stopped 'grow'")
    with Chain(policy=FAR) as c:
        job = Job(c, "--need", "60M", grow=load)
        time.sleep(1.2)
        stops(job)
        c.guard.wait_for("stopped 'grow'")


# ---- telling people ----------------------------------------------------------------------------------------------------


@case("the policy's command runs after the action, and a hostile name reaches it escaped")
def _():
    chain = Chain()
    script, told = chain.helper.file("tell"), chain.helper.file("told")
    with open(script, "w", encoding="utf-8") as f:
        f.write(f"""#!/bin/sh
[ "$UMA_GUARD_ACTION" = brake ] || exit 0
env > {told}.new
sed -n 's/^State:./STATE=/p' "/proc/$UMA_GUARD_PID/status" >> {told}.new
mv {told}.new {told}
""")
    os.chmod(script, 0o755)
    chain.policy += f"[Notify]\nCommand={script}\n"
    chain.helper.put("guard.conf", chain.policy)
    with chain as c:
        victim = c.victim(*GROWS, name="\x1b[31m$(id)\n'x\udcff")
        stops(victim)
        until(lambda: os.path.exists(told), why="the command")
        with open(told, "rb") as f:
            lines = f.read().decode("utf-8", "surrogateescape").splitlines()
        assert f"UMA_GUARD_PID={victim.pid}" in lines and "UMA_GUARD_RESULT=0" in lines, lines
        name = [line for line in lines if line.startswith("UMA_GUARD_NAME=")]
        assert name and name[0].startswith("UMA_GUARD_NAME=\\x1b[31m$(id)\\n'x"), name
        assert "\x1b" not in "\n".join(lines), lines
        assert [line for line in lines if line.startswith("STATE=") and line.endswith("(stopped)")], lines  # it stood by then
        assert "\x1b" not in c.guard.text() + c.helper.log + c.status()
        contains(c.guard.text(), "stopped '\\x1b[31m$(id)\\x0a\\x27x")


# ---- a helper that is not there any more -------------------------------------------------------------------------------


@case("a helper that is killed in the middle: the guard stops who grows, and says how old the driver's figures are; it finds the next helper")
def _():
    with Chain(GPU) as c:
        victim = c.victim()
        c.has_gpu(victim.pid, 100 * MIB)
        until(lambda: c.guard.ask("status")["gpu_bytes"] == str(100 * MIB), why="the driver's figures")
        equal(c.document()["helper"], True)
        victim.begin()
        until(lambda: c.machine.left() < 450 * MIB, why="it grows")
        c.helper.process.kill()
        c.helper.process.wait()
        until(lambda: stopped(victim.pid), why="stopped")
        c.guard.wait_for("the driver's figures are old", 20)
        contains(c.guard.trail()[-1]["text"], "the driver's figures are old: the helper does not ask")
        document = c.document()
        equal((document["helper"], document["gpu_bytes"]), (False, 100 * MIB))
        assert document["gpu_age_seconds"] > 5, document
        assert document["helper_lost"] > 0, document
        text = c.status()
        contains(text, "helper     none: nobody")
        contains(text, " ago, and nobody has asked it since")
        c.helper.start()
        c.guard.wait_for("the driver's figures are fresh again", 20)
        equal(c.document()["helper"], True)
        c.machine.available += 400 * MIB
        until(lambda: not stopped(victim.pid), why="let go")


@case("a helper that hangs: the guard stops, ends and goes on; what it could not say is counted, and the driver's figures are called old")
def _():
    with Chain(GPU, policy=ENDS, available=NEAR) as c:
        first = c.victim(*SLOW, "--ignore-term")
        c.has_gpu(first.pid, 50 * MIB)
        until(lambda: c.guard.ask("status")["gpu_bytes"] == str(50 * MIB), why="the driver's figures")
        os.kill(c.helper.process.pid, signal.SIGSTOP)
        first.begin()
        until(first.ended, 30, why="ended")
        c.guard.wait_for(" ended after ")
        equal([r["pid"] for r in c.guard.receipts("kill")], [str(first.pid)])
        c.guard.wait_for("the driver's figures are old", 20)
        os.kill(c.helper.process.pid, signal.SIGCONT)
        c.guard.wait_for("the driver's figures are fresh again", 20)


@case("a driver that hangs: the helper goes on, and the guard says whose fault it is that the figures are old")
def _():
    with Chain(GPU) as c:
        c.has_gpu(os.getpid(), 50 * MIB)
        until(lambda: c.guard.ask("status")["gpu_bytes"] == str(50 * MIB), why="the driver's figures")
        c.helper.put("scenario", GPU + "hang nvmlDeviceGetComputeRunningProcesses\nhang nvmlDeviceGetGraphicsRunningProcesses\n")
        c.guard.wait_for("the driver's figures are old: it does not answer", 30)
        equal(c.document()["helper"], True)
        contains(c.status(), " ago, and it has not answered since")


main()
