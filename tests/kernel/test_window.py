#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The helper that is preloaded into a job (libuma-window.so), asked by this script in umactl's place: what it releases, what it refuses, and that
whatever it is asked, and whatever the program does meanwhile, no byte of the program's memory changes.
"""
import ctypes
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from disk import TMPFS, disk_places, file_system  # noqa: E402

LIBRARY, JOB = os.environ["UMA_WINDOW_LIBRARY"], os.environ["UMA_WINDOW_JOB"]
PAGE, MIB = os.sysconf("SC_PAGESIZE"), 1 << 20
SIZE = 32 * MIB
RANGES = 64
OK, NOT_MAPPED, PRIVATE_WRITABLE, LOCKED, FAILED = range(5)
NOBODY = 65534
EPERM, EINVAL = 1, 22


class Skip(Exception):
    pass


class Place:
    """A folder with the library, the program and a file, where others may read and run them."""

    def __init__(self):
        where = next(disk_places(), None)
        if not where:
            print("1..0 # SKIP no folder on a disk to write to")
            sys.exit(0)
        self.folder = tempfile.mkdtemp(prefix="uma-window-", dir=where)
        os.chmod(self.folder, 0o755)
        self.library, self.job = shutil.copy(LIBRARY, self.folder), shutil.copy(JOB, self.folder)
        self.file = self.make("weights", SIZE)
        self.small = self.make("small", 8 * MIB)

    def make(self, name, size, owner=None):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            for at in range(0, size, MIB):
                f.write(struct.pack(f"<{MIB // 8}Q", *range(at, at + MIB, 8)))
            f.flush()
            os.fsync(f.fileno())
        os.chmod(path, 0o644)
        if owner is not None:
            os.chown(path, owner, owner)
        return path


class Job:
    """The program under the helper, and the socket on which the helper asks for work."""

    def __init__(self, place, nobody=False, environment=True, listen=True):
        self.folder = tempfile.mkdtemp(prefix="socket-", dir=place.folder)
        self.path = os.path.join(self.folder, "s")
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if listen:
            self.server.bind(self.path)
            self.server.listen(8)
        self.server.settimeout(10)
        if nobody:
            if os.geteuid() != 0:
                raise Skip("only root can start a program as somebody else")
            os.chmod(self.folder, 0o755)
            if listen:
                os.chmod(self.path, 0o777)
        env = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": place.library}
        if environment:
            env["UMACTL_WINDOW"] = self.path
        how = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if nobody else {}
        self.child = subprocess.Popen([place.job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, **how)
        self.talk, self.hello = None, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for part in (self.talk, self.server):
            if part:
                part.close()
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()
        shutil.rmtree(self.folder)

    def say(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def ask(self, line):
        self.say(line)
        answer = self.child.stdout.readline().rstrip("\n")
        assert answer and not answer.startswith("failed"), f"{line}: {answer or 'the program ended'}"
        return answer

    def map(self, path, access, sharing="private"):
        return [int(word) for word in self.ask(f"map {path} {access} {sharing}").split()]

    def accept(self):
        self.talk, _ = self.server.accept()
        self.talk.settimeout(20)
        version, self.hello = struct.unpack("=Ii", self.talk.recv(4096))
        equal(version, 1, "version")
        return self

    def connected(self, seconds=0.4):
        self.server.settimeout(seconds)
        try:
            self.talk, _ = self.server.accept()
            return True
        except TimeoutError:
            return False

    def request(self, *ranges):
        """[(released, error, refusal), ...]"""
        self.talk.send(struct.pack("=II", 1, len(ranges)) + b"".join(struct.pack("=QQ", *r) for r in ranges))
        answer = self.talk.recv(65536)
        assert answer, "the helper is gone"
        version, n = struct.unpack_from("=II", answer)
        equal((version, n), (1, len(ranges)), "version and number")
        return [struct.unpack_from("=QiI", answer, 8 + 16 * i) for i in range(n)]

    def closed(self):
        try:
            return self.talk.recv(4096) == b""
        except ConnectionResetError:
            return True

    def resident(self, address):
        """Bytes of the mapping at an address that are in the program's page table."""
        with open(f"/proc/{self.hello}/smaps", encoding="utf-8") as f:
            here = False
            for line in f:
                if "-" in line.split(" ", 1)[0]:
                    start, end = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
                    here = start <= address < end
                elif here and line.startswith("Rss:"):
                    return int(line.split()[1]) * 1024
        return None

    def good(self, *slots):
        for slot in slots:
            equal(self.ask(f"check {slot}"), "ok", f"memory of mapping {slot}")


def in_cache(path):
    """Bytes of a file in the page cache; whoever asks owns it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mincore.argtypes, libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p], [ctypes.c_void_p, ctypes.c_size_t]
    size = os.path.getsize(path)
    fd = os.open(path, os.O_RDONLY)
    at = libc.mmap(None, size, 1, 1, fd, 0)
    pages = ctypes.create_string_buffer(size // PAGE)
    equal(libc.mincore(at, size, pages), 0, "mincore")
    libc.munmap(at, size)
    os.close(fd)
    return sum(page & 1 for page in pages.raw) * PAGE


def passed_over():
    """Bytes that a request may leave where nothing can be dropped: each processor keeps up to 31 pages that were just read in a batch, out of reach."""
    return os.cpu_count() * 31 * PAGE


def equal(got, expected, what=""):
    assert got == expected, f"{what}: {got!r}, expected {expected!r}"


# ---- cases -----------------------------------------------------------------------------------------------------------


def nothing_before(place):
    """no thread and no connection before a regular file of 16 MiB is mapped, nor outside a job of umactl"""
    with Job(place) as job:
        job.map(place.small, "r")
        job.ask("touch 0")
        equal(job.ask("threads"), "1", "threads")
        assert not job.connected(), "connected"
    with Job(place, environment=False) as job:
        job.map(place.file, "r")
        equal(job.ask("threads"), "1", "threads")


def memory_file(place):
    """a file that is memory itself starts nothing"""
    if file_system("/dev/shm") != TMPFS or not os.access("/dev/shm", os.W_OK):
        raise Skip("no tmpfs at /dev/shm")
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as f, Job(place) as job:
        f.truncate(SIZE)
        os.chmod(f.name, 0o644)
        job.map(f.name, "r")
        equal(job.ask("threads"), "1", "threads")


def paged_out(place):
    """a mapping that is only read leaves the program and the cache, and comes back as it was"""
    for sharing in ("private", "shared"):
        with Job(place) as job:
            address, length = job.map(place.file, "r", sharing)
            equal(job.accept().hello, job.child.pid, "pid")
            job.ask("touch 0")
            equal(job.resident(address), length, "resident")
            equal(job.request((address, length)), [(length, 0, OK)], sharing)
            equal(job.resident(address), 0, "resident")
            left = in_cache(place.file)
            assert left <= length // 50, f"{left} bytes of {length} are in the cache still"
            job.good(0)
            equal(job.request((address, 4 * MIB), (address + 20 * MIB, 4 * MIB)), [(4 * MIB, 0, OK)] * 2, "parts")
            job.good(0)


def private_copies(place):
    """a private writable mapping: what was not written is paged out, what was stays"""
    with Job(place) as job:
        address, length = job.map(place.file, "w")
        job.accept()
        job.ask("touch 0")
        job.ask("write 0 100 50")
        job.ask("write 0 8000 1")
        (released, error, refusal), = job.request((address, length))
        equal((error, refusal), (0, OK), "answer")
        assert 0 <= length - 51 * PAGE - released <= passed_over(), released
        equal(job.resident(address), length - released, "resident")
        job.good(0)


def dirty_shared(place):
    """a shared mapping that was written keeps what was written, in memory and in the file"""
    path = place.make("dirty", SIZE)
    with Job(place) as job:
        address, length = job.map(path, "w", "shared")
        job.accept()
        job.ask("touch 0")
        job.ask("write 0 10 100")
        job.request((address, length))
        job.good(0)
    with open(path, "rb") as f:
        f.seek(10 * PAGE)
        word = struct.unpack("<Q", f.read(8))[0]
    equal(word, (10 * PAGE + 0x9E3779B97F4A7C15) % 2**64, "the file")
    os.unlink(path)


def of_another(place):
    """another user's file: dropped from the page table when it was mapped read-only and never changed, and only then"""
    with Job(place, nobody=True) as job:
        address, length = job.map(place.file, "r")
        job.accept()
        job.map(place.file, "r", "shared")
        job.ask("touch 0")
        job.ask("touch 1")
        equal(job.request((address, length)), [(length, 0, OK)], "private")
        equal(job.resident(address), 0, "resident")
        job.good(0, 1)


def of_another_poked(place):
    """another user's file: pages that a debugger wrote into a read-only mapping stay"""
    with Job(place, nobody=True) as job:
        address, length = job.map(place.file, "r")
        job.accept()
        job.ask("touch 0")
        job.ask("poke 0 7 3")
        job.ask("poke 0 4000 1")
        (released, _, _), = job.request((address, length))
        equal(released, length - 4 * PAGE, "released")
        job.good(0)


def of_another_writable(place):
    """another user's file: a private writable mapping is refused, and so is one that was writable for a while"""
    with Job(place, nobody=True) as job:
        address, length = job.map(place.file, "w")
        job.accept()
        job.ask("touch 0")
        job.ask("write 0 5 5")
        equal(job.request((address, length)), [(0, EPERM, PRIVATE_WRITABLE)])
        job.good(0)
        job.ask(f"protect 0 r 0 {length // PAGE}")
        equal(job.request((address, length)), [(0, EPERM, FAILED)], "made read-only later")
        address, length = job.map(place.file, "r")
        job.ask("touch 1")
        job.ask("protect 1 w 1000 10")
        job.ask("write 1 1000 10")
        job.ask("protect 1 r 1000 10")
        equal(job.request((address, 1000 * PAGE)), [(1000 * PAGE, 0, OK)], "the part before it")
        (released, _, _), = job.request((address + 995 * PAGE, 20 * PAGE))
        assert released in (0, 10 * PAGE), released  # by whether the kernel made one mapping of the three again
        equal(job.resident(address + 1000 * PAGE) >= 10 * PAGE, True, "what was written")
        job.good(0, 1)


def changed(place):
    """mapped over, moved, unmapped: refused where nothing of a file is left, and nothing is lost"""
    for nobody in (False, True):
        with Job(place, nobody=nobody) as job:
            address, length = job.map(place.file, "r")
            job.accept()
            job.ask("touch 0")
            job.ask("anonymous 0 16 64")
            (released, _, refusal), = job.request((address, length))
            equal(refusal, NOT_MAPPED, "anonymous memory inside")
            assert released <= length - 64 * PAGE, released
            equal(job.request((address + 16 * PAGE, 64 * PAGE))[0][0], 0, "anonymous memory")
            job.good(0)
            old, length = job.map(place.file, "r")
            job.ask("touch 1")
            new, _ = (int(word) for word in job.ask("move 1").split())
            equal(job.request((old, length))[0][2], NOT_MAPPED, "moved away")
            job.request((new, length))
            job.good(1)
            job.ask("unmap 1")
            equal(job.request((new, length))[0][2], NOT_MAPPED, "unmapped")
            job.good(0)


def locked(place):
    """locked memory is said to be, and stays"""
    with Job(place) as job:
        address, length = job.map(place.file, "r")
        job.accept()
        said = job.ask("lock 0")
        if said != "ok":
            raise Skip(f"mlock: {said}")
        equal(job.request((address, length)), [(0, EINVAL, LOCKED)])
        equal(job.resident(address), length, "resident")


def children(place):
    """a child starts anew at its own mapping, an executed program too; the parent's helper goes on"""
    with Job(place) as job:
        address, length = job.map(place.file, "r")
        job.accept()
        first = job.talk
        child = int(job.ask("fork"))
        equal(job.ask("threads"), "1", "threads of the child")
        job.map(place.file, "r")
        equal(job.accept().hello, child, "pid of the child")
        job.ask("touch 1")
        job.request((address, length))
        job.good(0, 1)
        job.say(f"run {place.job}")
        assert job.closed(), "the child's helper outlived exec"
        job.map(place.file, "r")
        equal(job.accept().hello, child, "pid after exec")
        job.ask("touch 0")
        first.send(struct.pack("=II", 1, 0))
        equal(struct.unpack_from("=II", first.recv(65536)), (1, 0), "the parent's helper")
        first.close()
        job.say("exit 7")
        equal(job.child.wait(20), 7, "exit status")


def own_table(place):
    """the program has no descriptor more than without, and may close all it has"""
    with Job(place) as job:
        before = job.ask("descriptors")
        address, length = job.map(place.file, "r")
        job.accept()
        job.ask("touch 0")
        equal(job.ask("descriptors"), before, "descriptors")
        job.ask("close")
        equal(job.request((address, length)), [(length, 0, OK)])
        job.good(0)


def ends(place):
    """a program ends as it would without: by exit, by the end of its last thread, by a signal; with the socket open, closed, or never there"""
    for how in ("exit 3", "last", "signal", "closed", "none"):
        with Job(place, listen=how != "none") as job:
            address, length = job.map(place.file, "r")
            if how != "none":
                job.accept()
            job.ask("touch 0")
            if how == "signal":
                job.child.send_signal(signal.SIGTERM)
                equal(job.child.wait(10), -signal.SIGTERM, how)
                continue
            if how == "closed":
                job.talk.close()
            if how in ("closed", "none"):
                job.good(0)
                job.map(place.file, "r")
                job.good(1)
            job.say({"exit 3": "exit 3", "last": "last"}.get(how, "exit 0"))
            equal(job.child.wait(10), 3 if how == "exit 3" else 0, how)


def not_understood(place):
    """a message that is not understood ends the conversation and nothing else"""
    whole = struct.pack("=II", 1, 1) + struct.pack("=QQ", 0, PAGE)
    for message in (b"x", struct.pack("=II", 2, 0), struct.pack("=II", 1, 65) + bytes(16 * 65), struct.pack("=II", 1, 2**32 - 1), whole[:-1], bytes(4000)):
        with Job(place) as job:
            job.map(place.file, "r")
            job.accept()
            job.talk.send(message)
            assert job.closed(), f"{message[:24]!r} was answered"
            job.good(0)
            job.say("exit 0")
            equal(job.child.wait(10), 0, "exit status")


def hostile(place):
    """addresses that are nobody's, misaligned, wrapping, of the stack, the heap and the code: no byte changes"""
    rng = random.Random(7)
    for nobody in (False, True):
        with Job(place, nobody=nobody) as job:
            slots = [job.map(place.file, access, sharing) for access, sharing in (("r", "private"), ("w", "private"), ("r", "shared"))]
            job.accept()
            for slot in range(3):
                job.ask(f"touch {slot}")
            job.ask("write 1 200 300")
            equal(job.request((slots[0][0] + 1, PAGE), (slots[0][0], PAGE + 1), (slots[0][0], 0), (2**64 - PAGE, 2 * PAGE)), [(0, EINVAL, FAILED)] * 4)
            with open(f"/proc/{job.child.pid}/maps", encoding="utf-8") as f:
                areas = [[int(part, 16) for part in line.split(" ", 1)[0].split("-")] for line in f]
            job.request(*((start, end - start) for start, end in areas[:RANGES]))
            job.request((0, 2**64 - PAGE), (PAGE, 2**63), (2**63, 2**62))
            for _ in range(60):
                ranges = []
                for _ in range(rng.randrange(1, RANGES + 1)):
                    start, end = rng.choice(areas)
                    at = rng.choice((rng.randrange(2**64), start - PAGE * rng.randrange(20), start + rng.randrange(end - start) // PAGE * PAGE))
                    ranges.append((at % 2**64, rng.choice((rng.randrange(2**64), PAGE * rng.randrange(5000), end - start))))
                job.request(*ranges)
            job.good(0, 1, 2)
            job.say("exit 0")
            equal(job.child.wait(10), 0, "exit status")


def stress(place):
    """threads that map, write, unmap and reuse the same addresses while all of them are asked for: no byte changes"""
    rng = random.Random(11)
    for nobody in (False, True):
        with Job(place, nobody=nobody) as job:
            job.map(place.file, "r")
            job.accept()
            start, length = (int(word) for word in job.ask(f"stress {place.file} 4").split())
            dropped = 0
            while not select_readable(job.child.stdout):
                ranges = [(start, length)]
                for _ in range(8):
                    at = rng.randrange(length // PAGE)
                    ranges.append((start + at * PAGE, PAGE * rng.randrange(1, length // PAGE - at + 1)))
                dropped += sum(released for released, _, _ in job.request(*ranges))
            answer = job.child.stdout.readline()
            assert answer.startswith("ok "), answer
            assert dropped, "nothing was ever released"
            job.good(0)


def select_readable(stream):
    return bool(select.select([stream], [], [], 0)[0])


CASES = [nothing_before, memory_file, paged_out, private_copies, dirty_shared, of_another, of_another_poked, of_another_writable, changed, locked, children,
         own_table, ends, not_understood, hostile, stress]


def main():
    place = Place()
    failed = False
    try:
        print(f"1..{len(CASES)}")
        for i, case in enumerate(CASES, 1):
            try:
                case(place)
                print(f"ok {i} - {case.__doc__}", flush=True)
            except Skip as why:
                print(f"ok {i} - {case.__doc__} # SKIP {why}", flush=True)
            except Exception as error:  # noqa: BLE001 - every failure is a test's result
                failed = True
                for line in "".join(traceback.format_exception(error)).splitlines()[-12:]:
                    print(f"# {line}")
                print(f"not ok {i} - {case.__doc__}", flush=True)
    finally:
        shutil.rmtree(place.folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
