# SPDX-License-Identifier: MIT
# The machine as people have it, and nothing between the program and the driver: a swap file, services that use their memory, and one program that takes all it can get by the CUDA driver's
# interface, as fast as it can (or RATE MiB a second: --set RATE=N). Swap and disk are to this memory what 16 GiB and 2 GB/s are to 128 GiB, but for a swap that is large enough to last.
# shellcheck shell=sh disable=SC1091
#: memory 1G
#: disk 1200M 16M 16M
#: bound 180
#: needs greedy_cuda
#: needs libcuda.so.1=/lib/libcuda.so.1
#: needs bystander
#: needs pool
. /lib.sh

export UMA_FAKE_CUDA=memory:device HOME=/tmp
services= # of machine_in_use
machine_in_use 800 110
pool set pool-orders=0
result greedy_starts "$(cut -d ' ' -f 1 /proc/uptime)"
# a slow one needs longer to come to the end
job timeout -s KILL $((${RATE:-0} ? 50 : 25)) greedy_cuda rate="${RATE:-0}" stay=20 >/tmp/said 2>/tmp/errors
result greedy_status $?
result greedy_says "$(tail -n 1 /tmp/said)"
result pressure "$(sed 's/.*total=//' /proc/pressure/memory | tr '\n' ' ')"
result ended "$(cut -d ' ' -f 1 /proc/uptime)"
lives=0
for service in $services; do kill -0 "$service" 2>/dev/null && lives=$((lives + 1)); done
result services_live "$lives of 2"
