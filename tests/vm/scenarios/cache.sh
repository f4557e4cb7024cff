# SPDX-License-Identifier: MIT
# Most of the memory is clean page cache; the driver refuses although it could be reclaimed, as the real one does; once the cache is dropped the
# same allocation succeeds.
# shellcheck shell=sh disable=SC1091
#: memory 512M
#: disk 600M
#: needs pool
#: needs cached
. /lib.sh

WANT=256M
total=$(meminfo MemTotal)
size=$((total * 8 / 10 / MIB))
fallocate -l $((size * MIB)) /disk/weights # on the disk, and read as any file: but writing it first would take longer than all the rest
sync
echo 3 >/proc/sys/vm/drop_caches
free_at_first=$(really_free)
read_all() { cat /disk/weights >/dev/null; }
cached_bytes() { cached /disk/weights | sed 's/^cached=\([0-9]*\) .*/\1/'; }

pool set return-delay-ms=0 minimum-free=16M
read_all
share=$(($(cached_bytes) * 100 / total))
result cache_percent $share
note "MemTotal $((total / MIB)) MiB, free at first $((free_at_first / MIB)) MiB; now MemFree $(($(meminfo MemFree) / MIB)) MiB, MemAvailable $(($(meminfo MemAvailable) / MIB)) MiB"
check "the page cache holds 70 % of the memory or more ($share %)" [ $share -ge 70 ]
check "MemAvailable has room for the allocation" [ "$(meminfo MemAvailable)" -ge $((256 * MIB)) ]
check "the driver refuses all the same" test "$(pool try $WANT order=0)" = "failed Cannot allocate memory"
check "and did not touch the cache" [ $(($(cached_bytes) * 100 / total)) -ge $((share - 2)) ]
echo 1 >/proc/sys/vm/drop_caches
check "after dropping the cache it succeeds" test "$(pool try $WANT order=0)" = "got $((256 * MIB))"

read_all
check "refused again with the file back in the cache" test "$(pool try $WANT order=0)" = "failed Cannot allocate memory"
pool set minimum-free=0
check "a driver without that fault takes the memory from the cache" test "$(pool try $WANT order=0)" = "got $((256 * MIB))"
check "which is smaller now" [ $(($(cached_bytes) * 100 / total)) -lt $((share - 20)) ]
