#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl run --load-window: a real loader copies a real safetensors file; the peak, the record, the helper, and that the job feels nothing of it."""

import ctypes
import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import threading
import time

from harness import UMACTL, Skip, add, case, contains, environment, equal, main
from run_support import Sandbox, alive, end_process, wait_until

LOADER, LIBRARY = os.environ["UMA_LOADER"], os.environ["UMA_WINDOW_LIBRARY"]
MIB = 1 << 20
SIZE, WINDOW = 512 * MIB, 64 * MIB
PAUSE = "0.01"  # after each tensor of 8 MiB: the loader is no race against the machine that tests it
NOBODY = 65534
TMPFS, RAMFS, OVERLAY = 0x01021994, 0x858458F6, 0x794C7630
libc = ctypes.CDLL(None, use_errno=True)


def filesystem(path):
    buffer = ctypes.create_string_buffer(256)
    libc.statfs(os.fsencode(path), buffer)
    return struct.unpack_from("l", buffer)[0]


def cached(fd):
    """Bytes of an open file in the page cache; None where cachestat(2) is missing."""
    found, every = (ctypes.c_uint64 * 5)(), (ctypes.c_uint64 * 2)(0, 0)
    if libc.syscall(451, fd, ctypes.byref(every), ctypes.byref(found), 0) != 0:
        return None
    return found[0] * os.sysconf("SC_PAGESIZE")


class Files:
    """One folder on a disk, made once: the file, and copies of the programs that others may run."""

    folder = None

    @classmethod
    def weights(cls, owner=None):
        if cls.folder is None:
            places = [p for p in (tempfile.gettempdir(), "/var/tmp", os.getcwd()) if os.access(p, os.W_OK) and filesystem(p) not in (TMPFS, RAMFS, OVERLAY)]
            if not places:
                raise Skip("no folder on a disk to write to")
            if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGESIZE") < 3 * SIZE:
                raise Skip("not enough free memory")
            cls.folder = tempfile.TemporaryDirectory(prefix="uma-window-", dir=places[0])
            os.chmod(cls.folder.name, 0o755)
            subprocess.run([LOADER, "make", cls.path(), str(SIZE), str(8 * MIB)], check=True)
        if os.geteuid() == 0:
            os.chown(cls.path(), owner or 0, owner or 0)
        return cls.path()

    @classmethod
    def path(cls):
        return os.path.join(cls.folder.name, "model.safetensors")

    @classmethod
    def copy(cls, path):
        to = os.path.join(cls.folder.name, os.path.basename(path))
        if not os.path.exists(to):
            shutil.copy(path, to)
        return to


class Outside(threading.Thread):
    """What the job and the file's pages take together, seen from outside."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.fd, self.pid, self.peak, self.stop = os.open(path, os.O_RDONLY), None, 0, False

    def run(self):
        while not self.stop:
            anonymous = 0
            try:
                with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as f:
                    anonymous = int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) * 1024
            except (OSError, AttributeError):
                pass
            self.peak = max(self.peak, anonymous + (cached(self.fd) or 0))
            time.sleep(0.01)

    def end(self):
        self.stop = True
        self.join()
        os.close(self.fd)


def evict(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def load(s, *options, how="shared", order="file", nobody=False, env=None, hold="0.1", pause=PAUSE):
    """umactl run OPTIONS -- the loader: (status, its lines, stderr, peak from outside)."""
    path = Files.path()
    argv = [UMACTL, "run", *options, "--", LOADER, "load", path, how, order, hold, pause]
    more = {}
    if nobody:
        if os.geteuid() != 0:
            raise Skip("only root can start a program as somebody else")
        argv[0], argv[argv.index(LOADER)] = Files.copy(UMACTL), Files.copy(LOADER)
        Files.copy(LIBRARY)
        more = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": Files.folder.name}
        os.makedirs(s.state, exist_ok=True)
        os.chmod(s.path, 0o755)
        os.chown(s.state, NOBODY, NOBODY)
    evict(path)
    outside = Outside(path)
    outside.start()
    env = env or s.env()
    if nobody and "UMACTL_PROBE" in env:
        env["UMACTL_PROBE"] = Files.copy(env["UMACTL_PROBE"])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env, **more) as child:
        lines = []
        for line in child.stdout:
            lines.append(line.decode().split()[:2])
            if lines[-1][0] == "pid":
                outside.pid = int(lines[-1][1])
        err = child.stderr.read().decode()
    outside.end()
    return child.returncode, dict(lines), err, outside.peak


def good(result):
    code, lines, err, _ = result
    equal((code, lines.get("checksum")), (0, "ok"), err)


def told():
    """Does the kernel say what is in the cache?"""
    with open(Files.path(), "rb") as f:
        return cached(f.fileno()) is not None


def bounded(s, result, means, theirs=False):
    """The peak is near one copy of the file, not two; the record says what came of it. `theirs`: umactl is not told what of the file is in the cache."""
    _, _, err, peak = result
    report = s.record()["load"]["report"]
    if told():
        assert SIZE <= peak <= 1.4 * SIZE, f"peak {peak / SIZE:.2f} of the file\n{err}"
    assert report["evicted_bytes"] >= SIZE // 2, report
    if theirs:
        equal(report["peak"], None, "a peak that cannot be known")
    else:
        assert report["peak"] <= 1.4 * SIZE, report
        assert report["peak_without"] >= 1.7 * SIZE, report
    equal(report["files"], 1, "files")
    equal(report["file_bytes"], os.path.getsize(Files.path()), "size")
    assert 0 < report["lowest_free"] < 2**50, report
    assert means in report["means"], report
    return report


def has_nice():
    with open("/proc/self/status", encoding="ascii", errors="replace") as f:
        return bool(int(re.search(r"CapEff:\s+(\w+)", f.read()).group(1), 16) >> 23 & 1)


def peak(how, order, means):
    Files.weights()
    if not has_nice() and means == "process_madvise":
        raise Skip("this user may not page out of other processes")
    with Sandbox() as s:
        result = load(s, "--load-window", str(WINDOW), how=how, order=order)
        good(result)
        bounded(s, result, means)
        contains(result[2], "umactl run: load window: ")
        equal(result[2].count(" of weights read in "), 1, result[2])  # once: the summary does not repeat it
        events = [e for e in s.events() if e["event"] == "evict"]
        equal(len(events), 1, "events")
        contains(events[0]["detail"], "peak")
        equal(s.record()["events"]["evict"], 1)


add("the peak with a shared mapping, in the file's order", peak, "shared", "file", "process_madvise")
add("the peak with a private mapping, in the model's order", peak, "private", "dict", "process_madvise")
add("the peak with a private writable mapping", peak, "writable", "file", "process_madvise")
add("the peak with read(2)", peak, "read", "file", "fadvise")


@case("without the options there is no load in the record, and the file stays in the cache")
def without():
    Files.weights()
    with Sandbox() as s:
        result = load(s, pause="0")
        good(result)
        equal(s.record()["load"], None)
        assert "load window" not in result[2] and "  load  " not in result[2], result[2]


@case("exit status, input and output of the job are its own")
def untouched():
    Files.weights()
    with Sandbox() as s:
        code, out, _ = s.run("--load-window", "64M", "--window-helper", "always", "--", "sh", "-c", f"cat; cat {Files.path()} >/dev/null; echo e >&2; exit 7",
                             stdin=b"in\x00put")
        equal((code, out), (7, b"in\x00put"))
        code, out, err = s.run("-q", "--load-window", "64M", "--window-helper", "always", "--", "sh", "-c", "echo e >&2")
        equal((code, out, err), (0, b"", b"e\n"))


def left_folders(s):
    return [name for name in os.listdir(s.path) if name.startswith("umactl-window-")]


def job_of(s):
    return s.wait_for_record()["job"]["pid"]


def interrupted(number, to_job):
    Files.weights()
    with Sandbox() as s:
        env = s.env(TMPDIR=s.path)
        child = s.start("--load-window", "64M", "--window-helper", "always", "--", LOADER, "load", Files.path(), "shared", "file", "60", "0.02", env=env)
        job = job_of(s)
        folders = wait_until(lambda: left_folders(s), what="the socket's folder")
        equal(stat.S_IMODE(os.stat(s.file(folders[0])).st_mode), 0o700)
        wait_until(lambda: b"pid" in child.stdout.readline(), what="the loader")
        time.sleep(0.3)  # anywhere in the load
        if to_job:
            os.kill(job, number)
        else:
            child.send_signal(number)
        equal(child.wait(20), 128 + number)
        child.communicate()
        equal(left_folders(s), [], "folders of sockets")
        assert not alive(job)
        record = s.record()
        equal(record["exit"]["signal"], int(number))
        assert record["load"]["report"]["end"] in ("exited", "stopped"), record["load"]


add("SIGINT while it loads: 130, and nothing is left behind", interrupted, signal.SIGINT, False)
add("the job killed while it loads: 137, and nothing is left behind", interrupted, signal.SIGKILL, True)


@case("umactl killed while it loads: the job goes on and has its weights")
def umactl_killed():
    Files.weights()
    with Sandbox() as s:
        child = s.start("--load-window", "64M", "--window-helper", "always", "--", LOADER, "load", Files.path(), "private", "file", "0", "0.01",
                        env=s.env(TMPDIR=s.path))
        job = job_of(s)
        equal(child.stdout.readline()[:4], b"pid ")
        time.sleep(0.2)
        child.kill()
        equal(child.wait(20), -signal.SIGKILL)
        try:
            rest = child.stdout.read()
            contains(rest.decode(), "checksum ok")
            wait_until(lambda: not alive(job), what="the job's end")
            equal(len(left_folders(s)), 1, "the folder of its socket stays")
            code, _, err = s.run("--load-window", "64M", "--window-helper", "always", "--", "true", env=s.env(TMPDIR=s.path))
            equal((code, left_folders(s)), (0, []), err.decode())
        finally:
            end_process(job)


def by_helper(owner, how, option):
    Files.weights(owner)
    with Sandbox() as s:
        result = load(s, "--load-window", str(WINDOW), "--window-helper", option, how=how, nobody=True)
        good(result)
        load_record = s.record()["load"]
        equal(load_record["helper"], "preloaded")
        report = bounded(s, result, "helper", theirs=owner != NOBODY)
        assert "process_madvise" not in report["means"], report
        if option == "auto":
            contains(load_record["helper_note"], "CAP_SYS_NICE")


for _owner, _whose in ((NOBODY, "own file"), (0, "root's file")):
    for _how in ("shared", "private"):
        add(f"as another user, {_whose}, mapped {_how}: by the helper inside the job", by_helper, _owner, _how, "always")
add("as another user, own file, mapped private and writable: by the helper inside the job", by_helper, NOBODY, "writable", "auto")


@case("as another user, root's file, mapped private and writable: nothing is dropped, and why is said")
def refused():
    Files.weights(0)
    with Sandbox() as s:
        result = load(s, "--load-window", str(WINDOW), how="writable", nobody=True)
        good(result)
        assert result[3] >= 1.8 * SIZE or not told(), result[3]
        contains(s.record()["load"]["report"]["note"], "owns")
        contains(result[2], "model.safetensors")


@case("as another user, --window-helper never: said once, the job is well")
def never():
    Files.weights(NOBODY)
    with Sandbox() as s:
        result = load(s, "--load-window", str(WINDOW), "--window-helper", "never", nobody=True, pause="0.002")
        good(result)
        load_record = s.record()["load"]
        equal(load_record["helper"], "never")
        equal(result[2].count("CAP_SYS_NICE"), 1, result[2])
        equal(result[2].count("load window: "), 2, result[2])  # that, and what came of it
        contains(load_record["helper_note"], "CAP_SYS_NICE")
        contains(load_record["report"]["note"], "CAP_SYS_NICE")


@case("as another user, --window-helper never, a job that maps nothing: there is nothing to say")
def never_needed():
    Files.weights(NOBODY)
    with Sandbox() as s:
        result = load(s, "--load-window", str(WINDOW), "--window-helper", "never", how="read", nobody=True)
        good(result)
        equal(result[2].count("CAP_SYS_NICE"), 0, result[2])
        equal(result[2].count("load window: "), 1, result[2])


def variables(s, *options, **env):
    code, out, err = s.run(*options, "--", "env", env=s.env(**env))
    equal(code, 0)
    return dict(line.split("=", 1) for line in out.decode().splitlines()), err.decode()


@case("the helper is preloaded when it is needed or asked for, before what was preloaded already")
def preload():
    with Sandbox() as s:
        mine = environment().get("LD_PRELOAD", "")
        got, _ = variables(s)
        equal((got.get("LD_PRELOAD", ""), got.get("UMACTL_WINDOW")), (mine, None), "without a window")
        if has_nice():
            got, _ = variables(s, "--load-window", "64M")
            equal((got.get("LD_PRELOAD", ""), got.get("UMACTL_WINDOW")), (mine, None), "not needed")
        got, _ = variables(s, "--load-window", "64M", "--window-helper", "always", LD_PRELOAD=LIBRARY)
        equal(got["LD_PRELOAD"], f"{os.path.realpath(LIBRARY)}:{LIBRARY}")
        assert got["UMACTL_WINDOW"].endswith("/helpers"), got
        assert not os.path.exists(os.path.dirname(got["UMACTL_WINDOW"])), "the folder is still there"


def unusable(option, library, why):
    with Sandbox() as s:
        if library == "text":
            library = s.file("x.so")
            with open(library, "w", encoding="ascii") as f:
                f.write("no library\n")
        got, err = variables(s, "--load-window", "64M", "--window-helper", option, UMACTL_WINDOW_LIBRARY=library)
        assert "UMACTL_WINDOW" not in got, got
        lines = [line for line in err.splitlines() if "load window: the helper cannot be used: " in line]
        equal(len(lines), 1, err)
        contains(lines[0], f"{library}: {why}")
        assert "ld.so" not in err, err
        if option == "always":
            equal(s.record()["load"]["helper"], "unavailable")


for _option in ("always", "auto"):
    add(f"a helper that is not there, {_option}: said in one line, and the job runs", unusable, _option, "/nonexistent/x.so", "No such file or directory")
    add(f"a file that is no library, {_option}: said in one line, and the job runs", unusable, _option, "text", "it is no library")
    add(f"a program that is not the helper, {_option}: said in one line, and the job runs", unusable, _option, os.path.realpath(UMACTL), "it is not umactl's helper")


@case("no folder for the socket: said, and the job runs")
def no_folder():
    if os.geteuid() != 0:
        raise Skip("only root can hide /tmp")
    with Sandbox() as s:
        hidden = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind /proc /tmp && exec "$@"', "sh", UMACTL, "run", "--load-window", "64M", "--window-helper",
                                 "always", "--", "true"], env=s.env(UMACTL_STATE="/nonexistent/state"), capture_output=True, check=False, cwd="/")
        if b"unshare" in hidden.stderr or b"mount" in hidden.stderr:
            raise Skip("no mount namespace can be made")
        equal(hidden.returncode, 0, hidden.stderr.decode())
        contains(hidden.stderr.decode(), "folder for the helper's socket")


@case("a job that opens no weights: said")
def nothing():
    with Sandbox() as s:
        code, _, err = s.run("--load-window", "64M", "--keep-free", "16M", "--", "sleep", "0.3")
        equal(code, 0)
        contains(err.decode(), "no weight file was opened")
        load_record = s.record()["load"]
        equal((load_record["window"], load_record["keep_free"]), (64 * MIB, 16 * MIB))
        equal((load_record["report"]["files"], load_record["report"]["evicted_bytes"]), (0, 0))


@case("a job that cannot be executed: 127, and nothing is left behind")
def not_executed():
    with Sandbox() as s:
        code, _, _ = s.run("--load-window", "64M", "--window-helper", "always", "--", "/nonexistent/program", env=s.env(TMPDIR=s.path))
        equal(code, 127)
        equal(left_folders(s), [])
        equal(s.record()["load"]["report"], None)


def mistake(args, text):
    with Sandbox() as s:
        code, out, err = s.run(*args, "--", "true")
        equal((code, out), (125, b""))
        contains(err.decode(), text)
        equal(s.records(), [])


add("--load-window with nonsense: 125", mistake, ["--load-window", "much"], "much")
add("--load-window 0: 125", mistake, ["--load-window", "0"], "--load-window: \"0\" is too little, expected at least 4M")
add("--load-window just under the least: 125", mistake, ["--load-window", "4095K"], "at least 4M")
add("--keep-free 1M: 125", mistake, ["--keep-free", "1M"], "at least 4M")


@case("the least window, and the least to keep free: as cache follow has them")
def least():
    with Sandbox() as s:
        code, _, err = s.run("-q", "--load-window", "4M", "--keep-free", "4M", "--", "true")
        equal((code, err), (0, b""))
        equal((s.record()["load"]["window"], s.record()["load"]["keep_free"]), (4 * MIB, 4 * MIB))
        for option in ("--window", "--keep-free"):
            child = subprocess.run([UMACTL, "cache", "follow", option, "4095K", "1"], env=s.env(), capture_output=True, check=False)
            equal(child.returncode, 2)
            contains(child.stderr.decode(), "at least 4M")


add("--window-helper with nonsense: 125", mistake, ["--load-window", "64M", "--window-helper", "maybe"], "auto, always, never")
add("--window-helper alone: 125", mistake, ["--window-helper", "always"], "--load-window")

try:
    main()
finally:
    if Files.folder:
        Files.folder.cleanup()
