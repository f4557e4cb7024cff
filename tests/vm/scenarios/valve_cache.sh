# SPDX-License-Identifier: MIT
# 80 % of the pool is clean page cache of a model that nobody uses, and the driver refuses as the real one does: without the valve a program is out of memory with plenty available, with it the
# cache makes room and the program gets what it asked for.
# shellcheck shell=sh disable=SC1091
#: memory 1G
#: disk 900M
#: bound 180
#: needs greedy_cuda
#: needs umactl
#: needs libuma-valve.so=/lib/libuma-valve.so
#: needs libcuda.so.1=/lib/libcuda.so.1
#: needs pool
. /lib.sh

export UMA_FAKE_CUDA=memory:device,least-free:$((32 * MIB)) UMACTL_VALVE_LIBRARY=/lib/libuma-valve.so HOME=/tmp
WANTED_MIB=240
mkdir -p /models
mount -o bind /disk /models
mkdir -p /models/acme/Big-7B
model=/models/acme/Big-7B/model-00001-of-00001.safetensors

fill() {
    cat $model >/dev/null 2>&1
    note "MemFree $(($(meminfo MemFree) / MIB)) MiB, cache $(($(meminfo Cached) / MIB)) MiB, available $(($(meminfo MemAvailable) / MIB)) MiB of $(($(meminfo MemTotal) / MIB))"
}
try() { # PROGRAM...: exit status 0 when it got all
    job "$@" >/tmp/said 2>/tmp/errors
    note "$(cat /tmp/said) $(grep -h 'umactl valve\|out of memory' /tmp/errors)"
    grep -q 'error=0' /tmp/said
}

fallocate -l $(($(meminfo MemTotal) * 8 / 10)) $model # on the disk, and read as any file: but writing it first would take longer than all the rest
sync
echo 3 >/proc/sys/vm/drop_caches
fill
check "80 % of the pool is page cache" [ $(($(meminfo Cached) * 100 / $(meminfo MemTotal))) -ge 78 ]
if try greedy_cuda step=$WANTED_MIB limit=$WANTED_MIB; then not_ok "without the valve: out of memory, with plenty available"; else ok "without the valve: out of memory, with plenty available"; fi
fill
# A call waits 0.4 s at most for umactl to find the files and make room. An emulated guest can need longer than that to find them, once: then the next program gets what it asks for.
cat >/tmp/ask <<EOF
for n in 1 2 3 4 5; do
    echo \$n >/tmp/tries
    greedy_cuda step=$WANTED_MIB limit=$WANTED_MIB >/tmp/asked
    cat /tmp/asked
    ! grep -q error=0 /tmp/asked || exit 0
    sleep 1
done
EOF
check "under umactl run --valve: it gets what it asked for" try umactl run -q --valve --floor 64M -- sh /tmp/ask
record=$(find /tmp/.local/state/umactl/runs -mindepth 1 -maxdepth 1 -type d)
# what was evicted after a program had stopped waiting is told by nobody
[ "$(cat /tmp/tries)" = 1 ] || note "asked $(cat /tmp/tries) times"
[ "$(cat /tmp/tries)" != 1 ] || check "the record says that room was made" grep -q "of page cache evicted" "$record/events.jsonl"
cat "$record/events.jsonl" >&2
fill
exec 9<$model # with the library alone it knows the files of its own process
check "by the library alone, for a file that the program has open: it gets what it asked for" try env LD_PRELOAD=/lib/libuma-valve.so UMACTL_VALVE=floor:$((64 * MIB)) greedy_cuda step=$WANTED_MIB limit=$WANTED_MIB
result available "$(meminfo MemAvailable)"
