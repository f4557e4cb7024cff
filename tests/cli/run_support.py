# SPDX-License-Identifier: MIT
"""What the tests of `umactl run` share: a state directory per case, the record of the last run, and jobs on a terminal."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

from harness import UMACTL, environment

PYTHON = sys.executable

# A shell without job control starts what it puts into the background with INT and QUIT ignored, and a job inherits that, as it should. These
# cases are about a job that has them; one that is caught here is the default after exec.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, lambda *_: os.abort())


class Sandbox:
    """A place for one case: state directory, working files. Use as a context."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="uma-run-")
        self.path = self._folder.name
        self.state = os.path.join(self.path, "state")
        self._children = []
        return self

    def __exit__(self, *_):
        for child in self._children:  # of a case that failed
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(10)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
        self._folder.cleanup()

    def file(self, name):
        return os.path.join(self.path, name)

    def env(self, **changes):
        return environment(**{"UMACTL_STATE": self.state, **changes})

    def start(self, *args, env=None, **popen):
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        child = subprocess.Popen([UMACTL, "run", *args], env=env or self.env(), **popen)
        self._children.append(child)
        return child

    def run(self, *args, timeout=60, stdin=b"", **popen):
        child = self.start(*args, stdin=subprocess.PIPE, **popen)
        try:
            out, err = child.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise AssertionError(f"umactl run {args}: no end within {timeout} s") from None
        return child.returncode, out, err

    def records(self):
        runs = os.path.join(self.state, "runs")
        return sorted(os.path.join(runs, n) for n in os.listdir(runs)) if os.path.isdir(runs) else []

    def folder(self):
        found = self.records()
        assert len(found) == 1, f"{len(found)} records, expected 1"
        return found[0]

    def record(self):
        with open(os.path.join(self.folder(), "run.json"), encoding="utf-8") as f:
            return json.load(f)

    def events(self):
        with open(os.path.join(self.folder(), "events.jsonl"), encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def wait_for_record(self, timeout=20):
        """Wait until the job runs and its record says so."""
        return wait_until(lambda: self.records() and self._readable() and self.record()["job"]["pid"] and self.record(), timeout)

    def _readable(self):
        return os.path.exists(os.path.join(self.folder(), "run.json"))


def wait_until(true, timeout=20, what="condition"):
    end = time.monotonic() + timeout
    while True:
        value = true()
        if value:
            return value
        assert time.monotonic() < end, f"{what}: not within {timeout} s"
        time.sleep(0.02)


def state_of(pid):
    """The process's state letter, None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def alive(pid):
    return state_of(pid) not in (None, "Z", "X")


def sleeping(job):
    """Wait until the shell that is the job runs its `sleep`. A stop that comes between a shell's vfork(2) and the exec of its child stops the child alone: the
    shell waits for that exec, is never stopped, and so tells nobody; with umactl or without."""

    def there():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                    head, rest = f.read().rsplit(")", 1)
            except OSError:
                continue
            if head.endswith("(sleep") and (int(pid) == job or int(rest.split()[1]) == job):
                return True
        return False

    wait_until(there, what="the job's sleep")


def end_process(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Tty:
    """Any command on a terminal of its own; `session`: as its session leader, so that /dev/tty is that terminal."""

    def __init__(self, argv, env, rows=24, columns=80):
        self.master, slave = pty.openpty()
        self.resize(rows, columns, slave)
        self.child = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True,
                                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.output = b""

    def resize(self, rows, columns, fd=None):
        fcntl.ioctl(self.master if fd is None else fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, until=None, timeout=30):
        end = time.monotonic() + timeout
        while until is None or until not in self.output:
            left = end - time.monotonic()
            assert left > 0, f"no {until!r} within {timeout} s, but {self.output[-800:]!r}"
            if not select.select([self.master], [], [], left)[0]:
                continue
            try:
                block = os.read(self.master, 65536)
            except OSError:
                block = b""
            if not block:
                assert until is None, f"no {until!r} before the end, but {self.output[-800:]!r}"
                break
            self.output += block
        return self.output

    def type(self, data):
        os.write(self.master, data)

    def end(self, timeout=30):
        self.read(timeout=timeout)
        code = self.child.wait(timeout)
        os.close(self.master)
        return code
