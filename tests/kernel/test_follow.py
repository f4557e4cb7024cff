#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`umactl cache follow` beside jobs that really load: the peak of memory and page cache, the content that they copied, reuse, and what this user may not do.

Other programs on the machine take the processor from the follower; an attempt that is off is made again, at most three times.
"""
import glob
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from disk import cached, disk_places  # noqa: E402

UMACTL, JOB, REFUSE, LOADER = (os.environ[name] for name in ("UMACTL", "UMA_FOLLOW_JOB", "UMA_REFUSE", "UMA_LOADER"))
MIB = 1 << 20
SIZE, WINDOW = 256 * MIB, 32 * MIB
READAHEAD = 8 * MIB  # the largest of the disks that were tried
LEFT = 2  # windows: the one that is kept, and what was read since the last look; out of order also what was read ahead of the last jumps (28 to 58 MiB were seen)
# The window is an eighth of the file. What is read between two looks and what the kernel reads ahead comes on top.
PEAK = 1.3
# Out of order the kernel reads ahead of every jump, 8 MiB here for 2 MiB that are copied: unread parts are in memory, and are not evicted.
PEAK_OUT_OF_ORDER = 1.6
# By pread(2) and out of order only the count tells what was read; what was read ahead is left until the job comes to it.
PEAK_BY_COUNT = 1.4
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


class Skip(Exception):
    pass


def make(path, size, owner=None):
    with open(path, "wb") as f:
        for at in range(0, size, MIB):
            f.write(struct.pack(f"<{MIB // 8}Q", *range(at, at + MIB, 8)))
        f.flush()
        os.fsync(f.fileno())
    os.chmod(path, 0o644)
    if owner is not None:
        os.chown(path, owner, owner)


def prepare(path, warm):
    with open(path, "rb") as f:
        if warm:
            while f.read(4 * MIB):
                pass
        else:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Loaded:
    """One job, followed: the report, what the follower said, and what the job said."""

    def __init__(self, mode, path, warm, prefix=(), refused=(), options=("--window", str(WINDOW)), stop=None, environment=None):
        prepare(path, warm)
        with subprocess.Popen([*prefix, Loaded.job, mode, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
            try:
                assert job.stdout.readline() == b"ready\n", "the job did not start"
                follow = subprocess.Popen([*prefix, *refused, Loaded.umactl, "cache", "follow", str(job.pid), "--json", *options],
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(environment or {})})
                time.sleep(0.1)  # it has looked at the job once
                job.stdin.write(b"g")
                job.stdin.flush()
                if stop:
                    time.sleep(0.4)
                    stop(job)
                if mode == "private":
                    assert job.stdout.readline() == b"written\n"
                self.said = b"" if mode == "inplace" or stop else job.stdout.readline() if mode != "private" else b""
                out, err = follow.communicate(timeout=30)
                self.left = cached(path)
                if mode == "private":
                    job.stdin.write(b"g")
                    job.stdin.flush()
                    self.said = job.stdout.readline()
            finally:
                if job.poll() is None:
                    job.stdin.close()
                    job.wait(timeout=20)
        self.status, self.errors = follow.returncode, err.decode()
        assert out, f"no report, status {self.status}: {self.errors}"
        self.report = json.loads(out)

    def need(self, **wanted):
        for key, value in wanted.items():
            assert self.report[key] == value, f"{key} is {self.report[key]}, not {value}: {self.report} {self.errors}"

    def bounded(self, peak=PEAK):
        ratio, without = self.report["peak_with"] / SIZE, self.report["peak_without"] / SIZE
        print(f"# peak {ratio:.2f} of the file, without {without:.2f}, read again {self.report['evicted_again'] / MIB:.1f} MiB")
        assert ratio <= peak, f"the peak is {ratio:.2f} of the file: {self.report}"
        assert 1.9 <= without <= 2.1, f"without it would have been {without:.2f}: {self.report}"
        assert self.report["evicted"] >= 0.95 * SIZE and self.report["read"] >= 0.99 * SIZE, self.report
        assert self.report["evicted_again"] <= 0.05 * SIZE, self.report
        assert self.left <= SIZE / 50, f"{self.left} bytes are left in the page cache"


def copies(mode, warm, means, peak=PEAK, window=WINDOW):
    loaded = Loaded(mode, Loaded.file, warm, options=("--window", str(window)))
    assert loaded.said == b"copied ok\n", f"the copy is not the file: {loaded.said}"
    loaded.need(end="loaded", files=1, note=None, means=means)
    loaded.bounded(peak)


def test_in_place():
    loaded = Loaded("inplace", Loaded.file, True)
    loaded.need(end="in place")
    assert 0 < loaded.report["evicted_again"] <= 0.25 * SIZE, loaded.report
    assert loaded.left >= 0.5 * SIZE, f"only {loaded.left} bytes of weights in use are in memory"


def test_two_processes():
    loaded = Loaded("pair", Loaded.file, True)
    assert loaded.said == b"copied ok\n"
    assert loaded.report["note"] and "two processes map it" in loaded.report["note"], loaded.report
    # The other one ended with the copy: what was stuck went then.
    assert loaded.left <= SIZE / 50, f"{loaded.left} bytes are left in the page cache"


def test_refused():
    loaded = Loaded("shared", Loaded.file, True, refused=(REFUSE, "EPERM", "process_madvise", "--"))
    assert loaded.said == b"copied ok\n"
    loaded.need(end="loaded", means=["fadvise"])
    assert "CAP_SYS_NICE" in loaded.report["note"] and "CAP_SYS_NICE" in loaded.errors, loaded.report
    assert loaded.report["peak_with"] >= 1.9 * SIZE, loaded.report


def test_refused_all():
    """Neither process_madvise nor pidfd_open nor cachestat: reads are still followed."""
    loaded = Loaded("read", Loaded.file, True, refused=(REFUSE, "ENOSYS", "process_madvise", "pidfd_open", "cachestat", "--"))
    assert loaded.said == b"copied ok\n"
    loaded.need(end="loaded", means=["fadvise"], note=None)
    loaded.bounded()


def test_nobody_own_file():
    loaded = Loaded("shared", Loaded.nobodys, True, prefix=NOBODY)
    assert loaded.said == b"copied ok\n"
    assert "CAP_SYS_NICE" in loaded.report["note"], loaded.report
    loaded = Loaded("read", Loaded.nobodys, True, prefix=NOBODY)
    assert loaded.said == b"copied ok\n"
    loaded.need(end="loaded", means=["fadvise"], note=None)
    loaded.bounded()


def test_nobody_roots_file():
    loaded = Loaded("pread", Loaded.file, True, prefix=NOBODY)
    assert loaded.said == b"copied ok\n"
    loaded.need(means=["fadvise"], peak_with=None, peak_without=None, cache_peak=None)
    assert loaded.left <= SIZE / 50, f"{loaded.left} bytes are left in the page cache"


def test_another_users_process():
    with subprocess.Popen(["sleep", "60"]) as job:
        follow = subprocess.Popen([*NOBODY, Loaded.umactl, "cache", "follow", str(job.pid), "--json"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1.2)
        job.kill()
        job.wait()
    out, err = follow.communicate(timeout=20)
    report = json.loads(out)
    assert report["end"] == "nothing" and "cannot be looked into" in report["note"] and b"cannot be looked into" in err, report


def test_job_killed():
    loaded = Loaded("shared", Loaded.file, True, stop=lambda job: job.kill())
    loaded.need(end="exited")
    assert loaded.status == 0 and 0 < loaded.report["read"] < SIZE, loaded.report


def test_no_such_process():
    with subprocess.Popen(["true"]) as job:
        job.wait()
    answer = subprocess.run([Loaded.umactl, "cache", "follow", str(job.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, check=False)
    assert answer.returncode == 1 and str(job.pid).encode() in answer.stderr, answer


def test_refused_processes():
    """What never loads anything: a kernel thread, umactl itself; and another machine than this one."""
    kernel = next((int(p) for p in os.listdir("/proc") if p.isdigit() and int(open(f"/proc/{p}/stat", encoding="latin-1").read().rsplit(")", 1)[1].split()[6])
                   & 0x200000), None)
    asked = [(["sh", "-c", f'exec "{Loaded.umactl}" cache follow $$'], {}, b"is umactl itself"),
             ([Loaded.umactl, "cache", "follow", str(os.getpid())], {"UMACTL_ROOT": "/"}, b"UMACTL_ROOT names another machine")]
    if kernel:
        asked.append(([Loaded.umactl, "cache", "follow", str(kernel)], {}, b"thread of the kernel"))
    for argv, environment, said in asked:
        answer = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, check=False, env={**os.environ, **environment})
        assert answer.returncode == 2 and said in answer.stderr and not answer.stdout, answer


def test_waiting():
    """It is said once what is waited for, with the name that the process gave itself made harmless; not with --quiet."""
    own = "import sys; open('/proc/self/comm', 'w').write('a\\033[1mb'); print(flush=True); sys.stdin.read()"
    for quiet in ([], ["--quiet"]):
        with subprocess.Popen([sys.executable, "-c", own], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
            job.stdout.readline()
            with subprocess.Popen([Loaded.umactl, "cache", "follow", str(job.pid), *quiet], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follow:
                time.sleep(2.8)
                job.stdin.close()
                out, err = follow.communicate(timeout=20)
            assert follow.returncode == 0, (follow.returncode, out, err)
            assert err.count(f"waiting for pid {job.pid} (a".encode()) == (not quiet) and b"\033" not in err, err


def test_in_place_and_ended():
    """The job was given up on, and ended before anybody could say so: the report does."""
    loaded = Loaded("inplace", Loaded.file, True, stop=lambda job: (time.sleep(0.9), job.kill()))
    loaded.need(end="exited")
    assert "used where it lies" in loaded.report["note"] and "used where it lies" in loaded.errors, loaded.report


def test_follows_its_parent():
    """A shell that starts a loader of a part, and the follower of itself: its own descriptor of the file does not make the job have it open."""
    part = ("import time; f = open(%r, 'rb', 0); time.sleep(0.5); [(f.read(1 << 20), time.sleep(0.005)) for _ in range(96)]; f.close(); time.sleep(15)"
            % Loaded.file)
    prepare(Loaded.file, False)
    with subprocess.Popen(["sh", "-c", f'"{sys.executable}" -c "{part}" & "{Loaded.umactl}" cache follow $$ --json; kill $!'],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shell:
        out = shell.communicate(timeout=60)[0]
    report = json.loads(out)
    assert report["end"] == "loaded" and report["seconds"] < 14, report


def test_interrupted():
    with subprocess.Popen(["sleep", "60"]) as job:
        with subprocess.Popen([Loaded.umactl, "cache", "follow", str(job.pid), "--json"], stdout=subprocess.PIPE) as follow:
            time.sleep(0.3)
            follow.send_signal(signal.SIGINT)
            out = follow.communicate(timeout=20)[0]
        job.kill()
    assert follow.returncode == 130 and json.loads(out)["end"] == "stopped", (follow.returncode, out)


def test_keep_free():
    """More is to stay free than the machine has: the model that nobody uses goes first, then all but a quarter of the window."""
    hub = os.path.join(Loaded.folder, "hub")
    idle = os.path.join(hub, "models--a--b", "blobs")
    os.makedirs(idle)
    other = os.path.join(idle, "model.safetensors")
    make(other, 64 * MIB)
    prepare(other, True)
    loaded = Loaded("shared", Loaded.file, True, options=("--window", str(WINDOW), "--keep-free", "1T"), environment={"HF_HUB_CACHE": hub})
    assert loaded.said == b"copied ok\n"
    # Folders of other models on this machine may be in the cache as well: they are idle weights too.
    assert cached(other) == 0, "the model that nobody uses is still in the page cache"
    assert loaded.report["kept_free"] >= 64 * MIB, loaded.report


def never_in_place(report, said):
    assert report["end"] != "in place" and "used where it lies" not in (report["note"] or "") + said, f"every byte is read once: {report} {said}"


def test_tensors_once(how, order, second=False):
    """A cold file whose tensors are each read once: whatever the kernel reads ahead, and whoever else evicts, that is no use in place."""
    prepare(Loaded.tensors, False)
    state = tempfile.mkdtemp(dir=Loaded.folder)
    argv = [UMACTL, "run", "--load-window", str(WINDOW), "--", LOADER, "load", Loaded.tensors, how, order, "0.5", "0.002" if second else "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "XDG_STATE_HOME": state}) as run:
        pid = run.stdout.readline().split()[-1]
        also = subprocess.run([UMACTL, "cache", "follow", pid, "--json", "--window", str(WINDOW)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60, check=False) if second else None
        out, err = run.communicate(timeout=60)
    assert run.returncode == 0 and "checksum ok" in out, (run.returncode, out, err)
    record, = glob.glob(os.path.join(state, "umactl", "runs", "*", "run.json"))
    with open(record, encoding="utf-8") as f:
        report = json.load(f)["load"]["report"]
    never_in_place(report, err)
    if also:
        never_in_place(json.loads(also.stdout), also.stderr)
    ratio = report["peak"] / SIZE
    print(f"# peak {ratio:.2f} of the file, read again {report['evicted_again_bytes'] / MIB:.1f} MiB")
    assert ratio <= PEAK_BY_COUNT, f"the peak is {ratio:.2f} of the file: {report}"
    # the loader ends half a second after its last tensor
    assert cached(Loaded.tensors) <= LEFT * WINDOW + READAHEAD, f"{cached(Loaded.tensors)} bytes are left in the page cache"


def test_file_in_memory():
    """Beside its weights a job has one open that lies in memory, and is not followed."""
    prepare(Loaded.tensors, False)
    state = tempfile.mkdtemp(dir=Loaded.folder)
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".safetensors") as other:
        other.truncate(64 * MIB)
        argv = [UMACTL, "run", "--load-window", str(WINDOW), "--", "sh", "-c", 'exec 9<"$0"; exec "$@"', other.name, LOADER, "load", Loaded.tensors, "read", "file", "0.5", "0"]
        done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "XDG_STATE_HOME": state}, timeout=60, check=False)
    assert done.returncode == 0 and "checksum ok" in done.stdout, (done.returncode, done.stdout, done.stderr)
    assert "load window: " in done.stderr, done.stderr


CASES = [
    ("mapped shared, warm", lambda: copies("shared", True, ["fadvise", "process_madvise"])),
    ("mapped shared, cold", lambda: copies("shared", False, ["fadvise", "process_madvise"])),
    ("mapped private and writable, warm; what the job wrote stays", lambda: copies("private", True, ["fadvise", "process_madvise"])),
    ("mapped, not in file order, cold", lambda: copies("random", False, ["fadvise", "process_madvise"], PEAK_OUT_OF_ORDER)),
    ("read, warm", lambda: copies("read", True, ["fadvise"])),
    ("pread, warm", lambda: copies("pread", True, ["fadvise"])),
    ("pread, cold", lambda: copies("pread", False, ["fadvise"])),
    ("pread, cold, a window smaller than the readahead", lambda: copies("pread", False, ["fadvise"], window=16 * MIB)),
    ("tensors by pread, in the model's order, cold", lambda: test_tensors_once("read", "dict")),
    ("tensors by pread, in the file's order, cold", lambda: test_tensors_once("read", "file")),
    ("tensors of a mapping, in the model's order, cold", lambda: test_tensors_once("shared", "dict")),
    ("tensors by pread, and two who follow", lambda: test_tensors_once("read", "dict", True)),
    ("a file in memory is open, too", test_file_in_memory),
    ("weights used in place are left alone", test_in_place),
    ("pages of two processes stay, and it is said", test_two_processes),
    ("process_madvise refused: it is said, and fadvise goes on", test_refused),
    ("no process_madvise, pidfd_open and cachestat", test_refused_all),
    ("another user, his own file", test_nobody_own_file),
    ("another user, root's file", test_nobody_roots_file),
    ("another user, root's process", test_another_users_process),
    ("the job is killed", test_job_killed),
    ("no such process", test_no_such_process),
    ("what loads nothing is refused", test_refused_processes),
    ("what is waited for is said once", test_waiting),
    ("used in place by a job that then ends", test_in_place_and_ended),
    ("a follower that is a child of the job", test_follows_its_parent),
    ("SIGINT", test_interrupted),
    ("free memory is kept", test_keep_free),
]
# How much lies in memory is a matter of time, which the other build measures; what these do, others of the list do, too.
MEASURED = ("mapped shared, warm", "mapped, not in file order, cold", "read, warm", "pread, warm", "pread, cold, a window smaller than the readahead",
            "tensors by pread, in the model's order, cold", "tensors by pread, in the file's order, cold", "tensors by pread, and two who follow",
            "another user, his own file", "used in place by a job that then ends", "no process_madvise, pidfd_open and cachestat")
if os.environ.get("UMA_SANITIZED"):
    CASES = [case for case in CASES if case[0] not in MEASURED]


def attempt(case):
    for left in (2, 1, 0):
        try:
            return case()
        except AssertionError as wrong:
            if left == 0:
                raise
            print(f"# again, because: {wrong}")
    return None


def main():
    where = next(disk_places(), None)
    if not where or os.geteuid() != 0 or not shutil.which("setpriv"):
        print("1..0 # SKIP needs root, setpriv and a folder on a disk")
        return 0
    free = next(int(line.split()[1]) * 1024 for line in open("/proc/meminfo", encoding="ascii") if line.startswith("MemFree"))
    if free < 4 * SIZE:
        print("1..0 # SKIP less than 1 GiB free on this machine")
        return 0
    Loaded.folder = tempfile.mkdtemp(prefix="uma-follow-", dir=where)
    failed = 0
    try:
        os.chmod(Loaded.folder, 0o755)
        Loaded.umactl, Loaded.job = shutil.copy(UMACTL, Loaded.folder), shutil.copy(JOB, Loaded.folder)
        Loaded.file, Loaded.nobodys = (os.path.join(Loaded.folder, name) for name in ("model.safetensors", "own.safetensors"))
        Loaded.tensors = os.path.join(Loaded.folder, "tensors.safetensors")
        subprocess.run([LOADER, "make", Loaded.tensors, str(SIZE)], check=True)
        make(Loaded.file, SIZE)
        make(Loaded.nobodys, SIZE, 65534)
        print(f"1..{len(CASES)}")
        for number, (name, case) in enumerate(CASES, 1):
            try:
                attempt(case)
                print(f"ok {number} - {name}")
            except Skip as reason:
                print(f"ok {number} - {name} # SKIP {reason}")
            except (AssertionError, subprocess.TimeoutExpired, ValueError) as wrong:
                failed += 1
                print(f"# {wrong}\nnot ok {number} - {name}")
            sys.stdout.flush()
    finally:
        shutil.rmtree(Loaded.folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
