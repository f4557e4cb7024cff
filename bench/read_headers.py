#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the bench compares with: the same headers read by a straightforward script with json and struct. Prints tensors, elements and bytes, and
the seconds it took inside. usage: read_headers.py PATH (a folder of safetensors, or one GGUF file)"""
import json
import os
import struct
import sys
import time

# struct sizes of GGUF's plain value types; 8 is a string, 9 an array
PLAIN = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
# elements and bytes of a block
TYPES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 12: (256, 144), 13: (256, 176), 14: (256, 210), 30: (1, 2)}


def safetensors(folder):
    tensors = elements = total = 0
    with open(os.path.join(folder, "model.safetensors.index.json"), encoding="utf-8") as f:
        index = json.load(f)
    for name in sorted(set(index["weight_map"].values())):
        with open(os.path.join(folder, name), "rb") as f:
            (length,) = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(length))
        header.pop("__metadata__", None)
        for tensor in header.values():
            n = 1
            for size in tensor["shape"]:
                n *= size
            begin, end = tensor["data_offsets"]
            tensors, elements, total = tensors + 1, elements + n, total + end - begin
    return tensors, elements, total


def gguf(path):
    with open(path, "rb") as f:
        def number(code, size):
            return struct.unpack("<" + code, f.read(size))[0]

        def string():
            return f.read(number("Q", 8))

        def value(kind):
            if kind == 8:
                return string()
            if kind == 9:
                inner, n = number("I", 4), number("Q", 8)
                return [value(inner) for _ in range(n)]
            return f.read(PLAIN[kind])

        if f.read(4) != b"GGUF":
            sys.exit("not GGUF")
        number("I", 4)
        count, pairs = number("Q", 8), number("Q", 8)
        for _ in range(pairs):
            string()
            value(number("I", 4))
        elements = total = 0
        for _ in range(count):
            string()
            n = 1
            for _ in range(number("I", 4)):
                n *= number("Q", 8)
            block, size = TYPES[number("I", 4)]
            number("Q", 8)
            elements, total = elements + n, total + n // block * size
    return count, elements, total


def main():
    begin = time.perf_counter()
    path = sys.argv[1]
    print(*(safetensors if os.path.isdir(path) else gguf)(path), f"{time.perf_counter() - begin:.6f}")


if __name__ == "__main__":
    main()
