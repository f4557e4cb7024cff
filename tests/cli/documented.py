# SPDX-License-Identifier: MIT
"""What docs/json.md says of a document, read from the page itself: a field that it does not name, or that is not there, fails the test.

The page shows a document as an object of keys: B, N and s are numbers, "..." is any string, "a|b" one of these words, `|null` may be unknown,
[ X ... ] any number of X; a key without a value says nothing of what it holds but that it is no object.
"""

import functools
import os
import re

from harness import DOCS

NUMBERS = {"B", "N", "s", "pid"}
TOKEN = re.compile(r'\s*(?:"([^"]*)"|([][{}:,|])|([^][{}:,|"\s]+))')


class Parser:
    def __init__(self, text):
        self.tokens = [m.groups() for m in TOKEN.finditer(text)]
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else (None, None, None)

    def take(self):
        token = self.peek()
        self.at += 1
        return token

    def sign(self, wanted):
        if self.peek()[1] == wanted:
            self.at += 1
            return True
        return False

    def value(self):
        shapes = [self.one()]
        while self.sign("|"):
            shapes.append(self.one())
        return shapes

    def one(self):
        string, sign, word = self.take()
        if sign == "{":
            members = {}
            while not self.sign("}"):
                key = self.take()[0]
                assert key, f"docs: a key was expected, not {self.tokens[self.at - 1]}"
                members[key] = self.value() if self.sign(":") else None
                self.sign(",")
            return members
        if sign == "[":
            shape = self.value()
            while not self.sign("]"):
                assert self.take()[2] == "...", "docs: an array holds one kind of thing"
            return [shape]
        if string is not None:
            return ("string", string)
        assert word, f"docs: a value was expected, not {sign!r}"
        return ("word", word)


@functools.cache
def _shape(schema, block):
    with open(os.path.join(DOCS, "json.md"), encoding="utf-8") as f:
        section = f.read().split(f"\n## {schema}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)
    return Parser(blocks[block]).value()


def _fits(value, shape, place):
    if isinstance(shape, dict):
        assert isinstance(value, dict), f"{place}: {value!r}, documented as an object"
        assert set(value) <= set(shape), f"{place}: not documented: {sorted(set(value) - set(shape))}"
        assert set(shape) <= set(value), f"{place}: documented, but not there: {sorted(set(shape) - set(value))}"
        for key, inner in shape.items():
            if inner is None:
                assert not isinstance(value[key], dict), f"{place}.{key}: an object whose keys are not documented"
            else:
                _any(value[key], inner, f"{place}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{place}: {value!r}, documented as an array"
        for i, one in enumerate(value):
            _any(one, shape[0], f"{place}[{i}]")
    elif shape[0] == "string":
        assert isinstance(value, str), f"{place}: {value!r}, documented as a string"
        assert shape[1] == "..." or value in shape[1].split("|"), f"{place}: {value!r}, documented as {shape[1]!r}"
    elif shape[1] in NUMBERS:
        assert isinstance(value, (int, float)) and not isinstance(value, bool), f"{place}: {value!r}, documented as a number"
    else:
        known = {"true": True, "false": False, "null": None}
        assert value is known[shape[1]], f"{place}: {value!r}, documented as {shape[1]}"


def _any(value, shapes, place):
    errors = []
    for shape in shapes:
        try:
            _fits(value, shape, place)
            return
        except AssertionError as error:
            errors.append(str(error))
    raise AssertionError("; ".join(errors))


def check_documented(document, schema, block=0):
    """Is the document what the block of that number under the schema's heading says, field by field?"""
    _any(document, _shape(schema, block), "$")
