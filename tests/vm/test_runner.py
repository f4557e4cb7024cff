#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The runner's own parts, without a guest: the archive, the report, what a scenario may say, and QEMU's end in every case."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
import guarded  # noqa: E402
import guest  # noqa: E402
import initramfs  # noqa: E402
import kernel_packages  # noqa: E402
import packages  # noqa: E402
import scenario  # noqa: E402
import ssh  # noqa: E402

CASES = []


def case(function):
    CASES.append(function)
    return function


def read_newc(data):
    """name -> (mode, content), read back by the format's description."""
    found, at = {}, 0
    while True:
        assert data[at:at + 6] == b"070701", data[at:at + 6]
        fields = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        name = data[at + 110:at + 110 + fields[11] - 1].decode()
        start = (at + 110 + fields[11] + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (fields[1], data[start:start + fields[6]])
        at = (start + fields[6] + 3) // 4 * 4


@case
def the_archive_holds_files_folders_and_devices(folder):
    archive = initramfs.Archive()
    archive.file("/a/b/c", b"12345", 0o644)
    archive.file("/a/b/c", b"second", 0o644)  # the first one stays
    archive.character_device("/dev/null", 1, 3)
    archive.write(os.path.join(folder, "initrd"))
    with open(os.path.join(folder, "initrd"), "rb") as file:
        data = file.read()
    found = read_newc(data)
    assert found == {"a": (0o40755, b""), "a/b": (0o40755, b""), "a/b/c": (0o100644, b"12345"), "dev": (0o40755, b""), "dev/null": (0o20600, b"")}, found
    assert len(data) % 512 == 0


@case
def a_dynamic_program_comes_with_its_libraries(folder):
    archive = initramfs.Archive()
    archive.program("/bin/python", os.path.realpath(sys.executable))
    archive.write(os.path.join(folder, "initrd"))
    with open(os.path.join(folder, "initrd"), "rb") as file:
        names = read_newc(file.read())
    assert any("/libc.so" in name for name in names), names.keys()
    assert any("ld-linux" in name or "/ld-" in name for name in names), names.keys()


def outcome_of(*chunks):
    outcome, said = guest.Outcome(), []
    reader = guest._Reader(outcome, lambda marker, text: said.append((marker, text)))
    for chunk in chunks:
        reader.take_report(chunk)
    return outcome, said


@case
def the_report_is_read_by_lines_however_they_come(folder):
    outcome, said = outcome_of(b"@beat 1.500 2048 10", b"24\n@ok a b\r\n@not ok c\nnoise\n@beat x\n@result n 1\n@resu", b"lt n 2\n@skip d # why\n@end 0\n@note half")
    assert said == [("ok", "a b"), ("not ok", "c"), ("result", "n 1"), ("result", "n 2"), ("skip", "d # why")], said
    assert [beat[1:] for beat in outcome.beats] == [(1.5, 2048 << 10, 1024 << 10)], outcome.beats
    assert outcome.status == 0 and outcome.results("n") == ["1", "2"] and outcome.number("n") == 2 and outcome.number("m") is None
    assert outcome.lowest_available() == 2048 << 10


@case
def a_gap_is_time_between_heartbeats_or_before_the_kill(folder):
    outcome = guest.Outcome()
    assert outcome.longest_gap() is None and outcome.lowest_available() is None
    outcome.beats = [(10.0, 1.0, 5, 5), (10.1, 1.1, 5, 5), (12.6, 3.6, 5, 5)]
    outcome.ended = 30.0
    assert abs(outcome.longest_gap() - 2.5) < 1e-9
    outcome.waits = [(10.0, 5.0), (10.1, 5.0), (12.6, 7.0)]  # for two seconds of it the host ran something else
    assert abs(outcome.longest_gap() - 0.5) < 1e-9
    outcome.stopped = "it did not end"
    assert abs(outcome.longest_gap() - 17.4) < 1e-9


@case
def the_time_without_a_processor_is_counted(folder):
    before = guest.waited_for_processor(os.getpid())
    assert before >= 0 and guest.waited_for_processor(os.getpid()) >= before
    assert guest.waited_for_processor(0) == 0


@case
def those_that_the_oom_killer_took_are_named(folder):
    outcome = guest.Outcome()
    outcome.console = ("[   15.1] Out of memory: Killed process 155 (by stander) total-vm:1kB\nKilled\n"
                       "[   16.9] Memory cgroup out of memory: Killed process 3 (inside) total-vm:1kB\n"
                       "[   17.0] Out of memory: Killed process 158 (greedy) total-vm:988kB\n")
    assert outcome.killed() == ["by stander", "greedy"], outcome.killed()


def scenario_of(folder, text):
    path = os.path.join(folder, "s.sh")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return scenario.find(path)


@case
def a_scenario_says_what_it_wants(folder):
    s = scenario_of(folder, "#: memory 1G\n#: disk 64M 30M 20M\n#: bound 7\n#: needs pool\n#: needs libx.so=/lib/libx.so\n#: modules loop overlay\n#: kernel a=b\n")
    assert (s.memory, s.disk, s.disk_rate, s.disk_write_rate, s.bound) == (1 << 30, 64 << 20, 30 << 20, 20 << 20, 7.0)
    assert s.needs[1:] == [("pool", "/bin/pool"), ("libx.so", "/lib/libx.so")] and s.modules == ["loop", "overlay"] and s.kernel_options.strip() == "a=b"
    for wrong in ("#: memory much\n", "#: memroy 1G\n", "#: bound soon\n"):
        try:
            scenario_of(folder, wrong)
        except ValueError:
            continue
        raise AssertionError(f"taken: {wrong}")
    try:
        s.programs([folder])
    except FileNotFoundError as problem:
        assert "needs heartbeat" in str(problem)
    else:
        raise AssertionError("a program that is not there was found")


@case
def every_scenario_in_the_tree_can_be_read(folder):
    assert len(scenario.names()) >= 4
    for name in scenario.names():
        s = scenario.find(name)
        assert s.judge() is None or callable(s.judge())


@case
def the_newest_kernel_of_the_wanted_series_is_first(folder):
    apt = kernel_packages.Apt(folder)
    apt._search = lambda: ["linux-image-6.1.0-57-cloud-amd64", "linux-image-6.12.9+deb12-cloud-amd64", "linux-image-6.12.117+deb12-cloud-amd64"]
    assert [name.split("-")[2] for name in apt.images()] == ["6.12.117+deb12", "6.12.9+deb12", "6.1.0"]


@case
def one_kernel_is_downloaded_and_then_kept(folder):
    asked = []

    class FakeApt(kernel_packages.Apt):
        def images(self):
            return ["linux-image-6.12.9-cloud-amd64", "linux-image-6.12.8-cloud-amd64"]

        def packages_of(self, release):
            return [release]

    def unpack(packages, apt, cache, release):
        asked.append(release)
        for path in ("boot", f"usr/src/linux-headers-{release}", f"lib/modules/{release}"):
            os.makedirs(os.path.join(cache, release, path))
        with open(os.path.join(cache, release, "boot", f"vmlinuz-{release}"), "w", encoding="ascii"):
            pass

    kept = kernel_packages.Apt, kernel_packages._unpack, kernel_packages.cache_folder
    kernel_packages.Apt, kernel_packages._unpack, kernel_packages.cache_folder = FakeApt, unpack, lambda: folder
    try:
        for _ in range(2):
            kernel = kernel_packages.find_kernel()
            assert kernel.release == "6.12.9-cloud-amd64" and kernel.modules.endswith("/lib/modules/6.12.9-cloud-amd64"), kernel.modules
        os.utime(os.path.join(folder, "chosen"), (0, 0))  # long ago: the lists are asked, and nothing is downloaded again
        assert kernel_packages.find_kernel().release == "6.12.9-cloud-amd64"
    finally:
        kernel_packages.Apt, kernel_packages._unpack, kernel_packages.cache_folder = kept
    assert asked == ["6.12.9-cloud-amd64"], asked


@case
def a_library_below_a_root_goes_to_the_place_it_would_be_installed_at(folder):
    library = next(line.split()[2] for line in subprocess.run(["ldd", os.path.realpath(sys.executable)], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
                   if "libc.so" in line)
    place = os.path.join(folder, "usr/lib/x86_64-linux-gnu")
    os.makedirs(place)
    shutil.copy(library, os.path.join(place, "libc.so.6"))
    archive = initramfs.Archive()
    archive.program("/bin/python", os.path.realpath(sys.executable), folder)
    archive.write(os.path.join(folder, "initrd"))
    with open(os.path.join(folder, "initrd"), "rb") as file:
        names = read_newc(file.read())
    assert "usr/lib/x86_64-linux-gnu/libc.so.6" in names, names.keys()


@case
def a_package_comes_with_the_libraries_that_are_not_installed(folder):
    kept = packages._libraries, packages._installed
    packages._libraries = lambda apt, package: {"server": ["liba", "libb"], "libb": ["libc", "liba"]}.get(package, [])
    packages._installed = lambda name: name == "liba"
    try:
        assert packages.with_libraries(None, "server") == ["server", "libb", "libc"]
    finally:
        packages._libraries, packages._installed = kept


@case
def a_scenario_has_longer_for_more_rounds(folder):
    for variables, bound in (([], 30 + 2 * 10), (["RUNS=20"], 30 + 20 * 10), (["RUNS=x"], 50)):
        s = scenario_of(folder, "#: bound 30 10\n#: ssh yes\n")
        s.for_runs(variables)
        assert s.ssh and s.bound == bound, (variables, s.bound)


@case
def who_asks_again_and_again_tells_what_was_answered(folder):
    path = os.path.join(folder, "answer")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n[ ! -e {folder}/refuse ] || {{ echo no >&2; exit 1; }}\n")
    os.chmod(path, 0o755)
    asker = ssh.Asker([path], 0.05)
    asker.start()
    deadline = time.monotonic() + 20
    while len(asker.answers) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    with open(os.path.join(folder, "refuse"), "w", encoding="utf-8"):
        pass
    while not asker.words and time.monotonic() < deadline:
        time.sleep(0.02)
    asker.stop()
    assert asker.answers[0][2] and not asker.answers[-1][2] and asker.words[0] == "no", (asker.answers, asker.words)
    visitor = ssh.Visitor(None)
    visitor.start()  # no server: nobody asks
    visitor.logins.answers = [(10.0, 2.0, True), (13.0, 1.0, False)]
    visitor.commands.answers = [(11.0, 0.5, True), (30.0, 0.1, True)]
    visitor.stop()
    assert visitor.within(11.0, 14.0) == (3, 1, 2.0, 0.5) and visitor.within(40.0, 50.0) == (0, 0, None, None)


ROUND = ("round case=x round=1 kind={kind} guard=uma-guard culprits=1 culprits_left={left} innocents=3 innocents_alive={alive} finished=1 floor=1 lowest=2097152 crossed=5.0 stopped={stopped} gone=6.5 "
         "stopped_others=0 ended=9 brakes={brakes} terms=0 kills=0 rooms=0 unkillable=0 wrong={wrong} took_ns=2000000")


def round_of(**fields):
    outcome, _ = outcome_of()
    outcome.visitor = ssh.Visitor(None)
    outcome.visitor.logins.answers = [(101.0, 1.0, fields.pop("answered", True))]
    outcome.beats = [(100.0 + i / 10, i / 10, 5, 5) for i in range(100)]
    text = ROUND.format(**{"kind": "danger", "left": 0, "alive": 3, "stopped": "4.9", "brakes": 1, "wrong": 0, **fields})
    outcome.lines = [(0.5, "result", "begin x 1"), (8.0, "result", text), (9.0, "result", "end x 1")]
    found, unfinished = guarded.rounds(outcome)
    assert len(found) == 1 and unfinished is None
    return found[0]


@case
def a_round_of_the_guard_is_judged_by_who_lived_and_who_could_log_in(folder):
    good = round_of()
    assert good.faults() == [] and abs(good.reaction() + 0.1) < 1e-9, (good.faults(), good.reaction())
    for fields, word in (({"alive": 2}, "did nothing died"), ({"left": 1}, "culprit lives"), ({"wrong": 1}, "on others"), ({"answered": False}, "not answered"),
                         ({"kind": "healthy"}, "nothing was wrong")):
        faults = round_of(**fields).faults()
        assert len(faults) == 1 and word in faults[0], (fields, faults)
    assert round_of(kind="healthy", stopped="", brakes=0).faults() == []
    row = guarded.table([good, good])[0]
    assert row.startswith("| x | uma-guard | 2 | 2 | 2, 2 of 2 | 0 of 6 | 2 MiB | -100 (-100 to -100) ms | 2.0 (2.0 to 2.0) ms |"), row


@case
def a_guest_that_ends_in_a_round_is_told(folder):
    outcome, _ = outcome_of()
    outcome.visitor, outcome.beats = ssh.Visitor(None), [(100.0, 0.0, 5, 5)]
    outcome.lines = [(0.5, "result", "begin x 1")]
    assert guarded.rounds(outcome) == ([], "x 1")


def fake_emulator(folder, text):
    path = os.path.join(folder, "qemu-system-x86_64")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


FOLLOW = """
import os, signal, subprocess, sys, time
sys.path.insert(0, {here!r})
import guest
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us without
class S: bound = {bound}
ours, theirs = os.pipe()
start = time.monotonic()
process = subprocess.Popen([{program!r}, str(theirs)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=[theirs], preexec_fn=guest._dies_with_us)
os.close(theirs)
outcome = guest.Outcome()
try:
    guest._follow(process, ours, guest._Reader(outcome, lambda *_: None), S, start)
finally:
    process.kill()
    process.wait()
print(outcome.stopped)
"""


@case
def an_emulator_without_an_end_is_killed_at_the_bound(folder):
    program = fake_emulator(folder, 'echo "@beat 1.000 1 1" >/dev/fd/$1\nexec sleep 600\n')
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", FOLLOW.format(here=HERE, bound=1, program=program)], stdout=subprocess.PIPE, timeout=60, check=True)
    assert b"did not end within 1 s" in done.stdout, done.stdout
    assert time.monotonic() - start < 30


@case
def a_report_without_an_end_is_cut_off(folder):
    program = fake_emulator(folder, "exec yes '@note more and more and more of it' >/dev/fd/$1\n")
    done = subprocess.run([sys.executable, "-c", FOLLOW.format(here=HERE, bound=50, program=program)], stdout=subprocess.PIPE, timeout=120, check=True)
    assert b"no end" in done.stdout, done.stdout


@case
def the_emulator_ends_with_its_runner(folder):
    program = fake_emulator(folder, f'echo $$ >{folder}/pid\nexec sleep 600\n')
    for how in (signal.SIGINT, signal.SIGKILL):
        runner = subprocess.Popen([sys.executable, "-c", FOLLOW.format(here=HERE, bound=500, program=program)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pid, deadline = None, time.monotonic() + 30
        while not pid and time.monotonic() < deadline:
            time.sleep(0.05)
            if os.path.exists(f"{folder}/pid"):
                with open(f"{folder}/pid", encoding="ascii") as file:
                    pid = file.read().strip()
        runner.send_signal(how)
        runner.wait(timeout=30)
        while os.path.exists(f"/proc/{pid}/exe") and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            alive = "sleep" in os.readlink(f"/proc/{pid}/exe")
        except OSError:
            alive = False
        assert not alive, f"alive after {how}"
        os.unlink(f"{folder}/pid")


def main():
    failed = 0
    print(f"1..{len(CASES)}")
    for number, function in enumerate(CASES, 1):
        name = function.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory() as folder:
            try:
                function(folder)
                print(f"ok {number} - {name}", flush=True)
            except Exception:  # every failure is a test's result
                failed += 1
                for line in traceback.format_exc().splitlines():
                    print(f"# {line}")
                print(f"not ok {number} - {name}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
