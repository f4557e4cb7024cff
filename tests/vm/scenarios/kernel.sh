# SPDX-License-Identifier: MIT
# The guest's kernel has what umactl is tested against: cgroup v2 with the memory controller, PSI, cachestat.
# shellcheck shell=sh disable=SC1091
#: memory 512M
#: disk 64M
#: needs cached
. /lib.sh

note "controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"
check "cgroup v2 has the memory controller" grep -qw memory /sys/fs/cgroup/cgroup.controllers
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/job
note "files of a group: $(cd /sys/fs/cgroup/job && echo cgroup.* memory.*)"
for file in memory.current memory.max memory.high memory.reclaim memory.events memory.pressure memory.oom.group cgroup.kill cgroup.freeze; do
    check "a group has $file" test -e "/sys/fs/cgroup/job/$file"
done

note "$(tr '\n' ' ' </proc/pressure/memory)"
for file in memory io cpu; do check "PSI of $file is there" grep -q '^some avg10=' "/proc/pressure/$file"; done

dd if=/dev/zero of=/disk/file bs=1M count=16 2>/dev/null
sync
found=$(cached /disk/file)
note "16 MiB just written: $found"
case $found in cached=16777216\ dirty=0\ *) ok "cachestat sees a written file whole and clean" ;; *) not_ok "cachestat sees a written file whole and clean" ;; esac
echo 1 >/proc/sys/vm/drop_caches
case $(cached /disk/file) in cached=0\ *) ok "cachestat sees it gone" ;; *) not_ok "cachestat sees it gone" ;; esac

there() { if [ -e "$1" ]; then echo "there"; else echo "not there"; fi; }
note "MGLRU: $(cat /sys/kernel/mm/lru_gen/enabled 2>/dev/null || echo none); dma-heap: $(there /dev/dma_heap/system); BTF: $(there /sys/kernel/btf/vmlinux)"
