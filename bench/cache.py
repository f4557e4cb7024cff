#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl cache beside what people use now, in one run on one machine, all by whole commands with their start:

  evicting a clean file      vmtouch -e, umactl cache evict, drop_caches: time, and what is left of a hot working set that has nothing to do with it
  listing model files        umactl cache --path and vmtouch on 10,000 sparse files of 1 TB apparent size

Root (drop_caches). Each command runs in turn, round by round, so that a slow spell of the machine hits all of them. Files are made in a folder on real
storage and removed at the end.
"""
import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 2**20
LIBC = ctypes.CDLL(None, use_errno=True)
CACHESTAT = 451  # the same on every architecture (6.5)


def resident(path):
    """Bytes of the file in the page cache, by cachestat(2); None where the kernel lacks it."""
    numbers, whole = (ctypes.c_uint64 * 5)(), (ctypes.c_uint64 * 2)(0, 0)
    fd = os.open(path, os.O_RDONLY)
    try:
        if LIBC.syscall(CACHESTAT, fd, whole, numbers, 0) != 0:
            return None
    finally:
        os.close(fd)
    return numbers[0] * os.sysconf("SC_PAGE_SIZE")


def write_file(path, size, piece):
    """`piece` bytes a write(2): pieces of 4 KiB make page cache of single pages, as older kernels' ext4 has it; large ones make large folios."""
    block = os.urandom(piece)
    with open(path, "wb", buffering=0) as f:
        for _ in range(size // piece):
            f.write(block)
        os.fsync(f.fileno())


def read_file(path):
    """Seconds to read it, which also brings it into the page cache."""
    begin = time.perf_counter()
    with open(path, "rb", buffering=0) as f:
        buffer = bytearray(8 * MIB)
        while f.readinto(buffer):
            pass
    return time.perf_counter() - begin


def evict_quietly(path):
    fd = os.open(path, os.O_RDONLY)
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def once(argv):
    """Seconds of one run, output to /dev/null for all alike."""
    with open(os.devnull, "wb") as sink:
        begin = time.perf_counter()
        pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, sink.fileno(), 1)])
        _, status = os.waitpid(pid, 0)
        seconds = time.perf_counter() - begin
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(argv)} failed: {os.waitstatus_to_exitcode(status)}")
    return seconds


def page_cache():
    with open("/proc/meminfo", encoding="ascii") as f:
        rows = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in f}
    return rows["Cached"] + rows["Buffers"] - rows["Shmem"]


def bench_evict(folder, umactl, size, hot_size, rounds):
    target, hot = os.path.join(folder, "target"), os.path.join(folder, "hot")
    commands = {
        "vmtouch -e": [shutil.which("vmtouch"), "-e", "-q", target],
        "umactl cache evict": [umactl, "cache", "evict", target],
        "drop_caches=1": ["/bin/sh", "-c", "echo 1 >/proc/sys/vm/drop_caches"],
    }
    write_file(hot, hot_size, 8 * MIB)
    print(f"Evicting a clean file of {size / 2**30:g} GiB beside a hot set of {hot_size // MIB} MiB, median of {rounds} rounds:\n")
    print("| page cache in | command | ms | x vmtouch | left of the file MiB | unrelated cache lost MiB | hot set read again ms |\n|---|---|---|---|---|---|---|")
    for what, piece in (("large folios", 8 * MIB), ("4 KiB pages", 4096)):
        figures = {name: [] for name in commands}
        for _ in range(rounds):
            for name, argv in commands.items():
                write_file(target, size, piece)
                if piece > 4096:  # written once, read back by readahead: what a model that is loaded looks like
                    evict_quietly(target)
                    read_file(target)
                read_file(hot)
                read_file(hot)
                before, own = page_cache(), resident(target)
                seconds = once(argv)
                left = resident(target)
                lost = before - page_cache() - (own - left)
                figures[name].append((seconds, left, max(lost, 0), read_file(hot)))
        base = statistics.median(row[0] for row in figures["vmtouch -e"])
        for name, rows in figures.items():
            seconds, left, lost, again = (statistics.median(column) for column in zip(*rows))
            print(f"| {what} | `{name}` | {seconds * 1e3:.1f} | {seconds / base:.2f} | {left / MIB:.1f} | {lost / MIB:.1f} | {again * 1e3:.0f} |")
    print()


def bench_list(folder, umactl, files, apparent, rounds):
    tree = os.path.join(folder, "models")
    for i in range(files):
        model = os.path.join(tree, f"Org/Model-{i // 100:03d}")
        if i % 100 == 0:
            os.makedirs(model)
        with open(os.path.join(model, f"model-{i % 100 + 1:05d}-of-00100.safetensors"), "wb") as f:
            f.truncate(apparent // files)
    commands = {
        "umactl cache --path": [umactl, "cache", "--path", tree],
        "umactl cache --path --json": [umactl, "cache", "--json", "--path", tree],
        "vmtouch": [shutil.which("vmtouch"), "-m", "1024G", tree],
    }
    times = {name: [] for name in commands}
    for _ in range(rounds):
        for name, argv in commands.items():
            times[name].append(once(argv))
    print(f"Listing {files} model files of {apparent / 1e12:g} TB apparent size (sparse), median of {rounds} rounds:\n\n| command | ms |\n|---|---|")
    for name, seconds in times.items():
        print(f"| `{name}` | {statistics.median(seconds) * 1e3:.0f} |")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build folder (release)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=float, default=4, help="GiB of the evicted file")
    parser.add_argument("--hot", type=int, default=512, help="MiB of the hot set")
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--folder", default="/var/tmp", help="on real storage")
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("vmtouch"):
        print("cache bench: skipped: it needs root (drop_caches) and vmtouch")
        return 0
    umactl = os.path.join(options.build, "src/umactl")
    with tempfile.TemporaryDirectory(prefix="umactl-bench-", dir=options.folder) as folder:
        bench_evict(folder, umactl, int(options.size * 2**30) // (8 * MIB) * 8 * MIB, options.hot * MIB, options.rounds)
        bench_list(folder, umactl, options.files, 10**12, options.rounds)
    print(f"{os.cpu_count()} CPUs, kernel {os.uname().release}, {os.sysconf('SC_PAGE_SIZE')} bytes a page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
