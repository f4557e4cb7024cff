# SPDX-License-Identifier: MIT
# What scenarios share; each begins with ". /lib.sh". Reports go to the runner through descriptor 3, one line each.
# shellcheck shell=sh disable=SC1091

. /variables.sh # of --set

MIB=1048576 # for those who include this
export MIB
ok() { echo "@ok $*" >&3; }
not_ok() { echo "@not ok $*" >&3; }
skip() { echo "@skip $1 # $2" >&3; } # TEXT REASON
result() { echo "@result $1 $2" >&3; } # NAME VALUE
note() { echo "@note $*" >&3; }
# check TEXT COMMAND...: one check by its exit status
check() {
    text=$1
    shift
    if "$@"; then ok "$text"; else not_ok "$text"; fi
}
# between VALUE LOW HIGH
between() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; }
# until_true SECONDS COMMAND...: tries ten times a second
until_true() {
    tries=$(($1 * 10))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}
# meminfo ROW: bytes
meminfo() { awk -v row="$1:" '$1 == row { printf "%.0f\n", $2 * 1024 }' /proc/meminfo; }
# free pages in per-CPU lists, which MemFree does not count: bytes
percpu_free() { awk '$1 == "count:" { n += $2 } END { printf "%.0f\n", n * 4096 }' /proc/zoneinfo; }
# all free memory: bytes
really_free() { echo $(($(meminfo MemFree) + $(percpu_free))); }
# pool_stat NAME: one counter of the device
pool_stat() { pool stats | awk -v name="$1" '$1 == name { print $2 }'; }
rss() { awk '$1 == "VmRSS:" { printf "%.0f\n", $2 * 1024 }' "/proc/$1/status"; }
# the machine as people have it: a swap file (needs `#: disk`), and two services that use their memory, so much each (needs bystander); their pids in $services
machine_in_use() { # SWAP_MIB SERVICE_MIB
    if ! { fallocate -l "${1}M" /disk/swap && chmod 600 /disk/swap && mkswap /disk/swap >/dev/null && swapon /disk/swap; }; then not_ok "a swap file"; fi
    services=
    for _ in 1 2; do
        job bystander "${2}M" >/dev/null &
        services="$services $!"
    done
    sleep 1.5
}
# start_sshd (needs `#: ssh yes`): from here on somebody logs in once a second, until stop_sshd
start_sshd() {
    mkdir -p /run/sshd
    ip link set lo up
    ip address add 10.0.2.15/24 dev eth0
    ip link set eth0 up
    /usr/sbin/sshd -D -e -f /etc/ssh/sshd_config 2>/tmp/sshd.log &
    sshd=$! # for who includes this
    export sshd
    if until_true 20 grep -q 'Server listening' /tmp/sshd.log; then echo "@result ssh begin" >&3; else not_ok "sshd listens: $(cat /tmp/sshd.log)"; fi
}
stop_sshd() { echo "@result ssh end" >&3; }
