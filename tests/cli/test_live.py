#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""On this machine, as it is: the captured folder and the document say the same, and what is said agrees with /proc."""

import json
import os
import tempfile

from harness import add, assert_clean_text, case, check_status, contains, difference, environment, equal, main, run


@case("a document and its folder are one machine")
def _():
    with tempfile.TemporaryDirectory() as place:
        folder, document = os.path.join(place, "folder"), os.path.join(place, "m.json")
        run("snapshot", "--folder", folder, "-o", document).expect(0)
        for args in (["status"], ["status", "--json"], ["status", "--all"], ["snapshot"], ["require", "--bytes", "1G", "--json"]):
            by_folder = run(*args, "--root", folder).expect(0).out
            by_document = run(*args, "--from", document).expect(0).out
            assert by_folder == by_document, f"{args} differs:\n{difference(by_folder, by_document)}"


@case("--folder refuses a folder that holds something")
def _():
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "precious"), "w", encoding="ascii") as f:
            f.write("x")
        r = run("snapshot", "--folder", place).expect(3, err=None)
        contains(r.err, place)
        equal(os.listdir(place), ["precious"])


@case("a captured folder holds no secret of an environment")
def _():
    # This test's own process is in the capture: its environment must not be.
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(place, "folder")
        env = environment(HF_TOKEN="hf_this_is_a_secret_token", AWS_SECRET_ACCESS_KEY="another_secret_key")
        r = run("snapshot", "--folder", folder, env=env).expect(0)
        assert b"secret" not in r.out_bytes.split(b"_token")[0][-3:] and b"hf_this_is_a_secret_token" not in r.out_bytes
        for base, _, files in os.walk(folder):
            for name in files:
                with open(os.path.join(base, name), "rb") as f:
                    data = f.read()
                assert b"hf_this_is_a_secret_token" not in data and b"another_secret_key" not in data, os.path.join(base, name)


@case("the numbers are those of /proc/meminfo")
def _():
    d = check_status(run("status", "--json").expect(0).json)
    with open("/proc/meminfo", encoding="ascii") as f:
        meminfo = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in f if line.rstrip().endswith("kB")}
    equal(d["headroom"]["total"], meminfo["MemTotal"])
    for key, name in (("now", "MemFree"), ("available", "MemAvailable")):
        # other programs go on: near, not equal
        assert abs(d["headroom"][key] - meminfo[name]) < meminfo["MemTotal"] // 8, (key, d["headroom"][key], meminfo[name])
    equal(d["host"], os.uname().nodename)
    equal(d["platform"]["kernel"], os.uname().release)
    assert abs(d["time"] - __import__("time").time()) < 120


@case("`umactl` alone is `umactl status`")
def _():
    alone, status = run().expect(0).out, run("status").expect(0).out
    contains(alone, "A new job can have ")
    equal([line.split("  ")[0] for line in alone.splitlines() if line.isupper()], [line.split("  ")[0] for line in status.splitlines() if line.isupper()])
    assert_clean_text(alone.encode())


def from_equals(args):
    """What --from says of a document is what the document was taken from, whenever that was."""
    snapshot = run("snapshot").expect(0)
    first = run(*args, "--from", "-", stdin=snapshot.out_bytes).expect(0)
    again = run("snapshot", "--from", "-", stdin=snapshot.out_bytes).expect(0)
    equal(again.out_bytes, snapshot.out_bytes, "a snapshot of a snapshot")
    equal(run(*args, "--from", "-", stdin=again.out_bytes).out, first.out)


for _args in (["status"], ["status", "--json"]):
    add(f"{' '.join(_args)} --from -", from_equals, _args)


@case("redacted, it names neither host nor user")
def _():
    out = run("snapshot", "--redact").expect(0).out
    assert json.loads(out)["platform"]["host"] != os.uname().nodename
    plain = run("snapshot").expect(0).json
    boot = plain["platform"]["boot_id"]
    assert not boot or boot not in out


main()
