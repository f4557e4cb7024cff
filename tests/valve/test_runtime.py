#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs and libraries that others wrote, before the driver without a GPU: NVIDIA's CUDA runtime, shared and static, of a toolkit that is installed; FFmpeg's libavutil; hashcat. What is not installed is skipped.

The runtime comes as far as its own private questions to the driver (docs/valve.md): by then it has every entry point that it will call.
"""
import ctypes.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

from cuda import compiler, entries, toolkit, version_of
from cases import Skip, case, run
from program import GIB, LIBRARIES, MIB, SCENARIOS, VALVE

SOURCE = os.environ["UMA_VALVE_RUNTIME"]
# calls of CUDA that the runtime makes for its own cudaMalloc, cudaMallocAsync, cudaHostAlloc, cudaMemGetInfo: what must not pass the valve by, whatever else a runtime does not use any more
NEEDED = {"cuGetProcAddress", "cuMemAlloc", "cuMemFree", "cuMemAllocPitch", "cuMemAllocManaged", "cuMemHostAlloc", "cuMemFreeHost", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemAllocFromPoolAsync",
          "cuArray3DCreate", "cuMemGetInfo", "cuDeviceTotalMem", "cuDevicePrimaryCtxRetain", "cuLibraryLoadData", "cuGraphAddMemAllocNode", "cuGraphAddNode", "cuGraphLaunch"}
INSUFFICIENT_DRIVER = 35


def build(folder, how, to):
    libraries = os.path.join(folder, "lib64")
    link = [os.path.join(libraries, "libcudart_static.a"), "-lpthread", "-ldl", "-lrt"] if how == "static" else ["-L" + libraries, "-lcudart", "-Wl,-rpath," + libraries]
    if how == "static" and not os.path.exists(link[0]):
        raise Skip("the toolkit has no static runtime")
    subprocess.run([compiler(), "-O1", "-I" + os.path.join(folder, "include"), SOURCE, "-o", to, *link], check=True, timeout=120)
    return to


def start(command, valve=f"ceiling:{GIB},floor:0", fake="", libraries=LIBRARIES, **environment):
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": libraries, "UMA_FAKE_CUDA": fake, "UMA_FAKE_NVML": os.path.join(SCENARIOS, "gb10-idle.scenario"), **environment}
    if valve is not None:
        env |= {"UMACTL_VALVE": valve, "LD_PRELOAD": VALVE}
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)


def run_runtime(folder, program, work, **more):
    asked = os.path.join(work, "asked")
    if os.path.exists(asked):
        os.unlink(asked)
    done = start([program], fake=f"any,driver:{version_of(folder)},asked:{asked}", ASKED=asked, **more)
    with open(asked, encoding="ascii") as f:
        return done, [line.split() for line in f]


def runtime(how):
    folder = toolkit()
    with tempfile.TemporaryDirectory() as work:
        program = build(folder, how, os.path.join(work, "program"))
        done, asked = run_runtime(folder, program, work)
        plain, plain_asked = run_runtime(folder, program, work, valve=None)
    assert (done.returncode, done.stderr, plain.returncode) == (0, "", 0), (done, plain)
    calls = {w[1]: [int(n) for n in w[2:]] for w in (line.split() for line in done.stdout.splitlines()) if w[0] == "call"}
    assert calls["cudaDriverGetVersion"] == [0, version_of(folder)], calls
    # the valve changes no answer, and no question: those of before the program's own
    without = {w[1]: [int(n) for n in w[2:]] for w in (line.split() for line in plain.stdout.splitlines()) if w[0] == "call"}
    assert calls == without, (calls, without)
    n = plain_asked.index(next(w for w in plain_asked if w[0] == "table"))
    assert asked[:n] == plain_asked[:n] and n > 100, n

    kept = {(w[1], int(w[2]), int(w[3])): (int(w[4]), int(w[5])) for w in (line.split() for line in done.stdout.splitlines()) if w[0] == "kept"}
    table = entries()
    expected = {(w[0], int(w[1]), int(w[2])) for w in asked if len(w) == 3 and w[0] in table and any(since <= int(w[1]) for since, _ in table[w[0]])}
    assert set(kept) == expected, set(kept) ^ expected
    assert {name for name, _, _ in kept} >= NEEDED, NEEDED - {name for name, _, _ in kept}
    passed = {key: n for key, n in kept.items() if n[0] < 1 or n[1] > 0}
    assert not passed, f"the runtime has the driver's own function: {passed}"
    assert not [line for line in plain.stdout.splitlines() if line.startswith("kept")], "somebody else stands before the driver"

    r = calls["cudaGetDeviceCount"][0]
    tables = sum(w[0] == "table" for w in asked)
    print(f"# {how} runtime {version_of(folder)}: {len(expected)} entry points by the valve; {tables} private tables asked for; cudaGetDeviceCount: {r}"
          + (" (driver insufficient: the private tables are not NVIDIA's)" if r == INSUFFICIENT_DRIVER else ""))
    if r == 0:  # a runtime that goes on: then its memory is counted
        assert calls["cudaMemGetInfo"][2] == GIB, calls


for _how in ("shared", "static"):
    case(f"the {_how} CUDA runtime keeps the valve's function for every entry point that takes, frees or reports memory, and none of the driver's own")(lambda how=_how: runtime(how))


@case("a program of nvcc's, with a kernel, starts and ends as without the valve")
def _():
    folder = toolkit()
    nvcc = os.path.join(folder, "bin", "nvcc")
    if not os.path.exists(nvcc):
        raise Skip("the toolkit has no nvcc")
    source = ("#include <stdio.h>\n__global__ void add(int *p) { *p += 1; }\n"
              "int main() { int *p = 0; int r = cudaMalloc(&p, 4); add<<<1, 1>>>(p); int s = cudaGetLastError(); printf(\"%d %d %d\\n\", r, s, (int)cudaDeviceReset()); }\n")
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "a.cu"), "w", encoding="ascii") as f:
            f.write(source)
        made = subprocess.run([nvcc, "-O1", "-cudart", "static", "-o", os.path.join(work, "a"), os.path.join(work, "a.cu")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200, check=False)
        if made.returncode:
            raise Skip("nvcc does not work with this machine's compiler: " + made.stdout.strip().split("\n")[0])
        both = [start([os.path.join(work, "a")], valve=valve, fake=f"any,driver:{version_of(folder)}") for valve in (f"ceiling:{GIB},floor:0", None)]
    assert both[0].returncode == both[1].returncode == 0 and both[0].stdout == both[1].stdout and both[0].stdout and not both[0].stderr, both


# ---- FFmpeg's libavutil: opens libcuda itself and looks up some eighty names ----

FRAMES = r"""
import ctypes, sys
u = ctypes.CDLL(sys.argv[1])
class Frames(ctypes.Structure):
    # AVHWFramesContext of libavutil 56 to 58
    _fields_ = [(n, ctypes.c_void_p) for n in ("av_class", "internal", "device_ref", "device_ctx", "hwctx", "free", "user", "pool")] + [
        (n, ctypes.c_int) for n in ("initial_pool_size", "format", "sw_format", "width", "height")]
class Reference(ctypes.Structure):
    _fields_ = [("buffer", ctypes.c_void_p), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]
u.av_hwframe_ctx_alloc.restype = u.av_frame_alloc.restype = ctypes.c_void_p
device = ctypes.c_void_p()
r = u.av_hwdevice_ctx_create(ctypes.byref(device), u.av_hwdevice_find_type_by_name(b"cuda"), b"0", None, 0)
print("device", r)
if r == 0:
    pool = ctypes.c_void_p(u.av_hwframe_ctx_alloc(device))
    frames = Frames.from_address(Reference.from_address(pool.value).data)
    frames.format, frames.sw_format, frames.width, frames.height = u.av_get_pix_fmt(b"cuda"), u.av_get_pix_fmt(b"nv12"), 4096, 2160
    print("pool", u.av_hwframe_ctx_init(pool))
    taken = []
    while len(taken) < 1000:
        taken.append(ctypes.c_void_p(u.av_frame_alloc()))
        r = u.av_hwframe_get_buffer(pool, taken[-1], 0)
        if r:
            break
    print("frames", len(taken) - 1, r)
    for frame in taken:
        u.av_frame_free(ctypes.byref(frame))
    u.av_buffer_unref(ctypes.byref(pool))
    u.av_buffer_unref(ctypes.byref(device))
"""
FRAME = 4096 * 2160 * 3 // 2


def libavutil():
    name = ctypes.util.find_library("avutil")
    for soname in filter(None, [name, *(f"libavutil.so.{n}" for n in (58, 57, 56))]):
        if re.search(r"\.so\.5[678]$", soname):
            try:
                ctypes.CDLL(soname)
                return soname
            except OSError:
                pass
    raise Skip("no libavutil 56 to 58 is installed")


def frames_of(soname, valve):
    with tempfile.TemporaryDirectory() as work:
        done = start([sys.executable, "-c", FRAMES, soname], valve=valve, fake=f"report:{work}/books")
        books = {}
        for name in os.listdir(work):
            with open(os.path.join(work, name), encoding="ascii") as f:
                books |= {w[0]: int(w[1]) for w in (line.split() for line in f) if len(w) >= 2}
    assert done.returncode == 0, done
    said = {w[0]: [int(n) for n in w[1:]] for w in (line.split() for line in done.stdout.splitlines())}
    if said["device"] != [0]:
        raise Skip("this libavutil is built without CUDA")
    return said, books, done.stderr


@case("FFmpeg's libavutil: video frames in CUDA memory up to the limit, then its own error for no memory; all is given back")
def _():
    soname = libavutil()
    said, books, log = frames_of(soname, f"ceiling:{256 * MIB},floor:0")
    n = 256 * MIB // FRAME
    assert said == {"device": [0], "pool": [0], "frames": [n, -12]}, (said, log)
    assert re.match(rf"umactl valve: cuMemAlloc of 12\.7 MiB answered with out of memory to \S+ \(\d+\): the job has \d+ MiB of its limit of 256 MiB", log), log
    assert "CUDA_ERROR_OUT_OF_MEMORY" in log, "libavutil's own line"
    assert books.get("device") == 0, books


@case("FFmpeg's libavutil without a limit takes what it asks for")
def _():
    said, _, log = frames_of(libavutil(), "floor:0")
    assert said["frames"] == [1000, 0] or said["frames"][1] == 0, (said, log)
    assert "umactl valve" not in log


# ---- hashcat: another that opens libcuda itself, and reads what the device has ----


def hashcat(valve):
    program = os.environ.get("UMA_HASHCAT") or shutil.which("hashcat")
    if not program:
        raise Skip("hashcat is not installed")
    compilers = [os.path.join(toolkit(), "lib64")]  # it needs NVRTC beside the driver
    with tempfile.TemporaryDirectory() as home:
        done = start([program, "-I"], valve=valve, libraries=":".join([LIBRARIES, *compilers]), HOME=home)
    if "CUDA Info" not in done.stdout:
        raise Skip("this hashcat does not take to this CUDA: " + (done.stderr or done.stdout).strip().split("\n")[-1])
    return done


@case("hashcat is told the limit as the device's memory")
def _():
    done = hashcat(f"ceiling:{GIB},floor:0")
    assert done.returncode == 0 and re.search(r"Memory\.Total\.*: 1024 MB", done.stdout) and re.search(r"Memory\.Free\.*: 1024 MB", done.stdout), done


@case("hashcat is told the driver's own figures with report:raw")
def _():
    done = hashcat(f"ceiling:{GIB},floor:0,report:raw")
    plain = hashcat(None)
    total = [re.search(r"Memory\.Total\.*: (\d+) MB", d.stdout).group(1) for d in (done, plain)]
    assert total[0] == total[1] != "1024", total


if __name__ == "__main__":
    sys.exit(run())
