#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loading a model with and without `umactl run --load-window`, in turn, in one run on one machine: load time, the pool's peak, the lowest MemFree.

The loaders are real: a C program and PyTorch map a safetensors file (made here, random content) and copy it tensor by tensor into memory of their own, and
check what they have against the file's checksum. The peak is sampled from outside in the same way for both: the job's anonymous memory (RssAnon) and the file's
pages in the cache (cachestat(2)); beside it what the whole machine used beyond what it held without the file (free pages in per-CPU lists are free). Warm: the file
was read into the cache before; cold: it was evicted.
"""
import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {"M": 1 << 20, "G": 1 << 30}
SYS_CACHESTAT = 451
TICK = 0.01
libc = ctypes.CDLL(None, use_errno=True)


def cached(fd):
    """Bytes of an open file in the page cache."""
    found = (ctypes.c_uint64 * 5)()
    every = (ctypes.c_uint64 * 2)(0, 0)
    if libc.syscall(SYS_CACHESTAT, fd, ctypes.byref(every), ctypes.byref(found), 0) != 0:
        raise OSError(ctypes.get_errno(), "cachestat")
    return found[0] * os.sysconf("SC_PAGESIZE")


def field(path, name):
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def free_with_lists():
    """MemFree and the free pages that wait in per-CPU lists, which it leaves out: a gigabyte of what was just evicted can be there."""
    waiting = 0
    with open("/proc/zoneinfo", encoding="ascii") as f:
        for line in f:
            if line.startswith("              count:"):
                waiting += int(line.split()[1])
    return field("/proc/meminfo", "MemFree") + waiting * os.sysconf("SC_PAGESIZE")


class Sampler(threading.Thread):
    """Until the loader says that it has loaded all, and a moment longer."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.fd, self.pid, self.stop = os.open(path, os.O_RDONLY), 0, False
        self.lowest = field("/proc/meminfo", "MemFree")
        self.before = self.least = free_with_lists()
        self.cached_before, self.peak = cached(self.fd), 0

    def run(self):
        while not self.stop:
            anonymous = field(f"/proc/{self.pid}/status", "RssAnon") if self.pid else 0
            self.peak = max(self.peak, anonymous + cached(self.fd))
            self.lowest = min(self.lowest, field("/proc/meminfo", "MemFree"))
            self.least = min(self.least, free_with_lists())
            time.sleep(TICK)

    def end(self):
        self.stop = True
        self.join()
        os.close(self.fd)


def prepare(path, warm):
    with open(path, "rb", buffering=0) as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if warm:
            block = bytearray(8 << 20)
            while f.readinto(block):
                pass


def once(argv, path, warm):
    """{seconds, peak, used, lowest} of one load."""
    prepare(path, warm)
    sampler = Sampler(path)
    sampler.start()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        seconds, good = None, False
        for line in child.stdout:
            word, value = line.split()
            if word == "pid":
                sampler.pid = int(value)
            elif word == "seconds":
                seconds = float(value)
            elif word == "checksum":
                good = value == "ok"
        said = child.stderr.read()
    sampler.end()
    if child.returncode != 0 or seconds is None or not good:
        sys.exit(f"{' '.join(argv)}: status {child.returncode}, checksum {'ok' if good else 'wrong'}\n{said}")
    # what the pool holds beyond what it held without the file's pages
    return {"seconds": seconds, "peak": sampler.peak, "used": sampler.before + sampler.cached_before - sampler.least, "lowest": sampler.lowest, "said": said}


def torch_python():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


def size(text):
    return int(float(text[:-1]) * SIZES[text[-1]]) if text[-1] in SIZES else int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build folder (release, with bench)")
    parser.add_argument("--bytes", type=size, default=size("4G"), help="of the file (default 4G)")
    parser.add_argument("--window", default="256M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="/var/tmp", help="on a disk")
    parser.add_argument("--loaders", default="", help="only those whose name holds this")
    parser.add_argument("--verbose", action="store_true", help="what umactl says")
    options = parser.parse_args()
    umactl, loader = (os.path.join(options.build, path) for path in ("src/umactl", "bench/load_weights"))
    free = field("/proc/meminfo", "MemAvailable")
    if free < 3 * options.bytes:
        print(f"a file of {options.bytes / 2**30:.1f} GiB needs {3 * options.bytes / 2**30:.0f} GiB available, there are {free / 2**30:.1f}: skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="umactl-bench-", dir=options.folder) as where:
        path = os.path.join(where, "model.safetensors")
        subprocess.run([loader, "make", path, str(options.bytes)], check=True)
        total = os.path.getsize(path)
        loaders = {"C, shared, file order": [loader, "load", path, "shared", "file"],
                   "C, private, dict order": [loader, "load", path, "private", "dict"],
                   "C, private writable, file order": [loader, "load", path, "writable", "file"],
                   "C, read(2), file order": [loader, "load", path, "read", "file"]}
        python = torch_python()
        if python:
            script = os.path.join(HERE, "load_torch.py")
            loaders["torch, frombuffer over mmap"] = [python, script, path, "buffer", "dict"]
            loaders["torch, from_file"] = [python, script, path, "file", "file"]
        else:
            print("PyTorch is not installed: its loaders are left out\n")
        print(f"{total / 2**30:.2f} GiB, window {options.window}, medians of {options.rounds} rounds in turn\n")
        print("| loader | cache | load s, plain | with window | ratio | peak / file, plain | with window | MemTotal - free / file, plain | with window "
              "| lowest MemFree GiB, plain | with window |")
        print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
        state = os.path.join(where, "state")
        under = ["env", f"UMACTL_STATE={state}", umactl, "run", "--load-window", options.window, "--"]
        for name, argv in loaders.items():
            if options.loaders not in name:
                continue
            for warm in (True, False):
                rounds = [(once(argv, path, warm), once(under + argv, path, warm)) for _ in range(options.rounds)]
                if options.verbose:
                    print(rounds[-1][1]["said"], file=sys.stderr)

                def median(key, which):
                    return statistics.median(r[which][key] for r in rounds)

                cells = [f"{median('seconds', 0):.2f}", f"{median('seconds', 1):.2f}", f"{statistics.median(w['seconds'] / p['seconds'] for p, w in rounds):.3f}"]
                cells += [f"{median(key, which) / total:.2f}" for key in ("peak", "used") for which in (0, 1)]
                cells += [f"{median('lowest', which) / 2**30:.1f}" for which in (0, 1)]
                print(f"| {name} | {'warm' if warm else 'cold'} | {' | '.join(cells)} |", flush=True)
    print(f"\n{os.cpu_count()} CPUs, kernel {os.uname().release}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
