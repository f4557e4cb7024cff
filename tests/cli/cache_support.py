# SPDX-License-Identifier: MIT
"""Real files on a real disk whose pages are in the cache or not, and who holds them: what the tests of `umactl cache` share.

The kernel of a machine may page out cold cache at any time, so a test fills, asks and compares at once, and says how much may differ.
"""

import atexit
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile

from harness import Skip

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from disk import PAGE, cached, disk_places  # noqa: E402,F401

MIB = 1 << 20


def disk_folder(need=64 * MIB):
    """A folder on a disk, removed at the end. Skips where there is none with room."""
    for base in disk_places(overlay=False):
        if shutil.disk_usage(base).free < 2 * need:
            continue
        folder = os.path.realpath(tempfile.mkdtemp(prefix="umactl-cache-", dir=base))
        os.chmod(folder, 0o755)
        atexit.register(shutil.rmtree, folder, True)
        return folder
    raise Skip("no folder on a disk with room")


@functools.cache
def _disk():
    return disk_folder()


def place(name):
    """A folder of this name on the disk, which all cases of one script share."""
    path = os.path.join(_disk(), name)
    os.makedirs(path, exist_ok=True)
    return path


def by_path(document):
    return {f["path"]: f for f in document["files"]}


def put(path, size, resident=True, data=None):
    """A file that is on the disk, its pages in the cache or not."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    block = data if data is not None else os.urandom(min(size, MIB)) if size else b""
    left = size
    while left > 0:
        left -= os.write(fd, block[: min(left, len(block))])
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    if resident:
        fill(path)
    return path


def fill(path, offset=0, length=None):
    """Read a part, and that part alone: without read-ahead."""
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        end = size if length is None else min(size, offset + length)
        while offset < end:
            n = len(os.pread(fd, min(MIB, end - offset), offset))
            if n == 0:
                break
            offset += n
    finally:
        os.close(fd)


def dirty(path, size):
    """A file with data that is not on the disk yet."""
    with open(path, "wb") as f:
        f.write(os.urandom(min(size, MIB)) * (size // min(size, MIB)))
    return path


def fincore(paths):
    """Resident bytes of each file as util-linux says; Skip where it is not installed."""
    if not shutil.which("fincore"):
        raise Skip("fincore is not installed")
    found = {}
    for i in range(0, len(paths), 500):
        r = subprocess.run(["fincore", "-J", "-b", "-o", "RES,FILE", *paths[i : i + 500]], capture_output=True, check=True)
        for row in json.loads(r.stdout)["fincore"]:
            found[row["file"]] = int(row["res"])
    return found


class Mapper:
    """A process that maps a part of a file and touches it, until it is closed."""

    CODE = """
import ctypes, mmap, sys
path, length, lock = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "lock"
with open(path, "rb") as f:
    m = mmap.mmap(f.fileno(), length, prot=mmap.PROT_READ)
libc = ctypes.CDLL(None, use_errno=True)
if lock:
    libc.mlockall.argtypes = [ctypes.c_int]
    if libc.mlockall(1) != 0:
        print("refused", flush=True)
        sys.exit(1)
total = sum(m[i] for i in range(0, length, mmap.PAGESIZE))
print("ready", flush=True)
sys.stdin.read()
"""

    def __init__(self, path, length, lock=False, name=None):
        program = [name] if name else [sys.executable]
        self.child = subprocess.Popen([*program, "-c", self.CODE, path, str(length), "lock" if lock else "plain"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, executable=sys.executable)
        self.pid = self.child.pid
        if self.child.stdout.readline() != b"ready\n":
            self.child.wait()
            raise Skip("the memory could not be locked")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait()


def nobody():
    """The front of a command line that runs the rest without any right; Skip where that cannot be had."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]


@contextlib.contextmanager
def memory_file():
    """A file of 1 MiB in /dev/shm: its pages are the file."""
    if not os.path.ismount("/dev/shm") or not os.access("/dev/shm", os.W_OK):
        raise Skip("there is no /dev/shm")
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="umactl-test-") as f:
        f.write(b"x" * MIB)
        f.flush()
        yield f
