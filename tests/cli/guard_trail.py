# SPDX-License-Identifier: MIT
"""A guard's trail made by hand, byte for byte as src/guard/trail.h lays it down on machines of 64 bits."""

import math
import os
import struct
import zlib

RECORDS, PLACE, HEAD = 4096, 2048, 4096
MAGIC = 0x3152544D47414D55
START, DECISION, RECEIPT, NOTE = 1, 2, 3, 4
ACTIONS = {"nothing": 0, "room": 1, "brake": 2, "release": 3, "warn": 4, "term": 5, "kill": 6, "unkillable": 7, "last resort": 8}
MOST = 8  # of actions and of candidates
GIB = 1 << 30


def action(kind="brake", reason=2, pid=0, start=0, size=0, order=-1):
    return struct.pack("<IIiiQQii", ACTIONS[kind], reason, pid, 0, start, size, order, 0)


def candidate(pid, name, start=1, gpu=None, anon=0, swap=0, growth=0, score=0.0, flags=0):
    return struct.pack("<iiQQQQqdI?16s3x", pid, 0, start, gpu or 0, anon, swap, growth, score, flags, gpu is not None, name)


def evidence(headroom=5 * GIB, floor=4 * GIB, hard=GIB, steady=0, rate=-9.8 * GIB, to_floor=0.1, some=math.nan, full=math.nan, stalls=math.nan, signals=0):
    return struct.pack("<QQQQdddddII", headroom, floor, hard, steady, rate, to_floor, some, full, stalls, signals, 0)


def decision(actions=(), candidates=(), of=None, wake=10_000_000):
    data = struct.pack("<II", len(actions), 0) + b"".join(actions).ljust(MOST * len(action()), b"\0")
    data += struct.pack("<II", len(candidates), 0) + b"".join(candidates).ljust(MOST * len(candidate(1, b"x")), b"\0")
    return data + (of or evidence()) + struct.pack("<q?7x", wake, False)


def record(number, kind, real, body=None, result=0, processes=0, took=0, after=0, text=b"", dry_run=0):
    data = struct.pack("<QQqq16sIIiIqQ", MAGIC, number, real, number, b"b" * 16, kind, dry_run, result, processes, took, after)
    data += (body or decision()) + text.ljust(96, b"\0") + struct.pack("<I", 0)
    return data + struct.pack("<I", zlib.crc32(data))


def write(folder, records):
    """STATE_FOLDER/trail of {number: bytes}."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "trail"), "wb") as f:
        f.write(b"umactl guard trail 1")
        f.truncate(HEAD + RECORDS * PLACE)
        for number, data in records.items():
            f.seek(HEAD + number % RECORDS * PLACE)
            f.write(data)
