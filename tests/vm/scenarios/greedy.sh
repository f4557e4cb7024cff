# SPDX-License-Identifier: MIT
# What the valve and the guard are for: one program takes memory through the device as fast as it can (or RATE MiB a second: --set RATE=N), to the
# end, and stays for five seconds. The guest holds a bystander with ordinary memory, which did nothing wrong, and somebody's shell.
# shellcheck shell=sh disable=SC1091
#: memory 512M
#: disk 64M
#: bound 60
#: needs greedy
#: needs bystander
. /lib.sh

job bystander 100M >&3 &
bystander=$!
job sh -c 'while :; do sleep 1; done' &
shell=$!
sleep 1.5
result greedy_starts "$(cut -d ' ' -f 1 /proc/uptime)"
job greedy rate="${RATE:-0}" stay=5 >/tmp/greedy
result greedy_status $?
result greedy_ends "$(cut -d ' ' -f 1 /proc/uptime)"
result greedy_says "$(cat /tmp/greedy)"
alive() { if kill -0 "$1" 2>/dev/null; then echo yes; else echo no; fi; }
result bystander_lives "$(alive $bystander)"
result shell_lives "$(alive $shell)"
