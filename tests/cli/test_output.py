#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the output goes: pipes that close, full disks, terminals of every size, locales, files, and --watch."""

import json
import os
import re
import signal
import stat
import subprocess
import tempfile
import time

from harness import (FIXTURES, Skip, Terminal, UMACTL, add, assert_clean_text, case, check, contains, environment, equal, machine, machines,
                     main, on_terminal, run, STATUS)

FIRST = "spark-serving" if "spark-serving" in machines() else machines()[0]


def root(name=FIRST):
    return ["--root", machine(name)]


# ---- pipes and disks -------------------------------------------------------------------------------------------------


def closed_pipe(args, code):
    for ignored in (False, True):  # with SIGPIPE as a shell leaves it, and ignored as some services do
        read_end, write_end = os.pipe()
        os.close(read_end)
        child = subprocess.Popen([UMACTL, *args], stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.PIPE, env=environment(),
                                 restore_signals=not ignored)
        os.close(write_end)
        _, err = child.communicate(timeout=30)
        equal((child.returncode, err), (code, b""), f"a closed pipe, SIGPIPE ignored: {ignored}")


for _args, _code in ((["status", *root()], 0), (["status", "--json", *root()], 0), (["snapshot", *root()], 0),
                     (["require", "--bytes", "1", *root()], 0), (["require", "--bytes", "9999T", *root()], 1), (["--help"], 0),
                     (["status", "--help"], 0), (["status", "--watch=0.1", *root()], 0)):
    add(f"closed pipe: {' '.join(_args[:2])}", closed_pipe, _args, _code)


def full_disk(args):
    with open("/dev/full", "wb") as full:
        r = run(*args, stdout=full)
    r.expect(3, err=None)
    contains(r.err, "writing to standard output: No space left on device")


for _args in (["status", *root()], ["status", "--json", *root()], ["snapshot", *root()], ["require", "--bytes", "1", *root()], ["--help"],
              ["--version"], ["require", "--help"]):
    add(f"full disk: {' '.join(_args[:2])}", full_disk, _args)


@case("head -1 sees the budget and nobody complains")
def _():
    r = subprocess.run(["bash", "-c", f'set -o pipefail; "{UMACTL}" status --root "$0" | head -n 1', machine(FIRST)], capture_output=True,
                       env=environment(), timeout=30)
    equal((r.returncode, r.stderr), (0, b""))
    assert r.stdout.startswith(b"A new job can have "), r.stdout


# ---- terminals -------------------------------------------------------------------------------------------------------


def visible(line):
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def one_screen(name, rows, columns):
    code, out = on_terminal("status", *root(name), rows=rows, columns=columns, env=environment(TERM="xterm", NO_COLOR="1"))
    equal(code, 0)
    lines = out.rstrip("\n").split("\n")
    assert len(lines) < rows, f"{len(lines)} lines on {rows} rows:\n{out}"
    for line in lines:
        assert len(line) <= columns, f"{len(line)} columns, {columns} allowed: {line}"
    contains(out, "A new job can have ")
    for part in ("WHERE IT IS", "WHO HOLDS IT", "OTHERS SAY", "HEAT"):
        contains(out, part)
    assert_clean_text(out.encode())


for _name in machines():
    add(f"one screen of 80 x 24: {_name}", one_screen, _name, 24, 80)
add("one screen of 132 x 40", one_screen, FIRST, 40, 132)


@case("colour only on a terminal that wants it")
def _():
    assert "\x1b" not in run("status", *root()).expect(0).out
    assert "\x1b[" in on_terminal("status", *root())[1]
    for changes in ({"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal("status", *root(), env=environment(**changes))[1], changes
    plain = on_terminal("status", *root(), env=environment(TERM="xterm", NO_COLOR="1"))[1]
    equal(visible(on_terminal("status", *root())[1]), plain, "the text without its colours")


@case("100 columns where there is no terminal")
def _():
    for name in machines():
        for line in run("status", *root(name)).out.splitlines():
            assert len(line) <= 100, f"{name}: {line}"


# ---- locales ---------------------------------------------------------------------------------------------------------


@case("ASCII in a locale that is not UTF-8")
def _():
    r = run("status", *root(), env=environment(LC_ALL="C")).expect(0)
    assert all(b < 0x80 for b in r.out_bytes)
    # the same rows, only drawn with other characters
    equal(len(r.out.splitlines()), len(run("status", *root()).out.splitlines()))


@case("a locale with a decimal comma changes nothing")
def _():
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", os.path.join(folder, "de_DE.UTF-8")], capture_output=True)
        if made.returncode != 0:
            raise Skip("localedef cannot make de_DE.UTF-8 here (package locales)")
        german = environment(LC_ALL="de_DE.UTF-8", LOCPATH=folder)
        check_comma = subprocess.run(["printf", "%.1f", "1,5"], capture_output=True, text=True, env=german)
        equal(check_comma.stdout, "1,5", "this locale has a comma")
        for args in (["status", *root()], ["status", "--json", *root()], ["snapshot", *root()],
                     ["require", "--bytes", "1.5G", "--json", *root()], ["require", "--bytes", "1.5G", *root()]):
            equal(run(*args, env=german).out, run(*args).out, " ".join(args))


# ---- files -----------------------------------------------------------------------------------------------------------


@case("snapshot -o writes the file whole or not at all")
def _():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.json")
        equal(run("snapshot", "-o", path, *root()).expect(0).out, "")
        with open(path, encoding="utf-8") as f:
            first = f.read()
        equal(first, run("snapshot", *root()).out, "the file and standard output")
        equal(stat.S_IMODE(os.stat(path).st_mode), 0o666 & ~current_umask(), "mode")
        r = run("snapshot", "-o", path, "--root", os.path.join(folder, "missing")).expect(3, err=None)
        contains(r.err, "missing")
        with open(path, encoding="utf-8") as f:
            equal(f.read(), first, "the old file after a failure")
        equal(os.listdir(folder), ["m.json"], "nothing is left beside it")
        contains(run("snapshot", "-o", os.path.join(folder, "no", "m.json"), *root()).expect(3, err=None).err, "no/m.json")


@case("snapshot -o on a device writes into it")
def _():
    run("snapshot", "-o", "/dev/null", *root()).expect(0)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    contains(run("snapshot", "-o", "/dev/full", *root()).expect(3, err=None).err, "No space left")
    equal(run("snapshot", "-o", "-", *root()).expect(0).out, run("snapshot", *root()).out)


def current_umask():
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


# (name, what standard input holds, words of the complaint)
BAD_DOCUMENTS = [
    ("empty", b"", ["standard input", "empty"]),
    ("no JSON", b"hello", ["standard input"]),
    ("cut off", b'{"schema": "umactl.snapshot/1", "time":', ["standard input"]),
    ("another schema", b'{"schema": "umactl.status/1"}', ["standard input", "umactl.snapshot/1"]),
    ("an array", b"[]", ["standard input"]),
    ("binary", bytes(range(256)), ["standard input"]),
    ("deep", b"[" * 100000, ["standard input"]),
    ("a number too many", b'{"schema": "umactl.snapshot/1", "time": 1e999}', ["standard input"]),
]


def bad_document(data, words):
    for command in (["status"], ["status", "--json"], ["snapshot"], ["require", "--bytes", "1G"]):
        r = run(*command, "--from", "-", stdin=data).expect(3, err=None)
        equal(r.out, "", "stdout")
        assert_clean_text(r.err_bytes)
        for word in words:
            contains(r.err, word)


for _name, _data, _words in BAD_DOCUMENTS:
    add(f"malformed document: {_name}", bad_document, _data, _words)


@case("files that cannot be read are named")
def _():
    for args, word in ((["--from", "/nonexistent/m.json"], "/nonexistent/m.json: cannot be opened"), (["--from", "/"], "/:"),
                       (["--root", "/nonexistent/root"], "/nonexistent/root"), (["--root", "/dev/null"], "/dev/null")):
        for command in (["status"], ["require", "--bytes", "1"], ["snapshot"]):
            contains(run(*command, *args).expect(3, err=None).err, word)
    r = run("status", "--from", "/nonexistent/\x1b[31m\n").expect(3, err=None)
    assert_clean_text(r.err_bytes)
    equal(len(r.err.splitlines()), 1)


@case("a folder without a machine is unknown, not zero")
def _():
    with tempfile.TemporaryDirectory() as folder:
        r = run("status", "--root", folder).expect(3, err=None)
        contains(r.out + r.err, "proc/meminfo")
        r = run("require", "--bytes", "1", "--json", "--root", folder).expect(3, err=None)
        if r.out:
            equal((r.json["met"], r.json["budget"]), (None, None))


@case("UMACTL_ROOT is --root")
def _():
    equal(run("status", "--json", env=environment(UMACTL_ROOT=machine(FIRST))).out, run("status", "--json", *root()).out)
    # and an explicit machine goes before it
    document = run("snapshot", *root()).out
    equal(run("status", "--json", "--from", "-", stdin=document, env=environment(UMACTL_ROOT="/nonexistent")).expect(0).out,
          run("status", "--json", *root()).out)


# ---- --watch ---------------------------------------------------------------------------------------------------------


@case("--watch into a pipe: blocks, Ctrl-C ends it with 0")
def _():
    child = subprocess.Popen([UMACTL, "status", "--watch=0.1", *root()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    equal((child.returncode, err), (0, b""))
    text = assert_clean_text(out)
    blocks = text.count("A new job can have ")
    assert blocks >= 3, text
    assert text.count("\n\nA new job can have ") >= blocks - 1, "a blank line between blocks"


@case("--watch --json: one document a line")
def _():
    child = subprocess.Popen([UMACTL, "status", "--json", "--watch", "0.1", *root()], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=environment())
    lines = [child.stdout.readline() for _ in range(3)]
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=20)
    equal((child.returncode, err), (0, b""))
    for line in lines:
        check(json.loads(line), STATUS)


@case("--watch on a terminal: redraws, Ctrl-C leaves it as it was")
def _():
    t = Terminal("status", "--watch=0.1", *root())
    t.read(until=b"\x1b[J")
    t.output = b""
    t.read(until=b"\x1b[H")
    t.read(until=b"\x1b[J")
    t.type(b"\x03")
    equal(t.wait(), 0)
    assert b"\x1b[?1049h" not in t.output and b"\x1b[?25l" not in t.output, "nothing that would have to be restored"
    assert t.output.rstrip(b"\r\n^C").endswith((b"\x1b[J", b"\x1b[K")), t.output[-80:]


@case("fixtures are where they should be")
def _():
    assert len(machines()) >= 10, f"{FIXTURES}: only {machines()}"


main()
