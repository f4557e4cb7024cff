# SPDX-License-Identifier: MIT
"""Where a test can put files whose page cache can be evicted: not in memory, where the pages are the file. And how much of them
is in the cache. Only the standard library is used."""

import ctypes
import mmap
import os
import tempfile

TMPFS, RAMFS, OVERLAY = 0x01021994, 0x858458F6, 0x794C7630  # statfs(2), f_type
PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def file_system(path):
    """f_type of statfs(2): the first word of struct statfs on every 64-bit Linux."""
    buffer = (ctypes.c_ulong * 32)()
    assert _libc.statfs(os.fsencode(path), buffer) == 0, os.strerror(ctypes.get_errno())
    return buffer[0]


def disk_places(overlay=True):
    """Folders to write to that lie on a disk, the likeliest first. `overlay`: also where pages belong to another file system's file."""
    for base in (tempfile.gettempdir(), "/var/tmp", os.path.expanduser("~"), os.getcwd()):
        if os.path.isdir(base) and os.access(base, os.W_OK) and file_system(base) not in (TMPFS, RAMFS, *(() if overlay else (OVERLAY,))):
            yield base


def cached(path):
    """Bytes of a file's pages in the cache by mincore(2): an independent answer, true for the owner."""
    size = os.path.getsize(path)
    if size == 0:
        return 0
    fd = os.open(path, os.O_RDONLY)
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    os.close(fd)
    assert address not in (None, ctypes.c_void_p(-1).value)
    pages = (size + PAGE - 1) // PAGE
    vector = (ctypes.c_ubyte * pages)()
    r = _libc.mincore(address, size, vector)
    _libc.munmap(address, size)
    assert r == 0
    return sum(v & 1 for v in vector) * PAGE
