#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl cache advise --apply and --undo from outside, inside a mount namespace of their own in which files stand for the kernel's settings and a preloaded
library does to them what the kernel would. This machine's settings are never touched; tests/kernel/test_settings.py does that."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading

import harness
from harness import UMACTL, Skip, case, contains, environment, equal

SCHEMA = "umactl.cache-advise/1"


# ---- for real, in a namespace ----------------------------------------------------------------------------------------


class Box:
    """Files over /proc/sys/vm, seen by what runs inside alone, and a state folder."""

    SETTINGS = {"dirty_background_bytes": "0", "dirty_background_ratio": "10", "dirty_bytes": "0", "dirty_ratio": "90", "swappiness": "60",
                "min_free_kbytes": "67584", "compaction_proactiveness": "0"}

    def __init__(self, **changes):
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
            raise Skip("needs root and mount namespaces")
        self.folder = tempfile.mkdtemp()
        self.state = os.path.join(self.folder, "state")
        os.mkdir(os.path.join(self.folder, "vm"))
        os.chmod(self.folder, 0o755)
        for name, value in {**self.SETTINGS, **changes}.items():
            if os.path.exists(f"/proc/sys/vm/{name}"):
                self.put(name, value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.folder, "vm", name)

    def put(self, name, value):
        with open(self.path(name), "w", encoding="ascii") as f:
            f.write(value + "\n")

    def get(self, name):
        with open(self.path(name), encoding="ascii") as f:
            return f.read().strip()

    def shell(self, more=""):
        binds = "".join(f'mount --bind "{self.path(n)}" /proc/sys/vm/{n} && ' for n in sorted(os.listdir(os.path.join(self.folder, "vm"))))
        return binds + more + 'exec "$@"'

    def start(self, *args, before="", prefix=(), state=None, **settings):
        return subprocess.Popen(
            ["unshare", "-m", "sh", "-c", self.shell(before), "sh", *prefix, UMACTL, "cache", "advise", *args],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(UMACTL_STATE=state or self.state, LD_PRELOAD=os.environ["UMA_SETTINGS_KERNEL"], **settings))

    def run(self, *args, code=0, **more):
        child = self.start(*args, **more)
        out, err = child.communicate(timeout=60)
        equal(child.returncode, code, f"{args}\n{out!r}\n{err!r}")
        return out.decode(), err.decode()

    def record(self):
        path = os.path.join(self.state, "tuning.json")
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as f:
            return json.load(f)


@case("the files in the namespace are this test's, and outside of it nothing changes")
def _():
    before = open("/proc/sys/vm/dirty_ratio", encoding="ascii").read()
    with Box() as box:
        box.run("--apply")
    equal(open("/proc/sys/vm/dirty_ratio", encoding="ascii").read(), before)


@case("--apply sets what helps and not what hurts; --undo takes it back and removes the record")
def _():
    with Box() as box:
        out, err = box.run("--apply")
        equal(err, "")
        contains(out, "These last until a restart")
        equal((box.get("dirty_background_bytes"), box.get("dirty_bytes")), ("268435456", "1073741824"))
        equal(box.get("compaction_proactiveness"), "0")  # hurts: somebody set it
        record = box.record()
        equal(record["schema"], "umactl.tuning/1")
        equal(record["boot_id"], open("/proc/sys/kernel/random/boot_id", encoding="ascii").read().strip())
        changes = {c["id"]: c for c in record["changes"]}
        equal(sorted(changes), ["dirty-background", "dirty-limit"])
        equal((changes["dirty-limit"]["before"], changes["dirty-limit"]["restore_path"], changes["dirty-limit"]["restore"]),
              ("0", "proc/sys/vm/dirty_ratio", "90"))
        # what was applied is what people want to keep
        lines, _ = box.run("--sysctl")
        contains(lines, "vm.dirty_bytes = 1073741824\n")
        lines, _ = box.run("--sysctl", "dirty-background")
        contains(lines, "vm.dirty_background_bytes = 268435456\n")
        assert "dirty_bytes" not in lines
        out, _ = box.run("--apply", "dirty-limit")  # it is so already
        contains(out, "ok as it is, 1.0 GiB")
        equal((box.get("dirty_ratio"), box.get("dirty_background_ratio")), ("0", "0"))
        out, _ = box.run("--undo", "--json")
        document = json.loads(out)
        equal((document["schema"], document["action"], document["complete"]), (SCHEMA, "undo", True))
        equal({c["outcome"] for c in document["changes"]}, {"restored"})
        equal([(c["now"], c["counterpart"]) for c in document["changes"] if c["id"] == "dirty-limit"],
              [("0", {"path": "/proc/sys/vm/dirty_ratio", "before": "90", "now": "90"})])
        equal((box.get("dirty_bytes"), box.get("dirty_background_bytes")), ("0", "0"))
        equal((box.get("dirty_ratio"), box.get("dirty_background_ratio")), ("90", "10"))
        equal(box.record(), None)
        out, _ = box.run("--undo")
        contains(out, "Nothing to take back")


@case("what hurts is changed when it is named, and only that")
def _():
    with Box() as box:
        out, _ = box.run("--apply", "compaction-proactiveness", "--json")
        document = json.loads(out)
        equal([(c["id"], c["outcome"], c["before"], c["now"]) for c in document["changes"]], [("compaction-proactiveness", "set", "0", "20")])
        equal(box.get("compaction_proactiveness"), "20")
        equal(box.get("dirty_bytes"), "0")
        box.run("--undo")
        equal(box.get("compaction_proactiveness"), "0")


@case("the first before is kept; what somebody changed since is left alone and told")
def _():
    with Box() as box:
        box.run("--apply", "dirty-limit", "compaction-proactiveness")
        box.put("dirty_bytes", "9999999999")
        box.run("--apply", "dirty-limit")
        equal({c["id"]: c["before"] for c in box.record()["changes"]}, {"dirty-limit": "0", "compaction-proactiveness": "0"})
        box.put("compaction_proactiveness", "70")
        out, _ = box.run("--undo", code=1)
        contains(" ".join(out.split()), "somebody set 70; umactl had set 20, and before it was 0: left alone")
        equal(box.get("compaction_proactiveness"), "70")
        equal(box.get("dirty_ratio"), "90")
        equal([c["id"] for c in box.record()["changes"]], ["compaction-proactiveness"])
        box.put("compaction_proactiveness", "0")
        box.run("--undo")
        equal(box.record(), None)


@case("without the right: which one it takes, the commands instead, and nothing changed")
def _():
    with Box() as box:
        out, err = box.run("--apply", code=1, prefix=("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"))
        contains(err, "only root may change it")
        contains(out, "sudo sysctl -w vm.dirty_bytes=1073741824")
        equal(box.get("dirty_bytes"), "0")
        assert not os.path.exists(box.state)
        # settings that are mounted read-only, as in a container
        remount = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && "
        out, err = box.run("--apply", "dirty-limit", code=1,
                           before="for f in dirty_bytes dirty_ratio; do umount /proc/sys/vm/$f; done; " + remount.replace("&& ", "&& ", 1)
                           + f'mount --bind "{box.path("dirty_ratio")}" /proc/sys/vm/dirty_ratio && ')
        contains(err, "read-only here")


@case("a record that is cut off or foreign: nothing is changed, and the file is named")
def _():
    with Box() as box:
        os.mkdir(box.state)
        for text in ('{"schema": "umactl.tun', "", "[]", '{"schema":"umactl.tuning/1","boot_id":"x","changes":[{"id":"a","path":"proc/sysrq-trigger"}]}'):
            with open(os.path.join(box.state, "tuning.json"), "w", encoding="ascii") as f:
                f.write(text)
            for action in ("--apply", "--undo"):
                _, err = box.run(action, code=3)
                contains(err, os.path.join(box.state, "tuning.json"))
            equal(box.get("dirty_bytes"), "0")


@case("a disk without room for the record: nothing is changed")
def _():
    with Box() as box:
        os.mkdir(box.state)
        full = f'mount -t tmpfs -o size=8k,mode=755 tmpfs "{box.state}" && dd if=/dev/zero of="{box.state}/fill" bs=4096 count=9 2>/dev/null; '
        _, err = box.run("--apply", code=1, before=full)
        contains(err, "No space left on device")
        contains(err, "nothing more is changed")
        equal(box.get("dirty_bytes"), "0")


@case("a state folder that cannot be made")
def _():
    with Box() as box:
        _, err = box.run("--apply", code=1, state="/proc/nowhere/umactl")
        contains(err, "/proc/nowhere/umactl")
        equal(box.get("dirty_bytes"), "0")


@case("many at once: each ends well, and one undo takes all back")
def _():
    with Box() as box:
        children = [box.start("--apply") for _ in range(8)] + [box.start("--apply", "compaction-proactiveness") for _ in range(4)]
        for child in children:
            out, err = child.communicate(timeout=60)
            equal((child.returncode, err), (0, b""), out.decode())
        equal({c["id"]: c["before"] for c in box.record()["changes"]}, {"dirty-background": "0", "dirty-limit": "0", "compaction-proactiveness": "0"})
        box.run("--undo")
        equal((box.get("dirty_ratio"), box.get("dirty_background_ratio"), box.get("compaction_proactiveness")), ("90", "10", "0"))


@case("killed in the middle of --apply, at many moments: --undo leaves it as it was before")
def _():
    with Box() as box:
        killed = 0
        for step in range(40):
            child = box.start("--apply", "dirty-background,dirty-limit,compaction-proactiveness")
            timer = threading.Timer(0.004 + step * 0.0008, child.kill)
            timer.start()
            child.communicate(timeout=60)
            timer.cancel()
            killed += child.returncode == -signal.SIGKILL
            record = box.record()  # whole, or not there
            if record is None:
                equal((box.get("dirty_bytes"), box.get("compaction_proactiveness")), ("0", "0"), "changed without a record")
            box.run("--undo")
            equal(box.record(), None)
            equal((box.get("dirty_ratio"), box.get("dirty_background_ratio"), box.get("compaction_proactiveness")), ("90", "10", "0"))
            equal((box.get("dirty_bytes"), box.get("dirty_background_bytes")), ("0", "0"))
        assert killed > 0, "no run was killed"


@case("stopped by the debugger between the record and each change: --undo puts it right")
def _():
    if not shutil.which("strace"):
        raise Skip("needs strace")
    with Box() as box:
        for nth in (1, 2, 3):
            trace = ("strace", "-f", "-o", "/dev/null", "-P", "/proc/sys/vm/dirty_bytes", "-P", "/proc/sys/vm/compaction_proactiveness",
                     "-e", "trace=write", "-e", f"inject=write:signal=KILL:when={nth}")
            child = box.start("--apply", "dirty-limit,compaction-proactiveness", prefix=trace)
            child.communicate(timeout=60)
            box.run("--undo")
            equal((box.get("dirty_bytes"), box.get("dirty_ratio"), box.get("compaction_proactiveness"), box.record()), ("0", "90", "0", None))


@case("a pair: what was in force is told and restored, by text and by JSON; another ratio since is somebody's")
def _():
    with Box() as box:
        out, _ = box.run("--apply", "dirty-limit")
        contains(out, "set: vm.dirty_bytes = 1073741824, was vm.dirty_ratio = 90")
        out, _ = box.run("--undo")
        contains(out, "restored: vm.dirty_ratio = 90")
        box.run("--apply", "vm.dirty_ratio")  # the pair is one setting, by either name
        box.put("dirty_bytes", "0")
        box.put("dirty_ratio", "35")
        out, _ = box.run("--undo", code=1)
        contains(" ".join(out.split()), "somebody set vm.dirty_ratio = 35; umactl had set 1073741824, and before it was vm.dirty_ratio = 90: left alone")
        equal((box.get("dirty_bytes"), box.get("dirty_ratio")), ("0", "35"))
        out, _ = box.run("--undo", "--force")
        contains(out, "restored: vm.dirty_ratio = 90; somebody had set vm.dirty_ratio = 35")
        equal((box.get("dirty_bytes"), box.get("dirty_ratio"), box.record()), ("0", "90", None))
        # bytes were in force
        box.put("dirty_bytes", "8589934592")
        box.put("dirty_ratio", "0")
        out, _ = box.run("--apply", "dirty-limit")
        contains(out, "set: vm.dirty_bytes = 1073741824, was vm.dirty_bytes = 8589934592")
        out, _ = box.run("--undo")
        contains(out, "restored: vm.dirty_bytes = 8589934592")
        equal((box.get("dirty_bytes"), box.get("dirty_ratio")), ("8589934592", "0"))


@case("what is not restored by being written is told")
def _():
    with Box() as box:
        box.run("--apply", "dirty-limit")
        out, _ = box.run("--undo", code=1, UMA_SETTINGS_TAKE="dirty_ratio=15")
        contains(" ".join(out.split()), "set to 90, and it is 15")
        equal([c["id"] for c in box.record()["changes"]], ["dirty-limit"])


@case("a setting by its name of sysctl or its path, with an advised value and without one")
def _():
    with Box() as box:
        for name in ("vm.compaction_proactiveness", "vm/compaction_proactiveness", "compaction_proactiveness", "/proc/sys/vm/compaction_proactiveness"):
            box.run("--apply", name)
            equal(box.get("compaction_proactiveness"), "20", name)
            box.run("--undo")
            equal(box.get("compaction_proactiveness"), "0", name)
        out, _ = box.run("--apply", "vm.swappiness")
        contains(out, "nothing advised: ok as it is, 60")
        out, _ = box.run("--apply", "vm.swappiness,vm.compaction_proactiveness,swap,dirty-limit", "--json", code=1)
        document = json.loads(out)
        equal({c["id"]: c["outcome"] for c in document["changes"]},
              {"swappiness": "nothing advised", "compaction-proactiveness": "set", "swap": "nothing advised", "dirty-limit": "set"})
        equal(document["complete"], False)
        equal(sorted(c["id"] for c in box.record()["changes"]), ["compaction-proactiveness", "dirty-limit"])
        box.run("--undo")
        out, _ = box.run("--apply", "vm.overcommit_memory", "nonsense", code=2)
        equal((out, box.record()), ("", None))
        out, _ = box.run("--sysctl", "swap,dirty-limit", code=1)
        contains(out, "# swap: it is disputed")
        contains(out, "vm.dirty_bytes = 1073741824")


@case("refused by the kernel, read-only or missing: told for that setting, the others go on, and it is not recorded")
def _():
    for number, says in ((22, "does not take 1073741824"), (1, "only root may change it"), (30, "read-only here"), (5, "Input/output error")):
        with Box() as box:
            out, _ = box.run("--apply", code=1, UMA_SETTINGS_REFUSE=f"dirty_bytes={number}")
            contains(" ".join(out.split()), says)
            contains(" ".join(out.split()), "it is as before, vm.dirty_ratio = 90")
            equal((box.get("dirty_background_bytes"), box.get("dirty_bytes")), ("268435456", "0"))
            equal([c["id"] for c in box.record()["changes"]], ["dirty-background"])
            box.run("--undo")
            equal((box.get("dirty_background_ratio"), box.record()), ("10", None))
    with Box() as box:
        hide = "umount /proc/sys/vm/dirty_bytes; "
        ro = f'mount --bind -o ro "{box.path("dirty_bytes")}" /proc/sys/vm/dirty_bytes && mount -o remount,bind,ro /proc/sys/vm/dirty_bytes && '
        out, _ = box.run("--apply", code=1, before=hide + ro)
        contains(" ".join(out.split()), "read-only here")
        equal([c["id"] for c in box.record()["changes"]], ["dirty-background"])


@case("a record that is a link, another user's, or anybody's to write: nothing is changed")
def _():
    with Box() as box:
        box.run("--apply")
        path = os.path.join(box.state, "tuning.json")
        os.rename(path, path + ".kept")
        os.symlink(path + ".kept", path)

        def refused(says):
            for action in (("--apply", "compaction-proactiveness"), ("--undo",)):
                _, err = box.run(*action, code=3)
                contains(err, says)
            equal((box.get("compaction_proactiveness"), box.get("dirty_bytes")), ("0", "1073741824"))

        refused("a link")
        os.unlink(path)
        os.rename(path + ".kept", path)
        os.chown(path, 65534, -1)
        refused("another user")
        os.chown(path, 0, -1)
        os.chmod(path, 0o666)
        refused("others may write it")
        os.chmod(path, 0o644)
        os.chmod(box.state, 0o777)
        refused("others may write it")
        os.chmod(box.state, 0o755)
        box.run("--undo")
        equal((box.get("dirty_ratio"), box.record()), ("90", None))


@case("interrupted between two changes: what was begun is done whole, and recorded")
def _():
    if not shutil.which("strace"):
        raise Skip("needs strace")
    with Box() as box:
        for number in (signal.SIGINT, signal.SIGTERM):
            trace = ("strace", "-f", "-o", "/dev/null", "-P", "/proc/sys/vm/dirty_background_bytes", "-e", "trace=write", "-e",
                     f"inject=write:signal={number.name}:when=1")
            child = box.start("--apply", prefix=trace)
            child.communicate(timeout=60)
            equal(child.returncode, -number)
            equal((box.get("dirty_background_bytes"), box.get("dirty_bytes")), ("268435456", "1073741824"))
            equal(sorted(c["id"] for c in box.record()["changes"]), ["dirty-background", "dirty-limit"])
            box.run("--undo")
            equal((box.get("dirty_ratio"), box.record()), ("90", None))


if __name__ == "__main__":
    harness.main()
