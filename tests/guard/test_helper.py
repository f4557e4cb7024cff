#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uma-guard-helper from outside: what it writes for the guard, what it does when the guard says so, and what it does not let anybody do."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time

from helper_support import BRAKE, HELPER, KILL, NOTHING, PATIENCE, RELEASE, ROOM, SEND, WARN, Helper, start_of, wait_for  # isort: skip

from cache_support import MIB, cached, fill, place, put  # noqa: E402
from documented import check_documented  # noqa: E402
from harness import UMACTL, Skip, case, contains, equal, main  # noqa: E402

PYTHON = sys.executable
GPU = "driver 580.95.05\ngpu\nname NVIDIA GB10\nuuid GPU-5a1fc0de\npci 0000000F:01:00.0\n"


# ---- the driver's figures ----------------------------------------------------------------------------------------------


@case("GPU bytes by process, with the start of each, and the newest answer")
def _():
    me, start = os.getpid(), start_of(os.getpid())
    with Helper(GPU + f"process {me} 90194313216\nprocess 999999 1048576\n") as h:
        gpu = wait_for("an answer", lambda: (g := h.gpu()) and g.answered and g)
        equal(gpu.processes, {me: (start, 90194313216), 999999: (0, 1048576)})
        equal(gpu.total, 90194313216 + 1048576)
        assert gpu.sequence % 2 == 0 and gpu.asked == gpu.answered, gpu.__dict__
        h.put("scenario", GPU + f"process {me} 5\n")
        gpu = wait_for("the next answer", lambda: (g := h.gpu()).total == 5 and g)
        equal(gpu.processes, {me: (start, 5)})
        equal(os.stat(os.path.join(h.run, "gpu")).st_mode & 0o7777, 0o644)


@case("a process on two GPUs is one")
def _():
    me = os.getpid()
    with Helper(GPU + f"process {me} 100\ngpu\nname B\nuuid GPU-2\npci 0000000F:02:00.0\nprocess {me} 11\n") as h:
        gpu = wait_for("an answer", lambda: (g := h.gpu()) and g.answered and g)
        equal((gpu.total, gpu.processes[me][1]), (111, 111))


@case("a driver that hangs leaves the last answer, and the time of the question moves on")
def _():
    me = os.getpid()
    with Helper(GPU + f"process {me} 77\n") as h:
        h.send(NOTHING)  # near: twice a second
        first = wait_for("an answer", lambda: (g := h.gpu()) and g.answered and g)
        h.put("scenario", GPU + f"process {me} 77\nhang nvmlDeviceGetComputeRunningProcesses\nhang nvmlDeviceGetGraphicsRunningProcesses\n")
        h.send(NOTHING)
        h.says("the driver does not answer")
        later = h.gpu()
        gpu = wait_for("further questions", lambda: (g := h.gpu()).asked > max(later.asked, first.asked) and g)
        equal((gpu.processes[me][1], gpu.total), (77, 77))
        assert gpu.answered < gpu.asked, gpu.__dict__
        begun = time.monotonic()
        h.send(BRAKE, pid=1, name="x")  # and nothing else waits for it
        equal(h.stop(), 0)
        assert time.monotonic() - begun < 5, "it ended late"


@case("no driver: no answer, and the helper does the rest")
def _():
    with Helper() as h:
        wait_for("a question", lambda: (g := h.gpu()) and g.asked)
        equal((h.gpu().answered, h.gpu().processes), (0, {}))
        h.says("no GPU memory by process")


@case("near the floor it asks more often")
def _():
    with Helper(GPU) as h:
        wait_for("an answer", lambda: (g := h.gpu()) and g.answered)
        asked = set()
        end = time.monotonic() + 2.2
        while time.monotonic() < end:
            h.send(NOTHING)
            asked.add(h.gpu().asked)
            time.sleep(0.1)
        assert len(asked) >= 3, f"{len(asked)} questions in 2.2 s"  # 1 or 2 far from it


# ---- room --------------------------------------------------------------------------------------------------------------


@case("room: so many bytes of weight files leave the cache, and no more than a piece too much")
def _():
    hub = place("guard-room")
    path = put(os.path.join(hub, "hub", "models--a--big", "snapshots", "1", "model.safetensors"), 512 * MIB)
    fill(path)
    before = cached(path)
    if before < 500 * MIB:
        raise Skip("the machine does not keep the file in its cache")
    os.utime(path, (1, 1))  # used long ago: it goes first
    with Helper(HF_HOME=hub) as h:
        h.send(ROOM, bytes=128 * MIB)
        h.says("room: asked for 128 MiB, evicted ")
        left = cached(path)
        assert 128 * MIB <= before - left <= 256 * MIB, f"{(before - left) / MIB} MiB left"
        h.send(ROOM, bytes=1 << 40)
        wait_for("the second receipt", lambda: h.log.count("room: asked for") == 2)
        assert cached(path) < 16 * MIB, cached(path)
        contains(h.log, "of 1 weight files")


@case("room: pages that a process maps stay, and in a dry run all do")
def _():
    hub = place("guard-mapped")
    path = put(os.path.join(hub, "hub", "models--a--mapped", "snapshots", "1", "model.safetensors"), 64 * MIB)
    fill(path)
    mapper = subprocess.Popen([PYTHON, "-c", "import mmap,sys\nf=open(sys.argv[1],'rb')\nm=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)\n"
                               "s=sum(m[i] for i in range(0,len(m),4096))\nprint('ready',flush=True)\nsys.stdin.read()", path],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        equal(mapper.stdout.readline(), b"ready\n")
        with Helper(HF_HOME=hub) as h:
            h.send(ROOM, bytes=1 << 40, dry_run=1)
            h.says("room: would make 1048576 MiB")
            h.send(ROOM, bytes=1 << 40)
            h.says("evicted ")
            assert cached(path) > 60 * MIB, cached(path)
    finally:
        mapper.communicate()


@case("room: compaction where blocks are short, as root")
def _():
    with Helper() as h:
        h.send(ROOM, bytes=0, order=9)
        h.says("room: asked for 0 B; ")
        line = [x for x in h.lines if "room: " in x][-1]
        assert ("compacted" in line) or ("root's" in line), line


# ---- a job's warning ---------------------------------------------------------------------------------------------------

TRAINER = r"""
import os, signal, sys, time
def save(*_):
    os.write(1, b"saved\n")
    os._exit(7)
signal.signal(signal.SIGUSR1, save)
print("ready", os.getpid(), flush=True)
for _ in range(600):
    time.sleep(0.1)
"""


def job(h, *options, command=None):
    child = subprocess.Popen([UMACTL, "run", "--no-valve", *options, "--", *(command or [PYTHON, "-c", TRAINER])],
                             env={**h.env, "UMACTL_STATE": h.file("state")}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, cwd=h.path)
    return child


def marks(h):
    return [n for n in os.listdir(h.warn) if n.startswith("umactl-warn-")]


@case("warn: through umactl run to the job's handler, and to a file")
def _():
    with Helper() as h:
        child = job(h, "--warn", "USR1", "--warn", "./save-now", command=["sh", "-c", '"$0" -c "$1"; exit $?', PYTHON, TRAINER])
        line = child.stdout.readline()
        assert line.startswith("ready "), (line, child.stderr.read())
        pid = int(line.split()[1])
        wait_for("the mark", lambda: marks(h))
        h.send(WARN, pid=pid, start=start_of(pid), name="python3")
        out, err = child.communicate(timeout=PATIENCE)
        equal((child.returncode, out), (7, "saved\n"), err)  # the shell, which has no handler, lived
        h.says(f"warned 1 jobs of the tree of process {pid}")
        contains(err, "SIGUSR1 was sent to 1 of its processes")
        with open(h.file("save-now"), encoding="utf-8") as f:
            contains(f.read(), "the guard is about to end this job")
        equal(marks(h), [])
        events = [os.path.join(d, n) for d, _, names in os.walk(h.file("state")) for n in names if n == "events.jsonl"]
        with open(events[0], encoding="utf-8") as f:
            contains(f.read(), '"event":"guard_warning","detail":"SIGUSR1 to 1 of its processes, file written"')


@case("warn: of a tree above umactl, and of none that is beside it")
def _():
    with Helper() as h:
        child = job(h, "--warn", "./told", command=["sleep", "60"])
        try:
            wait_for("the mark", lambda: marks(h))
            other = subprocess.Popen(["sleep", "60"])
            h.send(WARN, pid=other.pid, start=start_of(other.pid))
            h.says(f"warned 0 jobs of the tree of process {other.pid}")
            h.send(WARN, pid=child.pid, start=start_of(child.pid) + 1)
            h.says(f"nobody warned: process {child.pid} is gone")
            assert not os.path.exists(h.file("told"))
            me = os.getpid()
            h.send(WARN, pid=me, start=start_of(me))  # the tree's root is umactl's parent
            wait_for("the file", lambda: os.path.exists(h.file("told")))
            other.kill()
            other.wait()
        finally:
            child.terminate()
            child.communicate(timeout=PATIENCE)


@case("warn: a job that has no handler is not ended by its warning")
def _():
    with Helper() as h:
        child = job(h, "--warn", "USR1", command=["sleep", "60"])
        try:
            wait_for("the mark", lambda: marks(h))
            h.send(WARN, pid=child.pid, start=start_of(child.pid))
            h.says("warned 1 jobs")
            line = wait_for("its words", child.stderr.readline)
            contains(line, "no process of it waits for SIGUSR1")
            equal(child.poll(), None)
        finally:
            child.terminate()
            child.communicate(timeout=PATIENCE)


@case("warn: a false mark for somebody else's process ends nobody")
def _():
    with Helper() as h:
        victim = subprocess.Popen(["sleep", "60"])
        try:
            start = start_of(victim.pid)
            import struct
            with open(os.path.join(h.warn, f"umactl-warn-{victim.pid}-{start}"), "wb") as f:
                f.write(struct.pack("=QiIQ40x", 0x316E726177616D75, victim.pid, 45, start))
            os.symlink("/etc/passwd", os.path.join(h.warn, "umactl-warn-1-1"))
            h.send(WARN, pid=victim.pid, start=start)
            h.says("warned 0 jobs of the tree")
            contains(h.log, "some could not be")
            equal(victim.poll(), None)
        finally:
            victim.kill()
            victim.wait()


# ---- telling people ----------------------------------------------------------------------------------------------------


def teller(h, body):
    path = h.file("tell")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\n{body}\n")
    os.chmod(path, 0o755)
    return path


def told(h, name="told"):
    try:
        with open(h.file(name), "rb") as f:
            return f.read().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


@case("the command: what was done is in its environment, a hostile name too, and no shell reads it")
def _():
    h = Helper()
    try:
        path = teller(h, f'env >> {h.file("told.new")}; echo "$#" >> {h.file("told.new")}; mv {h.file("told.new")} {h.file("told")}')
        h.put("guard.conf", f"[Notify]\nCommand={path}\n")
        h.start()
        h.send(KILL, pid=77, name="\x1b[31m$(id)\n\xc2", bytes=12 << 30, headroom=1 << 30, floor=4 << 30, reason=2)
        text = wait_for("the command", lambda: told(h))
        lines = text.splitlines()
        for line in ("UMA_GUARD_ACTION=kill", "UMA_GUARD_PID=77", f"UMA_GUARD_BYTES={12 << 30}", f"UMA_GUARD_HEADROOM={1 << 30}",
                     f"UMA_GUARD_FLOOR={4 << 30}", "UMA_GUARD_RESULT=0", "UMA_GUARD_REASON=will reach the floor", "UMA_GUARD_LEFT_OUT=0"):
            assert line in lines, f"{line}\n{text}"
        name = [x for x in lines if x.startswith("UMA_GUARD_NAME=")][0]
        contains(name, "\\x1b[31m$(id)\\n")
        assert "\x1b" not in text
        equal(lines[-1], "0")
        assert not [x for x in lines if x.startswith(("HOME=", "UMACTL_"))], text  # nothing of ours
    finally:
        h.__exit__()


@case("the command: room and hints are nobody's news, and neither is a dry run")
def _():
    h = Helper()
    try:
        h.put("guard.conf", f"[Notify]\nCommand={teller(h, 'echo $UMA_GUARD_ACTION >> ' + h.file('told'))}\n")
        h.start()
        h.send(NOTHING)
        h.send(ROOM, bytes=0)
        h.send(KILL, pid=5, dry_run=1)
        h.send(RELEASE, pid=5)
        wait_for("the command", lambda: told(h))
        time.sleep(0.2)
        equal(told(h), "release\n")
    finally:
        h.__exit__()


@case("one at a time, in order, and rarely enough; a kill gets through")
def _():
    h = Helper()
    try:
        h.put("guard.conf", "[Notify]\nCommand=" + teller(h, f"""
mkdir {h.file('one')} || echo two at a time >> {h.file('told')}
sleep 0.02
echo $UMA_GUARD_ACTION $UMA_GUARD_LEFT_OUT >> {h.file('told')}
rmdir {h.file('one')}""") + "\n")
        h.start()
        for _ in range(25):
            h.send(BRAKE, pid=5, times=2)  # a socket holds no more than ten (unix(7), max_dgram_qlen)
        h.says("some is left out")
        h.send(KILL, pid=5)
        wait_for("the kill", lambda: "kill" in told(h))
        equal(told(h), "brake 0\n" * 4 + "kill 46\n")
    finally:
        h.__exit__()


@case("a command that hangs is ended after its time, and those that fail are told of")
def _():
    h = Helper()
    try:
        h.put("guard.conf", f"[Notify]\nCommand={teller(h, 'exit 3')}\n")
        h.start()
        h.send(KILL, pid=5)
        h.says("the command ended with status 3")
        h.put("guard.conf", "[Notify]\nCommand=/nonexistent/program\n")
        h.process.send_signal(signal.SIGHUP)
        h.says("the policy was read again")
        h.send(KILL, pid=5)
        h.says("the command ended with status 127")
        h.put("guard.conf", "[Notify]\nCommand=relative\n")
        h.process.send_signal(signal.SIGHUP)
        h.says("whom to tell stays as it was")
        h.put("guard.conf", f"[Notify]\nCommand={teller(h, 'echo $$ > ' + h.file('told') + '; exec sleep 100')}\n")
        h.process.send_signal(signal.SIGHUP)
        wait_for("the policy", lambda: h.log.count("the policy was read again") == 2)
        h.send(KILL, pid=5)
        pid = int(wait_for("the command", lambda: told(h)))
        equal(h.stop(), 0)  # it does not wait for it
        wait_for("the command's end", lambda: not os.path.exists(f"/proc/{pid}"))
    finally:
        h.__exit__()


class Hook(http.server.BaseHTTPRequestHandler):
    got = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, self.headers["Content-Type"], body))
        self.send_response(204 if "fail" not in self.path else 500)
        self.end_headers()

    def log_message(self, *_):
        pass


@case("the webhook: JSON, the address in no argument")
def _():
    if not os.path.exists("/usr/bin/curl"):
        raise Skip("no curl")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        with Helper(policy=f"[Notify]\nWebhook={base}/hook?token=s3cret\n") as h:
            h.send(KILL, pid=77, name='py"\n<x>', bytes=12 << 30, headroom=1 << 30, floor=4 << 30, rate=-1e9, reason=2)
            path, kind, body = wait_for("the post", lambda: Hook.got)[0]
            equal((path, kind), ("/hook?token=s3cret", "application/json"))
            d = json.loads(body)
            equal((d["schema"], d["action"], d["reason"]), ("umactl.guard-notification/1", "kill", "will reach the floor"))
            equal(d["process"]["name"], 'py"\\n<x>')
            equal((d["process"]["pid"], d["process"]["bytes"], d["process"]["gpu_bytes"]), (77, 12 << 30, None))
            check_documented(d, "umactl.guard-notification/1")
            equal((d["evidence"]["rate"], d["evidence"]["time_to_floor"], d["evidence"]["psi_some"]), (-1e9, None, None))
            contains(d["text"], 'killed py"\\n<x> (pid 77), which has 12.0 GiB')
            h.put("guard.conf", f"[Notify]\nWebhook={base}/fail?token=s3cret\n")
            h.process.send_signal(signal.SIGHUP)
            h.says("the policy was read again")
            h.send(KILL, pid=77, name="x")
            h.says("the webhook ended with status 22")
            assert "s3cret" not in h.log, h.log
    finally:
        server.shutdown()


# ---- who may say what ------------------------------------------------------------------------------------------------------


@case("datagrams that are no messages are counted and nothing else")
def _():
    h = Helper()
    try:
        h.put("guard.conf", f"[Notify]\nCommand={teller(h, 'echo $UMA_GUARD_ACTION >> ' + h.file('told'))}\n")
        h.start()
        h.send_bytes(b"")
        h.send_bytes(b"x")
        h.send_bytes(os.urandom(232))
        h.send_bytes(b"\0" * 100000)
        h.says("datagrams were no messages")
        subprocess.run([SEND, h.socket, f"kind={KILL}", "name=0123456789abcdefXX"], check=True)  # a name without an end
        subprocess.run([SEND, h.socket, "kind=99"], check=True)
        subprocess.run([SEND, h.socket, f"kind={KILL}", "pid=-1"], check=True)
        h.send(RELEASE, pid=5)
        wait_for("the command", lambda: told(h))
        equal(told(h), "release\n")
        equal(h.process.poll(), None)
    finally:
        h.__exit__()


@case("another user may not send")
def _():
    if os.geteuid() != 0:
        raise Skip("needs root to be another user")
    with Helper() as h:
        for folder in (h.path, h.run):
            os.chmod(folder, 0o755)
        attempt = [SEND, h.socket, f"kind={WARN}", "pid=1", "start=1"]
        nobody = {"user": 65534, "group": 65534, "extra_groups": [], "capture_output": True, "text": True}
        try:
            r = subprocess.run(attempt, **nobody)
        except PermissionError:
            raise Skip("another user may not run the test's program") from None
        equal(r.returncode, 1)
        os.chmod(h.socket, 0o666)  # and if the socket's mode did not keep them out, their name does
        equal(subprocess.run(attempt, **nobody).returncode, 0)
        h.says("datagrams were no messages")
        assert "nobody warned" not in h.log, h.log


@case("a second helper is refused, and the first goes on")
def _():
    with Helper() as h:
        r = subprocess.run(h.arguments(), env=h.env, capture_output=True, text=True, timeout=PATIENCE)
        equal(r.returncode, 1)
        contains(r.stderr, "another helper is there")
        h.send(WARN, pid=1 << 30, start=1)
        h.says("nobody warned")


@case("one whose folder is taken away ends, so that it is started anew")
def _():
    with Helper() as h:
        os.rename(h.run, h.run + ".old")
        os.mkdir(h.run)
        equal(h.process.wait(PATIENCE), 1)
        contains(h.log, "the guard cannot reach this helper")


@case("a folder that others may write is refused")
def _():
    h = Helper()
    try:
        os.chmod(h.run, 0o777)
        r = subprocess.run(h.arguments(), env=h.env, capture_output=True, text=True, timeout=PATIENCE)
        equal(r.returncode, 1)
        contains(r.stderr, "others may write it (mode 0777)")
    finally:
        h.__exit__()


@case("Ctrl-C and SIGTERM: nothing is left but the lock's file, no child lives; a killed one's socket is taken over")
def _():
    for signo in (signal.SIGINT, signal.SIGTERM):
        with Helper(GPU) as h:
            wait_for("an answer", lambda: (g := h.gpu()) and g.answered)
            children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(h.process.pid)], capture_output=True, text=True).stdout.split()
            equal(h.stop(signo), 0)
            equal(os.listdir(h.run), ["helper.lock"])
            wait_for("the probe's end", lambda: not [c for c in children if os.path.exists(f"/proc/{c}")])
    with Helper() as h:
        h.process.kill()
        h.process.wait()
        assert os.path.exists(h.socket)
        h.start()
        h.send(WARN, pid=1 << 30, start=1)
        h.says("nobody warned")


@case("the command line")
def _():
    def call(*args):
        return subprocess.run([HELPER, *args], capture_output=True, text=True, timeout=PATIENCE)

    equal(call("--version").returncode, 0)
    contains(call("--help").stdout, "usage: uma-guard-helper")
    for args, part in ((["--nonsense"], "unknown option --nonsense"), (["--run-folder"], "a value is missing"), (["x"], "unexpected argument x"),
                       (["--run-folder", ""], "an empty name")):
        r = call(*args)
        equal(r.returncode, 2)
        contains(r.stderr, part)
    r = call("--run-folder", "/nonexistent/folder")
    equal(r.returncode, 1)
    contains(r.stderr, "/nonexistent/folder: No such file or directory")


if __name__ == "__main__":
    main()
