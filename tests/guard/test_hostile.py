#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uma-guard against what is meant to harm it, and what nobody meant: names, second guards, words that were cut off, options that are none."""

import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from support import GUARD, MIB, POLICY, TRAIL_LIST, Guard, Scene, can_unshare, state, stopped, until
from harness import UMACTL, Skip, case, contains, equal, main

GROWS = ("--rate", 150, "--most", 440)


def needs_namespaces():
    if not can_unshare():
        raise Skip("no mount namespace may be made here")


def stop_one(scene, *arguments, **keywords):
    victim = scene.victim(*(arguments or GROWS), **keywords)
    victim.begin()
    until(lambda: stopped(victim.pid), why="stopped")
    return victim


@case("an option is no value: no guard acts because --dry-run was taken for a file's name")
def option_for_value():
    for name in ("--policy", "--run-folder", "--state-folder", "--root", "--within"):
        r = subprocess.run([GUARD, name, "--dry-run"], capture_output=True, text=True, timeout=20)
        equal((r.returncode, r.stderr), (2, f"uma-guard: '{name}': expected a value behind it\n"))


@case("a second guard in the same run folder does not start; one that only looks runs beside it, and changes nothing there")
def second():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        victim = stop_one(scene)
        guard.wait_for("stopped 'grow'")
        other = Guard(machine, POLICY, run=guard.run, wait=False)
        try:
            equal(other.child.wait(15), 1)
            other.reader.join(5)
            contains(other.text(), "another guard runs in this run folder")
        finally:
            other.close()
        for arguments in (("--dry-run",), ("--once",)):
            other = Guard(machine, POLICY, *arguments, run=guard.run, wait=False)
            try:
                other.wait_for("this one keeps no state and cannot be asked")
                time.sleep(0.3)
                equal(other.stop(), 0)
            finally:
                other.close()
            equal(guard.ask("status")["pid"], str(guard.pid))
        guard.child.kill()
        guard.child.wait()
        again = Guard(machine, POLICY, run=guard.run)
        try:
            again.wait_for("goes on where a guard before it was ended")
            equal(again.stop(), 0)
            until(lambda: not stopped(victim.pid), why="let go")
        finally:
            again.close()


@case("a dry run after a guard that was killed lets go what that one had stopped")
def dry_after():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        victim = stop_one(scene)
        guard.wait_for("stopped 'grow'")
        guard.child.kill()
        guard.child.wait()
        again = Guard(machine, POLICY, "--dry-run", run=guard.run)
        try:
            until(lambda: not stopped(victim.pid), why="let go")
            equal(again.stop(), 0)
        finally:
            again.close()


HEAD = struct.Struct("=QQQQ16sqIIII")  # guard/state_file.h
HELD_MAX = 4096


def fnv(seed, data):
    for byte in data:
        seed = ((seed ^ byte) * 0x100000001B3) & (1 << 64) - 1
    return seed


def without_lists(path):
    """The words of a guard that was killed after it wrote what it was about to do, and before it wrote whom it had done it to."""
    with open(path, "r+b") as f:
        data = bytearray(f.read())
        for place in range(2):
            magic, size, number, _, boot, when, _, _, dry, reserved = HEAD.unpack_from(data, place * (len(data) // 2))
            if size == 0:
                continue
            at = place * (len(data) // 2)
            HEAD.pack_into(data, at, magic, size, number, 0, boot, when, 0, 0, dry, reserved)
            HEAD.pack_into(data, at, magic, size, number, fnv(0xCBF29CE484222325 ^ number, data[at + 32 : at + size]), boot, when, 0, 0, dry, reserved)
        f.seek(0)
        f.write(data)


@case("a guard that is killed between its signals and the words of them: the next one lets the tree go all the same")
def killed_between():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        victim = stop_one(scene, *GROWS, "--children", 3)
        guard.wait_for("stopped 'grow'")
        until(lambda: all(stopped(pid) for pid in victim.tree()), why="the whole tree")
        guard.child.kill()
        guard.child.wait()
        without_lists(os.path.join(guard.run, "state"))
        again = Guard(machine, POLICY, run=guard.run)
        try:
            again.wait_for("goes on where a guard before it was ended")
            time.sleep(0.3)
            assert stopped(victim.pid), "let go without room"
            machine.available += 400 * MIB
            until(lambda: not any(stopped(pid) for pid in victim.tree()), why="let go")
            equal(again.stop(), 0)
        finally:
            again.close()


@case("a victim that was to be told to end, by a guard that was killed before it was, is not taken for gone")
def killed_before_the_end():
    needs_namespaces()
    policy = POLICY.replace("BrakeMost=60", "BrakeMost=1\nBrakeTimes=1").replace("TermGrace=1", "TermGrace=1\nKill=no")
    scene = Scene(policy=policy)
    with scene as (machine, guard):
        victim = scene.victim(*GROWS, "--ignore-term")
        victim.begin()
        guard.wait_for("asked to end 'grow'")
        guard.child.kill()
        guard.child.wait()
        without_lists(os.path.join(guard.run, "state"))
        again = Guard(machine, policy.replace("Kill=no", "Kill=yes"), run=guard.run)
        try:
            until(lambda: victim.ended(), 20, why="killed")
            equal(again.stop(), 0)
        finally:
            again.close()


@case("a policy that spares whom the guard holds stopped lets him go as it is read")
def spared():
    needs_namespaces()
    for more in ("[Victims]\nProtect=grow\n", "[Victims]\nNoBrake=grow\n", "[Brake]\nBrake=no\n", "[Guard]\nDryRun=yes\n"):
        scene = Scene()
        with scene as (machine, guard):
            victim = stop_one(scene)
            guard.wait_for("stopped 'grow'")
            guard.set_policy(POLICY + more + "[Kill]\nTerminate=no\nKill=no\n")
            guard.signal(signal.SIGHUP)
            guard.wait_for("policy read again")
            until(lambda: not stopped(victim.pid), why=f"let go: {more}")
            equal(guard.stop(), 0)


@case("umactl guard test leaves no process and no folder, whatever ends it")
def test_of_itself_ended():
    folder = tempfile.mkdtemp(prefix="umactl-test-")
    try:
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGINT):
            with subprocess.Popen([UMACTL, "guard", "test"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, "TMPDIR": folder, "UMACTL_GUARD": GUARD}) as child:
                try:
                    until(lambda: os.listdir(folder) or child.poll() is not None, why="begun")
                    if child.poll() == 3:
                        raise Skip("there is not enough memory to try it")
                    time.sleep(0.3)
                    child.send_signal(number)
                    out, _ = child.communicate(timeout=30)
                finally:
                    child.kill()
            equal((child.returncode, os.listdir(folder)), (130, []))
            contains(out.decode(), "Ended before it was over.")
    finally:
        shutil.rmtree(folder)


@case("the guard of an ordinary user says whom it could not stop, and does not try again and again")
def ordinary_user():
    needs_namespaces()
    if os.geteuid() != 0:
        raise Skip("only root can become another user")
    scene = Scene(policy=POLICY + "[Kill]\nTerminate=no\nKill=no\n", prefix=("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"), wait=False)
    with scene as (machine, guard):
        for folder in (guard.folder, guard.run, guard.state_folder, machine.folder):
            os.chmod(folder, 0o755)
            os.chown(folder, 65534, 65534)
        if guard.child.poll() is not None:
            raise Skip("it was too fast")
        victim = scene.victim(*GROWS)
        victim.begin()
        guard.wait_for("could not stop 'grow'")
        time.sleep(1)
        assert not stopped(victim.pid)
        assert len(guard.receipts("brake")) <= 2, guard.receipts("brake")
        equal(guard.stop(), 0)


@case("with its standard files closed nothing that it opens takes their places: no word of the log goes into the trail")
def closed_files():
    folder = tempfile.mkdtemp(prefix="umactl-test-")
    try:
        command = [GUARD, "--dry-run", "--within", str(os.getpid()), "--run-folder", folder, "--state-folder", folder]
        with subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]) as child:
            try:
                until(lambda: os.path.exists(os.path.join(folder, "readings")), why="begun")
                equal([os.readlink(f"/proc/{child.pid}/fd/{n}") for n in range(3)], ["/"] * 3)
                child.terminate()
                equal(child.wait(15), 0)
            finally:
                child.kill()
    finally:
        shutil.rmtree(folder)


NAMES = (b"\x1b[31mred\x1b[0m", b"a\nb=\"c\"\nMAINPID", b"\xff\xfe\x80 '\\", b"\xe2\x80\xae\xc2\x9b31m", b"x) R 1 (y) S 1")


@case("hostile names of processes are escaped in the log, in status, in history, and are a name in JSON")
def names():
    needs_namespaces()
    for name in NAMES:
        scene = Scene()
        with scene as (machine, guard):
            victim = stop_one(scene, *GROWS, name=os.fsdecode(name))
            guard.wait_for("stopped '")
            line = next(line for _, line in guard.lines if "stopped '" in line)
            assert all(" " <= c <= "~" for c in line), ascii(line)
            equal(len(guard.lines), len([1 for _, line in guard.lines if line]))
            for command in (["status", "--run-folder", guard.run], ["history", "--all"]):
                for more in ([], ["--json"]):
                    r = subprocess.run([UMACTL, "guard", *command, "--state-folder", guard.state_folder, *more], capture_output=True)
                    equal(r.returncode, 0)
                    text = r.stdout.decode("utf-8")  # or it fails
                    assert not any((c < " " and c != "\n") or "\x7f" <= c < "\xa0" or c == "\u202e" for c in text), ascii(text)
                    contains(text, str(victim.pid))
                    if more:
                        json.loads(text)
            equal(guard.stop(), 0)


main()
