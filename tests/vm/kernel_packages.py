# SPDX-License-Identifier: MIT
"""The guest's kernel: the distribution's cloud kernel and its headers, downloaded by name and unpacked into a cache folder. Nothing is installed."""
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time

PREFERRED = "6.12."  # the newest of this series has what a guest needs: cachestat, cgroup v2 with memory.peak, PSI, MGLRU
ANSWER_SECONDS = 24 * 3600  # how long the choice of a kernel is kept before the package lists are asked again
PACKAGES_TRIED = 3
DOWNLOAD_SECONDS = 300
BUILD_SECONDS = 120


class Missing(Exception):
    """This machine has no guest for us; the text says why."""


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "umactl", "vm")


@contextlib.contextmanager
def cache_locked(folder):
    """One at a time downloads, unpacks and builds; the others find it done."""
    try:
        os.makedirs(folder, exist_ok=True)
        lock = open(os.path.join(folder, "lock"), "w", encoding="ascii")
    except OSError as problem:
        raise Missing(f"no folder for the kernel: {problem}") from problem
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _output(*command, seconds=60, **options):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds, check=False, **options)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return None, str(problem)
    return (done.stdout.decode(errors="replace") if done.returncode == 0 else None), done.stderr.decode(errors="replace").strip()


def _version(name):
    return [int(n) for n in re.findall(r"\d+", name)]


class Apt:
    """The package lists of this machine; where it has none, lists of our own below the cache folder."""

    def __init__(self, folder):
        self.folder, self.options = folder, []
        if os.geteuid() == 0:
            self.options = ["-o", "APT::Sandbox::User=root"]

    def images(self):
        names = self._search()
        if not names and shutil.which("apt-get"):
            state = os.path.join(self.folder, "apt")
            os.makedirs(os.path.join(state, "lists", "partial"), exist_ok=True)
            os.makedirs(os.path.join(state, "archives", "partial"), exist_ok=True)
            self.options += ["-o", f"Dir::State::lists={state}/lists", "-o", f"Dir::Cache={state}", "-o", "Debug::NoLocking=1"]
            _output("apt-get", "-qq", *self.options, "update", seconds=DOWNLOAD_SECONDS)
            names = self._search()
        return sorted(names, key=lambda name: (name.startswith("linux-image-" + PREFERRED), _version(name)), reverse=True)

    def _search(self):
        found, _ = _output("apt-cache", *self.options, "search", "--names-only", r"^linux-image-[0-9].*-cloud-amd64$")
        return re.findall(r"^(linux-image-\d+\.\d+\.\d+\S*-cloud-amd64) ", found or "", re.M)

    def packages_of(self, release):
        """The image, its headers, and the packages which those refer to."""
        headers = f"linux-headers-{release}"
        shown, _ = _output("apt-cache", *self.options, "show", "--no-all-versions", headers)
        depends = re.search(r"^Depends: (.*)$", shown or "", re.M)
        if not depends:
            return None
        needed = re.findall(r"(linux-(?:headers|kbuild)-[^ ,]+)", depends.group(1))
        return [f"linux-image-{release}", headers, *needed]

    def download(self, packages, folder):
        out, errors = _output("apt-get", "-qq", *self.options, "download", *packages, cwd=folder, seconds=DOWNLOAD_SECONDS)
        return None if out is not None else errors.splitlines()[-1] if errors else "apt-get download failed"


def _unpack(packages, apt, folder, release):
    """Into a folder beside, renamed when all of it is there."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="new-") as new:
        problem = apt.download(packages, new)
        if problem:
            return problem
        root = os.path.join(new, "root")
        for name in sorted(os.listdir(new)):
            if name.endswith(".deb"):
                out, errors = _output("dpkg", "-x", os.path.join(new, name), root)
                if out is None:
                    return errors
        # the headers' makefile names the place where the package would have been installed
        final = os.path.join(folder, release)
        makefile = os.path.join(root, "usr", "src", f"linux-headers-{release}", "Makefile")
        with open(makefile, encoding="utf-8") as file:
            text = file.read()
        with open(makefile, "w", encoding="utf-8") as file:
            file.write(text.replace("/usr/src/", f"{final}/usr/src/"))
        shutil.rmtree(final, ignore_errors=True)
        os.rename(root, final)
    return None


class Kernel:
    """An unpacked kernel and what can be built against it."""

    def __init__(self, folder, release):
        self.release, self.root = release, os.path.join(folder, release)
        self.image = os.path.join(self.root, "boot", f"vmlinuz-{release}")
        self.headers = os.path.join(self.root, "usr", "src", f"linux-headers-{release}")

    @property
    def modules(self):
        """Newer packages have them below /usr."""
        places = [os.path.join(self.root, *above, "lib", "modules", self.release) for above in ([], ["usr"])]
        return next((place for place in places if os.path.isdir(place)), places[0])

    def complete(self):
        return os.path.isfile(self.image) and os.path.isdir(self.headers) and os.path.isdir(self.modules)

    def build_module(self, source, name):
        """Path of NAME.ko, built from the folder SOURCE unless these very files were built before, and what the compiler said."""
        files = sorted(f for f in os.listdir(source) if f == "Kbuild" or f.endswith((".c", ".h")))
        digest = hashlib.sha256()
        for file in files:
            with open(os.path.join(source, file), "rb") as content:
                digest.update(file.encode() + b"\0" + content.read() + b"\0")
        folder = os.path.join(self.root, f"build-{name}-{digest.hexdigest()[:16]}")
        built, log = os.path.join(folder, name + ".ko"), os.path.join(folder, "log")
        if not os.path.exists(log):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            for file in files:
                shutil.copy(os.path.join(source, file), folder)
            # BTF of a module needs a program more, and nobody reads it
            out, errors = _output("make", "-s", "-C", self.headers, f"M={folder}", f"CC={os.environ.get('UMACTL_VM_CC', 'gcc')}", "KCFLAGS=-g0",
                                  "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules", seconds=BUILD_SECONDS)
            if out is None or not os.path.exists(built):
                raise RuntimeError(f"the module does not build against {self.release}:\n{errors}")
            with open(log, "w", encoding="utf-8") as file:
                file.write(out + errors)
        with open(log, encoding="utf-8") as file:
            return built, file.read().strip()


def find_kernel():
    """The newest kernel that the package lists offer together with its headers; without a network, the newest that was unpacked before."""
    if os.uname().machine != "x86_64":
        raise Missing(f"the guest is an x86-64 machine, and this one ({os.uname().machine}) has no compiler for its module")
    folder = cache_folder()
    with cache_locked(folder):
        chosen = os.path.join(folder, "chosen")
        with contextlib.suppress(OSError, ValueError):
            with open(chosen, encoding="ascii") as file:
                kernel = Kernel(folder, file.read().strip())
            if kernel.complete() and 0 <= time.time() - os.path.getmtime(chosen) < ANSWER_SECONDS:
                return kernel
        apt, problem = Apt(folder), "the package lists offer no linux-image-*-cloud-amd64"
        for image in apt.images()[:PACKAGES_TRIED]:
            kernel = Kernel(folder, image[len("linux-image-"):])
            packages = apt.packages_of(kernel.release)
            if not packages:
                problem = f"no headers for {kernel.release}"
                continue
            if not kernel.complete():
                problem = _unpack(packages, apt, folder, kernel.release)
            if kernel.complete():
                with open(chosen, "w", encoding="ascii") as file:
                    file.write(kernel.release)
                return kernel
        for release in sorted(os.listdir(folder), key=_version, reverse=True):
            if Kernel(folder, release).complete():
                return Kernel(folder, release)
    raise Missing(problem)
