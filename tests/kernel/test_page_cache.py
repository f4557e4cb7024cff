#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""On this machine's own kernel: what the list of cached files says is what fincore of util-linux says, file by file, and each file is there once.

Other programs move the same cache, and a kernel may page cold files out: residency is read by fincore before and after, and a file is compared with both.
Only as root, whom mincore(2) tells the truth about every file. Mounts are made in a mount namespace of their own.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from disk import disk_places  # noqa: E402

LIST = os.environ["UMA_PAGE_CACHE_LIST"]
MIB = 1 << 20
PAGE = os.sysconf("SC_PAGESIZE")
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def read_list(*arguments, before=(), env=None):
    run = subprocess.run([*before, LIST, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, env={**os.environ, **(env or {})}, check=False)
    assert run.returncode == 0, f"{arguments}: {run.stderr.decode(errors='replace')}"
    return json.loads(run.stdout)


def fincore(paths):
    out = subprocess.run(["fincore", "--bytes", "--noheadings", "--raw", "--output", "RES", *paths], stdout=subprocess.PIPE, check=True, timeout=60).stdout
    return [int(line) for line in out.split()]


def write(path, size, byte=b"x"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(byte * size)
        f.flush()
        os.fsync(f.fileno())


def drop(path, offset=0, length=0):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def namespace(script):
    """A shell script with mounts of its own; `$LIST` is the program."""
    run = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-ec", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env={**os.environ, "LIST": LIST}, timeout=60, check=False)
    return run.returncode, run.stdout, run.stderr.decode(errors="replace").strip()


class Skip(Exception):
    pass


def mixed(folder):
    """300 files of mixed residency: all, nothing, one page, a half, holes, an odd size, nothing at all."""
    paths = []
    for i in range(300):
        path = f"{folder}/mixed/d{i % 7}/file {i}\n.bin" if i % 50 == 0 else f"{folder}/mixed/d{i % 7}/file-{i}.bin"
        size = (i * 12347) % (512 * 1024)
        # A hole behind, that was never read. From a whole page on: of a page that is cut in the middle the kernel keeps the rest as a page that is not
        # up to date (ext4_block_zero_page_range), which is memory and which cachestat(2) counts, and mincore(2) and older fincore do not.
        hole = i % 10 == 9
        size = size // PAGE * PAGE if hole else size
        write(path, size)
        if i % 4 == 1:
            drop(path)
        elif i % 4 == 2:
            drop(path, size // 2 // PAGE * PAGE)
        elif i % 4 == 3:
            drop(path)
            with open(path, "rb") as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                os.pread(f.fileno(), 1, size // 3)
        if hole:
            os.truncate(path, size + MIB)
        paths.append(path)
    return paths


def test_fincore(folder):
    """300 files of mixed residency agree with fincore, file by file"""
    paths = mixed(folder)
    for _ in range(3):
        before = fincore(paths)
        listed = {f["path"]: f for f in read_list(f"{folder}/mixed")["files"]}
        after = fincore(paths)
        wrong = [f"{p}: {listed.get(p, {}).get('resident')}, fincore {b} then {a}" for p, b, a in zip(paths, before, after)
                 if p not in listed or not min(a, b) <= listed[p]["resident"] <= max(a, b)]
        if not wrong:
            break
    assert len(listed) == 300, f"{len(listed)} files"
    assert not wrong, "; ".join(wrong[:5])
    kinds = [(r == 0, 0 < r < os.path.getsize(p)) for r, p in zip(after, paths)]
    assert sum(k[0] for k in kinds) > 30 and sum(k[1] for k in kinds) > 30, "the residency is not mixed"
    assert all(listed[p]["size"] == os.path.getsize(p) for p in paths)


def test_nobody(folder):
    """whom the kernel does not tell is told "unknown", not mincore's "all", and his own files as they are"""
    theirs, mine = f"{folder}/open/theirs", f"{folder}/open/mine"
    for path in (theirs, mine):
        write(path, 256 * 1024)
        drop(path, 128 * 1024)
    os.chown(mine, 65534, 65534)
    os.chmod(theirs, 0o644)
    write(f"{folder}/open/secret", 4096)
    os.chmod(f"{folder}/open/secret", 0o600)
    for path in (folder, f"{folder}/open"):
        os.chmod(path, 0o755)
    before = fincore([mine])[0]
    reading = read_list(f"{folder}/open", before=NOBODY)
    after = fincore([mine])[0]
    files = {os.path.basename(f["path"]): f for f in reading["files"]}
    for name in ("theirs", "secret"):
        assert files[name]["resident"] is None and files[name]["denied"] and files[name]["size"] > 0, files[name]
    assert min(before, after) <= files["mine"]["resident"] <= max(before, after), f"{files['mine']}, fincore {before} {after}"
    assert reading["unreadable"] == 2, reading["unreadable"]


def test_once(folder):
    """hard links and a hub's snapshots are one file with one residency"""
    write(f"{folder}/once/hub/models--A--B/blobs/{'0' * 64}", MIB)
    os.makedirs(f"{folder}/once/hub/models--A--B/snapshots/main")
    os.symlink(f"../../blobs/{'0' * 64}", f"{folder}/once/hub/models--A--B/snapshots/main/model.safetensors")
    write(f"{folder}/once/a/one.gguf", MIB)
    os.link(f"{folder}/once/a/one.gguf", f"{folder}/once/two.gguf")
    reading = read_list(f"{folder}/once", f"{folder}/once/a", f"{folder}/once/two.gguf")
    assert len(reading["files"]) == 2, [f["path"] for f in reading["files"]]
    assert reading["explained"] == sum(f["resident"] for f in reading["files"])
    groups = {g["name"]: g for g in reading["groups"]}
    assert groups["A/B"]["is_model"] and groups["A/B"]["files"] == 1, groups


OVERLAY = """mkdir -p "{0}/lower" "{0}/upper" "{0}/work" "{0}/merged"; head -c 1048576 /dev/zero >"{0}/lower/low.gguf"; echo other >"{0}/lower/changed"; sync "{0}/lower/low.gguf"
mount -t overlay overlay -o lowerdir="{0}/lower",upperdir="{0}/upper",workdir="{0}/work" "{0}/merged" 2>/dev/null || exit 77
cat "{0}/merged/low.gguf" >/dev/null; echo changed >"{0}/merged/changed"; echo new >"{0}/merged/new"; rm -f "{0}/merged/gone"
"""


def overlay_or_skip(folder, more):
    status, out, err = namespace(OVERLAY.format(folder) + more)
    if status == 77:
        raise Skip("no overlay can be mounted here")
    assert status == 0, err
    return json.loads(out)


def test_overlay(folder):
    """a file of an overlay and of its layer are one, with the layer's pages"""
    at = f"{folder}/overlay"
    os.makedirs(at)
    reading = overlay_or_skip(at, f'exec "$LIST" "{at}/merged" "{at}/lower" "{at}/upper"')
    names = sorted(os.path.relpath(f["path"], at) for f in reading["files"])
    assert names == ["lower/changed", "merged/changed", "merged/low.gguf", "merged/new"], names
    low = next(f for f in reading["files"] if f["path"].endswith("low.gguf"))
    assert low["resident"] == MIB and low["device"] == os.stat(f"{at}/lower/low.gguf").st_dev, low
    assert low["filesystem"] != "overlay", low
    assert reading["explained"] == sum(f["resident"] for f in reading["files"]), reading["explained"]
    alone = overlay_or_skip(at, f'mv "{at}/lower" "{at}/hidden"; exec "$LIST" "{at}/merged"')  # layers out of reach: the overlay's own word
    low = next(f for f in alone["files"] if f["path"].endswith("low.gguf"))
    assert low["resident"] == MIB and low["filesystem"] == "overlay", low


def test_container(folder):
    """what a process of another mount namespace has open is found, by its layer, and once with the host's own path"""
    at = f"{folder}/container"
    os.makedirs(at)
    script = OVERLAY.format(at) + f'exec 3<"{at}/merged/low.gguf"; echo ready; exec sleep 60'
    with subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-ec", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as job:
        try:
            if job.stdout.readline() != b"ready\n":
                raise Skip("no overlay can be mounted here")
            alone = read_list("processes")
            both = read_list("processes", f"{at}/lower")
        finally:
            job.kill()
    for reading in (alone, both):
        found = [f for f in reading["files"] if f["path"].endswith("/low.gguf")]
        assert len(found) == 1, found
        assert found[0]["path"] == f"{at}/lower/low.gguf" and found[0]["open_by"] == [job.pid] and found[0]["resident"] == MIB, found
    assert next(f for f in alone["files"] if f["path"].endswith("/low.gguf"))["shown"] == f"{at}/merged/low.gguf"


def test_memory(folder):
    """tmpfs is memory and no cache: it is listed and not counted"""
    del folder
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".safetensors") as f:
        f.write(b"x" * MIB)
        f.flush()
        reading = read_list(f.name)
    assert len(reading["files"]) == 1 and reading["files"][0]["resident"] == MIB, reading["files"]
    assert reading["files"][0]["kind"] == 1 and reading["explained"] == 0, reading


def test_fuse(folder):
    """a store on a FUSE file system is not touched unasked; a file in use there is listed without a number"""
    if not shutil.which("bindfs") or not os.path.exists("/dev/fuse"):
        raise Skip("no bindfs or no /dev/fuse")
    at = f"{folder}/fuse"
    write(f"{at}/real/model.safetensors", MIB)
    os.makedirs(f"{at}/home/models")
    mount = f'bindfs "{at}/real" "{at}/home/models" 2>/dev/null || exit 77; trap \'umount -l "{at}/home/models"\' EXIT; exec 3<"{at}/home/models/model.safetensors"\n'
    status, out, err = namespace(mount + f'HOME="{at}/home" "$LIST" stores processes')
    if status == 77:
        raise Skip("bindfs cannot be mounted here")
    assert status == 0, err
    files = [f for f in json.loads(out)["files"] if f["path"].startswith(f"{at}/home")]  # bindfs itself has the real one
    assert len(files) == 1, files
    assert files[0]["resident"] is None and not files[0]["denied"] and files[0]["filesystem"].startswith("fuse") and files[0]["open_by"], files
    assert "not touched" in json.loads(out)["detail"]
    status, out, err = namespace(mount + f'exec "$LIST" "{at}/home/models"')  # named: looked at
    assert status == 0 and json.loads(out)["files"][0]["size"] == MIB, (err, out)


def test_store(folder):
    """an Ollama store named by the environment, with its model's name"""
    digest = "a" * 64
    write(f"{folder}/ollama/blobs/sha256-{digest}", MIB)
    manifest = f"{folder}/ollama/manifests/registry.ollama.ai/library/llama3.1/8b"
    os.makedirs(os.path.dirname(manifest))
    with open(manifest, "w", encoding="ascii") as f:
        json.dump({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": MIB}]}, f)
    reading = read_list("stores", env={"OLLAMA_MODELS": f"{folder}/ollama"})
    groups = {g["name"]: g for g in reading["groups"]}
    assert groups["llama3.1:8b"]["resident"] == MIB, groups.get("llama3.1:8b")


def test_device(folder):
    """a mounted device's own cache is a row, and no file is under both"""
    image = f"{folder}/image"
    with open(image, "wb") as f:
        f.truncate(64 * MIB)
    if subprocess.run(["mkfs.ext4", "-q", image], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skip("no mkfs.ext4")
    os.makedirs(f"{folder}/mounted")
    status, out, err = namespace(f'mount -o loop "{image}" "{folder}/mounted" 2>/dev/null || exit 77; echo x >"{folder}/mounted/file"; sync "{folder}/mounted/file"\n'
                                 f'trap \'umount "{folder}/mounted"\' EXIT; "$LIST" devices "{folder}/mounted"')
    if status == 77:
        raise Skip("no loop device can be mounted here")
    assert status == 0, err
    reading = json.loads(out)
    loops = [f for f in reading["files"] if f["path"].startswith("/dev/loop")]
    if not loops and "block device" in (reading["detail"] or ""):
        raise Skip("block devices may not be opened here")
    assert len(loops) == 1 and loops[0]["kind"] == 2 and loops[0]["resident"] > 0, reading["files"]
    assert sum(f["resident"] for f in reading["files"]) == reading["explained"]


def test_many(folder):
    """10,000 files of 1 TB apparent size, one row for each model"""
    for model in range(100):
        os.makedirs(f"{folder}/many/Model-{model}")
        for part in range(100):
            fd = os.open(f"{folder}/many/Model-{model}/model-{part + 1:05}-of-00100.safetensors", os.O_CREAT | os.O_WRONLY, 0o600)
            os.ftruncate(fd, 100 * MIB)
            os.close(fd)
    reading = read_list(f"{folder}/many")
    assert len(reading["files"]) == 10000 and len(reading["groups"]) == 100, (len(reading["files"]), len(reading["groups"]))
    assert all(g["files"] == 100 and g["size"] == 10000 * MIB and g["resident"] == 0 for g in reading["groups"])
    print(f"# 10,000 files in {reading['seconds']:.3f} s")


TESTS = [test_fincore, test_nobody, test_once, test_overlay, test_container, test_memory, test_fuse, test_store, test_device, test_many]


def main():
    if os.geteuid() != 0 or not shutil.which("fincore"):
        print("1..0 # SKIP needs root and fincore of util-linux")
        return
    where = next(disk_places(), None)
    if not where:
        print("1..0 # SKIP no folder on a disk")
        return
    folder = tempfile.mkdtemp(prefix="uma-page-cache-", dir=where)
    print(f"1..{len(TESTS)}")
    failed = False
    try:
        for i, test in enumerate(TESTS, 1):
            try:
                test(os.path.realpath(folder))
                print(f"ok {i} - {test.__doc__}", flush=True)
            except Skip as reason:
                print(f"ok {i} - {test.__doc__} # SKIP {reason}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError, StopIteration, KeyError) as wrong:
                failed = True
                print(f"not ok {i} - {test.__doc__}\n# {type(wrong).__name__}: {str(wrong)[:2000]!r}", flush=True)
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
