#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl cache evict: what it takes out, what it leaves, and that its receipt is what can be measured."""

import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time

from cache_support import MIB, PAGE, Mapper, by_path, cached, dirty, fill, memory_file, nobody, place, put
from documented import check_documented
from harness import (BYTES, COUNT, NUMBER, Skip, UMACTL, add, assert_clean_text, case, check, contains, environment, equal, main, or_null, run)

FILE = {"path": str, "path_bytes": or_null(str), "model": or_null(str), "size": BYTES, "resident": or_null(BYTES), "dirty": or_null(BYTES), "mapped_by": or_null([COUNT]),
        "before": or_null(BYTES), "after": or_null(BYTES), "evicted": or_null(BYTES), "still_mapped_by": or_null([COUNT]),
        "written": or_null(BYTES), "synced": bool, "kept_because": [{"mapped", "locked", "dirty", "in_use"}], "error": or_null(str),
        "unknown": or_null(str), "locked_by": or_null([COUNT]), "shown": or_null(str), "deleted": bool}
RECEIPT = {"schema": "umactl.cache/1", "page_cache": or_null(BYTES), "explained": or_null(BYTES), "files": [FILE], "before": or_null(BYTES), "evicted": or_null(BYTES),
           "kept": or_null(BYTES), "unknown": COUNT, "seconds": NUMBER, "written": or_null(BYTES),
           "memory": {"free_before": BYTES, "free_after": BYTES, "available_before": BYTES, "available_after": BYTES}}


def evict(*args, code=0):
    r = run("cache", "evict", "--json", *args).expect(code)
    d = r.json
    check(d, RECEIPT)
    check_documented(d, "umactl.cache/1", 1)
    for f in d["files"]:
        if f["before"] is not None and not d["interrupted"]:
            equal(f["after"], f["resident"], f["path"])
    return d


# ---- files and trees -------------------------------------------------------------------------------------------------


@case("one file: before, after, and what mincore says")
def _():
    path = put(os.path.join(place("one"), "f"), 8 * MIB)
    before = cached(path)
    d = evict(path)
    f = by_path(d)[path]
    assert 0.9 * before <= f["before"] <= 8 * MIB, f
    equal((f["after"], f["evicted"], f["still_mapped_by"], f["kept_because"]), (0, f["before"], [], []))
    equal((cached(path), d["evicted"], d["kept"]), (0, f["before"], 0))
    text = run("cache", "evict", path).expect(0).out
    contains(text, "Nothing is in the cache of 1 file")


@case("a tree, and only it")
def _():
    folder = place("tree")
    inside = [put(os.path.join(folder, "t", f"d{i % 5}", f"f{i}"), 64 * 1024 + i) for i in range(60)]
    beside = put(os.path.join(folder, "beside"), 4 * MIB)
    fill(beside)
    d = evict(os.path.join(folder, "t"))
    equal(sorted(by_path(d)), sorted(inside), "files")
    equal(sum(cached(p) for p in inside), 0, "what is left")
    assert cached(beside) >= 3 * MIB, "a file beside the tree was evicted"
    assert d["memory"]["page_cache_before"] >= d["memory"]["page_cache_after"] - 64 * MIB


@case("links out of a tree are not followed; a link that is named is")
def _():
    folder = place("links")
    outside = put(os.path.join(folder, "outside", "secret"), MIB)
    tree = os.path.join(folder, "tree")
    put(os.path.join(tree, "own"), MIB)
    os.symlink("../outside/secret", os.path.join(tree, "file-link"))
    os.symlink("../outside", os.path.join(tree, "folder-link"))
    os.symlink(outside, os.path.join(tree, "absolute-link"))
    d = evict(tree)
    equal(list(by_path(d)), [os.path.join(tree, "own")])
    equal(d["counts"]["links_outside"], 3)
    assert cached(outside) >= MIB // 2, "evicted through a link"
    evict(os.path.join(tree, "file-link"))
    equal(cached(outside), 0, "a link that was named")


@case("a snapshot of a hub, whose files are links: exit 1, it says so, and both commands that it names evict them")
def _():
    hub = place("pointed/hub")
    model = os.path.join(hub, "models--Org--It's-7B")
    blob = put(os.path.join(model, "blobs", "ab" * 20), MIB)
    snapshot = os.path.join(model, "snapshots", "rev")
    os.makedirs(snapshot)
    for name in ("model.safetensors", "other.safetensors"):
        os.symlink("../../blobs/" + "ab" * 20, os.path.join(snapshot, name))
    d = evict(snapshot, code=1)
    equal((d["files"], d["counts"]["links_outside"], d["evicted"]), ([], 2, 0))
    out = " ".join(run("cache", "evict", snapshot).expect(1).out.split())
    contains(out, "nothing to evict")
    contains(out, "2 links lead out of what was named, and were not followed")
    assert cached(blob) > 0, "evicted through a link"
    commands = re.findall(r"`umactl cache (evict [^`]+)`", out)
    equal(len(commands), 2, out)
    equal(shlex.split(commands[0]), ["evict", model])
    equal(shlex.split(commands[1]), ["evict", "--model", "Org/It's-7B"])
    evict(*shlex.split(commands[1])[1:], "--path", hub)
    equal(cached(blob), 0, "by the model's name")
    fill(blob)
    evict(*shlex.split(commands[0])[1:])
    equal(cached(blob), 0, "by the folder")
    run("cache", "evict", "--dry-run", snapshot).expect(0)


@case("a tree of links that lead elsewhere, and one that has files too")
def _():
    folder = place("elsewhere")
    put(os.path.join(folder, "real"), MIB)
    tree = os.path.join(folder, "tree")
    os.makedirs(os.path.join(tree, "deep"))
    for name in ("a", "b", "deep/c"):
        os.symlink(os.path.join(folder, "real"), os.path.join(tree, name))
    out = " ".join(run("cache", "evict", tree).expect(1).out.split())
    contains(out, "3 links lead out of what was named, and were not followed: name a link itself, or what it leads to")
    put(os.path.join(tree, "own"), MIB)
    contains(run("cache", "evict", tree).expect(0).out, "3 links lead out")
    equal(evict(place("empty"))["counts"]["files"], 0, "nothing there, and nothing to complain of")


@case("a deleted file that is held open, by its descriptor in /proc: its old name is told")
def _():
    path = put(os.path.join(place("deleted"), "held"), MIB)
    with open(path, "rb") as f:
        os.unlink(path)
        f.read()
        door = f"/proc/{os.getpid()}/fd/{f.fileno()}"
        equal(cached(door), MIB)
        said = by_path(evict(door))[door]
        equal((said["shown"], said["deleted"], said["evicted"], cached(door)), (path, True, MIB, 0))
        f.seek(0)
        f.read()
        contains(run("cache", "evict", door).expect(0).out, path + " (deleted)\n")
    run("cache", "evict", door).expect(3, err=None)


@case("what a descriptor in /proc leads to: memory is left alone, pipes are refused")
def _():
    fd = os.memfd_create("umactl test")
    os.write(fd, b"x" * MIB)
    equal(evict(f"/proc/{os.getpid()}/fd/{fd}", code=1)["counts"]["memory_files"], 1)
    os.close(fd)
    ends = os.pipe()
    contains(run("cache", "evict", f"/proc/{os.getpid()}/fd/{ends[0]}").expect(3, err=None).err, "neither a file nor a folder")
    for end in ends:
        os.close(end)


@case("hard links count once")
def _():
    folder = place("hard")
    put(os.path.join(folder, "a"), MIB)
    for name in "bcd":
        os.link(os.path.join(folder, "a"), os.path.join(folder, name))
    d = evict(folder, os.path.join(folder, "a"), folder)
    equal((len(d["files"]), d["counts"]["files"]), (1, 1))


@case("--larger-than within a tree")
def _():
    folder = place("larger")
    small, large = put(os.path.join(folder, "small"), MIB), put(os.path.join(folder, "large"), MIB + PAGE)
    d = evict(folder, "--larger-than", "1M")
    equal((list(by_path(d)), d["counts"]["smaller"]), ([large], 1))
    assert cached(small) >= MIB // 2
    equal(cached(large), 0)


@case("--dry-run changes nothing")
def _():
    folder = place("dry")
    paths = [put(os.path.join(folder, f"f{i}"), MIB) for i in range(3)]
    paths.append(dirty(os.path.join(folder, "dirty"), MIB))
    before = [cached(p) for p in paths]
    d = evict(folder, "--dry-run")
    equal((d["dry_run"], d["evicted"], d["written"]), (True, 0, 0))
    assert d["before"] >= 3 * MIB, d["before"]
    assert sum(cached(p) for p in paths) >= sum(before) - MIB, "the dry run evicted"
    assert by_path(d)[paths[3]]["dirty"] > 0, "what was dirty was written out"
    contains(run("cache", "evict", folder, "--dry-run").expect(0).out, "Would evict up to ")


@case("a path that is not, or is no file: exit 3, and nothing is done")
def _():
    path = put(os.path.join(place("wrong"), "f"), MIB)
    for wrong in (path + ".none", "/dev/null"):
        r = run("cache", "evict", path, wrong).expect(3, err=None)
        contains(r.err, wrong)
        assert cached(path) > 0, "evicted before all paths were looked at"


@case("hostile names")
def _():
    folder = os.fsencode(place("hostile"))
    for name in (b"new\nline", b"esc\x1b[31mred", b"\xff\xfe", "\u202eright".encode()):
        put(os.fsdecode(os.path.join(folder, name)), PAGE)
    d = evict(os.fsdecode(folder))
    names = {os.path.basename(p) for p in by_path(d)}
    equal(names, {"new\nline", "esc\x1b[31mred", "\\xff\\xfe", "\u202eright"})
    for name in os.listdir(folder):
        fill(os.path.join(folder, name))
    text = assert_clean_text(run("cache", "evict", os.fsdecode(folder)).expect(0).out_bytes)
    contains(text, "esc\\x1b[31mred")


# ---- what stays ------------------------------------------------------------------------------------------------------


@case("a half-mapped file: the mapped half stays, and its process is named")
def _():
    path = put(os.path.join(place("mapped"), "f"), 8 * MIB)
    with Mapper(path, 4 * MIB) as mapper:
        fill(path)
        d = evict(path)
        f = by_path(d)[path]
        equal((f["after"], f["still_mapped_by"], f["kept_because"]), (4 * MIB, [mapper.pid], ["mapped"]))
        equal((d["kept"], f["evicted"] > 3 * MIB), (4 * MIB, True))
        # all of it is mapped now, and nothing else is left: nothing can be evicted
        r = run("cache", "evict", path).expect(1)
        contains(r.out, "4.0 MiB kept: mapped by ")
        contains(r.out, str(mapper.pid))
    equal(evict(path)["kept"], 0, "after the process ended")


@case("locked pages stay")
def _():
    path = put(os.path.join(place("locked"), "f"), 2 * MIB)
    with Mapper(path, 2 * MIB, lock=True) as mapper:
        f = by_path(evict(path, code=1))[path]
        equal((f["after"], f["still_mapped_by"], f["locked_by"]), (2 * MIB, [mapper.pid], [mapper.pid]))
        equal(f["kept_because"], ["mapped", "locked"])
        contains(run("cache", "evict", path).expect(1).out, "2.0 MiB kept: locked in memory by ")
        contains(run("cache", "evict", "--dry-run", path).expect(0).out, "2.0 MiB of it is locked in memory, and stays: by ")


@case("locked by one and mapped by another: each is told of its own")
def _():
    path = put(os.path.join(place("locked"), "both"), 4 * MIB)
    with Mapper(path, MIB, lock=True) as locker, Mapper(path, 3 * MIB) as mapper:
        fill(path)
        f = by_path(evict(path))[path]
        equal((f["after"], f["still_mapped_by"], f["locked_by"]), (3 * MIB, sorted([locker.pid, mapper.pid]), [locker.pid]))
        out = run("cache", "evict", path).expect(1).out
        contains(out, "1.0 MiB kept: locked in memory by ")
        contains(out, "2.0 MiB kept: mapped by ")


@case("dirty data is written out first, and that is told")
def _():
    path = dirty(os.path.join(place("dirty"), "f"), 8 * MIB)
    with open(path, "rb") as f:
        content = f.read()
    d = evict(path)
    f = by_path(d)[path]
    equal((f["after"], d["kept"]), (0, 0))  # "synced" or not: only what is left after a first try is made durable, too
    assert 0 < f["written"] <= 8 * MIB and d["written"] == f["written"], f
    with open(path, "rb") as again:
        assert again.read() == content, "the data is not what was written"
    path = dirty(path + "2", 8 * MIB)  # another: writing over a file anew starts its writing by itself (ext4, auto_da_alloc)
    contains(run("cache", "evict", path).expect(0).out, "was dirty and was written out first")


@case("--no-sync leaves dirty data, and says how much")
def _():
    path = dirty(os.path.join(place("nosync"), "f"), 8 * MIB)
    r = run("cache", "evict", "--json", "--no-sync", path)
    assert r.code in (0, 1), r.err
    d = r.json
    f = by_path(d)[path]
    equal((f["synced"], d["written"]), (False, 0))
    # the kernel may have begun to write by itself; what it has not is there, and told
    if f["after"] > 0:
        contains(f["kept_because"], "dirty")
        assert f["dirty"] > 0, f
        contains(run("cache", "evict", "--no-sync", path).out, "--no-sync")


@case("--sync writes out in any case")
def _():
    path = put(os.path.join(place("sync"), "f"), MIB)
    equal(by_path(evict(path, "--sync"))[path]["synced"], True)


@case("memory files are left alone, and that is said: exit 1")
def _():
    with memory_file() as f:
        d = evict(f.name, code=1)
        equal((d["counts"]["memory_files"], d["counts"]["memory_bytes"], d["files"]), (1, MIB, []))
        contains(run("cache", "evict", f.name).expect(1).out, "the pages are the file")
        with open(f.name, "rb") as again:
            equal(again.read(), b"x" * MIB)


@case("unprivileged: another's file is evicted, and how much is unknown")
def _():
    front = nobody()
    path = put(os.path.join(place("others"), "f"), 8 * MIB)
    r = subprocess.run([*front, UMACTL, "cache", "evict", "--json", path], capture_output=True, env=environment(), check=True)
    d = json.loads(r.stdout)
    check(d, RECEIPT)
    f = by_path(d)[path]
    equal((f["before"], f["after"], f["evicted"], d["unknown"]), (None, None, None, 1))
    equal([d[key] for key in ("before", "evicted", "kept", "written", "explained")], [None] * 5, "sums of what nobody knows")
    assert f["unknown"], f
    equal(cached(path), 0, "posix_fadvise(2) needs no right beyond reading")
    fill(path)
    r = subprocess.run([*front, UMACTL, "cache", "evict", path], capture_output=True, env=environment(), check=True)
    contains(r.stdout.decode(), "how much is unknown")
    contains(r.stdout.decode(), "MemFree")


@case("unprivileged: what may not be read is counted: exit 1")
def _():
    front = nobody()
    folder = place("denied")
    path = put(os.path.join(folder, "f"), MIB)
    os.chmod(path, 0o600)
    r = subprocess.run([*front, UMACTL, "cache", "evict", "--json", folder], capture_output=True, env=environment(), check=False)
    equal(r.returncode, 1)
    d = json.loads(r.stdout)
    equal((d["counts"]["denied"], d["files"]), (1, []))
    assert cached(path) > 0


# ---- models ----------------------------------------------------------------------------------------------------------


def model_folder(name):
    """Two models, as `--path` finds them."""
    folder = place(name)
    paths = {}
    for model, shards in (("Tiny-Alpha-7B", 3), ("Tiny-Beta-7B", 2)):
        paths[model] = [put(os.path.join(folder, model, f"model-0000{i}-of-0000{shards}.safetensors"), MIB) for i in range(1, shards + 1)]
    for path in paths["Tiny-Alpha-7B"] + paths["Tiny-Beta-7B"]:
        fill(path)
    return folder, paths


@case("--model takes that model alone, whatever its case")
def _():
    folder, paths = model_folder("by-name")
    d = evict("--path", folder, "--model", "tiny-alpha-7b")
    equal(sorted(by_path(d)), paths["Tiny-Alpha-7B"])
    equal({f["model"] for f in d["files"]}, {"Tiny-Alpha-7B"})
    equal(sum(map(cached, paths["Tiny-Alpha-7B"])), 0)
    assert sum(map(cached, paths["Tiny-Beta-7B"])) >= MIB


@case("a model that is not, and a name that may be several")
def _():
    folder, paths = model_folder("no-name")
    r = run("cache", "evict", "--path", folder, "--model", "Tiny-Gamma-7B").expect(1, err=None)
    contains(r.err, "Tiny-Gamma-7B")
    r = run("cache", "evict", "--path", folder, "--model", "tiny").expect(1, err=None)
    contains(r.err, "Tiny-Alpha-7B")
    contains(r.err, "Tiny-Beta-7B")
    assert sum(cached(p) for m in paths.values() for p in m) >= 4 * MIB, "evicted all the same"
    hub = place("hub")
    for owner in ("one", "two"):
        put(os.path.join(hub, f"models--{owner}--Same-Name", "blobs", owner * 21 + "0"), MIB)
        snapshot = os.path.join(hub, f"models--{owner}--Same-Name", "snapshots", "abc")
        os.makedirs(snapshot)
        os.symlink(f"../../blobs/{owner * 21}0", os.path.join(snapshot, "model.safetensors"))
    r = run("cache", "evict", "--path", hub, "--model", "same-name").expect(2, err=None)
    contains(r.err, "one/Same-Name")
    contains(r.err, "two/Same-Name")
    d = evict("--path", hub, "--model", "two/same-name")
    equal({f["model"] for f in d["files"]}, {"two/Same-Name"})


@case("--larger-than of a model")
def _():
    folder = place("sizes/Tiny-Delta-7B")
    small = put(os.path.join(folder, "model-00001-of-00002.safetensors"), MIB)
    large = put(os.path.join(folder, "model-00002-of-00002.safetensors"), 3 * MIB)
    d = evict("--path", folder, "--model", "Tiny-Delta-7B", "--larger-than", "2M")
    equal(list(by_path(d)), [large])
    assert cached(small) > 0


@case("--all-models takes models and nothing else (only looked at: others' are on this machine too)")
def _():
    folder, paths = model_folder("all-models")
    other = put(os.path.join(folder, "notes.txt"), MIB)
    d = evict("--path", folder, "--all-models", "--dry-run")
    found = by_path(d)
    for path in paths["Tiny-Alpha-7B"] + paths["Tiny-Beta-7B"]:
        assert path in found, path
    assert other not in found and all(f["model"] for f in d["files"])


@case("--larger-than alone: of the whole listing (only looked at)")
def _():
    folder, _ = model_folder("alone")
    large = put(os.path.join(folder, "large.bin"), 5 * MIB)
    d = evict("--path", folder, "--larger-than", "4M", "--dry-run")
    found = by_path(d)
    assert large in found
    assert all(f["size"] > 4 * MIB for f in d["files"])


# ---- while things change ---------------------------------------------------------------------------------------------


@case("files that vanish, and one that is cut while it is evicted: never an error")
def _():
    folder = place("vanishing")
    paths = [os.path.join(folder, f"f{i}") for i in range(400)]
    for path in paths:
        put(path, PAGE, data=b"x" * PAGE)
    over = threading.Event()

    def churn():
        i = 0
        while not over.is_set():
            path = paths[i % len(paths)]
            os.unlink(path)
            with open(path, "wb") as f:
                f.write(b"y" * PAGE * (i % 5))
            os.truncate(path, PAGE * (i % 3))
            i += 1

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(10):
            r = run("cache", "evict", "--json", folder)
            assert r.code == 0, (r.code, r.err)
            check(r.json, RECEIPT)
    finally:
        over.set()
        thread.join()


@case("SIGINT in the middle: the receipt of what was done by then, exit 130")
def _():
    folder = place("interrupted")
    for i in range(3000):
        if i % 100 == 0:
            os.mkdir(os.path.join(folder, f"{i // 100:02d}"))
        with open(os.path.join(folder, f"{i // 100:02d}", f"f{i}"), "wb") as f:
            f.write(b"x" * 64)  # dirty: each takes a write to the disk
    child = subprocess.Popen([UMACTL, "cache", "evict", "--sync", "--json", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=environment())
    time.sleep(0.15)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    if child.returncode == 0:
        raise Skip("it was done before the signal came")
    if child.returncode == -signal.SIGINT:
        raise Skip("the signal came before the program could take it")
    equal((child.returncode, err), (130, b""))
    d = json.loads(out)
    equal((d["interrupted"], d["complete"]), (True, False))
    assert d["counts"]["files"] < 3000, d["counts"]
    equal(len(d["files"]), d["counts"]["files"])


@case("a receipt into a closed pipe ends quietly")
def _():
    path = put(os.path.join(place("pipe"), "f"), MIB)
    read_end, write_end = os.pipe()
    os.close(read_end)
    r = run("cache", "evict", path, stdout=write_end)
    os.close(write_end)
    equal((r.code, r.err), (0, ""))


main()
