#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A loader of weights in PyTorch: load_torch.py FILE HOW ORDER [HOLD], with the output of load_weights.c.

HOW: buffer: torch.frombuffer over mmap.ACCESS_COPY (private and writable), each tensor cloned; file: torch.from_file(shared=False), the mapping that
safetensors makes through UntypedStorage.from_file; pread: read(2) into torch.empty.
"""
import json
import mmap
import os
import struct
import sys
import time


def main():
    path, how, order = sys.argv[1:4]
    hold = float(sys.argv[4]) if len(sys.argv) > 4 else 0
    import torch
    torch.set_num_threads(1)
    print("pid", os.getpid(), flush=True)
    start = time.monotonic()
    with open(path, "rb", buffering=0) as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        size, data = os.fstat(f.fileno()).st_size, 8 + length
        expected = int(header.pop("__metadata__")["checksum"], 16)
        tensors = sorted(header.values(), key=lambda t: t["place"] if order == "dict" else t["data_offsets"][0])
        whole = None
        if how == "buffer":
            whole = torch.frombuffer(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY), dtype=torch.uint8)
        elif how == "file":
            whole = torch.from_file(path, shared=False, size=size, dtype=torch.uint8)
        weights = []
        for tensor in tensors:
            begin, end = tensor["data_offsets"]
            if whole is None:
                weights.append(torch.empty(end - begin, dtype=torch.uint8))
                at, view = 0, memoryview(weights[-1].numpy())
                while at < len(view):
                    at += os.preadv(f.fileno(), [view[at:]], data + begin + at)
            else:
                weights.append(whole[data + begin : data + end].clone())
        print(f"seconds {time.monotonic() - start:.6f}", flush=True)
        del whole
    checksum = sum(int(w.view(torch.int64).sum()) for w in weights if len(w)) % 2**64
    print("checksum", "ok" if checksum == expected else "wrong", flush=True)
    time.sleep(hold)
    return 0 if checksum == expected else 1


if __name__ == "__main__":
    sys.exit(main())
