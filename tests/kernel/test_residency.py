#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""On this machine's own kernel: what of one file is resident, and what eviction leaves, in each odd case, against mincore(2) asked by this script as
the file's owner. Each case makes its own file on a real disk and forgets it. Mounts are made in a mount namespace of this script alone.

The kernel may take clean, unmapped cache back at any moment, so that a file may have less than was read; never more.
"""
import contextlib
import ctypes
import json
import mmap
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from disk import disk_places  # noqa: E402

TOOL, REFUSE, FUSE_FILE = os.environ["UMA_CACHETOOL"], os.environ["UMA_REFUSE"], os.environ["UMA_FUSE_FILE"]
MIB = 1 << 20
PAGE = mmap.PAGESIZE
HUGE = 2 * MIB  # folios of the page cache are at most this large where pages are 4 KiB
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for name in ("mincore", "munmap", "mlock", "munlock"):
    getattr(LIBC, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t] + ([ctypes.c_void_p] if name == "mincore" else [])
EPERM, ENOENT, ENOSYS, EOPNOTSUPP = 1, 2, 38, 95
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
IS_ROOT = os.geteuid() == 0
CLONE_NEWNS, MS_REC, MS_PRIVATE, MFD_HUGETLB = 0x20000, 1 << 14, 1 << 18, 4


class Skip(Exception):
    pass


def pages(n):
    return (n + PAGE - 1) // PAGE * PAGE


@contextlib.contextmanager
def mapped(path, offset=0, length=0, protection=mmap.PROT_READ):
    """The address of a shared mapping."""
    fd = os.open(path, os.O_RDONLY)
    length = length or os.fstat(fd).st_size - offset
    address = LIBC.mmap(None, length, protection, 1, fd, offset)
    os.close(fd)
    assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    try:
        yield address, length
    finally:
        LIBC.munmap(address, length)


def touch(address, length):
    return sum(ctypes.c_ubyte.from_address(address + at).value for at in range(0, length, PAGE))


def truth(path, offset=0, length=0):
    """Resident bytes, by mincore(2) of this script."""
    if os.stat(path).st_size == 0:
        return 0
    with mapped(path, offset, length, 0) as (address, n):
        vector = (ctypes.c_ubyte * ((n + PAGE - 1) // PAGE))()
        assert LIBC.mincore(address, n, vector) == 0, os.strerror(ctypes.get_errno())
        return sum(v & 1 for v in vector) * PAGE


def tool(*arguments, before=(), env=None):
    done = subprocess.run([*before, TOOL, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False,
                          env={**os.environ, **(env or {})})
    if done.returncode == 77:
        raise Skip(done.stderr.decode().strip())
    assert done.returncode == 0, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def refuse(error, *calls):
    return [REFUSE, error, *calls, "--"]


def make(folder, size, name="file", sync=True, cached=True):
    path = os.path.join(folder, name)
    block = os.urandom(MIB)
    with open(path, "wb") as f:
        for _ in range(size // MIB):
            f.write(block)
        f.write(block[:size % MIB])
        f.flush()
        if sync:
            os.fsync(f.fileno())
    os.chmod(path, 0o644)
    if not cached:
        drop(path)
    return path


def drop(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def read(path, offset=0, length=None):
    with open(path, "rb", buffering=0) as f:
        f.seek(offset)
        left = length if length is not None else 1 << 62
        while left > 0 and (got := len(f.read(min(MIB, left)))):
            left -= got


def same(path, offset=0, length=0, below=None, **how):
    """What the tool says is true, within what the kernel may have taken back between the two. Asked again while readahead is still on its way: pages that are
    being read in are there for cachestat(2), and not yet for mincore(2). `below`: where the truth is asked instead."""
    for _ in range(50):
        answer = tool("residency", path, offset, length, **how)
        now = truth(below or path, offset, length)
        assert isinstance(answer["resident"], int), answer
        if now <= answer["resident"] <= now + 4 * MIB:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"said {answer}, but {now} are resident")


def evicted(receipt, path, kept=0, slack=0):
    assert receipt["result"] == 0 and not receipt["stopped"], receipt
    assert kept - slack <= receipt["kept"] <= kept + slack, f"kept is not {kept}: {receipt}"
    assert receipt["evicted"] == receipt["before"]["resident"] - receipt["kept"], receipt
    assert truth(path) <= receipt["kept"], (truth(path), receipt)


# ---- cases: each gets a folder of its own on a disk -----------------------------------------------------------------


def plain(folder):
    """a clean file: all of it, parts of it, gone after eviction"""
    path = make(folder, 64 * MIB + 100)
    answer = same(path)
    assert answer["resident"] > 60 * MIB, answer
    assert answer["dirty"] == 0 or answer["means"] == "mincore", answer
    for offset, length in ((0, MIB), (4 * MIB, 8 * MIB), (64 * MIB, 0), (3 * PAGE, 5 * PAGE), (80 * MIB, MIB)):
        if offset < 64 * MIB:
            same(path, offset, length)
        else:
            assert tool("residency", path, offset, length)["resident"] <= PAGE
    receipt = tool("evict", path)
    evicted(receipt, path)
    assert receipt["evicted"] > 60 * MIB and receipt["synced"] is False, receipt
    assert tool("residency", path)["resident"] == 0


def with_readahead(folder):
    """a file that was read, in large folios where the kernel makes them: partial ranges, and nothing left by eviction"""
    path = make(folder, 96 * MIB, cached=False)
    read(path)
    for offset, length in ((0, 0), (8 * MIB + PAGE, 2 * MIB - PAGE), (16 * MIB + PAGE, 8 * MIB), (33 * PAGE, PAGE)):
        same(path, offset, length)
    evicted(tool("evict", path), path)
    read(path, 10 * MIB, 7 * MIB)
    same(path)
    evicted(tool("evict", path), path)


def half_mapped(folder):
    """what is mapped stays, the rest goes"""
    path = make(folder, 64 * MIB)
    read(path)
    with mapped(path, 0, 32 * MIB) as (address, length):
        touch(address, length)
        evicted(tool("evict", path), path, 32 * MIB, HUGE)
    evicted(tool("evict", path), path)


def locked(folder):
    """what is locked into memory stays"""
    path = make(folder, 32 * MIB)
    with mapped(path, 0, 4 * MIB) as (address, length):
        if LIBC.mlock(address, length) < 0:
            raise Skip(f"mlock: {os.strerror(ctypes.get_errno())}")
        evicted(tool("evict", path), path, 4 * MIB, HUGE)
    evicted(tool("evict", path), path)


def dirty(folder):
    """what is dirty is written first and told"""
    path = make(folder, 32 * MIB, sync=False)
    receipt = tool("evict", path)
    if receipt["before"]["means"] == "mincore":
        raise Skip("this kernel does not tell what is dirty")
    evicted(receipt, path)
    if receipt["before"]["dirty"]:  # the kernel writes by itself, too
        assert receipt["written"] == receipt["before"]["dirty"], receipt
    with open(path, "r+b") as f:
        f.write(b"fresh")
    path_copy = open(path, "rb").read(5)
    assert path_copy == b"fresh"
    receipt = tool("evict", path, "write")
    evicted(receipt, path)
    assert receipt["synced"], receipt
    with open(path, "rb") as f:
        assert f.read(5) == b"fresh", "what was written is lost"


def dirty_left(folder):
    """what is dirty is left on demand, and only that"""
    path = make(folder, 64 * MIB)
    with open(path, "r+b") as f:
        for at in (0, 5 * MIB, 5 * MIB + 3 * PAGE, 40 * MIB, 64 * MIB - PAGE):
            f.seek(at)
            f.write(b"y" * 100)
    receipt = tool("evict", path, "leave-dirty")
    if receipt["result"] == -EOPNOTSUPP:
        raise Skip("this kernel does not tell what is dirty")
    assert not receipt["synced"] and receipt["written"] == 0, receipt
    evicted(receipt, path, receipt["before"]["dirty"])
    assert receipt["evicted"] > 40 * MIB, receipt
    assert receipt["after"]["dirty"] == receipt["before"]["dirty"], receipt
    evicted(tool("evict", path), path)


def in_memory(folder):
    """tmpfs and memfd: their pages are the file, and stay"""
    del folder
    with contextlib.ExitStack() as stack:
        fd = os.memfd_create("cache test")
        stack.callback(os.close, fd)
        os.write(fd, b"x" * (3 * MIB))
        paths = [f"/proc/{os.getpid()}/fd/{fd}"]
        if subprocess.run(["stat", "-f", "-c", "%T", "/dev/shm"], stdout=subprocess.PIPE, check=False).stdout.strip() == b"tmpfs":
            shm = stack.enter_context(tempfile.NamedTemporaryFile(dir="/dev/shm"))
            shm.write(b"x" * (3 * MIB))
            shm.flush()
            paths.append(shm.name)
        for path in paths:
            assert tool("residency", path)["resident"] == 3 * MIB
            receipt = tool("evict", path)
            assert receipt["result"] == -EOPNOTSUPP, receipt
            assert truth(path) == 3 * MIB


def huge_pages(folder):
    """hugetlbfs has no page cache"""
    del folder
    try:
        fd = os.memfd_create("huge", MFD_HUGETLB)
    except OSError as e:
        raise Skip(f"hugetlbfs: {e}") from e
    try:
        os.ftruncate(fd, HUGE)
        for before in ([], refuse("ENOSYS", "cachestat")):
            answer = tool("residency", f"/proc/{os.getpid()}/fd/{fd}", before=before)
            assert answer["resident"] == "absent", answer
        assert tool("evict", f"/proc/{os.getpid()}/fd/{fd}")["result"] == -EOPNOTSUPP
    finally:
        os.close(fd)


def direct(folder):
    """a file read around the cache is not in it"""
    path = make(folder, 8 * MIB, cached=False)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError as e:
        raise Skip(f"O_DIRECT: {e}") from e
    with mmap.mmap(-1, MIB) as buffer:
        assert os.readv(fd, [buffer]) == MIB
    os.close(fd)
    assert tool("residency", path)["resident"] == 0
    evicted(tool("evict", path), path)


def empty_and_sparse(folder):
    """no bytes, and five GiB of nothing with two islands"""
    path = make(folder, 0, "empty")
    assert tool("residency", path)["resident"] == 0
    evicted(tool("evict", path), path)
    path = make(folder, 0, "sparse")
    os.truncate(path, 5 << 30)
    read(path, MIB, 3 * MIB)
    read(path, (5 << 30) - PAGE, PAGE)
    for before in ([], refuse("ENOSYS", "cachestat")):
        same(path, before=before)
    evicted(tool("evict", path), path)


def deleted(folder):
    """a file without a name is reached through whoever holds it"""
    path = make(folder, 8 * MIB)
    with open(path, "rb") as f:
        os.unlink(path)
        held = f"/proc/{os.getpid()}/fd/{f.fileno()}"
        same(held)
        evicted(tool("evict", held), held)
    assert tool("residency", path)["result"] == -ENOENT


def stopped(folder):
    """a large file is evicted in pieces, and stops between two of them"""
    path = make(folder, 320 * MIB)
    receipt = tool("evict", path, "stop-after=3")
    assert receipt["result"] == 0 and receipt["stopped"], receipt
    assert 32 * MIB <= receipt["evicted"] <= 256 * MIB, receipt
    now = same(path)
    assert abs(now["resident"] - receipt["kept"]) <= 4 * MIB, (now, receipt)
    evicted(tool("evict", path), path)


def of_another(folder):
    """another's file: unknown before and after, and yet evicted"""
    if not IS_ROOT or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    os.chmod(folder, 0o755)
    path = make(folder, 8 * MIB)
    assert truth(path) > 0
    for filtered in ([], refuse("ENOSYS", "cachestat"), refuse("EPERM", "cachestat")):
        answer = tool("residency", path, before=NOBODY + filtered)
        assert answer["resident"] == "denied" and answer["dirty"] == "denied" and answer["means"] == "none", answer
        read(path)
        receipt = tool("evict", path, before=NOBODY + filtered)
        assert receipt["result"] == 0 and receipt["evicted"] == receipt["kept"] == receipt["written"] == "denied", receipt
        assert truth(path) == 0, f"{truth(path)} are left"
    assert tool("evict", path, "leave-dirty", before=NOBODY)["result"] == -EOPNOTSUPP
    # its group may write it: then the kernel tells
    read(path)
    os.chmod(path, 0o666)
    for filtered in ([], refuse("ENOSYS", "cachestat"), refuse("EPERM", "cachestat")):
        same(path, before=NOBODY + filtered)
    # a user namespace without a number for the owner shows both as 65534: that is not the owner
    os.chmod(path, 0o644)
    answer = tool("residency", path, before=NOBODY + ["unshare", "-U"] + refuse("ENOSYS", "cachestat")) if may_unshare_users() else None
    assert answer is None or answer["resident"] == "denied", answer
    os.chmod(path, 0o600)
    assert tool("residency", path, before=NOBODY)["result"] == -13


def may_unshare_users():
    return subprocess.run(NOBODY + ["unshare", "-U", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def filtered(folder):
    """cachestat(2) missing or refused: the same numbers by mincore(2), and the same receipts"""
    path = make(folder, 32 * MIB, cached=False)
    read(path, 3 * MIB, 6 * MIB)
    with mapped(path, 4 * MIB, 2 * MIB) as (address, length):
        touch(address, length)
        for offset, extent in ((0, 0), (4 * MIB, PAGE), (8 * MIB, 16 * MIB)):
            plainly = same(path, offset, extent)
            for error in ("ENOSYS", "EPERM"):
                before = refuse(error, "cachestat")
                answer = same(path, offset, extent, before=before)
                assert answer["means"] == "mincore" and answer["dirty"] == "unknown", answer
                assert plainly["resident"] - 4 * MIB <= answer["resident"] <= plainly["resident"], (plainly, answer)
        for error in ("ENOSYS", "EPERM"):
            read(path)
            receipt = tool("evict", path, before=refuse(error, "cachestat"))
            evicted(receipt, path, 2 * MIB, HUGE)
            assert receipt["written"] == "unknown" and receipt["synced"] is False, receipt
        read(path)
        receipt = tool("evict", path, "write", before=refuse("EPERM", "cachestat", "faccessat2"))
        evicted(receipt, path, 2 * MIB, HUGE)
        assert receipt["synced"], receipt
    read(path)
    for error, code in (("ENOSYS", ENOSYS), ("EPERM", EPERM)):
        receipt = tool("evict", path, before=refuse(error, "fadvise64"))
        assert receipt["result"] == -code and receipt["evicted"] == 0, receipt
        answer = tool("residency", path, before=refuse(error, "cachestat", "mincore"))
        assert answer["resident"] == "failed", answer


def race(folder):
    """a file that is shortened, extended, replaced and deleted while it is evicted, again and again"""
    path = make(folder, 4 * MIB)
    done = threading.Event()

    def disturb():
        dice, block = random.Random(4), b"z" * MIB
        while not done.is_set():
            what = dice.randrange(4)
            with open(path, "r+b" if os.path.exists(path) else "wb") as f:
                if what == 0:
                    f.truncate(dice.randrange(5 * MIB))
                elif what == 1:
                    f.write(block)
                else:
                    f.truncate(0)
            if what == 3:
                with open(path + ".new", "wb") as f:
                    f.write(block * 2)
                os.rename(path + ".new", path)
                if dice.randrange(2):
                    os.unlink(path)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for before in ([], refuse("ENOSYS", "cachestat")):
            answer = tool("again", path, "1", before=before)
            assert answer["rounds"] > answer["vanished"] and answer["rounds"] > 10, answer
            # LEAVE_DIRTY of a file about which the kernel does not tell is refused: a third of the rounds
            assert answer["failures"] <= (answer["rounds"] / 3 + 1 if before else 0), answer
    finally:
        done.set()
        thread.join()


# ---- cases that mount -----------------------------------------------------------------------------------------------


def mount(*arguments):
    done = subprocess.run(["mount", *arguments], stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Skip(f"mount {' '.join(arguments)}: {done.stderr.decode().strip()}")


def read_only_mount(folder):
    """a read-only view of a folder: evicted, and written first where it is dirty"""
    source, view = os.path.join(folder, "source"), os.path.join(folder, "view")
    os.mkdir(source)
    os.mkdir(view)
    mount("--bind", source, view)
    mount("-o", "remount,bind,ro", view)
    path = make(source, 16 * MIB, sync=False)
    seen = os.path.join(view, "file")
    same(seen)
    receipt = tool("evict", seen, "write")
    evicted(receipt, path)
    assert receipt["synced"], receipt


def overlay(folder):
    """an overlay's file has the pages of a layer's; cachestat(2) on it answers 0"""
    lower, upper, work, merged = (os.path.join(folder, name) for name in ("lower", "upper", "work", "merged"))
    for made in (folder, lower, upper, work, merged):
        os.makedirs(made, exist_ok=True)
        os.chmod(made, 0o755)
    below = make(lower, 16 * MIB)
    mount("-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "overlay", merged)
    seen = os.path.join(merged, "file")
    for env in ({}, {"CACHETOOL_KIND": "local"}):  # and where the mount table of another view was believed
        read(seen, 0, 10 * MIB)
        answer = same(seen, below=below, env=env)
        assert answer["means"] == "mincore" and answer["dirty"] == "unknown" and answer["resident"] >= 6 * MIB, answer
        evicted(tool("evict", seen, env=env), below)
    assert tool("residency", seen, env={"CACHETOOL_KIND": "local"})["resident"] == 0
    changed = make(merged, 8 * MIB, "changed", sync=False)
    receipt = tool("evict", changed, "write")
    evicted(receipt, os.path.join(upper, "changed"))
    assert receipt["synced"], receipt
    read(seen)
    answer = tool("residency", seen, before=NOBODY)
    assert answer["resident"] == "denied", answer
    assert tool("evict", seen, before=NOBODY)["result"] == 0
    assert truth(below) == 0


def read_only_image(folder):
    """a file system that cannot be written (squashfs): no fdatasync(2) there, and none needed"""
    if not shutil.which("mksquashfs"):
        raise Skip("no mksquashfs")
    content, image, point = (os.path.join(folder, name) for name in ("content", "image", "point"))
    os.mkdir(content)
    os.mkdir(point)
    make(content, 8 * MIB)
    subprocess.run(["mksquashfs", content, image, "-quiet", "-no-progress"], check=True, stdout=subprocess.DEVNULL)
    mount("-o", "loop,ro", image, point)
    path = os.path.join(point, "file")
    read(path)
    same(path)
    receipt = tool("evict", path, "write")
    evicted(receipt, path)
    assert receipt["evicted"] > 0 and not receipt["synced"], receipt
    subprocess.run(["umount", point], check=True)


def block_device(folder):
    """a device's own cache"""
    image = make(folder, 16 * MIB)
    done = subprocess.run(["losetup", "--find", "--show", image], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Skip(f"losetup: {done.stderr.decode().strip()}")
    device = done.stdout.decode().strip()
    try:
        with open(device, "rb") as f:
            f.read(4 * MIB)
            for before in ([], refuse("ENOSYS", "cachestat")):
                answer = tool("residency", device, before=before)
                assert isinstance(answer["resident"], int) and answer["resident"] >= 2 * MIB, answer
            receipt = tool("evict", device)
            assert receipt["result"] == 0 and receipt["kept"] <= MIB and receipt["evicted"] >= MIB, receipt
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def fuse(folder):
    """a file system that a program answers for"""
    size = 16 * MIB
    with subprocess.Popen([FUSE_FILE, folder, str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                raise Skip(server.communicate()[1].decode(errors="replace").strip())
            path = os.path.join(folder, "file")
            read(path, 0, 12 * MIB)
            same(path)
            receipt = tool("evict", path)
            evicted(receipt, path)
            assert receipt["evicted"] >= 8 * MIB, receipt
            read(path)
            same(path, before=refuse("ENOSYS", "cachestat"))
            evicted(tool("evict", path, "write"), path)
        finally:
            server.stdin.close()
            server.wait(timeout=20)


CASES = [plain, with_readahead, half_mapped, locked, dirty, dirty_left, in_memory, huge_pages, direct, empty_and_sparse, deleted, stopped, of_another,
         filtered, race]
MOUNTING = [read_only_mount, overlay, read_only_image, block_device, fuse]


def own_mounts():
    return IS_ROOT and LIBC.unshare(CLONE_NEWNS) == 0 and LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0


def run(case, number, disk):
    began = time.monotonic()
    folder = tempfile.mkdtemp(prefix="umactl-cache-", dir=disk)
    verdict = "ok"
    note = ""
    try:
        case(folder)
    except Skip as e:
        note = f" # SKIP {e}"
    except Exception as e:
        verdict = "not ok"
        for line in f"{type(e).__name__}: {e}".splitlines():
            print(f"# {line}")
    finally:
        for name in ("view", "merged", "point", ""):
            LIBC.umount2(os.path.join(folder, name).encode(), 2)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"# {time.monotonic() - began:.2f} s")
    print(f"{verdict} {number} - {case.__doc__}{note}", flush=True)
    return verdict == "ok"


def main():
    chosen = [case for case in CASES + MOUNTING if len(sys.argv) == 1 or case.__name__ in sys.argv[1:]]
    print(f"1..{len(chosen)}")
    disk = next(disk_places(overlay=False), None)
    mounts = own_mounts()
    good = True
    for number, case in enumerate(chosen, 1):
        if not disk:
            print(f"ok {number} - {case.__doc__} # SKIP no folder on a disk: set TMPDIR")
        elif case in MOUNTING and not mounts:
            print(f"ok {number} - {case.__doc__} # SKIP needs root to mount")
        else:
            good = run(case, number, disk) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
