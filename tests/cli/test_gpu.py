#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""status against GPU drivers that answer, hang, are missing or talk nonsense: through the real probe and the fake NVML library, whose
answers are in tests/fakes/scenarios."""

import json
import os
import signal
import subprocess
import time

from harness import (FAKE_LIBRARY, SCENARIOS, UMACTL, add, assert_clean_text, case, check_status, contains, environment, equal, machine, main,
                     run)

# The requirement for a one-shot answer: the probe's deadline of 2 s, and half a second for everything else.
BOUND_SECONDS = 2.5
# Sanitized programs are several times slower at everything else; the deadline itself is the same.
if os.environ.get("UMA_SANITIZED"):
    BOUND_SECONDS = 4.0

# A machine whose own answer is overruled by the library that UMACTL_NVML names.
ROOT = ["--root", machine("spark-idle")]


def fake(scenario, **changes):
    path = os.path.join(SCENARIOS, scenario + ".scenario")
    assert os.path.exists(path), path
    assert FAKE_LIBRARY and os.path.exists(FAKE_LIBRARY), FAKE_LIBRARY
    return environment(UMACTL_NVML=FAKE_LIBRARY, UMA_FAKE_NVML=path, **changes)


def hangs(scenario, where):
    for args in (["status"], ["status", "--json"], ["require", "--bytes", "1"], ["snapshot"]):
        r = run(*args, *where, env=fake(scenario)).expect(0)
        assert r.seconds < BOUND_SECONDS, f"{args}: {r.seconds:.2f} s"
        if args == ["status"]:
            contains(r.out, "A new job can have ")
            flat = " ".join(r.out.split())
            contains(flat, "HEAT GPU: ? (no answer within 2")
        if args == ["status", "--json"]:
            d = check_status(r.json)
            equal((d["gpu_source"]["hung"], d["gpu_source"]["state"]), (True, "failed"))
            contains(d["gpu_source"]["detail"], "no answer within 2")
            equal((d["heat"]["gpu_celsius"], d["heat"]["watts"], d["heat"]["throttle"]), (None, None, None))
            assert "nvml-hung" in [p["id"] for p in d["problems"]], d["problems"]


for _scenario in ("hang-init", "hang-memory"):
    add(f"{_scenario}: an answer in time that says so, on a fixture", hangs, _scenario, ROOT)
add("hang-init: an answer in time that says so, on this machine", hangs, "hang-init", [])


@case("a hung probe leaves no process behind")
def _():
    before = probes()
    run("status", *ROOT, env=fake("hang-init")).expect(0)
    end = time.monotonic() + 5
    while probes() - before and time.monotonic() < end:
        time.sleep(0.05)
    equal(probes() - before, set(), "probes that are still there")


def probes():
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as e, open(f"/proc/{pid}/cmdline", "rb") as c:
                if b"umactl-probe" in c.read() and SCENARIOS.encode() in e.read():
                    found.add(pid)
        except OSError:
            continue
    return found


@case("a GB10 at work")
def _():
    d = check_status(run("status", "--json", *ROOT, env=fake("gb10-serving")).expect(0).json)
    equal(d["platform"]["gpu"], "NVIDIA GB10")
    heat = d["heat"]
    equal((heat["gpu_celsius"], heat["limit_margin_celsius"], heat["watts"], heat["sm_hertz"], heat["utilization"]),
          (81, 13, 89.5, 2411000000, 0.96))
    equal(heat["throttle"], ["sw_power_cap"])
    assert heat["throttle_seconds"]["sw_thermal"] == 173.453251, heat
    equal(d["views"]["nvidia_smi"], None)
    out = run("status", *ROOT, env=fake("gb10-serving")).expect(0).out
    contains(" ".join(out.split()), "GB10 81 C (13 to limit), 90 W, 2411 MHz, 96 % busy, at its power cap")
    contains(out, "nvidia-smi [N/A]")


@case("two GPUs are both told")
def _():
    d = check_status(run("status", "--json", *ROOT, env=fake("two-gpus")).expect(0).json)
    equal([g["name"] for g in d["gpus"]], ["NVIDIA GH200 120GB"] * 2)
    equal([g["gpu_celsius"] for g in d["gpus"]], [41, 33])
    out = " ".join(run("status", *ROOT, env=fake("two-gpus")).expect(0).out.split())
    contains(out, "41 C")
    contains(out, "33 C")


@case("garbage from the driver harms nobody")
def _():
    for args in (["status"], ["status", "--all"], ["status", "--json"], ["snapshot"]):
        r = run(*args, *ROOT, env=fake("garbage")).expect(0)
        assert_clean_text(r.out_bytes)
    check_status(run("status", "--json", *ROOT, env=fake("garbage")).json)


def does_not_start(scenario, reason, remedy):
    d = check_status(run("status", "--json", *ROOT, env=fake(scenario)).expect(0).json)
    [problem] = [p for p in d["problems"] if p["id"] == "nvml-absent"]
    contains(problem["summary"], "there and does not start")
    contains(problem["evidence"], reason)
    equal(problem["remedy"], remedy)
    assert d["views"]["cuda_mem_get_info"] == d["headroom"]["now"], d["views"]


add("version-mismatch is a problem", does_not_start, "version-mismatch", "Driver/library version mismatch", "sudo reboot")
add("driver-not-loaded is a problem", does_not_start, "driver-not-loaded", "Driver Not Loaded", "sudo modprobe nvidia")


@case("reasons to throttle that make no sense are few words")
def _():
    out = " ".join(run("status", *ROOT, env=fake("garbage")).expect(0).out.split())
    contains(out, "throttled by applications_clocks+sw_power_cap+hw_slowdown+sync_boost and 59 more")


@case("no library is no GPU, not an error")
def _():
    r = run("status", "--json", *ROOT, env=environment(UMACTL_NVML="/nonexistent/libnvidia-ml.so.1")).expect(0)
    d = check_status(r.json)
    equal(d["heat"]["gpu_celsius"], None)
    assert d["gpu_source"]["state"] in ("absent", "failed"), d["gpu_source"]


@case("--watch goes on while the driver hangs")
def _():
    child = subprocess.Popen([UMACTL, "status", "--json", "--watch=0.2", *ROOT], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=fake("hang-memory"))
    start = time.monotonic()
    lines = [child.stdout.readline() for _ in range(3)]
    seconds = time.monotonic() - start
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    equal((child.returncode, err), (0, b""))
    for line in lines:
        check_status(json.loads(line))
    assert seconds < 3 * BOUND_SECONDS, seconds


main()
