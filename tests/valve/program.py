# SPDX-License-Identifier: MIT
"""A program under the valve, before a driver without a GPU: started by a route, told what to do line by line (steps.c), its account and the driver's books read beside it.

Paths come from the environment, set by meson.build. Only the standard library is used.
"""
import os
import subprocess
import tempfile
import threading

VALVE = os.environ["UMA_VALVE"]
ROUTES = os.environ["UMA_VALVE_ROUTES"]
DIRECT = os.environ["UMA_VALVE_DIRECT"]
ACCOUNT = os.environ["UMA_VALVE_ACCOUNT"]
LIBRARIES = os.environ["UMA_FAKE_LIBRARIES"]
SCENARIOS = os.environ["UMA_SCENARIOS"]
EMULATOR = os.environ.get("UMA_VALVE_EMULATOR", "").split()  # in front of each program of another architecture
MIB, GIB = 1 << 20, 1 << 30
OUT_OF_MEMORY = 2

# every call that says how much it takes
CALLS = ["cuMemAlloc", "cuMemAllocPitch", "cuMemAllocManaged", "cuMemAllocHost", "cuMemHostAlloc", "cuMemCreate", "cuMemAllocAsync", "cuMemAllocFromPoolAsync",
         "cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate"]
EVENT = {1: "refused-ceiling", 2: "refused-floor", 3: "made-room", 4: "retried"}


class Slot:
    def __init__(self, words):
        self.pid, self.used, self.under_way, self.overhead, self.refused = map(int, words[:5])
        self.name = words[5] if len(words) > 5 else ""


class Account:
    def __init__(self, text):
        lines = text.splitlines()
        self.ceiling, self.floor, self.n_slots, self.next_event, self.most = map(int, lines[0].split())
        self.slots = [Slot(line.split(" ", 6)[1:]) for line in lines if line.startswith("slot ")]
        self.events = [(EVENT[int(w[1])], *map(int, w[2:])) for w in (line.split() for line in lines if line.startswith("event "))]
        self.used = sum(s.used for s in self.slots)
        self.overhead = sum(s.overhead for s in self.slots)
        self.under_way = sum(s.under_way for s in self.slots)

    def slot(self, pid):
        return next((s for s in self.slots if s.pid == pid), None)


class Program:
    """`valve`: the variable, or None for a program without the preload. `before`: words before the program's own, which start it."""

    def __init__(self, route="dlopen", valve=f"ceiling:{GIB},floor:0", fake="", preload_after="", expect="ready", before=(), **environment):
        self.stderr = tempfile.TemporaryFile("w+")
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": LIBRARIES, "UMA_FAKE_CUDA": fake, "UMA_DIRECT_LIBRARY": os.environ["UMA_DIRECT_LIBRARY"],
               "UMA_FAKE_NVML": os.path.join(SCENARIOS, "gb10-idle.scenario"), "UMACTL_RESERVATIONS": "/nonexistent"}
        if valve is not None:
            env["UMACTL_VALVE"] = valve
            env["LD_PRELOAD"] = " ".join(filter(None, [VALVE, preload_after]))
        env.update(environment)
        self.process = subprocess.Popen([*before, *EMULATOR, DIRECT if route == "direct" else ROUTES, route], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, text=True)
        self.pid = self.process.pid
        self.expect(expect)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Its exit status."""
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
                self.process.wait(20)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def log(self):
        self.stderr.flush()
        with open(f"/proc/self/fd/{self.stderr.fileno()}", encoding="utf-8") as f:
            return f.read()

    def read(self):
        patience = threading.Timer(60, self.process.kill)
        patience.start()
        line = self.process.stdout.readline()
        patience.cancel()
        assert line, f"the program ended: {self.process.wait(10)}: {self.log()}"
        return line.strip()

    def expect(self, line):
        got = self.read()
        assert got == line, f"{got}: {self.log()}"

    def send(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def ask(self, *words):
        """The numbers that it answers."""
        self.send(*words)
        return [int(w) for w in self.read().split()]

    def do(self, *words):
        """As ask(), and the driver must have said yes: what follows that."""
        answer = self.ask(*words)
        assert answer[0] == 0, f"{words}: {answer} {self.log()}"
        return answer[1] if len(answer) == 2 else answer[1:]

    def begin(self, context=True):
        self.do("init")
        if context:
            self.do("retain", 0)
        return self

    def take(self, call, size, extra=0):
        return self.ask("take", call, size, extra)

    def books(self):
        """What the driver has given: (bytes that calls named, bytes of contexts and code, calls that took memory, of them refused, all calls)."""
        return self.do("books")

    def account(self):
        return account_of(self.pid)


_reader = None


def account_of(pid):
    """Asked of one process that stays, for it is asked some thousand times."""
    global _reader
    if _reader is None:
        _reader = subprocess.Popen([*EMULATOR, ACCOUNT, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    _reader.stdin.write(f"{pid}\n")
    _reader.stdin.flush()
    lines = list(iter(lambda: _reader.stdout.readline() or "end\n", "end\n"))
    return None if not lines or lines[0] == "none\n" else Account("".join(lines))


class Holder:
    """Who holds an account open, as `umactl run` does."""

    def __init__(self, ceiling, floor=0):
        self.process = subprocess.Popen([*EMULATOR, ACCOUNT, "hold", str(ceiling), str(floor)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)

    def account(self):
        return account_of(self.process.pid)
