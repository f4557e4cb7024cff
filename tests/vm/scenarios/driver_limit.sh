# SPDX-License-Identifier: MIT
# The driver's own limit on a group of a real cgroup v2, before a management library that does what NVIDIA's documents of driver r615 say: believed only where a child was really refused, taken back in every case.
# shellcheck shell=sh disable=SC1091
#: memory 1G
#: bound 180
#: needs umactl
#: needs umactl-probe
#: needs umactl-cuda
#: needs limits_by_hand
#: needs libuma-valve.so=/lib/libuma-valve.so
#: needs libcuda.so.1=/lib/libcuda.so.1
#: needs libnvidia-ml.so.1=/lib/libnvidia-ml.so.1
#: needs r580/libnvidia-ml.so.1=/lib/r580/libnvidia-ml.so.1
#: needs pool
. /lib.sh

export HOME=/tmp UMACTL_VALVE_LIBRARY=/lib/libuma-valve.so UMACTL_NVML=/lib/libnvidia-ml.so.1 UMA_FAKE_NVML=/tmp/scenario
ENFORCED=memory:device,limits:/tmp/limits
export UMA_FAKE_CUDA=$ENFORCED
# driver LINE...: what the library is from now on
driver() {
    printf 'driver 615.10\n' >/tmp/scenario.new
    printf '%s\n' "$@" 'gpu' 'name NVIDIA GB10' 'pci 0000000F:01:00.0' >>/tmp/scenario.new
    mv /tmp/scenario.new /tmp/scenario
    rm -f /tmp/limits
}
probe() { umactl valve --probe --json "$@" >/tmp/probe 2>/tmp/errors; }
# state BACKEND, step NAME: of the last probe; the driver's steps come last
state() { awk -v backend="\"$1\":" '$1 == backend { wanted = 1 } wanted && $1 == "\"state\":" { gsub(/[",]/, "", $2); print $2; exit }' /tmp/probe; }
step() { awk -v name="\"$1\"," '$3 == name { gsub(/,/, "", $5); found = $5 } END { print found }' /tmp/probe; }
groups() { find /sys/fs/cgroup -name 'umactl_limit-*' | wc -l; }
# limit GROUP: "SOFT HARD" that the driver has for it
limit() { awk -v group="$1" '$1 == "limit" && $5 == group { print $3, $4 }' /tmp/limits; }
reserved() { awk '$1 == "reserve" { n += $3 } END { print n + 0 }' /tmp/limits; }
NONE=18446744073709551615
USED=$(pool_stat held_bytes)

driver 'limits-file /tmp/limits'
probe
note "$(grep -c . /tmp/probe) lines, driver $(state driver), valve $(state interposer)"
check "set, read back, refused, taken back: the driver is believed" [ "$(state driver) $(step set) $(step read-back) $(step refused) $(step taken-back) $(step afterwards)" = "holds true true true true true" ]
check "the valve holds, too" [ "$(state interposer)" = holds ]
check "no group is left, and nothing in the driver" [ "$(groups) $(pool_stat held_bytes)" = "0 $USED" ]
check "what was measured is root's alone" [ "$(stat -c '%u %a' /run/umactl/driver-limit)" = "0 644" ]

umactl run -q --limit 1G -- sh -c 'grep ^0:: /proc/self/cgroup; grep limit /tmp/limits' >/tmp/said 2>/tmp/errors
check "a job of run --limit is in a group that the driver holds" sh -c "grep -q '0::/umactl_limit-' /tmp/said && grep -q 'limit 0 0 1073741824 /sys/fs/cgroup/umactl_limit-' /tmp/said"
check "and after it the group is gone" [ "$(groups)" = 0 ]
# shellcheck disable=SC2016
take='printf "begin\ntake 100663296\n" | umactl-cuda $$; true'
check "the driver alone refuses what is over the limit" [ "$(umactl run -q --no-valve --limit 64M -- sh -c "$take" 2>/dev/null | tail -n 1)" = "take 2" ]
check "and gives what is not" [ "$(umactl run -q --no-valve --limit 128M -- sh -c "$take" 2>/dev/null | tail -n 1)" = "take 0" ]

umactl run -q --limit 1G -- sh -c 'echo $$ >/tmp/job; exec sleep 100' &
umactl=$!
until_true 20 [ -s /tmp/job ]
job=$(cat /tmp/job)
group=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$job/cgroup")
kill -9 $umactl
wait $umactl
check "a killed umactl: its job keeps the limit" [ "$(limit "$group")" = "0 1073741824" ]
umactl run -q --limit 1G true
check "also while others come and go" [ "$(limit "$group")" = "0 1073741824" ]
limits_by_hand $((64 * MIB)) 1073741824 "$group"
kill -9 "$job"
until_true 20 grep -q 'populated 0' "$group/cgroup.events"
umactl run -q --limit 1G true
check "and after the job the next run takes it back and removes the group, soft limit first" sh -c "[ ! -e $group ] && [ $(reserved) = 0 ]"

mkdir -p /sys/fs/cgroup/docker/leaf
sleep 100 &
inside=$!
echo $inside >/sys/fs/cgroup/docker/leaf/cgroup.procs
umactl valve --set --pid $inside --limit 256M >/tmp/said 2>&1
check "leaf of a container: the limit is on the group that its process is really in" [ "$(limit /sys/fs/cgroup/docker/leaf)" = "0 268435456" ]
check "and not on that above" [ -z "$(limit /sys/fs/cgroup/docker)" ]
limits_by_hand $((64 * MIB)) 268435456 /sys/fs/cgroup/docker/leaf
check "soft limit: it is added to the groups above" [ "$(reserved)" = $((128 * MIB)) ]
umactl valve --release --pid $inside >/tmp/said 2>&1
check "soft limit given back" [ "$(limit /sys/fs/cgroup/docker/leaf) $(reserved)" = "0 $NONE 0" ]
kill $inside
wait $inside
rmdir /sys/fs/cgroup/docker/leaf /sys/fs/cgroup/docker

mkdir -p /tmp/tree/sys/fs/cgroup
printf 'nvidia/0000:01:00.0/vidmem 8589934592\n' >/tmp/tree/sys/fs/cgroup/dmem.capacity
driver 'limits-file /tmp/limits' 'limits-dmem /tmp/tree'
probe --root /tmp/tree
check "a dmem tree: the kernel's word is the second witness" [ "$(state driver) $(step dmem)" = "holds true" ]
driver 'limits-file /tmp/limits'
rm -rf /tmp/tree/sys/fs/cgroup/umactl*
probe --root /tmp/tree
check "a dmem tree that says otherwise is told" [ "$(step dmem)" = false ]

driver
probe
check "unsupported" [ "$(state driver) $(step set)" = "unsupported false" ]

driver 'limits-file /tmp/limits'
export UMA_FAKE_CUDA=memory:device
probe
check "set but not enforced: the probe notices" [ "$(state driver) $(step set) $(step read-back) $(step refused)" = "not-enforced true true false" ]
check "and run does not rely on it" [ "$(umactl run -q --no-valve --limit 1G true 2>/dev/null; echo $?)" = 125 ]
export UMA_FAKE_CUDA=$ENFORCED

UMACTL_NVML=/lib/r580/libnvidia-ml.so.1
driver
probe
check "a library of r580 without the symbols" [ "$(state driver) $(step symbols)" = "no-symbols false" ]
check "the valve holds all the same" [ "$(state interposer)" = holds ]
check "no group is left at the end, and nothing in the driver" [ "$(groups) $(pool_stat held_bytes)" = "0 $USED" ]
cat /tmp/probe /tmp/errors >&2
