# SPDX-License-Identifier: MIT
# Cgroup v2 with the memory controller: a job that maps a file, copies it and unmaps it has taken one copy, whether its group was charged for the file or not.
# shellcheck shell=sh disable=SC1091
#: memory 768M
#: disk 300M
#: bound 150
#: needs umactl
#: needs umactl-probe
#: needs load_weights
. /lib.sh

SIZE=$((128 * MIB))
export UMACTL_STATE=/disk/state
load_weights make /disk/model $SIZE
sync
# a group with the memory controller has to stand beside that of umactl: one below the root for it
mkdir /sys/fs/cgroup/shell
echo $$ >/sys/fs/cgroup/shell/cgroup.procs
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
field() { sed -n "s/.*\"$1\": *\([0-9][0-9]*\).*/\1/p" /disk/state/runs/*/run.json | head -n 1; }

run_once() { # NAME HOLD
    rm -rf /disk/state
    umactl run -- load_weights load /disk/model private file "$2" >/disk/out 2>/disk/summary
    check "$1: the job ended well" [ $? -eq 0 ]
    note "$1: $(grep 'peak job' /disk/summary)"
    least=$(field anonymous_and_shared)
    result "$(echo "$1" | tr ' ' _)_anonymous_and_shared" "${least:-0}"
    check "$1: it has a group with a high mark" [ "$(field cgroup)" -ge $((SIZE * 9 / 10)) ]
    check "$1: the file was resident beside the copy" [ "$(field resident)" -ge $((SIZE * 19 / 10)) ]
    check "$1: no page cache is taken for memory" [ "${least:-0}" -le $((SIZE * 51 / 50)) ]
    mark=$(field cgroup) # the kernel adds up memory.stat in its own time: it may be a little above the mark, and then is the limit
    check "$1: the group's mark is the limit" between "$(field anonymous_and_shared_at_most)" "$mark" $((mark * 51 / 50))
    [ "$2" = 0 ] || check "$1: its memory is one copy" [ "$least" -ge $((SIZE * 49 / 50)) ]
}

for hold in 1 0; do
    echo 1 >/proc/sys/vm/drop_caches
    run_once "cold hold $hold" $hold
    check "cold hold $hold: the group was charged for the file" [ "$(field cgroup)" -ge $((SIZE * 19 / 10)) ]
    cat /disk/model >/dev/null # what is not there yet is charged to this shell
    run_once "warm hold $hold" $hold
done
echo 1 >/proc/sys/vm/drop_caches
cat /disk/model >/dev/null
run_once "charged elsewhere" 1
check "charged elsewhere: the group was not charged for the file" [ "$(field cgroup)" -le $((SIZE * 13 / 10)) ]
check "charged elsewhere: nothing more can have been there" between "$(field anonymous_and_shared_at_most)" $((SIZE * 9 / 10)) $((SIZE * 11 / 10))
