#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""On this machine's own kernel: which files processes have open or mapped, by which path they are reached, and that nothing that hangs is touched.

usage: test_process_files.py, with UMA_USE_FILES, UMA_LIST_USED_FILES, UMA_FUSE_FILE and UMA_REFUSE (the programs beside it); prints TAP. As root it works in a mount namespace
of its own, so that no mount it makes is seen by anything else.
"""
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

USE, LIST = os.environ["UMA_USE_FILES"], os.environ["UMA_LIST_USED_FILES"]
FUSE_FILE, REFUSE = os.environ["UMA_FUSE_FILE"], os.environ["UMA_REFUSE"]
KIND_LOCAL, KIND_MEMORY, KIND_OVERLAY, KIND_FUSE = 0, 1, 2, 4
NOBODY = 65534
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 16384, 1 << 18
LIBC = ctypes.CDLL(None, use_errno=True)


class Skip(Exception):
    pass


def own_namespace():
    return LIBC.unshare(CLONE_NEWNS) == 0 and LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0


@contextlib.contextmanager
def using(*words, **options):
    """A process that did these words and waits."""
    with subprocess.Popen([USE, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        line = process.stdout.readline()
        if line != b"ready\n":
            reason = process.communicate()[1].decode(errors="replace").strip()
            if process.returncode == 77:
                raise Skip(reason)
            raise AssertionError(f"{words}: {reason}")
        try:
            yield process.pid
        finally:
            process.kill()


def listing(*arguments, **options):
    result = subprocess.run([LIST, *arguments], stdout=subprocess.PIPE, check=True, timeout=30, **options)
    return json.loads(result.stdout)


def files_of(pid, *arguments, **options):
    """Rows that the process uses, but for its program and libraries."""
    rows = listing(*arguments, **options)["files"]
    return [r for r in rows if pid in r["mapped_by"] + r["open_by"] and not r["shown"].startswith(("/usr/", "/lib")) and
            os.path.realpath(USE) != r["shown"]]


def one(pid, *arguments, **options):
    rows = files_of(pid, *arguments, **options)
    assert len(rows) == 1, f"{len(rows)} files: {rows}"
    return rows[0]


def expect(row, **values):
    wrong = {k: (row[k], v) for k, v in values.items() if row[k] != v}
    assert not wrong, f"{ {k: f'{got!r}, expected {want!r}' for k, (got, want) in wrong.items()} }: {row}"


def put(path, size=10000):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"x" * size)
    os.chmod(path, 0o644)
    return path


def same(row, st):
    assert (row["device"], row["inode"], row["size"]) == (st.st_dev, st.st_ino, st.st_size), f"not the file: {row}, {st}"


def reaches(row):
    """The path of the row leads to the very file."""
    same(row, os.stat(row["path"]))


def test_open_and_mapped(folder):
    path = put(folder + "/a/model")
    with using("open:" + path, "map:" + path) as one_pid, using("map:" + path) as other:
        row = one(one_pid)
        expect(row, path=path, shown=path, deleted=False, looked_at=True, may_hang=False, other_view=False, open_by=[one_pid],
               mapped_by=sorted([one_pid, other]))
        reaches(row)


def test_deleted_but_open(folder):
    path = put(folder + "/gone")
    st = os.stat(path)
    with using("open:" + path, "unlink:" + path) as pid:
        row = one(pid)
        expect(row, shown=path, deleted=True, looked_at=True, open_by=[pid], mapped_by=[], kind=KIND_LOCAL)
        assert row["path"].startswith(f"/proc/{pid}/fd/"), row
        reaches(row)
        same(row, st)


def test_deleted_but_mapped(folder):
    path = put(folder + "/gone")
    st = os.stat(path)
    with using("map:" + path, "unlink:" + path) as pid:
        row = one(pid)
        expect(row, shown=path, deleted=True, looked_at=True, open_by=[], mapped_by=[pid])
        assert row["path"].startswith(f"/proc/{pid}/map_files/"), row
        reaches(row)
        same(row, st)
        # another process that has it open is the better way
        with using(f"open:{row['path']}") as other:
            both = one(other)
            expect(both, deleted=True, mapped_by=[pid], open_by=[other])
            assert both["path"].startswith(f"/proc/{other}/fd/"), both


def test_replaced(folder):
    """A new file under the name of one that is still in use: both are told apart."""
    path = put(folder + "/model")
    with using("open:" + path, "map:" + path) as old:
        os.rename(put(folder + "/new", 20000), path)
        with using("open:" + path) as new:
            before, after = one(old), one(new)
            expect(before, deleted=True, size=10000, open_by=[old], mapped_by=[old])
            expect(after, deleted=False, size=20000, path=path, open_by=[new], mapped_by=[])


def test_named_deleted(folder):
    """A file whose own name ends in " (deleted)"."""
    path = put(folder + "/x (deleted)")
    with using("open:" + path) as opened, using("map:" + path) as mapped:
        row = one(opened)
        expect(row, path=path, shown=path, deleted=False, open_by=[opened], mapped_by=[mapped])
        os.unlink(path)
        row = one(opened)
        expect(row, shown=path, deleted=True)
        # and where another file has that very name by now
        put(folder + "/x (deleted) (deleted)")
        expect(one(opened), shown=path, deleted=True, inode=row["inode"])


def test_other_link(folder):
    """One of two names is gone: the file is reached by the other where a process uses that one, and is not deleted."""
    first, second = put(folder + "/first"), folder + "/second"
    os.link(first, second)
    with using("open:" + first) as pid:
        os.unlink(first)
        row = one(pid)
        expect(row, deleted=False, shown=first)
        reaches(row)
        with using("map:" + second) as other:
            row = one(other)
            expect(row, path=second, shown=second, deleted=False, open_by=[pid], mapped_by=[other])


def test_memory(_folder):
    with using("memfd:two words", "memfd:", "sysv") as pid:
        rows = files_of(pid)
        assert len(rows) == 3, rows
        for row in rows:
            expect(row, deleted=True, looked_at=True, may_hang=False, kind=KIND_MEMORY)
            reaches(row)
        named = {row["shown"]: row["size"] for row in rows}
        assert named.pop("/memfd:two words") == 12288 and named.pop("/memfd:") == 12288, rows
        assert list(named.values()) == [20480] and list(named)[0].startswith("/SYSV"), rows


def test_names(folder):
    for name in ("new\nline", "tab\tand \\012 in letters", "ünïcode", "spaces  at the end  "):
        path = put(f"{folder}/{name}")
        with using("open:" + path) as opened, using("map:" + path) as mapped:
            row = one(opened)
            expect(row, path=path, open_by=[opened])
            if "\\012" in name:  # maps does not tell these letters from a newline; the file is found all the same
                assert mapped in row["mapped_by"], row
            expect(row, mapped_by=[mapped])


def test_long_path(folder):
    """More than readlink(2) in /proc can say: the descriptor is the way."""
    name, here = "n" * 250, os.open(folder, os.O_RDONLY)
    words = ["chdir:" + folder]
    for _ in range(20):
        os.mkdir(name, dir_fd=here)
        step = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = step
        words.append("chdir:" + name)
    os.close(os.open("model", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=here))
    with open("model", "wb", opener=lambda p, _flags: os.open(p, os.O_WRONLY, dir_fd=here)) as file:
        file.write(b"x" * 10000)
    os.close(here)
    with using(*words, "open:model") as pid, using(*words, "map:model") as mapped:
        row = one(pid)
        expect(row, deleted=False, looked_at=True, open_by=[pid], mapped_by=[mapped])
        assert row["path"].startswith(f"/proc/{pid}/fd/"), row
        reaches(row)
        row = one(mapped)


def test_namespace_bind(folder):
    path = put(folder + "/real/model")
    os.mkdir(folder + "/on")
    with using("unshare", f"bind:{folder}/real={folder}/on", f"open:{folder}/on/model", f"map:{folder}/on/model") as pid:
        row = one(pid)
        expect(row, path=f"/proc/{pid}/root{folder}/on/model", shown=folder + "/on/model", other_view=True, deleted=False, open_by=[pid],
               mapped_by=[pid])
        reaches(row)
        with using("open:" + path) as here:  # by its name here it is better reached
            expect(one(here), path=path, shown=path, other_view=False, open_by=sorted([here, pid]), mapped_by=[pid])


def test_namespace_tmpfs(folder):
    put(folder + "/on/under")
    source = put(folder + "/source")
    with using("unshare", f"tmpfs:{folder}/on", f"bind:{source}={source}", f"open:{source}", "memfd:x") as pid:
        rows = {row["shown"]: row for row in files_of(pid)}
        expect(rows[source], path=f"/proc/{pid}/root{source}", other_view=True)
        expect(rows["/memfd:x"], kind=KIND_MEMORY, deleted=True)


def test_namespace_overlay(folder):
    put(folder + "/lower/model")
    for name in ("upper", "work", "on"):
        os.mkdir(f"{folder}/{name}")
    overlay = f"overlay:{folder}/lower={folder}/upper={folder}/work={folder}/on"
    with using("unshare", overlay, f"open:{folder}/on/model", f"map:{folder}/on/model") as pid:
        row = one(pid)
        expect(row, path=f"/proc/{pid}/root{folder}/on/model", kind=KIND_OVERLAY, filesystem="overlay", other_view=True, open_by=[pid],
               mapped_by=[pid])
        reaches(row)


def test_chroot(folder):
    path = put(folder + "/top/models/model")
    with using("chroot:" + folder + "/top", "open:/models/model", "map:/models/model") as pid:
        expect(one(pid), path=path, shown=path, other_view=False, deleted=False, open_by=[pid], mapped_by=[pid])
    with using("unshare", f"bind:{folder}/top={folder}/top", "chroot:" + folder + "/top", "open:/models/model",
               "map:/models/model") as pid:
        row = one(pid)
        expect(row, path=f"/proc/{pid}/root/models/model", shown="/models/model", other_view=True, open_by=[pid], mapped_by=[pid])
        reaches(row)


def test_covered(folder):
    """Something else is mounted over the file's folder since: the name leads nowhere, the process still does."""
    path = put(folder + "/on/model")
    with using("unshare", "open:" + path, "map:" + path, f"tmpfs:{folder}/on") as pid:
        row = one(pid)
        expect(row, deleted=False, looked_at=True, open_by=[pid], mapped_by=[pid], shown=path)
        assert row["path"].startswith(f"/proc/{pid}/fd/"), row
        reaches(row)


def test_detached(folder):
    """Its mount is in no table any more, so nobody can say whether it would answer: it is not touched."""
    source = put(folder + "/source/model")
    st = os.stat(source)
    os.mkdir(folder + "/on")
    with using("unshare", f"tmpfs:{folder}/on", f"bind:{folder}/source={folder}/on", f"open:{folder}/on/model",
               f"detach:{folder}/on") as pid:
        row = one(pid)
        expect(row, looked_at=False, may_hang=True, size=0, inode=st.st_ino, open_by=[pid])


def test_other_user(folder):
    path = put(folder + "/model")
    os.chmod(folder, 0o755)
    nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    with using("open:" + path) as theirs, using("open:" + path, "map:" + path, **nobody) as own:
        seen = listing(**nobody)
        assert seen["denied"] >= 1, seen["denied"]
        row = one(own, **nobody)
        expect(row, path=path, open_by=[own], mapped_by=[own], looked_at=True)
        assert not files_of(theirs, **nobody)
    gone = put(folder + "/gone")
    os.chmod(folder, 0o777)
    with using("map:" + gone, "unlink:" + gone, **nobody) as pid:  # map_files is for root
        st_inode = one(pid)["inode"]
        expect(one(pid, **nobody), deleted=True, looked_at=False, inode=st_inode, size=0)


def test_first_thread_ended(folder):
    path = put(folder + "/model")
    with using("open:" + path, "map:" + path, "thread") as pid:
        for _ in range(100):
            if not os.path.exists(f"/proc/{pid}/exe"):
                break
            time.sleep(0.02)
        expect(one(pid), path=path, open_by=[pid], mapped_by=[pid], deleted=False)
        os.unlink(path)
        row = one(pid)
        expect(row, deleted=True, open_by=[pid], mapped_by=[pid])
        reaches(row)


def test_deadline(folder):
    with using("open:" + put(folder + "/model")):
        assert listing("0.000001")["cut"] and not listing("100")["cut"]


def test_hanging_fuse(folder):
    """The server of a FUSE mount is stopped while processes have its file open and mapped: they are told of, and nothing waits."""
    path = folder + "/file"
    with subprocess.Popen([FUSE_FILE, folder, "1000000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                raise Skip(server.communicate()[1].decode(errors="replace").strip())
            st = os.stat(path)
            with using("open:" + path, "map:" + path) as pid, using("unshare", "open:" + path) as other:
                server.send_signal(signal.SIGSTOP)
                rows = files_of(pid)  # or its time limit
                server.send_signal(signal.SIGCONT)
                assert len(rows) == 1, rows
                expect(rows[0], path=path, shown=path, kind=KIND_FUSE, may_hang=True, looked_at=False, size=0, device=st.st_dev,
                       inode=st.st_ino, mapped_by=[pid], open_by=sorted([pid, other]), deleted=False)
        finally:
            server.send_signal(signal.SIGCONT)
            server.stdin.close()


def test_without_newer_calls(folder):
    """As on an older kernel, or under a container's filter."""
    path = put(folder + "/model")
    real, on = put(folder + "/real/model"), folder + "/on"
    os.mkdir(on)
    for error in ("ENOSYS", "EPERM"):
        with using("open:" + path, "map:" + path, "memfd:x") as here, \
                using("unshare", f"bind:{os.path.dirname(real)}={on}", f"map:{on}/model") as there:
            result = subprocess.run([REFUSE, error, "openat2", "memfd_create", "--", LIST], stdout=subprocess.PIPE, check=False, timeout=30)
            if result.returncode == 77:
                raise Skip("system calls cannot be refused here")
            rows = json.loads(result.stdout)["files"]
            named = {row["shown"]: row for row in rows if {here, there} & set(row["mapped_by"] + row["open_by"])}
            expect(named[path], path=path, open_by=[here], mapped_by=[here], looked_at=True)
            expect(named[on + "/model"], path=f"/proc/{there}/root{on}/model", mapped_by=[there], looked_at=True)
            # which mount is the kernel's own is not known without a memfd: then nothing says that it answers
            expect(named["/memfd:x"], looked_at=False, may_hang=True, deleted=True)


def test_fork_storm(folder):
    """Processes that start and end all the time while they are read."""
    path = put(folder + "/model")
    storm = subprocess.Popen(["sh", "-c", "while :; do for i in 1 2 3 4 5 6 7 8; do /bin/true & done; wait; done"], stdout=subprocess.DEVNULL)
    try:
        with using("open:" + path, "map:" + path) as pid:
            end, n = time.monotonic() + 2, 0
            while time.monotonic() < end:
                expect(one(pid), path=path, open_by=[pid], mapped_by=[pid])
                n += 1
            print(f"# {n} readings")
    finally:
        storm.kill()
        storm.wait()


def real_folder():
    """A temporary folder on storage: tests of files in memory are others."""
    for parent in (os.environ.get("TMPDIR"), "/var/tmp", "/tmp", os.getcwd()):
        if parent and os.path.isdir(parent):
            out = subprocess.run(["stat", "-f", "-c", "%T", parent], stdout=subprocess.PIPE, check=False).stdout.decode().strip()
            if out not in ("tmpfs", "ramfs", "overlayfs", "fuseblk", "nfs"):
                return parent
    return None


def main():
    tests = [(name[5:].replace("_", " "), function) for name, function in globals().items() if name.startswith("test_")]
    parent = real_folder()
    reason = None if os.geteuid() == 0 and parent and own_namespace() else "needs root, a mount namespace and a folder on storage"
    print(f"1..{len(tests)}")
    failed = 0
    for number, (name, function) in enumerate(tests, 1):
        try:
            if reason:
                raise Skip(reason)
            with tempfile.TemporaryDirectory(prefix="umactl-test-", dir=parent) as folder:
                function(folder)
            print(f"ok {number} - {name}")
        except Skip as skip:
            print(f"ok {number} - {name} # SKIP {skip}")
        except (AssertionError, OSError, KeyError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"not ok {number} - {name}\n# {type(error).__name__}: {error}".replace("\n#", "\n# "))
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
