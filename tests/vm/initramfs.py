# SPDX-License-Identifier: MIT
"""The guest's first files: a cpio archive (newc, as the kernel's Documentation/driver-api/early-userspace/buffer-format.rst describes it), written without root."""
import os
import re
import stat
import subprocess


LIBRARY_PLACES = ("/usr/lib/x86_64-linux-gnu/systemd", "/lib/x86_64-linux-gnu/systemd", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib", "/lib")


class Archive:
    def __init__(self):
        self._parts, self._names, self._inode = [], set(), 1

    def _entry(self, name, mode, content=b"", device=(0, 0)):
        path = name.encode() + b"\0"
        header = b"070701" + b"".join(b"%08X" % n for n in (
            self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, device[0], device[1], len(path), 0))
        self._parts += [header, path, b"\0" * (-(len(header) + len(path)) % 4), content, b"\0" * (-len(content) % 4)]
        self._names.add(name)
        self._inode += 1

    def folder(self, path):
        path = path.strip("/")
        if path and path not in self._names:
            self.folder(os.path.dirname(path))
            self._entry(path, stat.S_IFDIR | 0o755)

    def file(self, path, content, mode=0o755):
        path = path.strip("/")
        if path not in self._names:
            self.folder(os.path.dirname(path))
            self._entry(path, stat.S_IFREG | mode, content)

    def character_device(self, path, major, minor):
        self.folder(os.path.dirname(path.strip("/")))
        self._entry(path.strip("/"), stat.S_IFCHR | 0o600, device=(major, minor))

    def program(self, path, host_path, root=""):
        """A program or library and the libraries that it is linked with, each at the place where this machine has it, or would have it whose files are below root."""
        with open(host_path, "rb") as file:
            content = file.read()
        self.file(path, content)
        if not content.startswith(b"\x7fELF"):
            return
        # a static program makes ldd fail; that is an answer
        places = {**os.environ, "LD_LIBRARY_PATH": ":".join(root + place for place in LIBRARY_PLACES)} if root else None
        linked = subprocess.run(["ldd", host_path], env=places, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode(errors="replace")
        if "not found" in linked:
            raise RuntimeError(f"{host_path}: " + "; ".join(line.strip() for line in linked.splitlines() if "not found" in line))
        for library in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", linked, re.M):
            with open(library, "rb") as file:
                self.file(library[len(root):] if root and library.startswith(root + "/") else library, file.read())

    def write(self, path):
        self._entry("TRAILER!!!", 0)
        with open(path, "wb") as file:
            file.write(b"".join(self._parts))
            file.write(b"\0" * (-file.tell() % 512))
