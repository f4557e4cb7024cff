# SPDX-License-Identifier: MIT
"""A real sshd in the guest, and somebody outside who logs in again and again: whether the machine can still be reached is asked the way people ask it.

The server is the distribution's OpenSSH. QEMU forwards a port of 127.0.0.1 to it; nothing else goes in or out of the guest. Keys are made for one guest
and are gone with it.
"""
import os
import shutil
import socket
import subprocess
import threading
import time

import packages
from kernel_packages import Missing

LOGIN_SECONDS = 3.0    # between the beginnings of two logins; one takes the emulated guest's processor for most of a second
COMMAND_SECONDS = 0.5  # between those of two commands over a connection that stands
ANSWER_SECONDS = 40.0  # after which either has failed: long, because a guest beside other work on the same cores is emulated at a third of its speed
GUEST_ADDRESS, GUEST_PORT = "10.0.2.15", 22

CONFIGURATION = b"""Port 22
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
PermitRootLogin yes
PasswordAuthentication no
StrictModes no
UseDNS no
PrintMotd no
PrintLastLog no
KexAlgorithms curve25519-sha256
Ciphers aes128-ctr
"""


def _key(path):
    made = subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if made.returncode:
        raise RuntimeError(f"ssh-keygen: {made.stdout.decode(errors='replace')}")
    with open(path, "rb") as private, open(path + ".pub", "rb") as public:
        return private.read(), public.read()


class Server:
    """What goes into the guest, and how it is reached."""

    def __init__(self, folder):
        if not shutil.which("ssh") or not shutil.which("ssh-keygen"):
            raise Missing("ssh is not installed (package openssh-client)")
        self.root = packages.unpacked("openssh-server")
        self.folder = folder
        self.host_key, _ = _key(os.path.join(folder, "host_key"))
        _, self.login_key = _key(os.path.join(folder, "login_key"))
        with socket.socket() as free:  # another may take the port before QEMU does: then QEMU says so and ends
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def pack(self, archive):
        archive.folder("/etc/ssh")
        archive.file("/etc/ssh/sshd_config", CONFIGURATION, 0o644)
        archive.file("/etc/ssh/host_key", self.host_key, 0o600)
        archive.file("/etc/ssh/authorized_keys", self.login_key, 0o644)
        archive.program("/usr/sbin/sshd", os.path.join(self.root, "usr/sbin/sshd"), self.root)
        parts = os.path.join(self.root, "usr/lib/openssh")  # since OpenSSH 9.8 a session is a program of its own
        for name in sorted(os.listdir(parts)) if os.path.isdir(parts) else []:
            if name.startswith("sshd-"):
                archive.program("/usr/lib/openssh/" + name, os.path.join(parts, name), self.root)

    def options(self):
        """Of QEMU: restrict keeps all else of the network out, and without a boot rom no further package is needed."""
        return ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-{GUEST_ADDRESS}:{GUEST_PORT}",
                "-device", "virtio-net-pci,netdev=net,romfile="]

    def login(self):
        """A login anew."""
        return self._ssh() + ["true"]

    def connection(self):
        """One that stands, for command()."""
        return self._ssh("-N", "-M", "-S", os.path.join(self.folder, "connection"))

    def command(self):
        return self._ssh("-S", os.path.join(self.folder, "connection")) + ["true"]

    def _ssh(self, *options):
        return ["ssh", *options, "-F", "none", "-i", os.path.join(self.folder, "login_key"), "-p", str(self.port), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
                "-o", "UserKnownHostsFile=/dev/null", "-o", "GlobalKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes",
                "-o", f"ConnectTimeout={ANSWER_SECONDS:.0f}", "root@127.0.0.1"]


class Asker:
    """Runs a command again and again from start() to stop(); what it saw is in `answers`: (monotonic time of the beginning, seconds, whether it succeeded)."""

    def __init__(self, command, period):
        self.command, self.period, self.answers, self.words = command, period, [], []
        self._stop, self._thread, self._process = threading.Event(), None, None

    def start(self):
        if not self._thread:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def stop(self):
        """What is under way is no answer: the guest is about to end."""
        self._stop.set()
        process = self._process
        if process:
            process.kill()
        if self._thread:
            self._thread.join()

    def _run(self):
        while not self._stop.is_set():
            begin = time.monotonic()
            self._process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                _, words = self._process.communicate(timeout=ANSWER_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                _, words = self._process.communicate()
                words += b"no answer"
            if self._stop.is_set():
                return
            succeeded = self._process.returncode == 0
            self.answers.append((begin, time.monotonic() - begin, succeeded))
            if not succeeded:
                self.words.append(words.decode(errors="replace").strip())
            self._stop.wait(max(0.0, begin + self.period - time.monotonic()))


class Visitor:
    """Who uses the guest from outside: logs in every three seconds, and asks something over a connection that stands twice a second."""

    def __init__(self, server):
        self.server, self._connection = server, None
        self.logins = Asker(server.login() if server else [], LOGIN_SECONDS)
        self.commands = Asker(server.command() if server else [], COMMAND_SECONDS)

    def start(self):
        if not self.server or self._connection:
            return
        self._connection = subprocess.Popen(self.server.connection(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + ANSWER_SECONDS
        threading.Thread(target=self._start_asking, args=(deadline,), daemon=True).start()

    def _start_asking(self, deadline):
        while not os.path.exists(os.path.join(self.server.folder, "connection")) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.logins.start()
        self.commands.start()

    def stop(self):
        self.logins.stop()
        self.commands.stop()
        if self._connection:
            self._connection.kill()
            self._connection.wait()

    def _within(self, asker, begin, end):
        return [(seconds, succeeded) for at, seconds, succeeded in asker.answers if at < end and at + seconds > begin]

    def within(self, begin, end):
        """Between two times: (answers, failures, the longest of a login, the longest of a command), seconds or None."""
        logins, commands = self._within(self.logins, begin, end), self._within(self.commands, begin, end)
        both = logins + commands
        return (len(both), sum(not succeeded for _, succeeded in both), max((s for s, _ in logins), default=None), max((s for s, _ in commands), default=None))
