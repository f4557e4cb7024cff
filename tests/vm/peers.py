# SPDX-License-Identifier: MIT
"""Other guards in the place of ours (`--set GUARD=NAME`), from the distribution's packages, with the configuration that they come with."""
import os
import re
import subprocess
import sys

import packages
from kernel_packages import Missing


def _earlyoom(archive):
    root = packages.unpacked("earlyoom")
    archive.program("/bin/earlyoom", os.path.join(root, "usr/bin/earlyoom"), root)


def _nohang(archive):
    """A Python program: with the interpreter come the modules that it loads, at their places."""
    root = packages.unpacked("nohang")
    script = os.path.join(root, "usr/sbin/nohang")
    with open(script, "rb") as file:
        content = file.read()
    archive.file("/usr/sbin/nohang", content)
    with open(os.path.join(root, "etc/nohang/nohang.conf"), "rb") as file:
        archive.file("/etc/nohang/nohang.conf", file.read(), 0o644)
    names = sorted(set(re.findall(r"^\s*(?:import|from) (\w+)", content.decode(), re.M)) | {"encodings.ascii", "encodings.utf_8", "encodings.latin_1"})
    loaded = subprocess.run([sys.executable, "-I", "-c", f"import sys, importlib\nfor name in {names!r}: importlib.import_module(name)\n"
                             "print('\\n'.join(m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', None)))"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if loaded.returncode:
        raise Missing(f"nohang needs a module that this Python has not: {loaded.stderr.decode(errors='replace').splitlines()[-1]}")
    python = os.path.realpath(sys.executable)
    archive.program(python, python)
    archive.file("/bin/python3", f'#!/bin/sh\nexec {python} "$@"\n'.encode())
    for path in sorted(set(loaded.stdout.decode().split())):
        if path.endswith(".so"):
            archive.program(path, path)
        else:
            with open(path, "rb") as file:
                archive.file(path, file.read(), 0o644)


_PEERS = {"earlyoom": _earlyoom, "nohang": _nohang}
NAMES = sorted(_PEERS)


def pack(archive, name):
    """Nothing for the names that are no peer's: uma-guard comes as any program of the tree does."""
    if name in _PEERS:
        _PEERS[name](archive)
