#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps the tree in order: which directory may include which, what a header must open with, what no file may hold.

usage: test_dependencies.py SOURCE_ROOT

Prints TAP. Before it looks at the tree it proves that each rule can fail, on a small tree with one fault per rule.
"""

import os
import re
import sys
import tempfile

# What each directory of src/ may include besides itself and uma.h. The order is the program's one idea: observe, account, decide, act,
# record, tell; reading the machine never knows of judging it, and neither knows of changing it.
PUBLIC = ("uma.h", "uma_values.h", "uma_page_cache.h", "uma_model.h", "uma_plan.h")
LIBRARY = ["base", "observe", "account", "plan"]
ENGINE = LIBRARY + ["act", "record", "cache"]
MAY_INCLUDE = {
    "base": [],
    "observe": ["base"],
    "probe": ["base", "observe"],
    "account": ["base", "observe"],
    "plan": ["base", "observe", "account"],
    "act": ["base", "observe", "account"],
    "record": LIBRARY + ["act"],
    "cache": LIBRARY + ["act", "record", "window"],
    "guard": ENGINE + ["valve"],  # of it the format of the reservations alone
    "job": ENGINE + ["guard", "window", "valve"],
    "explain": ENGINE + ["guard", "job"],
    "publish": ENGINE + ["guard", "job"],
    "fleet": ENGINE + ["guard", "job"],
    "cmd": ENGINE + ["guard", "job", "explain", "publish", "fleet"],
    "main.c": ["cmd", "base"],
    "window": [],  # loaded into other people's programs, as is:
    "valve": [],  # loaded into other people's programs: libc only, nothing of ours, not even uma.h
}

# Libraries other than libc: each is used in one place, and the library and whatever must work on a dying machine do without them.
THIRD_PARTY = {
    r"jansson\.h": ["observe", "plan", "record", "explain", "fleet", "job", "cmd"],
    r"sqlite3\.h": ["record"],
    r"microhttpd\.h": ["publish"],
    r"n?cursesw?(/.*)?\.h": ["publish"],
    r"systemd/.*": ["job", "guard", "publish", "record"],
    r"nvml\.h": [],  # its few declarations are our own, and it is loaded by dlopen in the probe
    r"cuda.*\.h": [],
}

LONG, TOO_LONG = 500, 700  # lines: a file of more than 500 is listed, of more than 700 it has surely two subjects
FOLDERS = ["src", "include", "tests", "bench", "docs", "examples", "share"]
TEXT = (".c", ".h", ".py", ".sh", ".build", ".md", ".1", ".5", ".7", ".txt", ".json", ".toml", ".yml", ".yaml", ".in")
# First parts of paths that mean the same on every machine. Anything else in front of this checkout is somebody's own.
COMMON = set("bin boot build builds code data dev etc home lib media mnt models opt proc repo root run sbin source src srv sys tmp usr var "
             "workspace app github".split())
UNFINISHED = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME)\\b")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = sorted(self.walk())
        self.text = {}
        for path in self.files:
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
                self.text[path] = f.read()

    def walk(self):
        for name in os.listdir(self.root):
            if os.path.isfile(os.path.join(self.root, name)) and (name.endswith(TEXT) or name == "dev"):
                yield name
        for folder in FOLDERS:
            for at, folders, names in os.walk(os.path.join(self.root, folder)):
                folders[:] = [d for d in folders if not d.startswith((".", "__")) and d not in ("corpus", "fixtures")]
                for name in names:
                    if name.endswith(TEXT):
                        yield os.path.relpath(os.path.join(at, name), self.root)

    def under(self, folder, *endings):
        return [p for p in self.files if p.startswith(folder + "/") and p.endswith(endings)]


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def directory_of(path):
    """src/observe/heat.c -> observe; src/main.c -> main.c"""
    return path.split("/")[1]


def includes(tree, path):
    for match in INCLUDE.finditer(tree.text[path]):
        yield line_of(tree.text[path], match.start()), match.group(1), match.group(2)


# ---- the rules: each yields what is wrong ---------------------------------------------------------------------------


def rule_direction(tree):
    """each directory of src/ includes only those below it"""
    for path in tree.under("src", ".c", ".h"):
        own = directory_of(path)
        if own not in MAY_INCLUDE:
            yield f"{path}: no rule says what {own} may include: add it to MAY_INCLUDE"
            continue
        for line, kind, name in includes(tree, path):
            if ".." in name.split("/"):
                yield f'{path}:{line}: "{name}": includes are given from src/, without ".."'
                continue
            if name in PUBLIC:
                if own in ("valve", "window"):
                    yield f"{path}:{line}: the {own} stands alone: it may not include {name}"
                continue
            if kind == '"' and "/" not in name:
                if f"{os.path.dirname(path)}/{name}" not in tree.text and not name.startswith("config"):
                    yield f'{path}:{line}: "{name}" is not in this directory'
                continue
            target = name.split("/")[0]
            ours = f"src/{name}" in tree.text
            if kind == '"' and not ours:
                yield f'{path}:{line}: "{name}" is not under src/'
            if ours and target != own and target not in MAY_INCLUDE[own]:
                allowed = ", ".join(MAY_INCLUDE[own]) or "nothing of src/"
                yield f'{path}:{line}: {own} may not include "{name}" (it may include: {allowed})'


def rule_public_header(tree):
    """the public header includes nothing of ours"""
    for path in tree.under("include", ".h"):
        for line, kind, name in includes(tree, path):
            if kind == '"' and name not in PUBLIC or f"src/{name}" in tree.text:
                yield f'{path}:{line}: "{name}": whoever installs the library has no src/'


def rule_third_party(tree):
    """libraries other than libc stay where they belong"""
    for path in tree.under("src", ".c", ".h"):
        own = directory_of(path)
        for line, _, name in includes(tree, path):
            for pattern, allowed in THIRD_PARTY.items():
                if re.fullmatch(pattern, name) and own not in allowed:
                    yield f"{path}:{line}: <{name}> is not for {own} (only: {', '.join(allowed) or 'nobody'})"


def rule_licence(tree):
    """each source file names its licence in the first lines"""
    for path in tree.files:
        if path.endswith((".c", ".h", ".py", ".sh")) or path == "dev":
            if "SPDX-License-Identifier: MIT" not in "\n".join(tree.text[path].splitlines()[:3]):
                yield f"{path}: no SPDX line"


def rule_opening(tree):
    """each header opens with what it is for, by name"""
    for path in tree.under("src", ".h") + tree.under("include", ".h"):
        rest = "\n".join(line for line in tree.text[path].splitlines() if "SPDX-License-Identifier" not in line).lstrip()
        comment = re.match(r"/\*(.*?)\*/", rest, re.S)
        words = comment.group(1).replace("*", " ").split() if comment else []
        if len(words) < 6:
            yield f"{path}: no opening comment that says what the module is for"
        elif words[0] != os.path.basename(path):
            yield f"{path}: the opening comment begins with {words[0]!r}, not with {os.path.basename(path)}"


def rule_once(tree):
    """each header guards against being read twice"""
    for path in tree.under("src", ".h") + tree.under("include", ".h"):
        if "#pragma once" not in tree.text[path] and not re.search(r"#ifndef (\w+)\n#define \1\b", tree.text[path]):
            yield f"{path}: neither #pragma once nor a guard"


def rule_length(tree):
    """no file of src/ is so long that it has two subjects"""
    for path in tree.under("src", ".c", ".h"):
        n = tree.text[path].count("\n")
        if n > TOO_LONG:
            yield f"{path}: {n} lines"


def rule_unfinished(tree):
    """nothing is left to be done later"""
    for path in tree.files:
        for match in UNFINISHED.finditer(tree.text[path]):
            yield f"{path}:{line_of(tree.text[path], match.start())}: {match.group(0)}"


def own_paths(root):
    """Paths that are this machine's alone: the checkout, an uncommon first folder, the user's home."""
    root = os.path.realpath(root)
    found = {root} if root.count("/") >= 2 else set()  # "/name" is not told from the name of a program
    top = root.split("/")[1] if root.count("/") >= 2 else ""
    if top and top not in COMMON:
        found.add(f"/{top}/")
    home = os.path.expanduser("~")
    if home.count("/") >= 2:
        found.add(home + "/")
    return sorted(found)


def rule_own_paths(tree):
    """no file holds a path of the machine it was written on"""
    for own in own_paths(tree.root):
        # not within a longer name: "/a/" does not stand in "share/a/x"
        pattern = re.compile(r"(?<![\w./-])" + re.escape(own))
        for path in tree.files:
            for match in pattern.finditer(tree.text[path]):
                yield f"{path}:{line_of(tree.text[path], match.start())}: {own}"


def rule_built(tree):
    """each source file is built, each test and fuzz harness is run"""
    for path in tree.under("src", ".c"):
        if path == "src/main.c":  # without it there is no program at all, and every test of a command says so
            continue
        build = f"{os.path.dirname(path)}/meson.build"
        if os.path.basename(path) not in tree.text.get(build, "") and os.path.basename(path) not in tree.text.get("meson.build", ""):
            yield f"{path} is not in {build}"
    for folder, prefix in (("tests/unit", "test_"), ("tests/fuzz", "fuzz_")):
        for path in tree.under(folder, ".c"):
            name = os.path.basename(path)
            if name.startswith(prefix) and f"'{name[len(prefix):-2]}'" not in tree.text.get(f"{folder}/meson.build", ""):
                yield f"{path} is not in {folder}/meson.build"


RULES = [rule_direction, rule_public_header, rule_third_party, rule_licence, rule_opening, rule_once, rule_length, rule_unfinished,
         rule_own_paths, rule_built]

# ---- the proof that the rules can fail ------------------------------------------------------------------------------

SPDX = "/* SPDX-License-Identifier: MIT */\n"
GOOD = {
    "include/uma.h": SPDX + "/* uma.h - the public face of the library */\n#ifndef UMA_H\n#define UMA_H\n#include <stdint.h>\n#endif\n",
    "src/base/text.h": SPDX + "/* text.h - what this module is for here */\n#pragma once\n#include \"uma.h\"\n",
    "src/base/text.c": SPDX + '#include "base/text.h"\n#include <string.h>\n',
    "src/base/meson.build": "files('text.c')\n",
    "src/observe/heat.h": SPDX + "/*\n * heat.h - what this module is for here\n */\n#pragma once\n#include \"base/text.h\"\n",
    "src/cmd/status.h": SPDX + "/* status.h - what this module is for here */\n#pragma once\n#include \"observe/heat.h\"\n#include \"status_text.h\"\n",
    "src/cmd/status_text.h": SPDX + "/* status_text.h - what this module is for here */\n#pragma once\n",
    "tests/unit/meson.build": "['text']\n",
    "tests/unit/test_text.c": SPDX + '#include "base/text.h"\n',
}
# rule, the file with the fault, its text, a part of what must be said
FAULTS = [
    (rule_direction, "src/base/bad.h", GOOD["src/base/text.h"] + '#include "observe/heat.h"\n', "base may not include"),
    (rule_direction, "src/base/bad.h", GOOD["src/base/text.h"] + "  #  include <observe/heat.h>\n", "base may not include"),
    (rule_direction, "src/observe/bad.h", GOOD["src/base/text.h"] + '#include "cmd/status.h"\n', "observe may not include"),
    (rule_direction, "src/account/bad.h", GOOD["src/base/text.h"] + '#include "../observe/heat.h"\n', 'without ".."'),
    (rule_direction, "src/valve/bad.h", GOOD["src/base/text.h"], "stands alone"),
    (rule_direction, "src/valve/bad.h", SPDX + '#include "base/text.h"\n', "valve may not include"),
    (rule_direction, "src/other/bad.h", SPDX, "no rule says"),
    (rule_direction, "src/base/bad.h", SPDX + '#include "gone.h"\n', "is not in this directory"),
    (rule_direction, "src/base/bad.h", SPDX + '#include "base/gone.h"\n', "is not under src/"),
    (rule_public_header, "include/uma.h", GOOD["include/uma.h"] + '#include "base/text.h"\n', "has no src/"),
    (rule_third_party, "src/guard/bad.h", SPDX + "#include <jansson.h>\n", "not for guard"),
    (rule_third_party, "src/observe/bad.h", SPDX + "#include <nvml.h>\n", "nobody"),
    (rule_licence, "src/base/bad.c", "int x;\n", "no SPDX line"),
    (rule_opening, "src/base/bad.h", SPDX + "#pragma once\n", "no opening comment"),
    (rule_opening, "src/base/bad.h", SPDX + "/* text.h - this is another file's comment */\n", "not with bad.h"),
    (rule_once, "src/base/bad.h", SPDX + "/* bad.h - what this module is for here */\n", "neither"),
    (rule_length, "src/base/bad.c", SPDX + "\n" * TOO_LONG, "lines"),
    (rule_unfinished, "docs/bad.md", "one\ntwo " + "TO" + "DO three\n", "docs/bad.md:2"),
    (rule_own_paths, "docs/bad.md", "see @ROOT@/docs\n", "docs/bad.md:1"),
    (rule_built, "src/base/bad.c", SPDX, "not in src/base/meson.build"),
    (rule_built, "tests/unit/test_bad.c", SPDX, "not in tests/unit/meson.build"),
]


def tree_of(root, files):
    for path, text in files.items():
        whole = os.path.join(root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as f:
            f.write(text.replace("@ROOT@", os.path.realpath(root)))
    return Tree(root)


def self_test():
    """the rules pass a good tree and refuse each fault"""
    with tempfile.TemporaryDirectory() as root:
        tree = tree_of(root, GOOD)
        for rule in RULES:
            yield from (f"{rule.__name__} refuses a good tree: {wrong}" for wrong in rule(tree))
    for rule, path, text, expected in FAULTS:
        with tempfile.TemporaryDirectory() as root:
            said = list(rule(tree_of(root, {**GOOD, path: text})))
            if len(said) != 1 or expected not in said[0]:
                yield f"{rule.__name__} on {path} ({expected!r}): said {said}"


# ---- output ---------------------------------------------------------------------------------------------------------


def notes(tree):
    for path in tree.under("src", ".c", ".h"):
        n = tree.text[path].count("\n")
        if n > LONG:
            yield f"long: {path} has {n} lines (best under {LONG})"
    tests = " ".join(tree.under("tests", ".c"))
    untested = [p for p in tree.under("src", ".c") if f"/test_{os.path.basename(p)}" not in tests and p != "src/main.c"]
    if untested:
        yield "no test file of the same name: " + ", ".join(p[len("src/"):] for p in untested)


def main():
    if len(sys.argv) != 2 or not os.path.isdir(os.path.join(sys.argv[1], "src")):
        sys.exit(__doc__)
    tree = Tree(sys.argv[1])
    checks = [("self_test", self_test.__doc__, list(self_test()))]
    checks += [(rule.__name__, rule.__doc__, list(rule(tree))) for rule in RULES]
    print(f"1..{len(checks)}")
    failed = False
    for i, (_, what, wrong) in enumerate(checks, 1):
        print(f"{'not ok' if wrong else 'ok'} {i} - {what}")
        for text in wrong:
            print(f"#   {text}")
        failed = failed or bool(wrong)
    for text in notes(tree):
        print(f"# {text}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
