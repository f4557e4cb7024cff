# SPDX-License-Identifier: MIT
"""Programs of the distribution for the guest, downloaded by name and unpacked into the cache folder. Nothing is installed."""
import os
import re
import shutil
import subprocess
import tempfile

from kernel_packages import Apt, Missing, _output, cache_folder, cache_locked

LIBRARY_ROUNDS = 4  # a library's own libraries, and theirs


def _installed(name):
    shown, _ = _output("dpkg-query", "-W", "-f=${db:Status-Status}", name)
    return shown == "installed"


def _libraries(apt, package):
    """Packages of libraries that a package depends on."""
    shown, _ = _output("apt-cache", *apt.options, "depends", "--no-recommends", "--no-suggests", package)
    return re.findall(r"^\s*(?:Pre)?Depends: (lib\S+)$", shown or "", re.M)


def with_libraries(apt, package):
    """The package and, of the libraries below it, those that this machine has not."""
    wanted, edge = [package], [package]
    for _ in range(LIBRARY_ROUNDS):
        edge = [name for name in dict.fromkeys(library for each in edge for library in _libraries(apt, each)) if name not in wanted and not _installed(name)]
        wanted += edge
    return wanted


def unpacked(package, also=()):
    """The folder with the package's files, those of the packages named beside it, which must be of the same version, and those of the libraries that it needs; it is made once."""
    folder = cache_folder()
    final = os.path.join(folder, "package-" + package)
    with cache_locked(folder):
        if os.path.isdir(final):
            return final
        apt = Apt(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix="new-") as new:
            problem = apt.download(list(dict.fromkeys([*with_libraries(apt, package), *also])), new)
            if problem:
                raise Missing(f"the package {package} is not to be had: {problem}")
            root = os.path.join(new, "root")
            for name in sorted(os.listdir(new)):
                if name.endswith(".deb") and subprocess.run(["dpkg", "-x", os.path.join(new, name), root], check=False).returncode:
                    raise Missing(f"the package {name} cannot be unpacked")
            shutil.move(root, final)
    return final
