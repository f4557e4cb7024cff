# SPDX-License-Identifier: MIT
"""systemd as the guest's first process ("#: init systemd"): its programs and those of its units that are needed, from the distribution's packages, and two units of
the proving ground's own: the heartbeat, and the scenario's script as a service."""
import os

from packages import unpacked

PROGRAMS = ("lib/systemd/systemd", "lib/systemd/systemd-journald", "lib/systemd/systemd-shutdown", "bin/systemctl", "bin/journalctl", "usr/bin/systemd-analyze")
# What an ordinary service depends on without saying so, and the journal. No udev, no login, no file systems: the guest's init mounted what there is.
UNITS = ("sysinit.target", "basic.target", "multi-user.target", "sockets.target", "timers.target", "paths.target", "slices.target", "shutdown.target", "umount.target",
         "final.target", "local-fs.target", "swap.target", "systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket")
OWN = {
    # As with the guest's own init: the heartbeat is not the OOM killer's victim, nor is the scenario.
    "heartbeat.service": """[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh -c 'exec /bin/heartbeat >/dev/ttyS1'
OOMScoreAdjust=-1000
""",
    "scenario.service": """[Unit]
Wants=heartbeat.service systemd-journald.socket
[Service]
Type=oneshot
Environment=PATH=/bin:/sbin:/usr/bin HOME=/root
ExecStart=/bin/sh -c 'sh /scenario.sh 3>/dev/ttyS1; echo "@end $?" >/dev/ttyS1; sleep 0.2; exec poweroff -f'
OOMScoreAdjust=-1000
TimeoutStartSec=infinity
""",
    "default.target": "[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=scenario.service\nAllowIsolate=yes\n",
}


def pack(archive):
    root = unpacked("systemd", ("libsystemd-shared",))
    for place in PROGRAMS:
        archive.program("/" + place, os.path.join(root, place), root)
    for name in UNITS:
        with open(os.path.join(root, "lib/systemd/system", name), "rb") as file:
            archive.file("/lib/systemd/system/" + name, file.read(), 0o644)
    for name, text in OWN.items():
        archive.file("/etc/systemd/system/" + name, text.encode(), 0o644)
    archive.file("/etc/machine-id", b"0123456789abcdef0123456789abcdef\n", 0o444)
    archive.file("/etc/os-release", b"ID=guest\nNAME=guest\n", 0o644)
    for folder in ("/var/lib", "/var/tmp", "/var/log", "/var/cache", "/home", "/usr/local/sbin"):
        archive.folder(folder)
