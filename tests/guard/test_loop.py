#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uma-guard itself, with victims that are real: who is stopped, let go, ended, and who is not."""

import os
import signal
import subprocess
import time

from support import FLOOR, GUARD, MIB, POLICY, Scene, Victim, can_unshare, children, state, stopped, until
from harness import Skip, case, contains, equal, main

GROWS = ("--rate", 150, "--most", 440)
# so that the hard floor is further away than the time that it has after SIGTERM: who is faster is killed at once
SLOW = ("--rate", 60, "--most", 440)


def needs_namespaces():
    if not can_unshare():
        raise Skip("no mount namespace may be made here")


def stop_one(scene, machine, guard, *arguments, **keywords):
    """A victim that grows until it is stopped."""
    victim = scene.victim(*(arguments or GROWS), **keywords)
    victim.begin()
    until(lambda: stopped(victim.pid), why="stopped")
    return victim


@case("a tree that grows into the floor is stopped; one beside it is not; it goes on when there is room again")
def brake():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        beside = Victim("--most", 16)
        beside.begin()
        try:
            victim = stop_one(scene, machine, guard, *GROWS, "--children", 2)
            until(lambda: len(children(victim.pid)) > 0 and all(stopped(pid) for pid in victim.tree()), why="the whole tree")
            guard.wait_for("stopped 'grow'")
            assert not stopped(beside.pid), "an innocent was stopped"
            assert machine.lowest > FLOOR // 2, machine.lowest
            equal(guard.ask("status")["dry_run"], "no")
            equal(len(guard.ask("status")["braked"]), 1)
            machine.available += 400 * MIB
            until(lambda: not any(stopped(pid) for pid in victim.tree()), why="let go")
            guard.wait_for("let go on 'grow'")
            equal(guard.stop(), 0)
        finally:
            beside.end()
        receipt = guard.receipts("brake")[0]
        equal(receipt["result"], "0")
        equal(receipt["pid"], str(victim.pid))
        assert int(receipt["processes"]) >= 1 and 0 < int(receipt["took_ns"]) < 2_000_000_000, receipt
        records = [(r["kind"], r.get("action")) for r in guard.trail()]
        assert records.index(("decision", "brake")) < records.index(("receipt", "brake")), records
        equal(len(guard.receipts("release")), 1)


@case("who does not shrink is asked to end, and killed when it does not; its memory is measured; nobody else is chosen before")
def end():
    needs_namespaces()
    scene = Scene(policy=POLICY.replace("BrakeMost=60", "BrakeMost=1\nBrakeTimes=1"), fastest=90 * MIB)
    with scene as (machine, guard):
        beside = scene.victim("--most", 40)  # the second in size, and it does not grow
        beside.begin()
        time.sleep(0.5)
        victim = scene.victim(*SLOW, "--ignore-term")
        victim.begin()
        until(lambda: victim.ended(), 20, why="killed")
        equal(victim.child.returncode, -signal.SIGKILL)
        assert b"term" in victim.child.stdout.read(), "it never heard of SIGTERM"
        guard.wait_for(" ended after ")
        time.sleep(0.3)
        assert not beside.ended() and not stopped(beside.pid), "an innocent was touched"
        equal(guard.stop(), 0)
        for action in ("term", "kill"):
            equal([r["pid"] for r in guard.receipts(action)], [str(victim.pid)])


@case("one that ends at SIGTERM hears of it although it is stopped, and is not killed")
def term():
    needs_namespaces()
    scene = Scene(policy=POLICY.replace("BrakeMost=60", "BrakeMost=1\nBrakeTimes=1"), fastest=90 * MIB)
    with scene as (machine, guard):
        victim = scene.victim(*SLOW)
        victim.begin()
        until(lambda: victim.ended(), 20, why="ended")
        equal(victim.child.returncode, 0)
        guard.wait_for(" ended after ")
        equal(guard.stop(), 0)
        equal(guard.receipts("kill"), [])


@case("one that opted out is not stopped")
def opt_out():
    needs_namespaces()
    scene = Scene(policy=POLICY + "[Victims]\nNoBrake=heartbeat\n[Kill]\nTerminate=no\nKill=no\n")
    with scene as (machine, guard):
        victim = scene.victim(*GROWS, name="heartbeat")
        victim.begin()
        until(lambda: machine.crossed, why="it crosses")
        until(lambda: machine.lowest < FLOOR - 100 * MIB, why="it has it all")
        time.sleep(0.2)
        assert not stopped(victim.pid)
        equal(guard.stop(), 0)
        equal(guard.receipts("brake"), [])


@case("a protected one is never touched")
def protected():
    needs_namespaces()
    scene = Scene(policy=POLICY + "[Victims]\nProtect=holy*\n")
    with scene as (machine, guard):
        victim = scene.victim("--rate", 150, "--most", 470, name="holy-grower")
        victim.begin()
        until(lambda: machine.lowest < 50 * MIB, why="it has it all")
        time.sleep(1.5)
        assert not stopped(victim.pid) and not victim.ended()
        equal(guard.stop(), 0)
        assert not [r for r in guard.trail() if r["kind"] == "receipt" and r.get("pid", "0") != "0"], guard.trail()


@case("a dry run decides, writes down and touches nobody")
def dry_run():
    needs_namespaces()
    scene = Scene("--dry-run")
    with scene as (machine, guard):
        victim = scene.victim(*GROWS)
        victim.begin()
        guard.wait_for("would stop 'grow'")
        time.sleep(0.2)
        assert not stopped(victim.pid)
        equal(guard.stop(), 0)
        equal(guard.receipts("brake")[0]["dry_run"], "1")


@case("a dry run tells the first action of an episode alone: what would have followed it is not known; and it never says that it was done")
def dry_run_first():
    needs_namespaces()
    scene = Scene("--dry-run", policy=POLICY.replace("BrakeMost=60", "BrakeMost=1\nBrakeTimes=1"))
    with scene as (machine, guard):
        victim = scene.victim("--rate", 150, "--most", 480)
        victim.begin()
        guard.wait_for("would stop 'grow'")
        until(lambda: machine.left() < 40 * MIB, why="it has it all")
        time.sleep(2.5)  # stopped too long, below the hard floor, and its release awaited: a guard that acts would have killed it, and somebody else
        status = guard.ask("status")
        equal((status["dry_run"], status["actions"], status["stopped_processes"], status.get("braked"), status.get("victim")), ("yes", "1", "0", None, None))
        machine.available += 480 * MIB  # as if it gave all back
        guard.wait_for("the danger is over, at which nothing was done; headroom was 3")
        time.sleep(0.5)
        other = scene.victim("--rate", 150, "--most", 440)  # another episode
        first = len(guard.lines)
        other.begin()
        guard.wait_for("would stop 'grow' (pid %d" % other.pid, after=first)
        assert not stopped(victim.pid) and not victim.ended() and not stopped(other.pid)
        equal(guard.stop(), 0)
        equal([r["action"] for r in guard.trail() if r["kind"] == "receipt"], ["brake", "brake"])
        for words in ("would kill", "would let go", "unkillable", "let go on"):
            assert words not in guard.text(), words


@case("a dry run that is given a policy with which it acts goes on with nobody held")
def dry_run_ends():
    needs_namespaces()
    scene = Scene(policy=POLICY + "[Guard]\nDryRun=yes\n")
    with scene as (machine, guard):
        victim = scene.victim("--rate", 60, "--most", 440)
        victim.begin()
        guard.wait_for("would stop 'grow'")
        guard.set_policy(POLICY)
        guard.signal(signal.SIGHUP)
        guard.wait_for("policy read again")
        until(lambda: stopped(victim.pid), why="stopped")
        equal(guard.ask("status")["dry_run"], "no")
        equal(guard.stop(), 0)


@case("only what is below --within can be touched")
def within():
    needs_namespaces()
    holder = subprocess.Popen(["sleep", "60"])
    scene = Scene("--within", str(holder.pid), within=False)
    try:
        with scene as (machine, guard):
            victim = scene.victim(*GROWS)
            victim.begin()
            until(lambda: machine.lowest < FLOOR - 100 * MIB, why="it has it all")
            time.sleep(0.3)
            assert not stopped(victim.pid)
            equal(guard.stop(), 0)
            equal(guard.receipts("brake"), [])
    finally:
        holder.kill()
        holder.wait()


@case("SIGTERM lets go all that it stopped")
def sigterm():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        victim = stop_one(scene, machine, guard, *GROWS, "--children", 3)
        equal(guard.stop(), 0)
        until(lambda: not any(stopped(pid) for pid in victim.tree()), why="let go")
        contains(guard.text(), "let go on what it had stopped")


@case("a guard that is killed goes on when it is started again: what it stopped is let go when there is room")
def killed():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        victim = stop_one(scene, machine, guard)
        guard.wait_for("stopped 'grow'")
        guard.child.kill()
        guard.child.wait()
        assert stopped(victim.pid)
        from support import Guard  # the same machine and folders

        again = Guard(machine, POLICY, run=guard.run, state_folder=guard.state_folder)
        try:
            again.wait_for("goes on where a guard before it was ended")
            time.sleep(0.5)
            assert stopped(victim.pid), "let go without room"
            machine.available += 400 * MIB
            until(lambda: not stopped(victim.pid), why="let go")
            equal(again.stop(), 0)
        finally:
            again.close()


@case("a stopped process's number that another has now is not signalled")
def reused():
    needs_namespaces()
    scene = Scene()
    with scene as (machine, guard):
        victim = stop_one(scene, machine, guard)
        guard.wait_for("stopped 'grow'")
        victim.child.kill()
        victim.child.wait()
        until(lambda: guard.ask("status").get("braked", []) == [], 20, why="forgotten")
        equal(guard.stop(), 0)


@case("release over the control socket lets it go on, and it is not stopped again")
def release():
    needs_namespaces()
    scene = Scene(policy=POLICY + "[Kill]\nTerminate=no\nKill=no\n")
    with scene as (machine, guard):
        victim = stop_one(scene, machine, guard, "--rate", 80, "--most", 400)
        guard.wait_for("stopped 'grow'")
        equal(guard.ask(f"release {victim.pid}")["released"], "1")
        until(lambda: not stopped(victim.pid), why="let go")
        time.sleep(0.5)
        assert not stopped(victim.pid), "stopped again"
        equal(guard.ask("release")["released"], "0")
        equal(guard.stop(), 0)


@case("the policy is read again at SIGHUP, and what it knew stays")
def reload():
    needs_namespaces()
    with Scene() as (machine, guard):
        equal(guard.ask("status")["floor"], str(FLOOR))
        time.sleep(0.5)
        looks = int(guard.ask("status")["looks"])
        guard.set_policy(POLICY.replace("Floor=256M", "Floor=128M", 1))
        guard.signal(signal.SIGHUP)
        guard.wait_for("policy read again")
        status = guard.ask("status")
        equal(status["floor"], str(128 * MIB))
        assert int(status["looks"]) >= looks
        guard.signal(signal.SIGUSR1)
        guard.wait_for("floor 128 MiB")
        equal(guard.stop(), 0)


@case("--once looks once and ends; --help, --version and mistakes")
def command_line():
    r = subprocess.run([GUARD, "--help"], capture_output=True, text=True)
    equal(r.returncode, 0)
    contains(r.stdout, "usage: uma-guard")
    r = subprocess.run([GUARD, "--version"], capture_output=True, text=True)
    contains(r.stdout, "uma-guard ")
    r = subprocess.run([GUARD, "--nothing\n"], capture_output=True, text=True)
    equal(r.returncode, 2)
    equal(r.stderr, "uma-guard: '--nothing\\x0a': expected one of the options that --help lists\n")


@case("it links the C library alone")
def links():
    shared = subprocess.run(["ldd", GUARD], capture_output=True, text=True)
    names = [line.split()[0] for line in shared.stdout.splitlines() if "=>" in line]
    assert all(name.startswith(("libc.so", "libm.so", "libasan", "libubsan", "libgcc_s")) for name in names), shared.stdout


main()
