#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl cache advise from outside: what it says of machines that are folders, and --apply and --undo for real, inside a mount namespace of
their own in which files stand for the kernel's settings and a preloaded library does to them what the kernel would. This machine's settings are never
touched; tests/kernel/test_settings.py does that."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading

import harness
from harness import UMACTL, MACHINES, Skip, case, contains, environment, equal, run

SCHEMA = "umactl.cache-advise/1"
VERDICTS = ["hurts", "helps", "disputed", "unknown", "ok"]
CERTAINTIES = ["measured", "kernel", "vendor", "field report"]


def machine(name):
    return os.path.join(MACHINES, name)


def advice(*args):
    document = run("cache", "advise", "--json", *args).expect(0).json
    equal(list(document)[0], "schema")
    equal(document["schema"], SCHEMA)
    return document["advice"]


def verdicts(list_):
    return {a["id"]: a["verdict"] for a in list_ if a["verdict"] not in ("ok", "unknown")}


# ---- machines that are folders ---------------------------------------------------------------------------------------


@case("every machine folder: one document of the promised shape, hurts first")
def _():
    for name in sorted(os.listdir(MACHINES)):
        if not os.path.isdir(machine(name)):
            continue
        found = advice("--root", machine(name))
        order = [VERDICTS.index(a["verdict"]) for a in found]
        equal(order, sorted(order), name)
        equal(len({a["id"] for a in found}), len(found), name)
        for a in found:
            equal(list(a), ["id", "subject", "now", "verdict", "recommended", "path", "applied_by_default", "why", "command", "evidence"])
            assert a["why"], (name, a["id"])
            assert (a["recommended"] is not None) == (a["verdict"] in ("hurts", "helps")), (name, a)
            assert a["applied_by_default"] == (a["verdict"] == "helps" and a["path"] is not None), (name, a)
            for e in a["evidence"]:
                assert e["certainty"] in CERTAINTIES and e["says"] and e["source"], (name, a)
            if a["verdict"] not in ("unknown",):
                assert a["evidence"], (name, a["id"])


@case("a Spark as it comes: what helps is the writing back and the reading ahead")
def _():
    equal(verdicts(advice("--root", machine("spark-idle"))), {
        "dirty-background": "helps", "dirty-limit": "helps", "readahead-nvme0n1": "helps", "swap": "disputed", "nvidia-memory-pools": "disputed"})


@case("a Spark that somebody tuned: the floor of 4 GiB, the OOM killer and the stalls hurt")
def _():
    found = advice("--root", machine("spark-serving"))
    equal({i for i, v in verdicts(found).items() if v == "hurts"}, {"min-free-kbytes", "thp-defrag", "lru-min-ttl"})
    floor = next(a for a in found if a["id"] == "min-free-kbytes")
    contains(floor["why"], "GiB")
    assert any("6.2 GiB" in e["says"] and e["certainty"] == "field report" for e in floor["evidence"])
    equal(floor["command"], "sudo sysctl -w vm.min_free_kbytes=45184")
    equal(next(a for a in found if a["id"] == "loader-5100")["verdict"], "disputed")


@case("a machine with the settings that are recommended: nothing is left")
def _():
    equal(verdicts(advice("--root", machine("strix-halo"))), {"swap": "disputed"})


@case("what is recommended is ok once it is set: the settings of each machine with its advice taken")
def _():
    for name in ("spark-idle", "spark-serving"):
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "root")
            shutil.copytree(machine(name), root, symlinks=True)
            taken = [a for a in advice("--root", root) if a["recommended"] and a["path"]]
            assert taken, name
            for a in taken:
                with open(root + a["path"], "w", encoding="ascii") as f:
                    f.write(a["recommended"] + "\n")
            after = {a["id"]: a["verdict"] for a in advice("--root", root)}
            for a in taken:
                equal(after[a["id"]], "ok", f"{name} {a['id']}")


@case("a captured machine gives the advice of the machine")
def _():
    with tempfile.TemporaryDirectory() as folder:
        capture = os.path.join(folder, "capture")
        run("snapshot", "--folder", capture).expect(0, err=None)
        ours = [(a["id"], a["verdict"]) for a in advice() if not a["id"].startswith(("loader-", "expandable-"))]
        theirs = [(a["id"], a["verdict"]) for a in advice("--root", capture) if not a["id"].startswith(("loader-", "expandable-"))]
        equal(theirs, ours)


@case("a snapshot has no settings: they are unknown, and it is said where they are")
def _():
    text = run("snapshot", "--root", machine("spark-serving")).expect(0, err=None).out
    result = run("cache", "advise", "--from", "-", stdin=text).expect(0)
    contains(result.out, "A snapshot has no settings")
    found = {a["id"]: a["verdict"] for a in run("cache", "advise", "--json", "--from", "-", stdin=text).expect(0).json["advice"]}
    equal(found["min-free-kbytes"], "unknown")
    equal(found["loader-5100"], "disputed")  # command lines it has


@case("text: a table, then why with its source; the rest with --all; within the terminal")
def _():
    out = run("cache", "advise", "--root", machine("spark-serving")).expect(0).out
    contains(out, "  SETTING ")
    contains(out, "> sudo sysctl -w vm.min_free_kbytes=45184")
    contains(out, "- field report: 4 GiB lowered MemAvailable")
    assert "vm.vfs_cache_pressure" not in out
    assert re.search(r"^  ok: .*vfs-cache-pressure", out, re.S | re.M)
    whole = run("cache", "advise", "--all", "--root", machine("spark-serving")).expect(0).out
    contains(whole, "vfs-cache-pressure: vm.vfs_cache_pressure")
    for text in (out, whole):
        assert max(len(line) for line in text.splitlines()) <= 100
        assert "\x1b" not in text


@case("hostile names and values of a folder reach neither a terminal nor a command")
def _():
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "root")
        shutil.copytree(machine("spark-idle"), root, symlinks=True)
        evil = "nvme\x1b[31m\nx"
        os.rename(os.path.join(root, "sys/block/nvme0n1"), os.path.join(root, "sys/block", evil))
        os.rename(os.path.join(root, "sys/block", evil, "nvme0n1p2"), os.path.join(root, "sys/block", evil, evil + "p2"))
        with open(os.path.join(root, "sys/kernel/mm/transparent_hugepage/enabled"), "w", encoding="ascii") as f:
            f.write("[alw\x1b[2Jays] never\n")
        with open(os.path.join(root, "proc/cmdline"), "w", encoding="ascii") as f:
            f.write("kho=\x1b[2J transparent_hugepage=" + "x" * 3000 + "\n")
        for args in ((), ("--all",), ("--sysctl",)):
            out = run("cache", "advise", *args, "--root", root).expect(0).out
            assert "\x1b" not in out, out
        json.loads(run("cache", "advise", "--json", "--root", root).expect(0).out)


@case("malformed, huge and missing settings are unknown, never 0")
def _():
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "root")
        shutil.copytree(machine("spark-idle"), root, symlinks=True)
        vm = os.path.join(root, "proc/sys/vm")
        for name, text in (("min_free_kbytes", "many\n"), ("swappiness", ""), ("dirty_ratio", "9" * 40), ("zone_reclaim_mode", "-1\n")):
            with open(os.path.join(vm, name), "w", encoding="ascii") as f:
                f.write(text)
        os.unlink(os.path.join(vm, "extfrag_threshold"))
        os.unlink(os.path.join(vm, "vfs_cache_pressure"))
        os.mkfifo(os.path.join(vm, "vfs_cache_pressure"))
        found = {a["id"]: a for a in advice("--root", root)}
        for name in ("min-free-kbytes", "swappiness", "dirty-limit", "zone-reclaim-mode", "vfs-cache-pressure"):
            equal(found[name]["verdict"], "unknown", name)
            equal(found[name]["now"], None, name)
        assert "extfrag-threshold" not in found


@case("--sysctl prints a file and writes nothing")
def _():
    out = run("cache", "advise", "--sysctl", "--root", machine("spark-idle")).expect(0).out
    lines = out.splitlines()
    assert lines[0].startswith("# "), out
    assert "vm.dirty_background_bytes = 268435456" in lines and "vm.dirty_bytes = 1073741824" in lines
    contains(out, '# no sysctl; in a file of /etc/udev/rules.d: ACTION=="add|change", KERNEL=="nvme0n1", ATTR{queue/read_ahead_kb}="4096"')
    only = run("cache", "advise", "--sysctl", "dirty-limit", "--root", machine("spark-idle")).expect(0).out
    equal([l for l in only.splitlines() if not l.startswith("#")], ["vm.dirty_bytes = 1073741824"])
    named = run("cache", "advise", "--sysctl", "min-free-kbytes,lru-min-ttl", "--root", machine("spark-serving")).expect(0).out
    contains(named, "vm.min_free_kbytes = 45184\n")
    contains(named, "w /sys/kernel/mm/lru_gen/min_ttl_ms - - - - 0\n")


# ---- usage -----------------------------------------------------------------------------------------------------------


def refuses(args, says, code=2, **changes):
    result = run("cache", "advise", *args, env=environment(UMACTL_STATE="/nonexistent/umactl", **changes))
    equal(result.code, code, " ".join(args))
    equal(result.out, "")
    contains(result.err, says)


@case("what makes no sense is refused, and nothing is changed")
def _():
    idle = machine("spark-idle")
    refuses(["--apply", "--root", idle], "--apply changes this machine, not a folder")
    refuses(["--undo", "--root", idle], "--undo changes this machine")
    refuses(["--apply", "--from", "x.json"], "--apply changes this machine, not a snapshot")
    refuses(["--apply"], "UMACTL_ROOT", UMACTL_ROOT=idle)
    refuses(["--apply", "--undo"], "three things")
    refuses(["--sysctl", "--json"], "give one of them")
    refuses(["swappiness"], "go with --apply or --sysctl")
    refuses(["--undo", "swappiness"], "go with --apply or --sysctl")
    refuses(["--sysctl", "swapiness", "--root", idle], 'did you mean "swappiness"')
    refuses(["--sysctl", "swappiness=10", "--root", idle], "only the advised value is set")
    refuses(["--force"], "--force goes with --undo")
    refuses(["--apply", "--force"], "--force goes with --undo")
    refuses(["--sysctl", ",", "--root", idle], "expected names")
    refuses(["--sysctl", "x" * 200, "--root", idle], "expected names")
    refuses(["--aply"], 'did you mean "--apply"')
    refuses(["--root", "/nonexistent"], "/nonexistent", code=3)


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
