# SPDX-License-Identifier: MIT
"""umactl run: the gate, the CSV, GPU and heat through a fake NVML, and what watching costs."""

import csv
import os
import re
import signal
import subprocess
import time

from harness import UMACTL, MACHINES, Skip, add, case, contains, equal, main
from run_support import PYTHON, Sandbox, Tty, alive, state_of, wait_until

FAKE = os.environ.get("UMA_FAKE_LIBRARY")
SCENARIOS = os.environ.get("UMA_SCENARIOS", "")
GIB = 1 << 30


def machine(name):
    path = os.path.join(MACHINES, name)
    if not os.path.isdir(path):
        raise Skip(f"no fixture {name}")
    return path


# ---- gate ------------------------------------------------------------------------------------------------------------


@case("refused: 75, names the holders and what would have to go; nothing runs")
def refused():
    with Sandbox() as s:
        code, out, err = s.run("--root", machine("spark-serving"), "--need", "100G", "--", "touch", s.file("ran"))
        text = err.decode()
        equal((code, out), (75, b""), text)
        equal(os.path.exists(s.file("ran")), False)
        equal(s.records(), [])
        for part in ("100 GiB", "short", "held by", "would have to go", "pid "):
            contains(text, part)


@case("refused on a hostile process list: no control character reaches the terminal")
def refused_hostile():
    with Sandbox() as s:
        code, _, err = s.run("--root", machine("hostile-processes"), "--need", "9000G", "--", "true")
        equal(code, 75)
        equal([c for c in err.decode() if ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160], [])
        contains(err.decode(), "can never fit")


@case("what fits starts, and the record says so")
def fits():
    with Sandbox() as s:
        code, _, err = s.run("-q", "--need", "16M", "--", "true")
        equal(code, 0, err)
        gate = s.record()["gate"]
        equal((gate["verdict"], gate["need"]), ("fits", 16 << 20))
        equal(gate["budget"] > gate["need"], True)


@case("an unreadable machine: 125 with --need, a start without")
def unknown():
    with Sandbox() as s:
        os.mkdir(s.file("empty"))
        os.mkdir(s.file("empty/proc"))
        code, out, err = s.run("--root", s.file("empty"), "--need", "1G", "--", "echo", "ran")
        equal((code, out), (125, b""), err)
        code, out, err = s.run("--root", s.file("empty"), "--", "echo", "ran")
        equal((code, out), (0, b"ran\n"), err)
        equal(s.record()["gate"]["budget"], None)


def grown(s, source):
    """A folder that can be changed: only /proc/meminfo decides."""
    path = s.file("machine")
    subprocess.run(["cp", "-r", source, path], check=True)
    return path


@case("--wait: starts when measured memory is there")
def wait_fits():
    with Sandbox() as s:
        root = grown(s, machine("spark-serving"))
        child = s.start("--root", root, "--need", "60G", "--wait", "30", "--", "echo", "ran")
        time.sleep(0.7)
        equal(child.poll(), None)
        idle = open(os.path.join(machine("spark-idle"), "proc/meminfo"), "rb").read()
        with open(os.path.join(root, "proc/meminfo"), "r+b") as f:  # in place, as /proc does: files stay open between readings
            f.write(idle)
            f.truncate()
        out, err = child.communicate(timeout=20)
        equal((child.returncode, out), (0, b"ran\n"), err)
        contains(err.decode(), "waiting")
        equal(s.record()["gate"]["waited_seconds"] > 0.5, True)


@case("--wait: 75 when the time is over")
def wait_over():
    with Sandbox() as s:
        start = time.monotonic()
        code, _, err = s.run("--root", machine("spark-serving"), "--need", "100G", "--wait", "1", "--", "true")
        equal(code, 75)
        contains(err.decode(), "refused after waiting")
        equal(0.9 < time.monotonic() - start < 10, True)


@case("--wait: Ctrl-C ends the waiting with 130")
def wait_interrupted():
    with Sandbox() as s:
        t = Tty([UMACTL, "run", "--root", machine("spark-serving"), "--need", "100G", "--wait", "60", "--", "true"], s.env())
        t.read(until=b"waiting for")
        t.type(b"\x03")
        equal(t.end(), 130)
        contains(t.output.decode(), "stopped by Ctrl-C after")
        equal(s.records(), [])


@case("--wait: TERM ends the waiting with 143 and a sentence, also without a terminal")
def wait_terminated():
    with Sandbox() as s:
        child = s.start("--root", machine("spark-serving"), "--need", "100G", "--wait", "60", "--", "true")
        head = child.stderr.readline()
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=20)
        equal(child.returncode, 143)
        contains((head + err).decode(), "stopped by SIGTERM after")


@case("--wait: what can never fit is refused at once")
def wait_never():
    with Sandbox() as s:
        start = time.monotonic()
        code, _, err = s.run("--root", machine("spark-serving"), "--need", "500G", "--wait", "60", "--", "true")
        equal(code, 75)
        contains(err.decode(), "refused: the job needs 500 GiB")
        contains(err.decode(), "it can never fit: the whole pool is")
        equal(time.monotonic() - start < 20, True)


@case("critical problems are told before the start")
def warned():
    with Sandbox() as s:
        code, _, err = s.run("--root", machine("spark-power-stuck"), "--", "true")
        equal(code, 0)
        contains(err.decode(), "warning:")
        code, _, err = s.run("-q", "--root", machine("spark-power-stuck"), "--", "true")
        equal(err, b"")


# ---- CSV -------------------------------------------------------------------------------------------------------------

STAMP = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}"


def lines(path):
    with open(path, encoding="utf-8") as f:
        return f.read().splitlines()


@case("a new file: header, then rows that begin as nvidia-smi prints them")
def csv_new():
    with Sandbox() as s:
        path = s.file("log.csv")
        equal(s.run("-q", "--csv", path, "--interval", "0.1", "--", "sleep", "0.6")[0], 0)
        rows = lines(path)
        equal(rows[0].split(",")[:3], ["timestamp", "temperature.gpu", "power.draw"])
        equal(len(rows) >= 4, True, rows)
        for row in rows[1:]:
            equal(len(row.split(", ")), len(rows[0].split(",")), "width")
            assert re.match(STAMP + r", \[N/A\], \[N/A\], ", row), row
        equal("job_start" in rows[1], True)
        equal("job_end" in rows[-1], True)


@case("a job that ends when a row is due: its end is in the last row, here and in the record's samples")
def csv_end_on_tick():
    for interval, seconds in (("0.5", "0.5"), ("0.1", "0.3"), ("0.05", "0.05"), ("1", "0")):
        with Sandbox() as s:
            equal(s.run("-q", "--csv", s.file("log"), "--interval", interval, "--", "sleep", seconds)[0], 0)
            for path in (s.file("log"), os.path.join(s.folder(), "samples.csv")):
                rows = lines(path)
                equal(sum("job_end" in row for row in rows), 1, f"{interval} {seconds}: {rows}")
                contains(rows[-1], "job_end")


@case("--plain: bare numbers, empty where unknown, read by any CSV reader")
def csv_plain():
    with Sandbox() as s:
        path = s.file("log.csv")
        equal(s.run("-q", "--plain", "--csv", path, "--interval", "0.1", "--", "sleep", "0.4")[0], 0)
        with open(path, newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        equal(rows[0]["temperature.gpu"], "")
        equal(abs(float(rows[0]["timestamp"]) - time.time()) < 60, True)
        for row in rows:
            equal(None in row, False)
            for name, value in row.items():
                if name != "events" and value:
                    float(value)
            equal(int(row["pool.available"]) > 0, True)


@case("the three-column log of a temperature script is appended to in its own form, and said so")
def csv_three():
    with Sandbox() as s:
        path = s.file("thermal.log")
        before = "timestamp,temperature.gpu,power.draw\n2026/03/02 10:11:12.123, 65, 45.12 W\n"
        with open(path, "w", encoding="ascii") as f:
            f.write(before)
        code, _, err = s.run("--csv", path, "--interval", "0.1", "--", "sleep", "0.4")
        equal(code, 0)
        text = open(path, encoding="ascii").read()
        equal(text.startswith(before), True, "nothing is lost")
        for row in text.splitlines()[2:]:
            equal(bool(re.fullmatch(STAMP + r", \[N/A\], \[N/A\]", row)), True, row)
        contains(err.decode(), "3 columns")


@case("a second run appends without a second header")
def csv_again():
    with Sandbox() as s:
        path = s.file("log.csv")
        for _ in range(2):
            equal(s.run("-q", "--csv", path, "--", "true")[0], 0)
        rows = lines(path)
        equal([i for i, r in enumerate(rows) if r.startswith("timestamp")], [0])
        equal(len(rows), 3)


@case("a cut-off last line stays alone")
def csv_torn():
    with Sandbox() as s:
        path = s.file("log.csv")
        with open(path, "w", encoding="ascii") as f:
            f.write("timestamp,temperature.gpu,power.draw\n2026/03/02 10:11:12.123, 6")
        equal(s.run("-q", "--csv", path, "--", "true")[0], 0)
        rows = lines(path)
        equal(rows[1], "2026/03/02 10:11:12.123, 6")
        equal(bool(re.fullmatch(STAMP + r", \[N/A\], \[N/A\]", rows[2])), True, rows)


@case("--plain on a file with units follows the file")
def csv_style():
    with Sandbox() as s:
        path = s.file("log.csv")
        equal(s.run("-q", "--csv", path, "--", "true")[0], 0)
        code, _, err = s.run("--plain", "--csv", path, "--", "true")
        equal(code, 0)
        contains(err.decode(), "with units")
        equal(bool(re.match(STAMP, lines(path)[2])), True)


def foreign(text):
    with Sandbox() as s:
        path = s.file("other.csv")
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        code, out, err = s.run("--csv", path, "--", "echo", "ran")
        equal((code, out), (125, b""))
        contains(err.decode(), "other.csv:1:")
        equal(open(path, encoding="ascii").read(), text)


add("a file with another program's columns is refused before the job starts", foreign, "step,loss\n1,2.5\n")
add("a file whose first column is not the time is refused", foreign, "temperature.gpu,timestamp\n")
add("a file that is no CSV is refused", foreign, "#!/bin/sh\necho hello\n")


@case("a full disk: told once, the job goes on")
def csv_full():
    if not os.path.exists("/dev/full"):
        raise Skip("no /dev/full")
    with Sandbox() as s:
        code, out, err = s.run("--csv", "/dev/full", "--interval", "0.1", "--", "sh", "-c", "sleep 0.6; echo ran; exit 8")
        equal((code, out), (8, b"ran\n"))
        equal(err.decode().count("No space left"), 1)
        contains(err.decode(), "exit 8 after")


@case("a FIFO without a reader is refused, one that fills up does not stop the watch")
def csv_fifo():
    with Sandbox() as s:
        path = s.file("fifo")
        os.mkfifo(path)
        equal(s.run("--csv", path, "--", "true")[0], 125)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        code, _, _ = s.run("-q", "--csv", path, "--interval", "0.1", "--", "sleep", "0.5")
        equal(code, 0)
        contains(os.read(reader, 1 << 20).decode(), "timestamp,temperature.gpu,power.draw")
        os.close(reader)


@case("a folder that is not there: 125 and the name")
def csv_nowhere():
    with Sandbox() as s:
        code, _, err = s.run("--csv", s.file("no/such/log.csv"), "--", "true")
        equal(code, 125)
        contains(err.decode(), "no/such/log.csv")


# ---- GPU and heat ----------------------------------------------------------------------------------------------------

GB10 = """driver 580.95.05
gpu
name NVIDIA GB10
uuid GPU-5a1fc0de-0000-4000-8000-00000000b10b
celsius {celsius}
margin 13
power {power}
field 74 u64 5000000000 {f74}
field 269 u64 2000000000 {f269}
field 76 u64 0
field 270 u64 0
field 271 u64 0
sm_clock {clock}
sm_clock_max 3003
utilization 96 41
pstate 0
reasons {reasons}
"""


def gb10(celsius=65, power=45120, f74="", f269="", clock=2223, reasons="0x0", more=""):
    return GB10.format(celsius=celsius, power=power, f74=f74, f269=f269, clock=clock, reasons=reasons) + more


def with_gpu(s, scenario, *args, **changes):
    if not FAKE or not os.path.exists(FAKE):
        raise Skip("no fake NVML in this build")
    path = s.file("gpu.scenario")
    with open(path, "w", encoding="ascii") as f:
        f.write(scenario)
    env = s.env(UMACTL_NVML=FAKE, UMA_FAKE_NVML=path)
    return s.start(*args, env=env, **changes), path


def finished(child, expected=0, timeout=60):
    out, err = child.communicate(timeout=timeout)
    equal(child.returncode, expected, err.decode())
    return out, err.decode()


# A case waits for what it is about, however slow the machine, and then ends the job: the job itself sleeps for longer than any test may take.
LONG = ("--", "sleep", "600")


def now_answers(path, scenario):
    """From now on the GPU answers this."""
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write(scenario)
    os.rename(path + ".new", path)


def samples(s):
    with open(os.path.join(s.folder(), "samples.csv"), newline="", encoding="utf-8") as f:
        return list(csv.DictReader(line for line in f if line.endswith("\n")))


def wait_for_event(s, name, detail=""):
    s.wait_for_record()
    wait_until(lambda: any(e["event"] == name and detail in (e["detail"] or "") for e in s.events()), timeout=60, what=f"event {name} {detail}")


def wait_for_answer(s):
    s.wait_for_record()
    wait_until(lambda: any(row["temperature.gpu"] for row in samples(s)), timeout=60, what="an answer of the GPU")


def ended(child):
    child.send_signal(signal.SIGTERM)
    return finished(child, 128 + signal.SIGTERM)


@case("heat and power in the row are what nvidia-smi would print")
def gpu_row():
    with Sandbox() as s:
        child, _ = with_gpu(s, gb10(), "--csv", s.file("log"), "--interval", "0.2", *LONG)
        wait_for_answer(s)
        _, err = ended(child)
        rows = [r for r in lines(s.file("log"))[1:] if "[N/A], [N/A]" not in r[:40]]
        equal(len(rows) >= 2, True, rows)
        for row in rows:
            assert re.match(STAMP + r", 65, 45\.12 W, 65, 13, .*2223 MHz, 96 %, P0, 0x0000000000000000, ", row), row
        record = s.record()
        equal(record["celsius"], {"min": 65, "max": 65})
        equal(record["watts"], {"min": 45.12, "max": 45.12})
        contains(err, "65 C GPU, 45 W")


@case("a recorded machine (--root): its values are as old as they were when it was made, and the record names the folder")
def recorded():
    root = machine("spark-serving")
    with Sandbox() as s:
        equal(s.run("-q", "--root", root, "--plain", "--csv", s.file("log"), "--interval", "0.2", "--", "sleep", "0.8")[0], 0)
        with open(s.file("log"), newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        equal((rows[-1]["temperature.gpu"], rows[-1]["power.draw"], rows[-1]["gpu.age"]), ("71", "86.2", "0"))
        equal(s.record()["root"], root)
    with Sandbox() as s:
        equal(s.run("-q", "--root", "/", "--", "true")[0], 0)
        equal(s.record()["root"], None)


@case("throttle counters: differences, an event that begins and ends, seconds in the record")
def throttle():
    with Sandbox() as s:
        child, path = with_gpu(s, gb10(f269="per_ask 300000000"), "--csv", s.file("log"), *LONG)
        wait_for_event(s, "throttle_begin")
        now_answers(path, gb10().replace("field 269 u64 2000000000", "field 269 u64 90000000000"))
        wait_for_event(s, "throttle_end")
        _, err = ended(child)
        names = [(e["event"], (e["detail"] or "").split(":")[0]) for e in s.events()]
        contains(names, ("throttle_begin", "sw_thermal"))
        contains(names, ("throttle_end", "sw_thermal"))
        equal([n for n in names if "sw_power_cap" in n[1]], [])
        record = s.record()
        equal(record["throttle_seconds"]["sw_thermal"] > 0.2, True, record["throttle_seconds"])
        equal(record["throttle_seconds"]["sw_power_cap"], 0)
        total = sum(float(r["throttle.sw_thermal"] or 0) for r in samples(s))
        equal(abs(total - record["throttle_seconds"]["sw_thermal"]) < 1e-6, True, "rows sum to the record")
        contains(err, "thermal (software)")


@case("a counter that falls is a reset, never a negative difference")
def reset():
    with Sandbox() as s:
        child, path = with_gpu(s, gb10(), "--interval", "0.2", *LONG)
        s.wait_for_record()
        wait_until(lambda: any(row["throttle.sw_thermal"] for row in samples(s)), timeout=60, what="a difference of two answers")
        now_answers(path, gb10().replace("field 269 u64 2000000000", "field 269 u64 1000"))
        wait_for_event(s, "counter_reset")
        ended(child)
        equal(s.record()["throttle_seconds"]["sw_thermal"], 0)


@case("power stuck low under load is an event")
def stuck():
    with Sandbox() as s:
        child, _ = with_gpu(s, gb10(power=14000, clock=858, celsius=44), *LONG)
        wait_for_event(s, "power_stuck")
        ended(child)
        equal(s.record()["events"].get("power_stuck"), 1, s.record()["events"])


@case("GPU bytes of the tree, and another GPU job as contention")
def gpu_bytes():
    with Sandbox() as s:
        job = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"
        other = subprocess.Popen(["sleep", "600"])
        try:
            child, path = with_gpu(s, gb10(), "--", PYTHON, "-c", job)
            pid = int(child.stdout.readline())
            now_answers(path, gb10(more=f"process {pid} 3221225472\nprocess {other.pid} 11700000000\n"))
            wait_for_event(s, "contention_begin")
            ended(child)
        finally:
            other.kill()
            other.wait()
        record = s.record()
        equal(record["peak"]["gpu"], 3221225472)
        found = [e["detail"] for e in s.events() if e["event"] == "contention_begin"]
        equal(len(found), 1)
        contains(found[0], f"pid {other.pid} sleep 10.9 GiB")


@case("a probe that hangs: a gap event, memory is sampled on, the job's end is not delayed")
def hang():
    with Sandbox() as s:
        child, _ = with_gpu(s, gb10(more="hang nvmlDeviceGetMemoryInfo\n"), "--interval", "0.5", *LONG)
        wait_for_event(s, "gpu_probe_gap")
        wait_until(lambda: len(samples(s)) >= 8, timeout=60, what="rows while the probe hangs")
        start = time.monotonic()
        _, err = ended(child)
        seconds = time.monotonic() - start
        stamps = [float(row["timestamp"]) for row in samples(s)]
        gaps = sorted(b - a for a, b in zip(stamps, stamps[1:]))
        # a sample that waited for the probe would come two seconds late, and so would the next; a busy machine delays one now and then
        equal(gaps[len(gaps) // 2] < 1, True, f"gaps {gaps}")
        # asking at the end would be two seconds, asking once more after that four
        equal(seconds < 4, True, f"{seconds} s")
        contains(err, "gpu_probe_gap")


# ---- cost ------------------------------------------------------------------------------------------------------------


@case("sampling costs little: under 2 % of one CPU")
def cost():
    with Sandbox() as s:
        if os.environ.get("UMA_SANITIZED"):
            raise Skip("a sanitizer's cost says nothing")
        child = s.start("-q", *LONG, stdout=subprocess.DEVNULL)
        s.wait_for_record()

        def used():
            total = 0
            for task in os.listdir(f"/proc/{child.pid}/task"):
                with open(f"/proc/{child.pid}/task/{task}/schedstat", encoding="ascii") as f:
                    total += int(f.read().split()[0])
            return total / 1e9

        before, start = used(), time.monotonic()
        time.sleep(3)
        share = (used() - before) / (time.monotonic() - start)
        ended(child)
        equal(share < 0.02, True, f"{share:.1%}")


main()
