# SPDX-License-Identifier: MIT
# The device takes memory as a GPU driver does: no RSS, no row of meminfo, no cgroup; it comes back on close, late when it was freed, and from the
# page pools when the kernel asks. A killed process leaves nothing.
# shellcheck shell=sh disable=SC1091,SC2086
#: memory 512M
#: needs pool
. /lib.sh

SIZE=$((128 * MIB))
SLACK=$((6 * MIB)) # what the guest's own processes move meanwhile

# rows of meminfo that would know of memory
known() { awk '/^(Buffers|Cached|SwapCached|AnonPages|Slab|KernelStack|PageTables|Percpu|Shmem|Unevictable|VmallocUsed):/ { n += $2 } END { printf "%.0f\n", n * 1024 }' /proc/meminfo; }
is_back() { [ "$(really_free)" -ge $((free_before - SLACK)) ]; }
held_is() { [ "$(pool_stat held_bytes)" = "$1" ]; }
pooled_is() { [ "$(pool_stat pooled_bytes)" = "$1" ]; }

pool set return-delay-ms=0
mkdir /sys/fs/cgroup/job
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
sync
free_before=$(really_free) known_before=$(known) memfree_before=$(meminfo MemFree)
holder=$(sh -c 'echo $$ >/sys/fs/cgroup/job/cgroup.procs; exec pool hold 128M')
check "128 MiB are held" held_is $SIZE
fell=$((free_before - $(really_free)))
note "MemFree fell by $(((memfree_before - $(meminfo MemFree)) / MIB)) MiB, with the per-CPU lists by $((fell / MIB)) MiB"
check "free memory fell by as much" between $fell $((SIZE - SLACK)) $((SIZE + SLACK))
grown=$(($(known) - known_before))
check "no row of meminfo grew with it ($((grown / 1024)) KiB)" between $grown -$SLACK $SLACK
check "it is not in the holder's RSS" between "$(rss $holder)" 0 $((4 * MIB))
check "it is not in the holder's cgroup" between "$(cat /sys/fs/cgroup/job/memory.current)" 0 $((8 * MIB))
check "the device names the holder" test "$(pool holders)" = "$holder $SIZE pool"
kill -KILL $holder
check "it is back after SIGKILL" until_true 5 is_back
check "the device knows nobody any more" test -z "$(pool holders)"

holder=$(pool hold 32M map)
check "mapped, all of it is zero, and it is not in RSS" between "$(rss $holder)" 0 $((4 * MIB))
kill -KILL $holder
check "mapped memory is back, too" until_true 5 is_back

# ---- late return ----
pool set return-delay-ms=1500
holder=$(pool hold 128M)
kill -USR1 $holder
until_true 5 held_is 0
check "freed memory is in the page pools first" pooled_is $SIZE
check "and not in free memory" between $((free_before - $(really_free))) $((SIZE - SLACK)) $((SIZE + SLACK))
again=$(pool hold 64M map)
check "the next allocation takes it from there, zeroed" pooled_is $((64 * MIB))
kill -USR1 $again
until_true 5 held_is 0
check "it comes back by itself after its time" until_true 10 is_back
check "the pools are empty" pooled_is 0
kill $holder $again

# ---- pools that only the kernel empties ----
pool set return-delay-ms=keep pool-on-close=1
holder=$(pool hold 128M)
kill $holder
until_true 5 held_is 0
sleep 1
check "a closed file's memory stays in the pools where the driver does so" pooled_is $SIZE
echo 1 >/proc/sys/vm/drop_caches
check "dropping the page cache leaves the pools" pooled_is $SIZE
echo 2 >/proc/sys/vm/drop_caches
check "dropping slab empties them" pooled_is 0
check "and the memory is back" until_true 5 is_back

holder=$(pool hold 128M)
kill $holder
until_true 5 pooled_is $SIZE
want=$(($(meminfo MemAvailable) + SIZE / 2))
pool set pool-orders=0x210 # 4 KiB blocks come from the kernel alone
note "asking for $((want / MIB)) MiB in pages, more than is available by half of what the pools have"
took=$(pool try $want order=0 no-pool)
check "the kernel empties the pools under pressure ($took)" test "$took" = "got $(((want + 4095) / 4096 * 4096))"
check "the shrinker gave blocks back" [ "$(pool_stat shrunk_blocks)" -gt 64 ]
pool set return-delay-ms=0
check "all of it is free at the end" until_true 5 is_back

# ---- what a guard meets: memory that comes back late whatever the kernel asks, a process that no signal ends ----
pool set return-delay-ms=1500 pool-orders=2047 pool-on-close=1 deaf=1
holder=$(pool hold 64M)
kill -KILL "$holder"
check "of a killed process: late, and not to who asks" until_true 1 held_is 0
echo 2 >/proc/sys/vm/drop_caches
check "it is in the pools" pooled_is $((64 * MIB))
check "and comes back when its time is over" until_true 5 is_back
pool set return-delay-ms=0 pool-orders=529 pool-on-close=0 deaf=0
pool hang 2000 &
hanging=$!
sleep 0.5
kill -KILL $hanging
sleep 0.5
check "who waits in the driver outlives SIGKILL" grep -q '^State:.D' /proc/$hanging/status
wait $hanging 2>/dev/null
check "until the driver lets go" test ! -e /proc/$hanging

# ---- scripted refusals ----
pool set fail-next=2
check "the next two are refused" test "$(pool try 1M)/$(pool try 1M)/$(pool try 1M)" = "failed Cannot allocate memory/failed Cannot allocate memory/got 1048576"
pool set largest-order=3
check "in pieces: large blocks are refused" test "$(pool try 8M order=9)" = "failed Cannot allocate memory"
check "and small ones are had by those that take them" test "$(pool try 8M order=9 fall-back)" = "got 8388608"
pool set largest-order=10 microseconds-per-mib=100000
start=$(date +%s)
pool try 20M >/dev/null
check "an allocation takes its time" [ $(($(date +%s) - start)) -ge 1 ]
# a killed process gives up in the middle
pool set microseconds-per-mib=1000000
pool try 100M >/dev/null &
sleep 0.5
kill -KILL $!
wait $! 2>/dev/null
check "a killed process gives up in the middle" [ "$(pool_stat interrupted)" = 1 ]
pool set microseconds-per-mib=0
check "and leaves nothing" until_true 5 is_back
check "nobody else may change the settings" sh -c '! su -s /bin/sh nobody -c "pool set fail-next=1" 2>/dev/null'
check "everybody may allocate" test "$(su -s /bin/sh nobody -c 'pool try 2M')" = "got 2097152"
rmmod uma_test_pool
check "the module can be unloaded" test ! -e /dev/uma_test_pool
check "the kernel has nothing to say about it" sh -c '! dmesg | grep -E "WARNING|BUG:|Oops|bad page|leak"'
