# SPDX-License-Identifier: MIT
# The machine and the greed of `stall`, through the CUDA driver's interface, behind the valve: the program is told out of memory by its own API, says so and ends well; the machine keeps its floor and nobody else is harmed.
# Every other run takes it in pieces of 1 MiB, of which the valve looks at the machine for few.
# RUNS runs at each of three growth rates, MiB a second; 0: as fast as it can (--set RUNS=N, RATES='0 50').
# shellcheck shell=sh disable=SC1091
#: memory 1G
#: disk 1200M 16M 16M
#: bound 240
#: needs greedy_cuda
#: needs umactl
#: needs libuma-valve.so=/lib/libuma-valve.so
#: needs libcuda.so.1=/lib/libcuda.so.1
#: needs bystander
#: needs pool
. /lib.sh

export UMA_FAKE_CUDA=memory:device UMACTL_VALVE_LIBRARY=/lib/libuma-valve.so HOME=/tmp
FLOOR_MIB=256
services= # of machine_in_use
machine_in_use 800 110
pool set pool-orders=0 # what is freed is the machine's at once, so that one run does not help the next
for rate in ${RATES:-0 200 50}; do
    run=0
    while [ $run -lt "${RUNS:-2}" ]; do
        run=$((run + 1))
        before=$(pool_stat held_bytes)
        job umactl run -q --valve --floor ${FLOOR_MIB}M -- greedy_cuda rate="$rate" step=$((run % 2 ? 8 : 1)) stay=1 >/tmp/said 2>/tmp/errors
        status=$?
        said=$(tail -n 1 /tmp/said)
        note "rate $rate, run $run: status $status, $said; $(grep -c 'umactl valve: ' /tmp/errors) line of the valve"
        check "rate $rate, run $run: error 2 from the API, and an end of its own" [ "$status $(echo "$said" | sed 's/.*error=\([0-9]*\).*/\1/')" = "0 2" ]
        check "rate $rate, run $run: it says out of memory, and the valve says why" sh -c "grep -q 'CUDA out of memory' /tmp/errors && grep -q 'umactl valve: .*stay with it' /tmp/errors"
        check "rate $rate, run $run: it got more than a quarter of the machine" sh -c "[ $(echo "$said" | sed 's/took=\([0-9]*\).*/\1/') -gt $(($(meminfo MemTotal) / 4)) ]"
        check "rate $rate, run $run: nothing is left in the driver" [ "$(pool_stat held_bytes)" = "$before" ]
    done
done
for service in $services; do check "a service lives" kill -0 "$service"; done
result pressure "$(sed 's/.*total=//' /proc/pressure/memory | tr '\n' ' ')"
result swapped "$(($(meminfo SwapTotal) - $(meminfo SwapFree)))"
result floor $((FLOOR_MIB * MIB))
cat /tmp/errors >&2
