# SPDX-License-Identifier: MIT
"""umactl run without a terminal: exit status, signals, data passed through, what a job inherits, records, gate."""

import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import time

from harness import UMACTL, Skip, add, case, contains, equal, machine, main
from run_support import PYTHON, Sandbox, alive, end_process, sleeping, state_of, wait_until

# ---- exit status -----------------------------------------------------------------------------------------------------


def status(argv, expected, cause):
    with Sandbox() as s:
        code, _, err = s.run("--", *argv)
        equal(code, expected, err.decode())
        record = s.record()
        equal(record["exit"]["status"], expected)
        contains(record["exit"]["cause"], cause)


add("exit status 0", status, ["true"], 0, "exit 0")
add("exit status 3", status, ["sh", "-c", "exit 3"], 3, "exit 3")
add("exit status 255", status, ["sh", "-c", "exit 255"], 255, "exit 255")
add("killed by TERM: 143", status, ["sh", "-c", "kill -TERM $$"], 143, "killed by SIGTERM")
add("killed by SEGV: 139", status, ["sh", "-c", "ulimit -c 0; kill -SEGV $$"], 139, "killed by SIGSEGV")
add("killed by KILL: 137, with the evidence there is", status, ["sh", "-c", "kill -KILL $$"], 137, "not sent by umactl")
add("not found: 127", status, ["/nonexistent/program"], 127, "not executed")
add("not executable: 126", status, [__file__ if not os.access(__file__, os.X_OK) else "/etc/passwd"], 126, "not executed")
add("a folder: 126", status, ["/"], 126, "not executed")


@case("a script without #! runs, as under env(1)")
def no_shebang():
    with Sandbox() as s:
        with open(s.file("job"), "w", encoding="ascii") as f:
            f.write("echo from a script; exit 9\n")
        os.chmod(s.file("job"), 0o755)
        code, out, _ = s.run(s.file("job"))
        equal((code, out), (9, b"from a script\n"))


def mistake(args, text):
    with Sandbox() as s:
        code, out, err = s.run(*args)
        equal((code, out), (125, b""))
        contains(err.decode(), text)
        equal(s.records(), [])


add("no job: 125", mistake, [], "which job")
add("unknown option: 125", mistake, ["--nonsense", "--", "true"], "--nonsense")
add("--need with nonsense: 125", mistake, ["--need", "12X", "--", "true"], "12X")
add("--interval 0: 125", mistake, ["--interval", "0", "--", "true"], "--interval")
add("--wait without --need: 125", mistake, ["--wait", "5", "--", "true"], "--need")
add("--json: 125 and where the document is", mistake, ["--json", "--", "true"], "run.json")
add("--from: 125 and what asks a saved reading", mistake, ["--from", "x.json", "--", "true"], "umactl require --from")
add("--csv -: 125", mistake, ["--csv", "-", "--", "true"], "standard output")


@case("no man page nests quotes that were meant side by side")
def man_quotes():
    folder = os.path.join(os.environ["UMA_DOCS"], "man")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                # in mdoc a macro name among the arguments of .Pq or .Ql begins a quotation inside the first one
                equal(len(re.findall(r"\bQl\b", line)) > 1, False, f"{name}:{number}: {line}")


@case("the job's own options are not umactl's, with and without --")
def own_options():
    with Sandbox() as s:
        equal(s.run("echo", "--need", "-q", "--", "x")[1], b"--need -q -- x\n")
        equal(s.run("--", "echo", "--help")[1][:5] != b"usage", True)


# ---- signals ---------------------------------------------------------------------------------------------------------

REPORTER = """
import os, signal, sys, time
def on(n, f):
    os.write(1, signal.Signals(n).name.encode() + b"\\n")
    if n in (signal.SIGTERM,):
        sys.exit(42)
for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT):
    signal.signal(n, on)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


def line_of(child):
    return child.stdout.readline().decode().strip()


@case("TERM, INT, HUP, QUIT, USR1, USR2, WINCH and CONT reach the job, which decides")
def forwarded():
    with Sandbox() as s:
        child = s.start("-q", "--", PYTHON, "-c", REPORTER)
        equal(line_of(child), "ready")
        for name in ("SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGINT"):
            child.send_signal(getattr(signal, name))
            equal(line_of(child), name)
        child.send_signal(signal.SIGTERM)
        equal(line_of(child), "SIGTERM")
        equal(child.wait(20), 42)
        equal(s.record()["exit"]["status"], 42)
        child.communicate()


def ends_by(name, number):
    with Sandbox() as s:
        child = s.start("-q", "--", "sleep", "60")
        s.wait_for_record()
        child.send_signal(number)
        equal(child.wait(20), 128 + number)
        equal(s.record()["exit"]["signal"], int(number))
        contains(s.record()["exit"]["cause"], f"{name} (passed on by umactl)")
        child.communicate()


for _name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1"):
    add(f"{_name} ends the job: 128+n and a record", ends_by, _name, getattr(signal, _name))


@case("signals go to the whole process group of the job")
def group():
    with Sandbox() as s:
        child = s.start("-q", "--", "sh", "-c", "sleep 60 & sleep 60 & echo ready; wait")
        equal(line_of(child), "ready")
        child.send_signal(signal.SIGTERM)
        equal(child.wait(20), 143)
        equal(s.record()["left_behind"]["processes"], 0)
        child.communicate()


@case("TSTP and CONT sent to umactl stop and continue job and umactl")
def stop_and_continue():
    with Sandbox() as s:
        # in this session with a group of its own: somebody is there to continue it, as with a shell
        child = s.start("-q", "--", "sh", "-c", "echo ready; sleep 60; true", process_group=0)
        equal(line_of(child), "ready")
        job = s.wait_for_record()["job"]["pid"]
        sleeping(job)
        child.send_signal(signal.SIGTSTP)
        wait_until(lambda: state_of(job) == "T" and state_of(child.pid) == "T", what="both stopped")
        child.send_signal(signal.SIGCONT)
        wait_until(lambda: state_of(job) == "S" and state_of(child.pid) == "S", what="both going on")
        child.terminate()
        equal(child.wait(20), 143)
        child.communicate()


@case("a job stopped by someone else (STOP) is watched on; CONT continues it")
def stopped_by_other():
    with Sandbox() as s:
        child = s.start("-q", "--interval", "0.1", "--", "sleep", "60")
        job = s.wait_for_record()["job"]["pid"]
        os.kill(job, signal.SIGSTOP)
        wait_until(lambda: state_of(job) == "T")
        samples = os.path.join(s.folder(), "samples.csv")
        before = os.path.getsize(samples)
        wait_until(lambda: os.path.getsize(samples) > before, what="rows go on")
        equal(state_of(child.pid) in "SR", True, "umactl goes on")
        child.send_signal(signal.SIGCONT)
        wait_until(lambda: state_of(job) == "S")
        child.terminate()
        equal(child.wait(20), 143)
        child.communicate()


@case("umactl stopped by STOP: the job goes on, and so does all after CONT")
def umactl_stopped():
    with Sandbox() as s:
        child = s.start("-q", "--", "sh", "-c", "sleep 1; exit 7")
        s.wait_for_record()
        child.send_signal(signal.SIGSTOP)
        time.sleep(1.3)
        child.send_signal(signal.SIGCONT)
        equal(child.wait(20), 7)
        child.communicate()


# ---- what the job inherits -------------------------------------------------------------------------------------------

INHERITED = """
import os, signal
ignored = [n.name for n in signal.valid_signals() if isinstance(n, signal.Signals) and n not in (9, 19) and signal.getsignal(n) == signal.SIG_IGN]
with open("/proc/self/status") as f:
    status = dict(l.rstrip().split(":\\t", 1) for l in f if l.startswith(("SigBlk", "SigIgn", "SigCgt")))
print(status["SigBlk"], status["SigIgn"], sorted(int(n) for n in os.listdir("/proc/self/fd") if int(n) > 2 and os.path.exists("/proc/self/fd/" + n)))
"""


@case("mask, ignored signals and descriptors are those that umactl inherited")
def inherits():
    def before():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR2})

    with Sandbox() as s:
        r, w = os.pipe()
        argv = ["sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status; set -- /proc/$$/fd/*; echo $#"]  # a pipeline would be counted too, or not
        direct = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=s.env(),
                                pass_fds=(w,), preexec_fn=before, check=True).stdout
        child = s.start("-q", "--", *argv, stderr=subprocess.DEVNULL, pass_fds=(w,), preexec_fn=before)
        out = child.communicate(timeout=20)[0]
        os.close(r)
        os.close(w)
        equal(out, direct)


@case("nohup: an ignored INT does not end the job; TERM does")
def ignored_interrupt():
    with Sandbox() as s:
        child = s.start("-q", "--", "sleep", "60", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        job = s.wait_for_record()["job"]["pid"]
        child.send_signal(signal.SIGINT)
        time.sleep(0.3)
        equal(alive(job), True)
        child.terminate()
        equal(child.wait(20), 143)
        child.communicate()


@case("an inherited SIG_IGN for CHLD does not lose the job's status")
def ignored_child():
    with Sandbox() as s:
        child = s.start("-q", "--", "sh", "-c", "exit 11", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        equal(child.wait(20), 11)
        child.communicate()


@case("closed standard streams: the job runs and ends as it would")
def closed_streams():
    with Sandbox() as s:
        r = subprocess.run(["sh", "-c", f"exec '{UMACTL}' run -- sh -c 'exit 5' <&- >&- 2>&-"], env=s.env(), timeout=30, check=False)
        equal(r.returncode, 5)
        equal(s.record()["exit"]["status"], 5)


@case("a job that closes its own streams and goes on is waited for")
def closes_own():
    with Sandbox() as s:
        code, out, _ = s.run("-q", "--", "sh", "-c", "echo a; exec <&- >&- 2>&-; sleep 0.7; exit 6")
        equal((code, out), (6, b"a\n"))


# ---- data ------------------------------------------------------------------------------------------------------------


@case("1 GB through a pipe arrives unchanged")
def gigabyte():
    with Sandbox() as s:
        command = f"head -c 1000000000 /dev/zero | '{UMACTL}' run -q -- cat | sha256sum"
        r = subprocess.run(["sh", "-c", command], env=s.env(), stdout=subprocess.PIPE, timeout=120, check=True)
        digest = hashlib.sha256()
        block = bytes(1000000)
        for _ in range(1000):
            digest.update(block)
        equal(r.stdout.split()[0].decode(), digest.hexdigest())


@case("stdout holds the job's bytes alone; the summary is on stderr, and none with --quiet")
def streams():
    data = bytes(range(256)) * 40
    with Sandbox() as s:
        code, out, err = s.run("--", "cat", stdin=data)
        equal((code, out), (0, data))
        for part in ("exit 0 after", "peak job", "peak pool", "lowest", "heat", "throttled", "events", "left behind", "record"):
            contains(err.decode(), part)
    with Sandbox() as s:
        code, out, err = s.run("-q", "--", "sh", "-c", "cat; echo problem >&2", stdin=data)
        equal((code, out, err), (0, data, b"problem\n"))


# ---- records ---------------------------------------------------------------------------------------------------------


@case("kill -9 of umactl: the job goes on, its record is readable and names it")
def killed_umactl():
    with Sandbox() as s:
        child = s.start("-q", "--interval", "0.2", "--", "sleep", "60", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        record = s.wait_for_record()
        time.sleep(0.5)
        child.kill()
        child.communicate()
        job = record["job"]
        try:
            record = s.record()
            equal(record["state"], "running")
            equal(record["exit"], None)
            equal(alive(job["pid"]), True, "the job goes on")
            with open(f"/proc/{job['pid']}/stat", encoding="ascii") as f:
                equal(int(f.read().rsplit(")", 1)[1].split()[19]), job["start_ticks"], "start time names this very process")
            equal(state_of(record["umactl"]["pid"]), None)
            json.load(open(os.path.join(s.folder(), "before.json"), encoding="utf-8"))
            equal(s.events()[0]["event"], "job_start")
        finally:
            end_process(job["pid"])


@case("--kill-with-umactl: the job gets TERM when umactl is killed")
def kill_with():
    with Sandbox() as s:
        child = s.start("-q", "--kill-with-umactl", "--", "sleep", "60", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        job = s.wait_for_record()["job"]["pid"]
        child.kill()
        child.communicate()
        try:
            wait_until(lambda: not alive(job), what="the job ends")
        finally:
            end_process(job)


@case("a record has its parts, is private, and keeps secrets out")
def parts():
    with Sandbox() as s:
        code, _, err = s.run("-q", "--name", "my run/../x", "--", "sh", "-c", "sleep 0.3", "--api-key", "hunter2", "HF_TOKEN=hf_abcdefghijklmnop",
                             env=s.env(CUDA_VISIBLE_DEVICES="0", HF_TOKEN="hf_secretsecretsecret", UNRELATED="1"))
        equal(code, 0, err)
        folder = s.folder()
        equal(sorted(os.listdir(folder)), ["after.json", "before.json", "events.jsonl", "run.json", "samples.csv"])
        equal(os.stat(folder).st_mode & 0o777, 0o700)
        text = open(os.path.join(folder, "run.json"), encoding="utf-8").read()
        for secret in ("hunter2", "hf_abc", "hf_secret", "UNRELATED"):
            equal(secret in text, False, secret)
        record = s.record()
        equal(record["schema"], "umactl.run/1")
        equal(record["state"], "ended")
        equal(record["name"], "my_run_.._x")
        equal([a[-3:] for a in record["command"][-2:]], ["***", "***"])
        contains(record["env"], "CUDA_VISIBLE_DEVICES=0")
        equal([e["event"] for e in s.events()], ["job_start", "job_end"])
        for name in ("before.json", "after.json"):
            equal(json.load(open(os.path.join(folder, name), encoding="utf-8"))["schema"], "umactl.snapshot/1")


@case("a state directory that cannot be written: told once, the job runs")
def no_state():
    with Sandbox() as s:
        code, out, err = s.run("--", "echo", "hi", env=s.env(UMACTL_STATE="/proc/nowhere"))
        equal((code, out), (0, b"hi\n"))
        contains(err.decode(), "runs without a record")
        contains(err.decode(), "none kept")


@case("the state directory: UMACTL_STATE, XDG_STATE_HOME, HOME in this order")
def state_places():
    with Sandbox() as s:
        env = s.env(UMACTL_STATE=None, XDG_STATE_HOME=s.file("xdg"), HOME=s.file("home"))
        equal(s.run("-q", "true", env=env)[0], 0)
        equal(os.listdir(s.file("xdg")), ["umactl"])
        del env["XDG_STATE_HOME"]
        equal(s.run("-q", "true", env=env)[0], 0)
        equal(len(os.listdir(s.file("home/.local/state/umactl/runs"))), 1)


# ---- the tree --------------------------------------------------------------------------------------------------------


@case("a process that leaves by setsid and double fork is found, and named as left behind")
def double_fork():
    job = ("import os, time\n"
           "if os.fork() == 0:\n"
           "    os.setsid()\n"
           "    os.dup2(os.open('/dev/null', os.O_RDWR), 2)\n"
           "    if os.fork() == 0:\n"
           "        x = bytearray(64 << 20)\n"
           "        time.sleep(60)\n"
           "    os._exit(0)\n"
           "os.wait()\n"
           "time.sleep(1.5)\n")
    with Sandbox() as s:
        code, _, err = s.run("--", PYTHON, "-c", job, stdout=subprocess.DEVNULL)
        record = s.record()
        left = record["left_behind"]["process_list"]
        for one in left:
            end_process(one["pid"])
        equal(code, 0)
        equal(record["left_behind"]["processes"], 1)
        equal(left[0]["bytes"] > 60 << 20, True, f"its memory {left}")
        equal(record["peak"]["anonymous_and_shared"] > 60 << 20, True, "in the job's peak")
        contains(err.decode(), f"pid {left[0]['pid']}")


@case("--end-left-behind ends it")
def end_left():
    with Sandbox() as s:
        code, _, _ = s.run("-q", "--end-left-behind", "--", "sh", "-c", "setsid sleep 61 & sleep 0.2", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        equal(code, 0)
        equal(s.record()["left_behind"]["processes"], 0)


@case("files left in /dev/shm are named")
def left_shm():
    if not os.path.isdir("/dev/shm"):
        raise Skip("no /dev/shm")
    name = f"/dev/shm/uma-test-{os.getpid()}"
    with Sandbox() as s:
        try:
            code, _, err = s.run("--", "dd", "if=/dev/zero", f"of={name}", "bs=1M", "count=8", "status=none")
        finally:
            os.unlink(name)
        equal(code, 0)
        found = {f["name"]: f["bytes"] for f in s.record()["left_behind"]["shm_list"]}
        equal(found.get(os.path.basename(name)), 8 << 20)


@case("1000 short-lived children are no burden and leave no zombies")
def many_children():
    with Sandbox() as s:
        code, _, err = s.run("-q", "--", "sh", "-c", "i=0; while [ $i -lt 1000 ]; do /bin/true & i=$((i+1)); [ $((i % 50)) = 0 ] && wait; done; wait; exit 4",
                             timeout=120)
        equal(code, 4, err)


@case("orphans are reaped while the job runs")
def orphans():
    with Sandbox() as s:
        child = s.start("-q", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do (sh -c 'sleep 0.1 &'); done; echo ready; sleep 60")
        equal(line_of(child), "ready")

        def zombies():
            n = 0
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    fields = open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace").read().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                n += fields[0] == "Z" and int(fields[1]) == child.pid
            return n

        time.sleep(0.5)
        wait_until(lambda: zombies() == 0, what="no zombies")
        child.terminate()
        equal(child.wait(20), 143)
        child.communicate()


@case("no cgroup is left after the run")
def no_cgroup():
    with Sandbox() as s:
        equal(s.run("-q", "--", "sleep", "0.2")[0], 0)
        path = s.record()["cgroup"]
        if path is None:
            raise Skip(f"no cgroup here: {s.record()['cgroup_note']}")
        equal(os.path.exists(path), False)


@case("a job that fits in huge pages alone is told so")
def _():
    with Sandbox() as s:
        code, _, err = s.run("--need", "80G", "--root", machine("spark-hugetlb"), "--", "true")
        equal(code, 0)
        contains(err.decode(), "what the job can have is in huge pages (ordinary allocations have 15.3 GiB available)")


@case("what could not be listed at the end is not known, and not nothing")
def left_unknown():
    if os.environ.get("UMA_SANITIZED"):
        raise Skip("a sanitizer itself needs /proc")
    with Sandbox() as s:
        child = s.start("--", "sleep", "60")
        job = s.wait_for_record()["job"]["pid"]
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (0, 0))  # it can open nothing any more: /proc and /dev/shm neither
        os.kill(job, signal.SIGTERM)
        _, err = child.communicate(timeout=60)
        equal(child.returncode, 128 + signal.SIGTERM, err.decode())
        contains(err.decode(), "left behind  processes: ?; /dev/shm: ?")


main()
