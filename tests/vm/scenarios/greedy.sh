# SPDX-License-Identifier: MIT
# What the valve and the guard are for: one program takes memory through the device as fast as it can (or RATE
# MiB a second: --set RATE=N), to the end, and stays for five seconds. The guest holds a bystander that did nothing wrong, and a shell.
# shellcheck shell=sh disable=SC1091
#: memory 512M
#: disk 300M
#: bound 40
#: needs heartbeat
#: needs greedy
#: needs bystander
. /lib.sh

dd if=/dev/zero of=/disk/weights bs=1M count=100 2>/dev/null
sync
bystander 100M >&3 &
sleep 1.5
result greedy_starts "$(cut -d ' ' -f 1 /proc/uptime)"
greedy rate="${RATE:-0}" stay=5 >/tmp/greedy
status=$?
result greedy_status $status
result greedy_end "$(cat /tmp/greedy)"
result greedy_ends "$(cut -d ' ' -f 1 /proc/uptime)"
