#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl guard: its policy, its status by a guard that is played here, its history by trails made by hand, and its test with the real one."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import guard_trail as trail
from documented import check_documented
from harness import DOCS, UMACTL, Skip, add, assert_clean_text, case, contains, equal, machine, main, run

SHARE = os.path.join(DOCS, "..", "share")
GIB = 1 << 30
HOSTILE = b"a\x1b[2J\n\xff\xe2\x80\xaeb"


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp(prefix="umactl-guard-", dir="/tmp")  # a short one: it has sockets
    try:
        yield path
    finally:
        shutil.rmtree(path)


def put(root, path, text):
    whole = os.path.join(root, path)
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    with open(whole, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(whole, 0o644)
    return whole


# ---- policy ----------------------------------------------------------------------------------------------------------


def keys_of_share():
    """(section, key, [values]) as share/guard.conf has them."""
    found, section = [], None
    with open(os.path.join(SHARE, "guard.conf"), encoding="utf-8") as f:
        for line in f:
            if m := re.match(r"\[(\w+)\]", line):
                section = m.group(1)
            elif m := re.match(r"#(\w+)=(.*)", line):
                if found and found[-1][:2] == (section, m.group(1)):
                    found[-1][2].append(m.group(2))
                else:
                    found.append((section, m.group(1), [m.group(2)]))
    return found


def policy_of(document):
    return {(k["section"], k["key"]): k for k in document["keys"]}


@case("policy: the defaults of this machine, in text that reads back")
def _():
    with folder() as root:
        put(root, "proc/meminfo", "MemTotal: 127601452 kB\nMemFree: 100 kB\nMemAvailable: 100 kB\n")
        text = run("guard", "policy", "--root", root).expect(0).out
        contains(text, "# from: no file")
        contains(text, "# by the size of this machine\nFloor=")
        contains(text, "\nBrake=yes\n")
        again = put(root, "again.conf", text)
        contains(run("guard", "policy", "--check", again).expect(0).out, "can be used")
        one, two = (policy_of(run("guard", "policy", "--json", "--root", root, *file).expect(0).json) for file in ([], [again]))
        equal({k: v["value"] for k, v in one.items()}, {k: v["value"] for k, v in two.items()}, "policies")
        equal(one["Floor", "Floor"]["value"], 127601452 * 1024 // 32, "the floor")
        equal(one["Floor", "HardFloor"]["value"], 127601452 * 1024 // 32 // 4, "the hard floor")


@case("policy: which file set what")
def _():
    with folder() as root:
        put(root, "etc/umactl/guard.conf", "[Floor]\nFloor=8G\n")
        put(root, "usr/lib/umactl/guard.conf", "[Floor]\nFloor=1G\n")
        put(root, "etc/umactl/guard.conf.d/10-a.conf", "\n[Victims]\nPrefer=batch* train\n[Guard]\nDryRun=yes\n")
        put(root, "proc/meminfo", "MemTotal: 127601452 kB\nMemFree: 100 kB\nMemAvailable: 100 kB\n")
        text = run("guard", "policy", "--root", root).expect(0).out
        contains(text, f"# {root}/etc/umactl/guard.conf:2\nFloor=8G\n")
        contains(text, f"# {root}/etc/umactl/guard.conf.d/10-a.conf:3\nPrefer=\nPrefer=batch* train\n")
        document = run("guard", "policy", "--root", root, "--json").expect(0).json
        check_documented(document, "umactl.guard-policy/1")
        equal([f[len(root):] for f in document["files"]], ["/etc/umactl/guard.conf", "/etc/umactl/guard.conf.d/10-a.conf"], "files")
        keys = policy_of(document)
        equal(keys["Floor", "Floor"]["value"], 8 * GIB)
        equal((keys["Guard", "DryRun"]["value"], keys["Guard", "DryRun"]["line"]), (True, 5))
        equal(keys["Victims", "Prefer"]["value"], ["batch*", "train"])
        equal((keys["Brake", "Brake"]["file"], keys["Brake", "Brake"]["line"]), (None, None))
        reasons = run("guard", "policy", "--root", root, "--reasons").expect(0).out
        contains(reasons, "\nFloor=8G\n")
        contains(reasons, "\n#Brake=yes\n")


@case("policy: what is too much for the machine is said to be taken down")
def _():
    with folder() as root:
        put(root, "etc/umactl/guard.conf", "[Floor]\nHardFloor=8G\nFloor=0\n")
        put(root, "proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 100 kB\nMemAvailable: 100 kB\n")
        text = run("guard", "policy", "--root", root).expect(0).out
        contains(text, "guard.conf:2, as far as this machine allows\nHardFloor=512M\n")
        contains(text, "guard.conf:3, as far as this machine allows\nFloor=512M\n")


@case("policy: of a machine whose size is not known")
def _():
    with folder() as root:
        os.mkdir(f"{root}/proc")
        contains(run("guard", "policy", "--root", root).expect(0, err=None).out, "# how much memory the machine has is not known: what goes by it is 0\n")
        document = run("guard", "policy", "--root", root, "--json").expect(0, err=None).json
        check_documented(document, "umactl.guard-policy/1")
        equal(policy_of(document)["Floor", "Floor"]["value"], None)


@case("policy: a secret is not told")
def _():
    with folder() as root:
        file = put(root, "p.conf", "[Notify]\nWebhook=https://example.org/s3cr3t\nCommand=/bin/true\n")
        for args in ([], ["--json"], ["--reasons"], ["--check"]):
            r = run("guard", "policy", file, *args).expect(0)
            assert "s3cr3t" not in r.out, r.out
        contains(run("guard", "policy", file).out, "# Webhook= is set, and not shown")


BROKEN = [
    ("[Floor]\nFlor=1G\n", ":2: ", 'unknown key "Flor" in [Floor], expected one of Floor, HardFloor, Horizon'),
    ("[Flor]\n", ":1: ", "unknown section [Flor]"),
    ("[Floor]\n\nFloor=4\n", ":3: ", "out of range"),
    ("[Floor]\nHorizon=soon\n", ":2: ", '"soon" is not a duration'),
    ("[Brake]\nBrake=perhaps\n", ":2: ", "neither yes nor no"),
    ("[Victims]\nPrefer=a\x1b]0;x\x07\n", ":2: ", "plain letters"),
    ("[Floor]\nFloor=1G\nHardFloor=2G\n", "", "HardFloor (2147483648 bytes) is above Floor"),
]


def broken(text, place, words):
    with folder() as root:
        file = put(root, "p.conf", text)
        for args in (["--check"], [], ["--json"]):
            r = run("guard", "policy", file, *args).expect(1, err=None)
            equal(r.out, "")
            assert_clean_text(r.err_bytes)
            if place:
                contains(r.err, file + place)
            contains(r.err, words)
        put(root, "etc/umactl/guard.conf.d/5.conf", text)
        if place:
            contains(run("guard", "policy", "--root", root).expect(1, err=None).err, f"{root}/etc/umactl/guard.conf.d/5.conf{place}")


for _text, _place, _words in BROKEN:
    add(f"policy: {_text!r} is refused", broken, _text, _place, _words)


@case("policy: files that cannot be read")
def _():
    contains(run("guard", "policy", "/nonexistent.conf").expect(3, err=None).err, "/nonexistent.conf: No such file")
    contains(run("guard", "policy", "/tmp").expect(1, err=None).err, "/tmp: not a file")
    if os.geteuid() == 0:
        with folder() as root:
            file = put(root, "p.conf", "[Floor]\n")
            os.chmod(file, 0o666)
            contains(run("guard", "policy", file).expect(3, err=None).err, "others than root may write it (mode 0666)")


@case("policy: the installed file, and the manual page has every key with its default")
def _():
    contains(run("guard", "policy", "--check", os.path.join(SHARE, "guard.conf")).expect(0).out, "can be used") if os.geteuid() != 0 else None
    with open(os.path.join(DOCS, "man", "uma-guard.8"), encoding="utf-8") as f:
        page = f.read()
    named = re.findall(r"^\.Ss \[(\w+)\]|^\.It Ic (\w+)=", page, re.M)
    section, of_page = None, []
    for head, key in named:
        section = head or section
        if key:
            of_page.append((section, key))
    share = keys_of_share()
    equal(of_page, [k[:2] for k in share], "keys of the page and of guard.conf")
    for _, key, values in share:
        if key == "Protect":
            continue
        block = page.split(f"\n.It Ic {key}=", 1)[1].split("\n.It Ic ", 1)[0].split("\n.El", 1)[0]
        default = " ".join(v for v in values if v) or "none"
        contains(block, f"\nDefault: {default}.")


# ---- status ----------------------------------------------------------------------------------------------------------


class PlayedGuard:
    """Answers at RUN_FOLDER/control as a guard does."""

    def __init__(self, run_folder, answer):
        self.asked, self.answer = [], answer
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.path.join(run_folder, "control"))
        threading.Thread(target=self.play, daemon=True).start()

    def play(self):
        with contextlib.suppress(OSError):
            while True:
                question, sender = self.socket.recvfrom(256)
                self.asked.append(question)
                if self.answer is not None:
                    self.socket.sendto(self.answer, sender)


STATUS = (b"version=0.1.0\npid=42\nup_seconds=7200\ndry_run=no\npolicy=fine\nlooked_ns_ago=5\nheadroom=13207024435\nfloor=4294967296\n"
          b"hard_floor=1073741824\nrate=-1048576\nsteady=0\ngpu_bytes=94489280512\ngpu_age_ns=200000000\n"
          b"gpu_asked_ns=100000000\nhelper=yes\nhelper_lost=0\nlooks=5\nactions=3\ntrail=open\ntrail_lost=0\nrecording=open\nrecording_lost=0\nvictim=77\nbraked=88,123,3\nbraked=99,124,61\n")


@case("status: no guard runs")
def _():
    with folder() as root:
        args = ["--run-folder", root, "--state-folder", root]
        for words in (["guard"], ["guard", "status"]):
            r = run(*words, *args).expect(1)
            contains(r.out, f"The guard does not run: no guard runs here (nobody listens at {root}/control).")
        document = run("guard", "status", *args, "--json").expect(1).json
        check_documented(document, "umactl.guard-status/1")
        equal((document["running"], document["pid"], document["last"]), (False, None, None))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left_behind:
            left_behind.bind(os.path.join(root, "control"))
        contains(run("guard", *args).expect(1).out, "The guard does not run")
        contains(run("guard", "release", "--run-folder", root).expect(1, err=None).err, "no guard runs here")


@case("status: a guard that runs")
def _():
    with folder() as root:
        PlayedGuard(root, STATUS)
        trail.write(root, {1: trail.record(1, trail.RECEIPT, 10**18, trail.decision([trail.action(pid=88)], [trail.candidate(88, b"vllm")]))})
        args = ["--run-folder", root, "--state-folder", root]
        text = run("guard", *args).expect(0).out
        for words in ("The guard runs (pid 42, for 2 h 00 m).", "headroom   12.3 GiB, falling by 1.0 MiB/s", "floor      4.0 GiB, the hard floor 1.0 GiB",
                      "stopped    vllm (pid 88) for 3.0 s\n             pid 99 for 1 m 01 s", "victim     pid 77, and its memory is not back yet",
                      "GPU        88.0 GiB by processes, as the driver said 0.2 s ago", "done: brake vllm (pid 88)"):
            contains(text, words)
        document = run("guard", "status", *args, "--json").expect(0).json
        check_documented(document, "umactl.guard-status/1")
        equal(document["stopped"], [{"pid": 88, "seconds": 3}, {"pid": 99, "seconds": 61}])
        equal((document["running"], document["victim"], document["rate"], document["steady"]), (True, 77, -1048576, None))
        equal(os.listdir(root).count("control"), 1)
        equal([n for n in os.listdir(root) if n.startswith("ask-")], [], "sockets left behind")
        for word in ("helper ", "trail ", "recording "):
            assert "  " + word not in text, text  # all is well with them


@case("status: what is missing is said")
def _():
    with folder() as root:
        args = ["--run-folder", root, "--state-folder", root]
        guard = PlayedGuard(root, STATUS)
        for change, words, key, value in (
                ((b"helper=yes", b"helper=no"), "  helper     none: nobody asks the driver, makes room, warns jobs, or tells of what is done\n", "helper", False),
                ((b"helper_lost=0", b"helper_lost=7"), "  helper     7 messages did not reach it\n", "helper_lost", 7),
                ((b"trail=open", b"trail=none"), "  trail      none: what it does is not written down\n", "trail_kept", False),
                ((b"trail_lost=0", b"trail_lost=3"), "  trail      3 records could not be written\n", "trail_lost", 3),
                ((b"recording=open", b"recording=none"), "  recording  none: what it reads is not kept, and cannot be replayed\n", "recording_kept", False),
                ((b"recording_lost=0", b"recording_lost=2"), "  recording  2 times it could not be written\n", "recording_lost", 2),
                ((b"gpu_age_ns=200000000", b"gpu_age_ns=12000000000"), "said 12.0 s ago, and it has not answered since\n", "gpu_age_seconds", 12),
                ((b"gpu_age_ns=200000000\ngpu_asked_ns=100000000", b"gpu_age_ns=12000000000\ngpu_asked_ns=11000000000"),
                 "said 12.0 s ago, and nobody has asked it since\n", "gpu_asked_seconds", 11),
                ((b"recording=open\nrecording_lost=0\n", b""), "", "recording_kept", None)):  # a guard of another version
            guard.answer = STATUS.replace(*change)
            contains(run("guard", *args).expect(0).out, words)
            document = run("guard", "status", *args, "--json").expect(0).json
            check_documented(document, "umactl.guard-status/1")
            equal(document[key], value, key)


@case("status: answers that are none")
def _():
    for answer in (b"", b"\xff\xfe\x1b[2J", b"headroom=lots\nbraked=1\nbraked=,,\nbraked=0,1,2\npid=-1\nversion=" + HOSTILE, b"headroom=unknown\n"):
        with folder() as root:
            PlayedGuard(root, answer)
            args = ["--run-folder", root, "--state-folder", root]
            r = run("guard", *args).expect(0)
            assert_clean_text(r.out_bytes)
            contains(r.out, "headroom   ?")
            document = run("guard", "status", *args, "--json").expect(0).json
            check_documented(document, "umactl.guard-status/1")
            equal((document["headroom"], document["stopped"]), (None, []))


@case("status: a guard that does not answer is not known")
def _():
    with folder() as root:
        PlayedGuard(root, None)
        start = time.monotonic()
        r = run("guard", "--run-folder", root, "--state-folder", root, "--json").expect(3)
        assert time.monotonic() - start < 20
        equal(r.json["running"], None)
        contains(r.json["why"], "does not answer")


@case("release")
def _():
    with folder() as root:
        guard = PlayedGuard(root, b"released=3\n")
        equal(run("guard", "release", "--run-folder", root).expect(0).out, "3 processes go on.\n")
        equal(run("guard", "release", "42", "--run-folder", root).expect(0).out, "3 processes go on.\n")
        guard.answer = b"released=0\n"
        equal(run("guard", "release", "--run-folder", root).expect(1).out, "Nobody is stopped.\n")
        guard.answer = b"error=expected \x1b status\n"
        r = run("guard", "release", "--run-folder", root).expect(3, err=None)
        contains(r.err, "expected \\x1b status")
        equal(guard.asked, [b"release", b"release 42", b"release", b"release"])


# ---- history ---------------------------------------------------------------------------------------------------------

NOW = int(time.time()) * 10**9
FULL = [
    trail.record(1, trail.START, NOW - 5 * 10**9, text=b"version 0.1.0"),
    trail.record(2, trail.DECISION, NOW - 4 * 10**9,
                 trail.decision([trail.action("brake", 2, 42, 7)],
                                [trail.candidate(42, b"vllm", 7, gpu=80 * GIB, anon=3 * GIB, growth=10 * GIB, score=1.5, flags=8),
                                 trail.candidate(43, HOSTILE, 8, anon=5 * GIB, swap=GIB)])),
    trail.record(3, trail.RECEIPT, NOW - 4 * 10**9, trail.decision([trail.action("brake", 2, 42, 7)], [trail.candidate(42, b"vllm", 7)]),
                 processes=12, took=3_100_000, after=5 * GIB),
    trail.record(4, trail.DECISION, NOW - 3 * 10**9, trail.decision([trail.action("room", 4, size=GIB, order=9)])),
    trail.record(5, trail.RECEIPT, NOW - 3 * 10**9, trail.decision([trail.action("kill", 12, 43, 8)], [trail.candidate(43, HOSTILE, 8)]), result=-3),
    trail.record(6, trail.NOTE, NOW - 2 * 10**9, text=HOSTILE),
    trail.record(7, trail.DECISION, NOW - 10**9, trail.decision([trail.action("nothing", 8)])),
]


def numbered(records):
    return dict(enumerate(records, 1))


@case("history: what it did")
def _():
    with folder() as root:
        trail.write(root, numbered(FULL))
        r = run("guard", "history", "--state-folder", root).expect(0)
        assert_clean_text(r.out_bytes)
        for words in ("the guard began: version 0.1.0", "decided: brake vllm (pid 42): will reach the floor",
                      "done: brake vllm (pid 42), 12 processes, within 3.1 ms; then 5.0 GiB available", "decided: room of 1.0 GiB, blocks of order 9",
                      "decided: nothing can be done: whoever grows may not be stopped",
                      "not done: kill a\\x1b[2J\\n\\xff\\u202eb (pid 43): No such process", "WHAT IT WOULD HAVE DONE\nNot known: "):
            contains(r.out, words)
        assert "1. vllm" not in r.out
        full = run("guard", "--history", "--all", "--state-folder", root).expect(0)
        assert_clean_text(full.out_bytes)
        for words in ("5.0 GiB available, the floor is 4.0 GiB, falling by 9.8 GiB/s: there in 0.10 s",
                      "1. vllm (pid 42): GPU 80.0 GiB, memory of its own 3.0 GiB, grows by 10.0 GiB/s, preferred", "2. a\\x1b[2J"):
            contains(full.out, words)


@case("history: as JSON")
def _():
    with folder() as root:
        trail.write(root, numbered(FULL))
        r = run("guard", "history", "--json", "--state-folder", root).expect(0)
        document = r.json
        check_documented(document, "umactl.guard-history/1")
        equal([record["kind"] for record in document["records"]], ["start", "decision", "receipt", "decision", "receipt", "note", "decision"])
        first = document["records"][1]
        equal(first["actions"], [{"do": "brake", "reason": "will reach the floor", "pid": 42, "bytes": 0}])
        equal((first["candidates"][0]["gpu_bytes"], first["candidates"][1]["gpu_bytes"]), (80 * GIB, None))
        equal(first["candidates"][1]["name"], "a\x1b[2J\n\ufffd\u202eb")
        equal((first["evidence"]["psi_some"], first["result"]), (None, None))
        equal((document["records"][2]["seconds"], document["records"][4]["result"]), (0.0031, -3))
        equal(document["replay"], None)


@case("history: only since then")
def _():
    with folder() as root:
        old = trail.record(1, trail.NOTE, NOW - 3 * 86400 * 10**9, text=b"long ago")
        trail.write(root, {1: old, 2: trail.record(2, trail.NOTE, NOW, text=b"now")})
        contains(run("guard", "history", "--state-folder", root).out, "long ago")
        out = run("guard", "history", "--since", "2d", "--state-folder", root).expect(0).out
        assert "long ago" not in out and "now" in out, out


@case("history: records that are none are counted")
def _():
    with folder() as root:
        good = trail.record(2, trail.NOTE, NOW, text=b"good")
        cut = good[:700]
        changed = bytearray(trail.record(4, trail.NOTE, NOW, text=b"changed"))
        changed[1160] ^= 1
        trail.write(root, {2: good, 3: cut, 4: bytes(changed)})
        out = run("guard", "history", "--state-folder", root).expect(0).out
        contains(out, "good")
        contains(out, "2 records could not be used.")
        equal(run("guard", "history", "--json", "--state-folder", root).expect(0).json["bad"], 2)


@case("history: nothing to read")
def _():
    with folder() as root:
        contains(run("guard", "history", "--state-folder", root).expect(3, err=None).err, f"{root}/trail: No such file")
        put(root, "trail", "this is a letter\n" * 9999)
        contains(run("guard", "history", "--state-folder", root).expect(3, err=None).err, f"{root}/trail: this is no trail of the guard's")
        put(root, "p.conf", "[Floor]\nFloor=much\n")
        contains(run("guard", "history", "--state-folder", root, "--policy", f"{root}/p.conf").expect(3, err=None).err, "p.conf:2: Floor:")


@case("history: of a machine laid out as a folder")
def _():
    with folder() as root:
        trail.write(os.path.join(root, "var/lib/umactl-guard"), {1: trail.record(1, trail.NOTE, NOW, text=b"elsewhere")})
        contains(run("guard", "history", "--root", root).expect(0).out, "elsewhere")


# ---- with the real one -----------------------------------------------------------------------------------------------


# ---- history of a series -------------------------------------------------------------------------------------------------

SERIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "guard", "series")
NO_POLICY = ("--root", "/nonexistent-root")  # the defaults, whatever this machine has


def replay(path, *args):
    return run("guard", "history", *NO_POLICY, "--series", path, *args)


@case("series: each of the recorded ones does what it is there for, as text and as JSON")
def _():
    for name in sorted(os.listdir(SERIES)):
        path = os.path.join(SERIES, name)
        with open(path, encoding="utf-8") as f:
            acts = "# expect: acts\n" in f.read()
        text = replay(path).expect(0).out
        document = replay(path, "--json").expect(0).json
        check_documented(document, "umactl.guard-history/1")
        equal((document["series"], document["records"], document["bad"]), (path, None, None))
        equal([e["action"]["do"] for e in document["replay"]["list"]], ["brake"] if acts else [], name)
        equal((document["replay"]["one_took_all"], document["replay"]["first"], document["replay"]["nobody_recorded"]), (True, 0, 0))
        if not acts:
            contains(text, "Nothing to anybody.")
            continue
        episode = document["replay"]["list"][0]
        assert episode["evidence"]["headroom"] >= episode["evidence"]["floor"], episode
        equal((episode["whom"], episode["action"]["pid"]), (None, None))
        assert re.search(r"^ +\d+\.\d\d s  would: brake: will reach the floor; lowest then ", text, re.M), text
        contains(text, "it is as if one program had all that is taken.")


NAMED = """# a server beside one that grows
seconds,total_GiB,available_GiB,vllm.anon_GiB,train.anon_GiB
0,128,60,40,8
20,128,60,40,8
24,128,2,40,66
"""


@case("series: who would have been stopped, where the series says what each had; another policy")
def _():
    with folder() as root:
        path = put(root, "named.csv", NAMED)
        text = replay(path, "--all").expect(0).out
        contains(text, "would: brake train (pid 1001): will reach the floor")
        contains(text, "the floor is 4.0 GiB")
        assert "one program" not in text, text
        policy = put(root, "p.conf", "[Floor]\nFloor=30G\n")
        document = replay(path, "--policy", policy, "--json").expect(0).json
        equal(document["replay"]["list"][0]["whom"]["name"], "train")
        assert document["replay"]["list"][0]["evidence"]["headroom"] >= 30 * GIB, document
        nobody = put(root, "nobody.csv", NAMED.replace("vllm.anon_GiB,train.anon_GiB", "anon_GiB,shmem_GiB"))
        contains(replay(nobody).expect(0).out, "readings in danger the series says nothing of anybody's memory")


@case("series: files that are none: the line and what is wrong with it, escaped, and nothing else")
def _():
    with folder() as root:
        bad = [
            ("", "there is no reading in it"),
            ("seconds,total,available\n", "there is no reading in it"),
            (NAMED[:-12], "line 5: there are fewer fields than columns"),  # cut
            ("seconds,available\n0,5\n", "line 1: seconds, total and available are needed"),
            ("seconds,total,available\n0,5,\n", "line 2: a number is needed"),
            ("seconds,total,available\n0,5,6\n", "there is more available than there is"),
            ("seconds,total,available\n0,5,1e30\n", "this is no number of its column"),
            ("seconds,total,available\n0,9,5\n0,9,5\n", "line 3: it is not later than the row before"),
            ("seconds,total,available,\x1b[2Ja\u202e.what\n", "no column of a series has this name"),
            ("seconds,total,available\n0,9,\x1b]0;x\x07\n", "this is no number of its column"),
            ("x" * 5000, "longer than 4,096 bytes"),
        ]
        for text, words in bad:
            path = put(root, "bad.csv", text)
            for args in ([], ["--json"]):
                r = replay(path, *args).expect(3, err=None)
                equal(r.out, "")
                contains(r.err, words)
                assert_clean_text(r.err.encode())
        named = put(root, "a\x1b[2J\n.csv", "")
        r = replay(named).expect(3, err=None)
        assert_clean_text(r.err.encode())
        assert "\x1b" not in r.err and r.err.count("\n") == 1, r.err
        hostile = put(root, "h.csv", "seconds,total_GiB,available_GiB,\x1b[2J.anon_GiB\n0,128,60,40\n20,128,60,40\n24,128,2,98\n")
        r = replay(hostile).expect(0)
        contains(r.out, "would: brake \\x1b[2J (pid 1000)")
        assert "\x1b" not in r.out, r.out


@case("series: not a file, too large, not there")
def _():
    with folder() as root:
        os.mkfifo(f"{root}/fifo")
        with open(f"{root}/huge", "wb") as f:
            f.truncate((64 << 20) + 1)
        with open(f"{root}/zeros", "wb") as f:
            f.truncate(64 << 20)
        for path, words in ((root, "a series is a file of at most 64 MiB"), (f"{root}/fifo", "a series is a file"), ("/dev/zero", "a series is a file"),
                            (f"{root}/huge", "at most 64 MiB"), (f"{root}/zeros", "line 1: this line is longer"), (f"{root}/none", "No such file")):
            contains(replay(path).expect(3, err=None).err, words)
        path = put(root, "named.csv", NAMED)
        for args in (["--since", "2d"], ["--state-folder", root]):
            contains(replay(path, *args).expect(2, err=None).err, "--series replays a whole file")
        contains(run("guard", "history", "--series", "").expect(2, err=None).err, "--series: the name is empty")


@case("series: a long one is done in time, and a gap is not filled")
def _():
    with folder() as root:
        path = put(root, "gap.csv", "seconds,total_GiB,available_GiB,gap\n0,128,60,0\n1,128,60,0\n1000000,128,5,1\n")
        equal(replay(path, "--json").expect(0).json["replay"]["list"], [])
        begun = time.monotonic()
        path = put(root, "far.csv", "seconds,total_GiB,available_GiB\n0,128,60\n100000,128,60\n")
        readings = replay(path, "--json").expect(0).json["replay"]["readings"]
        assert 100000 <= readings <= 1000000, readings
        assert time.monotonic() - begun < 60, "too slow"


def real_guard():
    if not any(os.access(os.path.join(os.path.dirname(UMACTL), path), os.X_OK) for path in ("uma-guard", "guard/uma-guard")):
        raise Skip("uma-guard is not built")


@case("run: the real guard looks once")
def _():
    real_guard()
    with folder() as root:
        put(root, "p.conf", "[Guard]\nDryRun=yes\n")
        os.mkdir(f"{root}/run")
        os.mkdir(f"{root}/state")
        run("guard", "run", "--once", "--policy", f"{root}/p.conf", "--run-folder", f"{root}/run", "--state-folder", f"{root}/state",
            "--within", str(os.getpid())).expect(0, err=None)


@contextlib.contextmanager
def started(root, policy):
    """uma-guard on this machine, that may touch only what is below this script."""
    put(root, "p.conf", policy)
    for name in ("run", "state"):
        os.mkdir(os.path.join(root, name))
    with open(f"{root}/log", "wb") as log:
        guard = subprocess.Popen([UMACTL, "guard", "run", "--policy", f"{root}/p.conf", "--run-folder", f"{root}/run", "--state-folder",
                                  f"{root}/state", "--within", str(os.getpid())], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 30
        while run("guard", "--run-folder", f"{root}/run", "--state-folder", f"{root}/state").code != 0:
            with open(f"{root}/log", encoding="utf-8", errors="replace") as log:
                assert guard.poll() is None and time.monotonic() < end, log.read()
            time.sleep(0.05)
        yield guard
    finally:
        guard.terminate()
        guard.wait(20)


@case("the real guard: status, release, reload, history")
def _():
    real_guard()
    with folder() as root:
        with started(root, "[Brake]\nBrakeTimes=7\n") as guard:
            at = ["--run-folder", f"{root}/run", "--state-folder", f"{root}/state"]
            document = run("guard", "status", *at, "--json").expect(0).json
            check_documented(document, "umactl.guard-status/1")
            equal((document["running"], document["pid"], document["policy_fine"], document["dry_run"]), (True, guard.pid, True, False))
            assert document["headroom"] > 0 and document["floor"] > document["hard_floor"] > 0, document
            equal(run("guard", "release", "--run-folder", f"{root}/run").expect(1).out, "Nobody is stopped.\n")
            put(root, "p.conf", "[Brake]\nBrakeTimes=many\n")
            guard.send_signal(signal.SIGHUP)
            end = time.monotonic() + 20
            while run("guard", "status", *at, "--json").json["policy_fine"] and time.monotonic() < end:
                time.sleep(0.05)
            contains(run("guard", *at).expect(0).out, "Its policy's file has a mistake, and the policy before holds")
            put(root, "p.conf", "[Brake]\nBrakeTimes=7\n[Guard]\nDryRun=yes\n")
            guard.send_signal(signal.SIGHUP)
            while not run("guard", "status", *at, "--json").json["policy_fine"] and time.monotonic() < end:
                time.sleep(0.05)
            contains(run("guard", *at).expect(0).out, "as a dry run")
        equal(guard.returncode, 0)
        history = run("guard", "history", "--state-folder", f"{root}/state", "--json").expect(0).json
        check_documented(history, "umactl.guard-history/1")
        equal(history["records"][0]["kind"], "start")
        assert history["replay"]["readings"] > 0, history["replay"]
        run("guard", "--run-folder", f"{root}/run", "--state-folder", f"{root}/state").expect(1)


@case("test: the whole path")
def _():
    real_guard()
    if os.environ.get("UMA_SANITIZED"):
        raise Skip("a sanitizer's guard is neither small nor fast")
    r = run("guard", "test", "--json", timeout=120)
    if r.code == 3:
        raise Skip(r.err.strip())
    assert r.code == 0, f"{r.out}\n{r.err}"
    document = r.json
    check_documented(document, "umactl.guard-test/1")
    equal(document["passed"], True)
    equal([s["step"] for s in document["steps"] if s["seconds"] is not None],
          ["the guard starts", "it is stopped", "it goes on", "the policy now: end it", "it is ended", "the policy now: kill it", "it is ended",
           "the guard ends"])
    equal([n for n in os.listdir("/tmp") if n.startswith("umactl-guard-test-")], [], "folders left behind")


main()
