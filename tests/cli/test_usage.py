#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Options, help, mistakes and man pages."""

import os
import re
import shutil
import subprocess

from harness import DOCS, Skip, add, case, contains, environment, equal, main, run

COMMANDS = re.findall(r"^  ([a-z]+) ", run("--help").expect(0).out, re.M)

# Commands with commands of their own.
NESTED = ["cache", "guard"]

# (arguments, words that stderr must hold): exit status 2, nothing on stdout, one line of reason and one of help
MISTAKES = [
    (["stauts"], ['"stauts"', '"status"']),
    (["frobnicate"], ['"frobnicate"']),
    (["--jsn"], ['"--jsn"']),
    (["--json"], ['"--json"', "after the command"]),
    (["\x1b[31mred"], ["\\x1b[31mred"]),
    (["status", "--jsn"], ['"--jsn"', '"--json"']),
    (["status", "-x"], ['"-x"']),
    (["status", "--json=1"], ['"--json"', "no value"]),
    (["status", "--from"], ['"--from"', "needs a value"]),
    (["status", "--from", ""], ["--from", "empty"]),
    (["status", "--root", ""], ["--root", "empty"]),
    (["status", "extra"], ['"extra"']),
    (["status", "a\nb\x1b"], ["a\\nb\\x1b"]),
    (["status", "--from", "a", "--root", "b"], ["--from", "--root"]),
    (["status", "--watch=fast"], ["--watch", '"fast"']),
    (["status", "--watch=0.001"], ["--watch", "0.1 s"]),
    (["status", "--watch=-1"], ["--watch", '"-1"']),
    (["status", "--watch", "--from", "x"], ["--watch", "--from"]),
    (["snapshot", "--redcat"], ['"--redcat"', '"--redact"']),
    (["snapshot", "-o"], ['"-o"', "needs a value"]),
    (["snapshot", "--output="], ["--output", "empty"]),
    (["snapshot", "--folder", "d", "--from", "x"], ["--folder", "--from"]),
    (["snapshot", "--folder", "d", "--redact"], ["--folder", "--redact"]),
    (["require"], ["--bytes"]),
    (["require", "--bytes", "lots"], ["--bytes", '"lots"']),
    (["require", "--bytes", "1x"], ["--bytes", '"x"']),
    (["require", "--bytes", "-1"], ["--bytes", '"-1"']),
    (["require", "--bytes", "1,5G"], ["--bytes", '",5G"']),
    (["require", "--bytes", "99999999T"], ["--bytes", "too large"]),
    (["require", "--bytes", "1G", "--contiguous", "?"], ["--contiguous", '"?"']),
    (["require", "--bytes", "1G", "--wait", "soon"], ["--wait", '"soon"']),
    (["require", "--bytes", "1G", "--wait", "1", "--from", "x"], ["--wait", "--from"]),
    (["require", "--bytes", "1G", "--quiet", "--json"], ["--quiet", "--json"]),
    (["cache", "evitc"], ['"evitc"', '"cache evict"']),
    (["cache", "/models"], ['"/models"', "--path"]),
    (["cache", "--path", ""], ["--path", "empty"]),
    (["cache", "--limit", "many"], ["--limit", '"many"']),
    (["cache", "--timeout", "soon"], ["--timeout", '"soon"']),
    (["cache", "--timeout", "1000h"], ["--timeout", "1 d"]),
    (["cache", "--from", "x", "--all"], ["--all", "--from"]),
    (["cache", "--root", "x", "--path", "y"], ["--path", "--root"]),
    (["cache", "evict"], ["PATH", "--model"]),
    (["cache", "evict", ""], ["PATH", "empty"]),
    (["cache", "evict", "--model", ""], ["--model", "empty"]),
    (["cache", "evict", "--path", "/models"], ["say what to evict"]),
    (["cache", "evict", "x", "--model", "y"], ["PATH", "--model"]),
    (["cache", "evict", "--all", "--all-models"], ["--all-models", "--all"]),
    (["cache", "evict", "--all", "--larger-than", "1G"], ["--larger-than", "--all"]),
    (["cache", "evict", "--larger-than", "big"], ["--larger-than", '"big"']),
    (["cache", "evict", "x", "--sync", "--no-sync"], ["--sync", "--no-sync"]),
    (["cache", "evict", "x", "--force"], ["--force", "--all"]),
    (["cache", "evict", "x", "--path", "y"], ["--path", "PATH"]),
    (["cache", "evict", "x", "--from", "y"], ['"--from"']),
    (["guard", "stauts"], ['"stauts"', '"guard status"']),
    (["guard", "/tmp"], ['"/tmp"']),
    (["guard", "--jsn"], ['"--jsn"', '"--json"']),
    (["guard", "status", "--run-folder", ""], ["--run-folder", "empty"]),
    (["guard", "status", "--from", "x"], ['"--from"']),
    (["guard", "history", "--since", "soon"], ["--since", '"soon"']),
    (["guard", "history", "--since", "1000000000"], ["--since", "out of range"]),
    (["guard", "--history", "--since", "soon"], ["--since", '"soon"']),
    (["guard", "policy", "a", "b"], ['"b"', "FILE"]),
    (["guard", "policy", ""], ["FILE", "empty"]),
    (["guard", "policy", "--reasons", "--json"], ["--reasons", "--json"]),
    (["guard", "release", "all"], ['"all"', "process"]),
    (["guard", "release", "0"], ['"0"', "process"]),
    (["guard", "release", "1", "2"], ['"2"', "PID"]),
    (["guard", "run", "--policy", ""], ["--policy", "empty"]),
    (["guard", "run", "--dryrun"], ['"--dryrun"', '"--dry-run"']),
    (["guard", "test", "now"], ['"now"']),
    (["cache", "evict", "x", "--dryrun"], ['"--dryrun"', '"--dry-run"']),
]


def mistake(args, words):
    r = run(*args).expect(2, err=None)
    equal(r.out, "", "stdout")
    for word in words:
        contains(r.err, word)
    equal(len(r.err.splitlines()), 2, "lines on stderr")
    contains(r.err, "--help")


for _args, _words in MISTAKES:
    add(f"usage: umactl {' '.join(_args)!r}", mistake, _args, _words)


@case("commands are listed")
def _():
    for name in ("status", "snapshot", "require"):
        assert name in COMMANDS, COMMANDS


def help_of(command):
    outputs = [run(command, flag).expect(0).out for flag in ("--help", "-h")]
    equal(outputs[0], outputs[1], "-h and --help")
    contains(outputs[0], f"usage: umactl {command}")
    for line in outputs[0].splitlines():
        assert len(line) <= 140, line
    equal(run(command, "--version").expect(0).out, run("--version").expect(0).out, "--version")


for _command in COMMANDS:
    add(f"{_command} --help", help_of, _command)


@case("help of nested commands")
def _():
    for command in NESTED:
        words = words_of(command)
        assert words, f"{command} lists no commands"
        for word in words:
            outputs = [run(command, word, flag).expect(0).out for flag in ("--help", "-h")]
            equal(outputs[0], outputs[1], "-h and --help")
            contains(outputs[0], f"usage: umactl {command} {word}")
            for line in outputs[0].splitlines():
                assert len(line) <= 150, line


@case("--version")
def _():
    assert re.fullmatch(r"umactl \d+\.\d+\.\d+\n", run("--version").expect(0).out)


# ---- man pages -------------------------------------------------------------------------------------------------------


def man_text(name):
    path = os.path.join(DOCS, "man", f"{name}.1")
    assert os.path.exists(path), f"{path} is missing"
    with open(path, encoding="utf-8") as f:
        return path, f.read()


def options_of_man(source):
    """Option names of a page: what is marked as one in OPTIONS (.It Fl \\-name or -letter of mdoc)."""
    names = set()
    for line in source.splitlines():
        if line.startswith(".It Fl "):
            for word in re.findall(r"Fl (\S+)", line):
                word = word.replace("\\-", "-")
                names.add("-" + word if word.startswith("-") or len(word) == 1 else word)
    return names


def options_of_help(text):
    names = set()
    for line in text.splitlines():
        m = re.match(r"^ {2,6}(-\w(?:, )?)?(--[a-z][a-z-]*)?", line)
        if m and (m.group(1) or m.group(2)):  # a line of options; it may have several
            names |= {n for n in ((m.group(1) or "").rstrip(", "),) if n} | set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", line))
    return names


def words_of(command):
    """Second words that a command has, as its help lists them: two spaces, a word, a sentence."""
    return re.findall(r"^  ([a-z]+)  +[a-z]", run(command, "--help").out, re.M) if command in NESTED else []


def man_agrees(command):
    _, source = man_text(f"umactl-{command}")
    helps = [run(command, *words, "--help").out for words in [[]] + [[word] for word in words_of(command)]]
    equal(sorted(options_of_man(source)), sorted(set().union(*map(options_of_help, helps))), "options of the man page and of --help")


for _command in COMMANDS:
    add(f"man page of {_command} names every option", man_agrees, _command)


@case("man page of umactl names every command")
def _():
    _, source = man_text("umactl")
    for command in COMMANDS:
        contains(source, f"umactl-{command} 1")


@case("man pages have no fault")
def _():
    if not shutil.which("mandoc"):
        raise Skip("mandoc is not installed")
    pages = sorted(n for n in os.listdir(os.path.join(DOCS, "man")) if n.endswith((".1", ".8")))
    assert pages
    for page in pages:
        r = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", os.path.join(DOCS, "man", page)], capture_output=True, text=True,
                           env=environment())
        equal((r.returncode, r.stdout + r.stderr), (0, ""), page)


main()
