# SPDX-License-Identifier: MIT
"""What every black-box test here needs: running umactl (also on a terminal), TAP output, and the shape of its documents.

Paths come from the environment, set by meson.build: UMACTL (the program), UMACTL_PROBE, UMA_FAKE_LIBRARY (the fake NVML),
UMA_SCENARIOS (what it can answer), UMA_FIXTURES (folder with machines/), UMA_DOCS (folder with man/),
UMA_MEASURE (measure.c), UMA_SANITIZED (set in builds with sanitizers). Only the standard library is used.
"""

import difflib
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
import traceback

UMACTL = os.environ["UMACTL"]
FIXTURES = os.environ["UMA_FIXTURES"]
MACHINES = os.path.join(FIXTURES, "machines")
DOCS = os.environ["UMA_DOCS"]
FAKE_LIBRARY = os.environ.get("UMA_FAKE_LIBRARY")
SCENARIOS = os.environ.get("UMA_SCENARIOS", "")

def environment(**changes):
    """What a test's umactl inherits: nothing of the shell that runs it. None removes a name."""
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    for name in ("UMACTL_PROBE", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LD_PRELOAD"):
        if name in os.environ:
            env[name] = os.environ[name]
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


# ---- cases and TAP ---------------------------------------------------------------------------------------------------


class Skip(Exception):
    pass


_cases = []


def case(name):
    """Register a function as a test case."""

    def register(function):
        _cases.append((name, function))
        return function

    return register


def add(name, function, *arguments):
    """Register a case of a table."""
    _cases.append((name, lambda: function(*arguments)))


def main():
    failed = 0
    print(f"1..{len(_cases)}")
    for number, (name, function) in enumerate(_cases, 1):
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
        except Exception as error:  # noqa: BLE001 - every failure is a test's result
            failed += 1
            text = "".join(traceback.format_exception(error)) if not isinstance(error, AssertionError) else short_trace(error)
            for line in text.rstrip().splitlines()[:60]:
                print(f"# {printable(line)[:400]}")
            print(f"not ok {number} - {name}", flush=True)
    sys.exit(1 if failed else 0)


def short_trace(error):
    frame = traceback.extract_tb(error.__traceback__)[-1]
    places = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
    return f"{' > '.join(places)}: {frame.line}\n{error}"


def printable(text):
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def equal(got, expected, what=""):
    assert got == expected, f"{what}: got {got!r}, expected {expected!r}"


def contains(text, part):
    assert part in text, f"{part!r} is missing in:\n{text[:3000]}"


def difference(a, b):
    lines = difflib.unified_diff(a.splitlines(), b.splitlines(), "one", "other", lineterm="", n=1)
    return "\n".join(list(lines)[:30])


# ---- running ---------------------------------------------------------------------------------------------------------


class Result:
    def __init__(self, code, out, err, seconds=0.0, rss=0):
        self.code, self.out_bytes, self.err_bytes, self.seconds, self.rss = code, out, err, seconds, rss

    @property
    def out(self):
        return self.out_bytes.decode("utf-8", "strict")

    @property
    def err(self):
        return self.err_bytes.decode("utf-8", "strict")

    @property
    def json(self):
        return json.loads(self.out)

    def expect(self, code, err=""):
        assert self.code == code, f"exit status {self.code}, expected {code}\nstdout: {self.out_bytes[:800]!r}\nstderr: {self.err_bytes[:800]!r}"
        if err is not None:
            assert self.err == err, f"stderr: {self.err_bytes[:800]!r}, expected {err!r}"
        return self


def run(*args, stdin=None, env=None, timeout=60, stdout=subprocess.PIPE):
    """Run umactl to its end; seconds and peak resident bytes of that one process are in the result."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    start = time.monotonic()
    child = subprocess.Popen(
        [UMACTL, *args], stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
        env=env if env is not None else environment())
    try:
        out, err = child.communicate(data, timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise AssertionError(f"umactl {' '.join(args)}: no end within {timeout} s") from None
    return Result(child.returncode, out or b"", err, time.monotonic() - start)


def run_measured(*args, env=None):
    """The same, with the peak resident bytes of that process."""
    with tempfile.NamedTemporaryFile() as peak:
        start = time.monotonic()
        r = subprocess.run([os.environ["UMA_MEASURE"], peak.name, UMACTL, *args], stdin=subprocess.DEVNULL, capture_output=True,
                           env=env or environment(), timeout=60)
        seconds = time.monotonic() - start
        with open(peak.name, encoding="ascii") as f:
            return Result(r.returncode, r.stdout, r.stderr, seconds, int(f.read()))


class Terminal:
    """umactl on a terminal of its own."""

    def __init__(self, *args, rows=24, columns=80, env=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.child = subprocess.Popen([UMACTL, *args], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                      env=env or environment(TERM="xterm"),
                                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.output = b""

    def read(self, until=None, timeout=20):
        """Read until a text appears, or to the end."""
        end = time.monotonic() + timeout
        while until is None or until not in self.output:
            left = end - time.monotonic()
            assert left > 0, f"no {until!r} within {timeout} s, but {self.output[-500:]!r}"
            if not select.select([self.master], [], [], left)[0]:
                continue
            try:
                block = os.read(self.master, 65536)
            except OSError:  # EIO: the other side is closed
                block = b""
            if not block:
                break
            self.output += block
        return self.output

    def type(self, data):
        os.write(self.master, data)

    def wait(self, timeout=20):
        self.read(timeout=timeout)
        os.close(self.master)
        return self.child.wait(timeout)


def on_terminal(*args, rows=24, columns=80, env=None):
    t = Terminal(*args, rows=rows, columns=columns, env=env)
    code = t.wait()
    return code, t.output.replace(b"\r\n", b"\n").decode("utf-8", "strict")


def interrupt(child, seconds, number=signal.SIGINT):
    time.sleep(seconds)
    child.send_signal(number)


def machines():
    """Names of all machine fixtures."""
    if not os.path.isdir(MACHINES):
        return []
    return sorted(n for n in os.listdir(MACHINES) if os.path.isdir(os.path.join(MACHINES, n, "proc")))


def machine(name):
    path = os.path.join(MACHINES, name)
    assert os.path.isdir(path), f"fixture {name} is missing"
    return path


# ---- the shape of documents ------------------------------------------------------------------------------------------

# A shape is: a type; a tuple of allowed shapes; a list with one shape; a dict of key -> shape in the contract's order, where keys
# that the contract does not name may follow; or a set of allowed strings.
NUMBER = "number"
BYTES = "bytes"  # a whole number of bytes >= 0
COUNT = "count"


def check(value, shape, place="$"):
    if shape is None:
        assert value is None, f"{place}: {value!r}, expected null"
    elif isinstance(shape, tuple):
        errors = []
        for one in shape:
            try:
                check(value, one, place)
                return
            except AssertionError as error:
                errors.append(str(error))
        raise AssertionError("; ".join(errors))
    elif isinstance(shape, set):
        assert value in shape, f"{place}: {value!r}, expected one of {sorted(shape)}"
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{place}: {value!r}, expected an array"
        for i, one in enumerate(value):
            check(one, shape[0], f"{place}[{i}]")
    elif isinstance(shape, dict):
        assert isinstance(value, dict), f"{place}: {value!r}, expected an object"
        keys = list(value)
        assert keys[: len(shape)] == list(shape), f"{place}: keys {keys}, expected to begin with {list(shape)}"
        for key, one in shape.items():
            check(value[key], one, f"{place}.{key}")
    elif shape in (BYTES, COUNT):
        assert isinstance(value, int) and not isinstance(value, bool) and value >= 0, f"{place}: {value!r}, expected a whole number"
    elif shape == NUMBER:
        assert isinstance(value, (int, float)) and not isinstance(value, bool), f"{place}: {value!r}, expected a number"
    elif isinstance(shape, type):
        assert isinstance(value, shape), f"{place}: {value!r}, expected {shape.__name__}"
    elif isinstance(shape, str):
        assert value == shape, f"{place}: {value!r}, expected {shape!r}"
    else:
        raise TypeError(shape)


def or_null(shape):
    return (shape, None)


LEDGER_KINDS = ["free", "free_percpu_lists", "cache_clean", "cache_dirty", "cache_mapped", "shmem", "anon", "slab_reclaimable", "slab",
                "kernel", "hugetlb", "pinned", "gpu", "driver_pools", "cma_lost", "unexplained"]
KINDS = {"vllm", "sglang", "ollama", "llama.cpp", "trt-llm", "trl", "axolotl", "unsloth", "torchtune", "llama-factory", "megatron", "nemo",
         "comfyui", "ray", "pytorch", "other"}
HOLDER = {
    "pid": COUNT, "name": or_null(str), "kind": KINDS, "role": or_null({"serve", "train"}), "gpu_bytes": or_null(BYTES),
    "anon_bytes": or_null(BYTES), "shmem_bytes": or_null(BYTES),
    "cap": or_null({"fraction": or_null(NUMBER), "bytes": or_null(BYTES), "source": or_null(str)}),
    "container": or_null(str), "unit": or_null(str),
}
STATUS = {
    "schema": "umactl.status/1", "time": or_null(NUMBER), "host": or_null(str),
    "platform": {"name": {"dgx-spark", "jetson", "strix-halo", "gh200", "generic"}, "unified": or_null(bool), "gpu": or_null(str),
                 "driver": or_null(str), "kernel": or_null(str), "firmware": or_null(str)},
    "headroom": {"total": or_null(BYTES), "now": or_null(BYTES), "available": or_null(BYTES), "reclaimable_cache": or_null(BYTES),
                 "driver_pools": or_null(BYTES), "reserve": or_null(BYTES), "budget": or_null(BYTES), "reserved": or_null(BYTES),
                 "largest_free_block": or_null(BYTES), "swap_free": or_null(BYTES)},
    "ledger": or_null([{"kind": set(LEDGER_KINDS), "bytes": BYTES}]),
    "holders": [HOLDER],
    "views": {"nvidia_smi": or_null(BYTES), "cuda_mem_get_info": or_null(BYTES), "free_free": or_null(BYTES),
              "free_available": or_null(BYTES)},
    "heat": {"gpu_celsius": or_null(NUMBER), "limit_margin_celsius": or_null(NUMBER), "board_celsius": or_null(NUMBER),
             "watts": or_null(NUMBER), "sm_hertz": or_null(NUMBER), "utilization": or_null(NUMBER), "throttle": or_null([str]),
             "throttle_seconds": {"sw_power_cap": or_null(NUMBER), "sync_boost": or_null(NUMBER), "sw_thermal": or_null(NUMBER),
                                  "hw_thermal": or_null(NUMBER), "hw_power_brake": or_null(NUMBER)}},
    "problems": [{"id": str, "severity": {"info", "warning", "critical"}, "summary": str, "evidence": str, "remedy": str}],
}
REQUIRE = {"schema": "umactl.require/1", "needed": BYTES, "budget": or_null(BYTES), "met": or_null(bool), "waited": NUMBER,
           "holders": [HOLDER]}


def check_status(document):
    check(document, STATUS)
    total = document["headroom"]["total"]
    if total is None:
        equal(document["ledger"], None, "ledger of an unknown total")
    else:
        equal([row["kind"] for row in document["ledger"]], LEDGER_KINDS, "ledger kinds")
        equal(sum(row["bytes"] for row in document["ledger"]), total, "sum of the ledger")
    return document


def assert_clean_text(data, allow_escape=False):
    """Valid UTF-8 without control characters (but newlines) and without direction overrides."""
    text = data.decode("utf-8", "strict")
    for c in text:
        o = ord(c)
        bad = (o < 0x20 and c != "\n") or 0x7F <= o <= 0x9F or 0x202A <= o <= 0x202E or 0x2066 <= o <= 0x2069
        if bad and not (allow_escape and c == "\x1b"):
            raise AssertionError(f"control character {c!r} in {text[max(0, text.index(c) - 60):text.index(c) + 60]!r}")
    return text
