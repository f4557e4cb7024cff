# SPDX-License-Identifier: MIT
"""A uma-guard-helper that runs for one case: its folders, its lines, the file that it writes for the guard, and what the guard would say to it.

UMA_GUARD_HELPER is the program, UMA_GUARD_SEND tests/guard/send.c; the rest is as in tests/cli/harness.py."""

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

from harness import FAKE_LIBRARY, environment  # noqa: E402

HELPER = os.environ["UMA_GUARD_HELPER"]
SEND = os.environ["UMA_GUARD_SEND"]
NOTHING, ROOM, BRAKE, RELEASE, WARN, TERM, KILL, UNKILLABLE = range(8)
PATIENCE = 15  # seconds for what takes milliseconds on a machine that is not loaded


def wait_for(what, condition, seconds=PATIENCE):
    """The first true answer of condition()."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def start_of(pid):
    with open(f"/proc/{pid}/stat", "rb") as f:
        return int(f.read().rpartition(b")")[2].split()[19])


class Gpu:
    """What stands in the shared file (guard/gpu_file.h)."""

    HEAD = struct.Struct("=QIIqqQ")
    ENTRY = struct.Struct("=iIQQ")

    def __init__(self, data):
        magic, self.sequence, n, self.asked, self.answered, self.total = self.HEAD.unpack_from(data)
        assert magic == 0x31555047474D5530, hex(magic)
        self.processes = {}
        for i in range(n):
            pid, _, start, used = self.ENTRY.unpack_from(data, self.HEAD.size + i * self.ENTRY.size)
            self.processes[pid] = (start, used)


class Helper:
    def __init__(self, scenario=None, policy="", **env):
        self._folder = tempfile.TemporaryDirectory(prefix="uma-helper-")
        self.path = self._folder.name
        self.run = self.file("run")
        self.warn = self.file("warn")
        for folder in (self.run, self.warn):
            os.mkdir(folder, 0o755)
        os.chmod(self.warn, 0o1777)
        self.put("guard.conf", policy)
        self.put("scenario", scenario or "value nvmlInit = 9\n")
        self.env = environment(UMACTL_NVML=FAKE_LIBRARY, UMA_FAKE_NVML=self.file("scenario"), UMACTL_WARN_FOLDER=self.warn, **env)
        self.lines = []
        self.process = None

    def file(self, name):
        return os.path.join(self.path, name)

    def put(self, name, text):
        """By rename: the fake library reads its file whenever it changed."""
        with open(self.file(name + ".new"), "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(self.file(name + ".new"), self.file(name))

    def arguments(self):
        return [HELPER, "--run-folder", self.run, "--policy", self.file("guard.conf")]

    def start(self):
        self.process = subprocess.Popen(self.arguments(), env=self.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        errors="backslashreplace")
        threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True).start()
        wait_for("the helper's socket", lambda: self._listens() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log
        return self

    def _listens(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            return s.connect_ex(self.socket) == 0 and (gpu := self.gpu()) and gpu.asked

    def _read(self, stream):
        for line in stream:
            self.lines.append(line.rstrip("\n"))

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
        self._folder.cleanup()

    @property
    def socket(self):
        return os.path.join(self.run, "helper")

    @property
    def log(self):
        return "\n".join(self.lines)

    def says(self, part, seconds=PATIENCE):
        wait_for(f"{part!r} in its lines:\n{self.log}", lambda: part in self.log, seconds)

    def send(self, kind, **fields):
        words = [f"kind={kind}", *(f"{k}={v}" for k, v in fields.items())]
        subprocess.run([SEND, self.socket, *words], check=True, timeout=PATIENCE)

    def send_bytes(self, data):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(data, self.socket)

    def gpu(self):
        """None: nothing readable there yet."""
        try:
            with open(os.path.join(self.run, "gpu"), "rb") as f:
                data = f.read()
        except FileNotFoundError:
            return None
        return Gpu(data) if len(data) >= Gpu.HEAD.size else None

    def stop(self, signo=signal.SIGTERM):
        self.process.send_signal(signo)
        return self.process.wait(PATIENCE)
