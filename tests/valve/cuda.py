# SPDX-License-Identifier: MIT
"""A CUDA toolkit that is installed, and the valve's own list of entry points."""
import os
import re
import shutil

from cases import Skip

ENTRIES = os.environ["UMA_VALVE_ENTRIES"]


def toolkit():
    for folder in filter(None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")):
        if os.path.exists(os.path.join(folder, "include", "cuda_runtime_api.h")):
            return folder
    raise Skip("no CUDA toolkit is installed")


def version_of(folder):
    with open(os.path.join(folder, "include", "cuda.h"), encoding="utf-8", errors="replace") as f:
        return int(re.search(r"#define CUDA_VERSION (\d+)", f.read()).group(1))


def compiler():
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not found:
        raise Skip("no C compiler")
    return found


def entries():
    """Name without suffix: [(version since, per-thread)] of the valve's table."""
    table = {}
    with open(ENTRIES, encoding="utf-8") as f:
        for base, since, per_thread in re.findall(r"X\(cu\w+, (\w+), (\d+), (true|false)\)", f.read()):
            table.setdefault(base, []).append((int(since), per_thread == "true"))
    return table
