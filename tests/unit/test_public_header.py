#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles include/uma.h by itself the way other programs will: C11 and C++11, pedantic, every warning an error; and looks at the object
that a C++ program makes, whose calls must have C names.

usage: test_public_header.py HEADER_FOLDER

Prints TAP. Prefers clang where it is; a compiler that is not there is a skip.
"""

import os
import shutil
import subprocess
import sys
import tempfile

STRICT = ["-pedantic-errors", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]
PROGRAM = """#include "uma.h"
#include "uma_plan.h"
int main() {
    struct uma_error err;
    struct uma_observer *observer = 0;
    struct uma_observe_options options = %s;
    struct uma_u64 some = { 1, UMA_STALE };
    if (!uma_usable(some.validity) || uma_observer_open(&options, &observer, &err) < 0)
        return 1;
    uma_observer_close(observer);
    return 0;
}
"""


def compile_it(compiler, arguments, source, name):
    """None when it compiled, else what the compiler said; the object's bytes in any case."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, name), os.path.join(folder, "out.o")
        with open(path, "w", encoding="utf-8") as f:
            f.write(source)
        done = subprocess.run([compiler, *arguments, "-I", sys.argv[1], "-c", path, "-o", out], capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr, b""
        with open(out, "rb") as f:
            return None, f.read()


def main():
    cases = [("C11", ["clang", "gcc", "cc"], ["-std=c11", *STRICT], "{ 0 }", "main.c"),
             ("C++11", ["clang++", "g++", "c++"], ["-std=c++11", *STRICT], "{}", "main.cpp"),
             ("C++20", ["clang++", "g++", "c++"], ["-std=c++20", *STRICT], "{}", "main.cpp")]
    print(f"1..{len(cases)}")
    failed = False
    for i, (what, compilers, arguments, empty, name) in enumerate(cases, 1):
        compiler = next((c for c in map(shutil.which, compilers) if c), None)
        if not compiler:
            print(f"ok {i} - {what} # SKIP no compiler for it here")
            continue
        wrong, data = compile_it(compiler, arguments + ["-Wno-missing-field-initializers"], PROGRAM % empty, name)
        if not wrong and b"_Z17uma_observer_open" in data:
            wrong = "the call has a C++ name"
        failed |= bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {i} - {what} ({os.path.basename(compiler)})")
        for line in (wrong or "").splitlines()[:20]:
            print("#", line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
