# SPDX-License-Identifier: MIT
"""umactl run on a terminal: the job's output byte for byte, window size, Ctrl-C, Ctrl-Z under a shell, pipelines."""

import os
import re
import shlex
import signal
import subprocess
import time

from harness import UMACTL, Skip, add, case, contains, equal, main
from run_support import PYTHON, Sandbox, Tty, alive, sleeping, state_of, wait_until

UNDER = shlex.quote(UMACTL)

# Uses what programs with a progress bar use: isatty, the window size, carriage returns, colours, raw mode, reading a key.
PROGRAM = r"""
import os, sys, termios, time, tty
print([os.isatty(n) for n in (0, 1, 2)], os.get_terminal_size(), os.ttyname(0) == os.ttyname(1), os.getpgrp() == os.tcgetpgrp(0), flush=True)
for i in range(0, 101, 5):
    sys.stderr.write("\r\x1b[32m%3d%%\x1b[0m |%-20s|" % (i, "#" * (i // 5)))
    sys.stderr.flush()
    time.sleep(0.005)
sys.stderr.write("\n")
before = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b"key? ")
key = os.read(0, 1)
termios.tcsetattr(0, termios.TCSADRAIN, before)
print("got", key, flush=True)
sys.exit(21)
"""


def watch_program(argv, env):
    t = Tty(argv, env, rows=37, columns=113)
    t.read(until=b"key? ")
    t.type(b"k")
    code = t.end()
    return code, t.output


@case("a program on a terminal behaves and looks the same, byte for byte")
def same():
    with Sandbox() as s:
        direct = watch_program([PYTHON, "-c", PROGRAM], s.env())
        under = watch_program([UMACTL, "run", "-q", "--", PYTHON, "-c", PROGRAM], s.env())
        contains(direct[1].decode(), "lines=37")
        contains(direct[1].decode(), "columns=113")
        equal(under, direct)


@case("a change of the window's size reaches the job")
def window():
    job = ("import os, signal, sys, time\n"
           "signal.signal(signal.SIGWINCH, lambda n, f: (os.write(1, b'size %d %d\\n' % tuple(os.get_terminal_size())), os._exit(0)))\n"
           "os.write(1, b'ready\\n')\n"
           "time.sleep(30)\n")
    with Sandbox() as s:
        t = Tty([UMACTL, "run", "-q", "--", PYTHON, "-c", job], s.env())
        t.read(until=b"ready")
        t.resize(50, 132)
        t.read(until=b"size 132 50")
        equal(t.end(), 0)


@case("Ctrl-C ends the job; the record and the summary are written")
def interrupt():
    with Sandbox() as s:
        # exec: dash forgets an INT that comes while its vforked child is not executed yet (its handler returns as long as the two share memory)
        t = Tty([UMACTL, "run", "--", "sh", "-c", "echo ready; exec sleep 60"], s.env())
        t.read(until=b"ready")
        s.wait_for_record()
        t.type(b"\x03")
        equal(t.end(), 130)
        contains(t.output.decode(), "killed by SIGINT")
        record = s.record()
        equal(record["state"], "ended")
        equal(record["exit"]["signal"], 2)


@case("a job that handles the first Ctrl-C gets the second too")
def twice():
    job = ("import os, signal, time\n"
           "n = 0\n"
           "def on(*_):\n"
           "    global n\n"
           "    n += 1\n"
           "    os.write(1, b'<%d>' % n)\n"
           "    if n == 2: os._exit(17)\n"
           "signal.signal(signal.SIGINT, on)\n"
           "os.write(1, b'ready')\n"
           "while True: time.sleep(1)\n")
    with Sandbox() as s:
        t = Tty([UMACTL, "run", "-q", "--", PYTHON, "-c", job], s.env())
        t.read(until=b"ready")
        t.type(b"\x03")
        t.read(until=b"<1>")
        t.type(b"\x03")
        equal(t.end(), 17)
        equal(s.record()["exit"]["status"], 17)


@case("Ctrl-Z with nobody to continue it is discarded, as without umactl")
def stop_alone():
    with Sandbox() as s:
        t = Tty([UMACTL, "run", "-q", "--", "sh", "-c", "echo ready; sleep 2.5; echo end; exit 3"], s.env())
        t.read(until=b"ready")
        sleeping(s.wait_for_record()["job"]["pid"])
        t.type(b"\x1a")
        t.read(until=b"end")
        equal(t.end(), 3)


def shell(s):
    if not os.path.exists("/bin/bash"):
        raise Skip("no bash")
    t = Tty(["/bin/bash", "--norc", "--noprofile", "-i"], s.env(PS1="PROMPT> ", TERM="dumb", HISTFILE=""))
    t.read(until=b"PROMPT> ")
    return t


def count(t, text, n, timeout=20):
    end = time.monotonic() + timeout
    while t.output.count(text) < n:
        assert time.monotonic() < end, f"{n} x {text!r} did not come: {t.output[-800:]!r}"
        try:
            t.read(until=b"\x00never", timeout=0.1)
        except AssertionError:
            pass


@case("Ctrl-Z, fg and Ctrl-C under an interactive shell")
def job_control():
    with Sandbox() as s:
        t = shell(s)
        t.type(f"{UNDER} run -q -- sh -c 'echo rea''dy; sleep 60'\r".encode())
        t.read(until=b"ready")
        job = s.wait_for_record()["job"]["pid"]
        sleeping(job)
        t.type(b"\x1a")
        t.read(until=b"Stopped")
        equal(state_of(job), "T")
        t.type(b"fg\r")
        wait_until(lambda: state_of(job) == "S", what="continued")
        time.sleep(0.3)
        t.type(b"\x03")
        wait_until(lambda: not alive(job), what="interrupted")
        t.type(b"echo status=$?\r")
        t.read(until=b"status=130")
        t.type(b"exit\r")
        t.end()
        equal(s.record()["exit"]["signal"], 2)


@case("bg lets it go on in the background, with the terminal back at the shell")
def background():
    with Sandbox() as s:
        t = shell(s)
        t.type(f"{UNDER} run -q -- sh -c 'echo rea''dy; sleep 4; echo en''ded; exit 5'\r".encode())
        t.read(until=b"ready")
        job = s.wait_for_record()["job"]["pid"]
        sleeping(job)
        t.type(b"\x1a")
        t.read(until=b"Stopped")
        t.type(b"bg\r")
        wait_until(lambda: state_of(job) == "S", what="continued")
        t.type(b"echo she''ll is here\r")
        t.read(until=b"shell is here")
        t.read(until=b"ended")
        t.type(b"wait %1; echo status=$?\r")
        t.read(until=b"status=5")
        t.type(b"exit\r")
        t.end()


@case("started with & : runs in the background; reading the terminal stops it as any program")
def ampersand():
    with Sandbox() as s:
        t = shell(s)
        t.type(f"{UNDER} run -q -- sh -c 'read x; echo got=$x' &\r".encode())
        job = s.wait_for_record()["job"]["pid"]
        wait_until(lambda: state_of(job) == "T", what="stopped for reading")
        time.sleep(0.3)
        t.type(b"fg\r")
        wait_until(lambda: state_of(job) == "S", what="continued")
        time.sleep(0.3)
        t.type(b"hello\r")
        t.read(until=b"got=hello")
        t.type(b"exit\r")
        t.end()


@case("in a pipeline the reader keeps the terminal (umactl run -- job | pager)")
def pipeline():
    pager = ("import os, sys\n"
             "n = len(sys.stdin.read())\n"
             "tty = os.open('/dev/tty', os.O_RDWR)\n"
             "os.write(tty, b'lines %d, key? ' % n)\n"
             "print('pressed', os.read(tty, 1), flush=True)\n")
    with Sandbox() as s:
        with open(s.file("pager"), "w", encoding="ascii") as f:
            f.write(pager)
        t = shell(s)
        t.type(f"{UNDER} run -q -- sh -c 'echo 12345; sleep 0.5' | {PYTHON} {s.file('pager')}\r".encode())
        t.read(until=b"lines 6, key? ")
        t.type(b"z\r")
        t.read(until=b"pressed b'z'")
        t.type(b"exit\r")
        t.end()


@case("in a pipeline a job that wants the terminal gets it")
def pipeline_reader():
    with Sandbox() as s:
        t = shell(s)
        t.type(f"{UNDER} run -q -- sh -c 'read x; echo got=$x' | cat\r".encode())
        s.wait_for_record()
        time.sleep(0.5)
        t.type(b"hello\r")
        t.read(until=b"got=hello")
        t.type(b"exit\r")
        t.end()


@case("Ctrl-C in a pipeline ends all of it")
def pipeline_interrupt():
    with Sandbox() as s:
        t = shell(s)
        t.type(f"{UNDER} run -q -- sleep 60 | cat\r".encode())
        job = s.wait_for_record()["job"]["pid"]
        time.sleep(0.3)
        t.type(b"\x03")
        wait_until(lambda: not alive(job), what="the job ends")
        t.type(b"echo back=$((1+1))\r")
        t.read(until=b"back=2")
        t.type(b"exit\r")
        t.end()


@case("Ctrl-C in a script ends the script too, as without umactl")
def script_interrupt():
    with Sandbox() as s:
        with open(s.file("script"), "w", encoding="ascii") as f:
            f.write(f"{UNDER} run -q -- sh -c 'echo ready; exec sleep 60'\necho SCRIPT WENT ON\n")
        t = Tty(["/bin/sh", s.file("script")], s.env())
        t.read(until=b"ready")
        s.wait_for_record()
        t.type(b"\x03")
        t.end()
        equal(b"WENT ON" in t.output, False)


@case("the terminal goes away: the job gets HUP, the record is written")
def hangup():
    with Sandbox() as s:
        t = Tty([UMACTL, "run", "-q", "--", "sleep", "60"], s.env())
        job = s.wait_for_record()["job"]["pid"]
        os.close(t.master)
        equal(t.child.wait(20), 128 + signal.SIGHUP)
        equal(alive(job), False)
        equal(s.record()["exit"]["signal"], 1)


main()
