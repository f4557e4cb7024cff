# SPDX-License-Identifier: MIT
"""A scenario: a shell script that runs in the guest, what it wants of the guest, and how the guest is judged from outside.

scenarios/NAME.sh begins with a comment that says what it shows, and lines "#: KEY VALUE":
  #: memory 512M          of the guest (default 512M)
  #: disk 600M [READ [WRITE]]  an empty ext4 on /disk, read and written with at most so many bytes a second (K, M, G)
  #: bound 60 [200]       seconds of wall time after which the guest is killed (default 60), and more for each of RUNS (--set RUNS=N, else 2)
  #: processors 2         (default 2)
  #: needs NAME[=PLACE]   a program or library that was built here: found in the folders given with --programs, put to /bin/NAME or PLACE with the
                          libraries that it is linked with; as many lines as needed (heartbeat is always there)
  #: modules NAME...      of the guest's kernel, loaded before the script starts
  #: ssh yes              an sshd that the outside uses between `start_sshd` and `stop_sshd` (ssh.py)
  #: kernel OPTION...     for the kernel's command line
  #: init systemd         systemd is process 1, and the script runs as its service (systemd.py)
Beside it, scenarios/NAME.py can hold judge(outcome, tap): checks of what only the outside knows (guest.Outcome): tap.check(passed, text),
tap.skip(text, reason), tap.note(text). Without it a scenario passes when the guest came to its end and no check in it failed.
"""
import importlib.util
import os
import re

from guest import HERE, unit

FOLDER = os.path.join(HERE, "scenarios")


class Scenario:
    def __init__(self, path):
        self.path, self.name = path, os.path.splitext(os.path.basename(path))[0]
        self.memory, self.bound, self.processors = 512 << 20, 60.0, 2
        self.disk = self.disk_rate = self.disk_write_rate = 0
        self.ssh, self.systemd, self.bound_each = False, False, 0.0
        self.needs, self.modules, self.kernel_options = [("heartbeat", "/bin/heartbeat")], [], ""
        with open(path, encoding="utf-8") as file:
            for key, value in re.findall(r"^#: (\w+) +(.*?)\s*$", file.read(), re.M):
                self._take(key, value)

    def _take(self, key, value):
        if key == "memory":
            self.memory = unit(value)
        elif key == "disk":
            size, *rate = value.split()
            self.disk = unit(size)
            self.disk_rate, self.disk_write_rate = [unit(each) for each in rate] + [0] * (2 - len(rate))
        elif key == "bound":
            self.bound, *each = [float(seconds) for seconds in value.split()]
            self.bound_each = each[0] if each else 0.0
        elif key == "processors":
            self.processors = int(value)
        elif key == "needs":
            name, _, place = value.partition("=")
            self.needs.append((name, place or "/bin/" + name))
        elif key == "modules":
            self.modules += value.split()
        elif key == "ssh":
            self.ssh = value == "yes"
        elif key == "init" and value == "systemd":
            self.systemd = True
        elif key == "kernel":
            self.kernel_options += " " + value
        else:
            raise ValueError(f"{self.path}: there is no key '{key}'")

    def programs(self, folders):
        """Every program that is needed: (place in the guest, path here)."""
        found = []
        for name, place in self.needs:
            paths = [os.path.join(folder, name) for folder in folders if os.path.isfile(os.path.join(folder, name))]
            if not paths:
                raise FileNotFoundError(f"{self.name} needs {name}, which is in none of: {' '.join(folders) or 'no folder was given (--programs)'}")
            found.append((place, paths[0]))
        return found

    def for_runs(self, variables):
        """The bound for so many rounds."""
        runs = dict(variable.split("=", 1) for variable in variables).get("RUNS", "2")
        self.bound += self.bound_each * int(runs if runs.isdigit() else "2")
        self.bound_each = 0.0

    def judge(self):
        path = os.path.splitext(self.path)[0] + ".py"
        if not os.path.exists(path):
            return None
        spec = importlib.util.spec_from_file_location("judge_" + re.sub(r"\W", "_", self.name), path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.judge


def names():
    return sorted(file[:-len(".sh")] for file in os.listdir(FOLDER) if file.endswith(".sh"))


def find(name):
    """By name, or any script by its path."""
    return Scenario(name if os.sep in name else os.path.join(FOLDER, name + ".sh"))
