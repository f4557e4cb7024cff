# SPDX-License-Identifier: MIT
# The device under many threads and processes that are killed in the middle (for LENGTH seconds: --set LENGTH=N): it answers what it may, nothing is lost
# of its memory, and the kernel has nothing to complain of.
# shellcheck shell=sh disable=SC1091
#: memory 512M
#: bound 600
#: needs pool
#: needs storm
. /lib.sh

free_before=$(really_free)
is_back() { [ "$(really_free)" -ge $((free_before - 8 * MIB)) ]; }
nothing_held() { [ "$(pool_stat held_bytes)" = 0 ]; }
storm "${LENGTH:-5}" >/tmp/storm
status=$?
note "$(cat /tmp/storm)"
check "the device answered as it may" [ $status = 0 ]
check "something was done" grep -q 'rounds=[0-9][0-9][0-9]' /tmp/storm
check "nothing is held" until_true 5 nothing_held
check "as many were freed as allocated" test "$(pool_stat frees)" = "$(pool_stat allocations)"
pool set return-delay-ms=0
check "the memory is back" until_true 5 is_back
rmmod uma_test_pool
check "the module can be unloaded" test ! -e /dev/uma_test_pool
check "the kernel has nothing to say about it" sh -c '! dmesg | grep -E "WARNING|BUG:|Oops|bad page|Bad page|leak"'
