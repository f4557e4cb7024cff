# SPDX-License-Identifier: MIT
"""What the guard's tests share: a machine whose memory the test tells, a guard that watches it, and victims on it that are real.

The guard runs in a mount namespace of its own, where /proc/meminfo is a file that the test writes: what is left is what the test says less what
the victims really hold. So nothing depends on what else this machine does, no memory to speak of is taken, and the moment in which a condition came true is
known. Processes, signals and all other files are the machine's own. `--within` names a process of the test: nobody else can be touched.

Paths come from the environment, set by meson.build: UMA_GUARD, UMA_GUARD_SHARED (the same linked with the shared C library, for preloaded helpers), UMA_GROW, UMA_TRAIL_LIST.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

GUARD = os.environ["UMA_GUARD"]
GROW = os.environ["UMA_GROW"]
TRAIL_LIST = os.environ["UMA_TRAIL_LIST"]
MIB = 1 << 20
# A small machine: first touches of memory come at a tenth of a GB/s where tests run beside each other.
TOTAL = 1024 * MIB
FLOOR = 256 * MIB
AVAILABLE = 512 * MIB

POLICY = """[Floor]
Floor=256M
HardFloor=64M
[Brake]
BrakeMost=60
[Kill]
TermGrace=1
ReleaseWait=5
[Room]
Room=no
"""


def can_unshare():
    return subprocess.run(unshare() + ["true"], capture_output=True).returncode == 0


def unshare():
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]


def until(what, timeout=15.0, step=0.005, why=""):
    """The first true value of what(), or a failure."""
    end = time.monotonic() + timeout
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, f"not within {timeout} s: {why}"
        time.sleep(step)


def state(pid):
    """The state's letter; None: gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rsplit(b")", 1)[1].split()[0].decode()
    except OSError:
        return None


def stopped(pid):
    return state(pid) in ("T", "t")


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm", "rb") as f:
            return int(f.read().split()[1]) * 4096
    except (OSError, IndexError):
        return 0


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as f:
                    if int(f.read().rsplit(b")", 1)[1].split()[1]) == pid:
                        found.append(int(name))
            except OSError:
                pass
    return found


class Victim:
    """tests/guard/grow.c"""

    def __init__(self, *arguments, name=None):
        self.folder = None
        program = GROW
        if name is not None:  # a program is known by its file's name
            self.folder = tempfile.mkdtemp(prefix="umactl-test-")
            program = os.path.join(self.folder, name)
            shutil.copy(GROW, program)
        self.child = subprocess.Popen([program, "--wait", *[str(a) for a in arguments]], stdout=subprocess.PIPE)
        self.pid = self.child.pid
        assert self.child.stdout.readline().startswith(b"ready")

    def begin(self):
        self.child.send_signal(signal.SIGUSR1)

    def tree(self):
        return [self.pid] + children(self.pid)

    def ended(self):
        return self.child.poll() is not None

    def end(self):
        for pid in children(self.pid) + [self.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.child.wait()
        self.child.stdout.close()
        if self.folder:
            shutil.rmtree(self.folder)


class Machine:
    """/proc/meminfo of `total`, with `available` less what the victims hold. Written every millisecond or two.

    It falls by `fastest` bytes a second at most: where other work keeps this writer waiting, what the victims took meanwhile would be a collapse in one step.
    """

    def __init__(self, available=AVAILABLE, total=TOTAL, fastest=200 * MIB):
        self.folder = tempfile.mkdtemp(prefix="umactl-test-")
        self.total, self.available, self.taken = total, available, 0
        self.cache = 0  # of what is available: in the way of MemFree
        self.victims = []
        self.crossed = None  # when it was first at or below the floor, monotonic
        self.lowest = self.shown = self.before = available
        self.fastest, self.written = fastest, time.monotonic()
        self.meminfo = os.open(os.path.join(self.folder, "meminfo"), os.O_RDWR | os.O_CREAT, 0o644)
        with open(os.path.join(self.folder, "zoneinfo"), "w", encoding="ascii") as f:
            f.write("Node 0, zone   Normal\n  pagesets\n    cpu: 0\n              count: 0\n")
        self.write()
        self.going = True
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def left(self):
        held = sum(resident(pid) for victim in list(self.victims) for pid in victim.tree()) if self.victims else 0
        return max(self.available - self.taken - held, 0)

    def write(self):
        now = time.monotonic()
        really = self.left()
        left = max(min(really, self.before), self.shown - int(self.fastest * min(now - self.written, 0.03)))
        self.before = really  # a tree that was listed while it changed is small for one look: it is no room until the next look says so, too
        self.shown, self.written = left, now
        self.lowest = min(self.lowest, left)
        if left <= FLOOR and self.crossed is None:
            self.crossed = time.monotonic()
        cache = min(self.cache, left)
        rows = {"MemTotal": self.total, "MemFree": left - cache, "MemAvailable": left, "Buffers": 0, "Cached": cache, "SwapCached": 0, "AnonPages": self.total - left,
                "Shmem": 0, "Dirty": 0, "Writeback": 0, "SwapTotal": 0, "SwapFree": 0}
        text = "".join(f"{name + ':':16}{value // 1024:8} kB\n" for name, value in rows.items())
        os.pwrite(self.meminfo, text.encode(), 0)  # of one length always: a reader sees no half of it

    def run(self):
        while self.going:
            self.write()
            time.sleep(0.001)

    def close(self):
        self.going = False
        self.thread.join()
        os.close(self.meminfo)
        shutil.rmtree(self.folder, ignore_errors=True)


class Guard:
    def __init__(self, machine, policy=POLICY, *arguments, program=GUARD, env=None, run=None, state_folder=None, within=True, prefix=(), wait=True,
                 shared_memory=None):
        self.machine = machine
        self.folder = tempfile.mkdtemp(prefix="umactl-test-")
        self.run = run or os.path.join(self.folder, "run")
        self.state_folder = state_folder or os.path.join(self.folder, "state")
        for folder in (self.run, self.state_folder):
            os.makedirs(folder, exist_ok=True)
        self.policy = os.path.join(self.folder, "guard.conf")
        self.set_policy(policy)
        self.lines = []
        command = [program, "--policy", self.policy, "--run-folder", self.run, "--state-folder", self.state_folder]
        if within:
            command += ["--within", str(os.getpid())]
        command += arguments
        if machine is not None:
            inside = 'mount --bind "$0/meminfo" /proc/meminfo && mount --bind "$0/zoneinfo" /proc/zoneinfo && exec "$@"'
            if shared_memory is not None:  # where registers of reservations are looked for
                inside = f'mount --bind "{shared_memory}" /dev/shm && {inside}'
            command = unshare() + ["sh", "-c", inside, machine.folder, *prefix, *command]
        else:
            command = [*prefix, *command]
        self.child = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "JOURNAL_STREAM": "", **(env or {})})
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if wait:
            self.wait_for("headroom")  # its first line, when all is open, rehearsed and locked

    def set_policy(self, text):
        with open(self.policy, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(self.policy, 0o644)

    def read(self):
        for line in self.child.stderr:
            self.lines.append((time.monotonic(), line.decode("utf-8", "replace").rstrip("\n")))

    def text(self):
        return "\n".join(line for _, line in self.lines)

    def wait_for(self, part, timeout=15.0, after=0):
        """The number of the line that has it."""

        def look():
            for i, (_, line) in enumerate(self.lines[after:], after):
                if part in line:
                    return i + 1
            assert self.child.poll() is None or self.reader.is_alive(), f"it ended: {self.text()}"
            return 0

        try:
            return until(look, timeout) - 1
        except AssertionError as error:
            raise AssertionError(f"no {part!r} in:\n{self.text()}") from error

    @property
    def pid(self):
        """Of the guard itself: unshare and sh became it."""
        return self.child.pid

    def signal(self, number):
        os.kill(self.pid, number)

    def ask(self, question, timeout=5.0):
        """The answer as a dictionary; keys that come more than once are lists."""
        mine = os.path.join(self.run, f"control.{os.getpid()}.{time.monotonic_ns()}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(mine)
            try:
                s.settimeout(timeout)
                s.sendto(question if isinstance(question, bytes) else question.encode(), os.path.join(self.run, "control"))
                answer = s.recv(4096).decode()
            finally:
                os.unlink(mine)
        found = {}
        for line in answer.splitlines():
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
        return {key: values if key == "braked" else values[0] for key, values in found.items()}

    def trail(self):
        """Records as dictionaries, in order."""
        r = subprocess.run([TRAIL_LIST, os.path.join(self.state_folder, "trail")], capture_output=True, text=True, check=False)
        assert r.returncode == 0, "the trail cannot be read"
        records = []
        for line in r.stdout.splitlines()[:-1]:
            record = {"kind": line.split(" ", 1)[0]}
            for key, quoted, plain in re.findall(r'(\w+)=(?:"([^"]*)"|(\S+))', line):
                record.setdefault(key, quoted or plain)
            records.append(record)
        return records

    def receipts(self, action):
        return [r for r in self.trail() if r["kind"] == "receipt" and r.get("action") == action]

    def stop(self, timeout=10):
        if self.child.poll() is None:
            self.child.terminate()
        try:
            code = self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise AssertionError(f"it does not end:\n{self.text()}") from None
        self.reader.join(5)
        return code

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        self.reader.join(5)
        self.child.stderr.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Scene:
    """with Scene(...) as (machine, guard): everything is ended afterwards, and what the guard said is told where it failed."""

    def __init__(self, *arguments, available=AVAILABLE, policy=POLICY, fastest=200 * MIB, **keywords):
        self.machine = Machine(available, fastest=fastest)
        self.arguments, self.keywords, self.policy = arguments, keywords, policy

    def __enter__(self):
        try:
            self.guard = Guard(self.machine, self.policy, *self.arguments, **self.keywords)
        except BaseException:
            self.machine.close()
            raise
        return self.machine, self.guard

    def victim(self, *arguments, **keywords):
        victim = Victim(*arguments, **keywords)
        self.machine.victims.append(victim)
        return victim

    def __exit__(self, kind, error, trace):
        for victim in self.machine.victims:
            victim.end()
        if error is not None:
            print("# " + self.guard.text().replace("\n", "\n# "), flush=True)
        self.guard.close()
        self.machine.close()
        return False
