# SPDX-License-Identifier: MIT
"""A guest under QEMU's software emulation that runs one scenario, as seen from outside: its report, its heartbeats, its kernel's log.

The guest has two serial lines. The first is the console, which is kept for a failure. The second carries whole lines that begin with a marker:
  @beat UPTIME LOWEST_AVAILABLE_KIB LOWEST_FREE_KIB    ten times a second (programs/heartbeat.c)
  @ok TEXT   @not ok TEXT   @skip TEXT # REASON        a check of the scenario
  @result NAME VALUE                                   a reading; the last of a name counts, all are kept
  @note TEXT                                           for whoever reads
  @end STATUS                                          the scenario's exit status; the guest powers off
"""
import bisect
import ctypes
import glob
import lzma
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

import peers
import ssh
import systemd
from initramfs import Archive
from kernel_packages import Missing

HERE = os.path.dirname(os.path.realpath(__file__))
MIB = 1 << 20
MODULE = "uma_test_pool"
PR_SET_PDEATHSIG = 1
CONSOLE_BYTES = 4 << 20  # of the console, at most this much is kept, and of the report; a guest in trouble can write without end


def unit(text):
    """A number of bytes with K, M or G."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        raise ValueError(f"not a size: {text}")
    return int(match.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[match.group(2)]


class Outcome:
    """What a guest said and did."""

    def __init__(self):
        self.lines = []  # of the report but its heartbeats: (seconds since the first heartbeat or None, marker, text)
        self.beats = []  # (host's monotonic clock, uptime, available bytes, free bytes)
        self.waits = []  # (host's monotonic clock, seconds until then in which the host gave its processors to others while the guest could run), with each heartbeat
        self.console = ""
        self.status = None  # of the scenario; None when the guest did not come to its end
        self.stopped = None  # why the guest was killed
        self.boot_seconds = self.wall_seconds = 0.0
        self.kernel_release = ""
        self.module_log = ""
        self.visitor = None  # ssh.Visitor

    def results(self, name):
        return [text.partition(" ")[2] for _, marker, text in self.lines if marker == "result" and text.partition(" ")[0] == name]

    def result(self, name):
        values = self.results(name)
        return values[-1] if values else None

    def number(self, name):
        try:
            return float(self.result(name))
        except (TypeError, ValueError):
            return None

    def lowest_available(self):
        return min((available for _, _, available, _ in self.beats), default=None)

    def longest_gap(self):
        """Seconds without a sign of life, as seen from outside; the time from the last heartbeat to the end of a killed guest is one."""
        times = [at for at, *_ in self.beats]
        if self.stopped and times:
            times.append(self.ended)
        return max((self.silence(a, b) for a, b in zip(times, times[1:])), default=None)

    def silence(self, begin, end):
        """Seconds between two heartbeats, but for those that the host took from the guest."""
        return max(end - begin - (self._waited(end) - self._waited(begin)), 0.0)

    def _waited(self, at):
        known = bisect.bisect_right(self.waits, (at, float("inf")))
        return self.waits[known - 1][1] if known else 0.0

    def killed(self):
        """Names of the processes that the OOM killer took, in its order."""
        return re.findall(r"Out of memory.*?: Killed process \d+ \(([^)]*)\)", self.console)

    ended = 0.0


def find_emulator():
    program = shutil.which("qemu-system-x86_64")
    if not program:
        raise Missing("qemu-system-x86_64 is not installed (package qemu-system-x86)")
    return program


def find_busybox():
    """A static one: the guest has no libraries of its own."""
    for path in filter(None, [shutil.which("busybox"), "/bin/busybox"]):
        if os.path.exists(path) and subprocess.run(["ldd", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return path
    raise Missing("there is no static busybox (package busybox-static)")


def _kernel_modules(kernel, names):
    """The content of the named modules and of those that they need, in the order of loading; those built into the kernel are left out."""
    paths = {}
    for folder, _, files in os.walk(kernel.modules):
        for file in files:
            match = re.fullmatch(r"(.+)\.ko(\.xz)?", file)
            if match:
                paths[match.group(1).replace("-", "_")] = os.path.join(folder, file)
    with open(os.path.join(kernel.modules, "modules.builtin"), encoding="ascii") as file:
        builtin = {os.path.basename(line.strip())[:-len(".ko")].replace("-", "_") for line in file}
    done, order = set(), []

    waiting = [(name.replace("-", "_"), False) for name in reversed(names)]
    while waiting:
        name, needs_are_there = waiting.pop()
        if name in builtin or (name in done and not needs_are_there):
            continue
        if name not in paths:
            raise RuntimeError(f"the kernel {kernel.release} has no module {name}")
        with (lzma.open if paths[name].endswith(".xz") else open)(paths[name], "rb") as file:
            content = file.read()
        if needs_are_there:
            order.append((name, content))
            continue
        done.add(name)
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        waiting.append((name, True))
        waiting += [(need, False) for need in depends.group(1).decode().replace("-", "_").split(",") if need] if depends else []
    return order


def _pack(scenario, kernel, module, programs, variables, server, path):
    archive = Archive()
    for folder in ("/bin", "/sbin", "/dev", "/proc", "/sys", "/tmp", "/disk", "/run", "/root", "/etc", "/modules"):
        archive.folder(folder)
    archive.character_device("/dev/console", 5, 1)
    archive.character_device("/dev/null", 1, 3)
    archive.file("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
                 b"sshd:x:100:65534::/run/sshd:/bin/false\n", 0o644)
    archive.file("/etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644)
    archive.program("/bin/busybox", find_busybox())
    for name, place in (("init", "/init"), ("lib.sh", "/lib.sh"), ("guarded.sh", "/guarded.sh"), ("job", "/bin/job")):
        with open(os.path.join(HERE, name), "rb") as file:
            archive.file(place, file.read())
    with open(scenario.path, "rb") as file:
        archive.file("/scenario.sh", file.read())
    assignments = (f"export {name}={shlex.quote(value)}\n" for name, _, value in (variable.partition("=") for variable in variables))
    archive.file("/variables.sh", "".join(assignments).encode(), 0o644)
    wanted = list(scenario.modules)
    if scenario.disk:
        wanted.append("virtio_blk")
    peers.pack(archive, dict(variable.split("=", 1) for variable in variables).get("GUARD"))
    if scenario.systemd:
        systemd.pack(archive)
    if server:
        wanted.append("virtio_net")
        server.pack(archive)
    order = _kernel_modules(kernel, wanted)
    with open(module, "rb") as file:
        archive.file(f"/{MODULE}.ko", file.read())
    for name, content in order:
        archive.file(f"/modules/{name}.ko", content)
    archive.file("/modules/order", "".join(name + "\n" for name, _ in order).encode(), 0o644)
    for place, host_path in programs:
        archive.program(place, host_path)
    archive.write(path)


def _disk(size, path):
    maker = shutil.which("mkfs.ext4", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not maker:
        raise Missing("mkfs.ext4 is not installed (package e2fsprogs)")
    with open(path, "wb") as file:
        file.truncate(size)
    made = subprocess.run([maker, "-q", "-F", "-m", "0", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if made.returncode:
        raise RuntimeError(f"mkfs.ext4: {made.stdout.decode(errors='replace').strip()}")


def _dies_with_us():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# One thread emulates all processors in turn. With one thread each (QEMU 7.2), a kernel that patches its own code on one processor was seen to die of it on
# another ("Oops: int3", one boot of some thirty); on two cores it was hardly faster.
ACCELERATOR = "tcg,thread=single"


def _command(scenario, kernel, initrd, disk, server, report):
    command = [find_emulator(), "-M", "q35", "-accel", ACCELERATOR, "-cpu", "max", "-smp", str(scenario.processors),
               "-m", f"{scenario.memory >> 20}M", "-kernel", kernel.image, "-initrd", initrd,
               "-append", f"console=ttyS0 quiet panic=-1 psi=1 {scenario.kernel_options}".strip(),
               "-nographic", "-no-reboot", "-nodefaults", "-no-user-config", "-serial", "stdio", "-serial", f"file:/dev/fd/{report}"]
    if disk:
        slow = "".join(f",throttling.bps-{way}={rate}" for way, rate in (("read", scenario.disk_rate), ("write", scenario.disk_write_rate)) if rate)
        command += ["-drive", f"file={disk},format=raw,if=none,id=disk,cache=unsafe{slow}", "-device", "virtio-blk-pci,drive=disk"]
    return command + (server.options() if server else [])


def waited_for_processor(pid):
    """Seconds that the thread of this process which waited longest was ready to run and had no processor (sched-stats, /proc/PID/task/TID/schedstat: the second number, nanoseconds)."""
    longest = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path, encoding="ascii") as f:
                longest = max(longest, int(f.read().split()[1]))
        except (OSError, ValueError, IndexError):  # a thread that ended, a kernel that does not count
            continue
    return longest / 1e9


class _Reader:
    """Takes the two serial lines apart as they come."""

    def __init__(self, outcome, on_line, visitor=None):
        self.visitor = visitor
        self.waited = None  # says how long the guest waited for a processor of the host
        self.outcome, self.on_line, self.rest, self.console, self.report_bytes, self.first = outcome, on_line, b"", bytearray(), 0, None

    def take_console(self, data):
        self.console += data
        if len(self.console) > CONSOLE_BYTES:
            del self.console[:-CONSOLE_BYTES]

    def take_report(self, data):
        self.report_bytes += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self._line(line.decode(errors="replace").strip("\r"))

    def _line(self, line):
        beat = re.fullmatch(r"@beat (\d+\.\d+) (\d+) (\d+)", line)
        if beat:
            now = time.monotonic()
            self.first = self.first or now
            self.outcome.beats.append((now, float(beat.group(1)), int(beat.group(2)) << 10, int(beat.group(3)) << 10))
            if self.waited:
                self.outcome.waits.append((now, self.waited()))
            return
        match = re.fullmatch(r"@(not ok|ok|skip|result|note|end)(?: (.*))?", line)
        if not match:
            return
        marker, text = match.group(1), match.group(2) or ""
        if marker == "end":
            self.outcome.status = int(text) if text.isdigit() else 1
            return
        self.outcome.lines.append((time.monotonic() - self.first if self.first else None, marker, text))
        if self.visitor and (marker, text) == ("result", "ssh begin"):
            self.visitor.start()
        elif self.visitor and (marker, text) == ("result", "ssh end"):
            self.visitor.stop()
        self.on_line(marker, text)


def boot(scenario, kernel, programs, variables=(), on_line=lambda marker, text: None, keep_console=None):
    """Runs a scenario to its end or its bound. The guest is gone when this returns or raises, Ctrl-C included."""
    outcome = Outcome()
    outcome.kernel_release = kernel.release
    module, outcome.module_log = kernel.build_module(os.path.join(HERE, "module"), MODULE)
    with tempfile.TemporaryDirectory(prefix="umactl-vm-") as folder:
        initrd, disk = os.path.join(folder, "initrd"), None
        server = ssh.Server(folder) if scenario.ssh else None
        outcome.visitor = visitor = ssh.Visitor(server)
        _pack(scenario, kernel, module, programs, variables, server, initrd)
        if scenario.disk:
            disk = os.path.join(folder, "disk")
            _disk(scenario.disk, disk)
        ours, theirs = os.pipe()
        reader, start = _Reader(outcome, on_line, visitor), time.monotonic()
        process = subprocess.Popen(_command(scenario, kernel, initrd, disk, server, theirs), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, pass_fds=[theirs], preexec_fn=_dies_with_us)
        reader.waited = lambda: waited_for_processor(process.pid)
        try:
            os.close(theirs)
            _follow(process, ours, reader, scenario, start)
        finally:
            visitor.stop()
            process.kill()
            process.wait()
            process.stdout.close()
            os.close(ours)
        outcome.ended = time.monotonic()
        outcome.wall_seconds = outcome.ended - start
        outcome.boot_seconds = reader.first - start if reader.first else 0.0
        outcome.console = reader.console.decode(errors="replace").replace("\r\n", "\n")
        if keep_console:
            with open(keep_console, "w", encoding="utf-8") as file:
                file.write(outcome.console)
    return outcome


def _follow(process, report, reader, scenario, start):
    bound = start + scenario.bound
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, reader.take_console)
        selector.register(report, selectors.EVENT_READ, reader.take_report)
        while selector.get_map():
            left = bound - time.monotonic()
            if left <= 0:
                reader.outcome.stopped = f"it did not end within {scenario.bound} s"
                return
            for key, _ in selector.select(left):
                data = os.read(key.fd, 65536)
                if data:
                    key.data(data)
                else:
                    selector.unregister(key.fileobj)
            if reader.report_bytes > CONSOLE_BYTES:
                reader.outcome.stopped = "its report has no end"
                return
