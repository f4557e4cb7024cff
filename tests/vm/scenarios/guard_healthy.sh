# SPDX-License-Identifier: MIT
# Where nothing is wrong the guard stops and ends nobody: a load at 15 GB/s (scaled) that dips and recovers, a memory full of clean page cache, memory in pieces, and a machine that stands below its floor on purpose.
# shellcheck shell=sh disable=SC1091,SC2046,SC2034,SC2154
#: memory 1G
#: disk 1800M
#: bound 120 240
#: ssh yes
#: needs engine
#: needs bystander
#: needs pool
#: needs witness
#: needs gpu_feed
#: needs trail
#: needs uma-guard
. /lib.sh
. /guarded.sh

dd if=/dev/zero of=/disk/weights bs=1M count=48 2>/dev/null
fallocate -l 640M /disk/data # on the disk, and read as any file: but writing it first would take longer than all the rest
cases() { # ROUND
    if wanted dip; then
        begin dip "$1" healthy
        # 11 GiB of a machine whose floor is 4: that far a load may go at this rate
        left=$((FLOOR * 11 / 4 / MIB))
        healthy weights=/disk/weights "take=$(($(meminfo MemAvailable) / MIB - left))M@$(scaled 15000)" give=300M serve=1 "take=300M@$(scaled 15000)" serve=2 give=400M serve=1
        watch
        healthy_ends 60
    fi
    if wanted cache; then
        begin cache "$1" healthy
        healthy take=200M@100 read=/disk/data serve=3
        watch
        healthy_ends 90
        echo 1 >/proc/sys/vm/drop_caches
    fi
    if wanted pieces; then
        # what is free is in pieces of 64 KiB before the guard comes: getting there is a fall as any other
        stop_guard
        begin pieces "$1" healthy
        healthy pieces=$(($(meminfo MemAvailable) / MIB - 90))M mark=pieces_begin file=/tmp/there serve=8 take=100M@40 serve=2
        until_true 90 test -e /tmp/there
        start_guard
        watch
        healthy_ends 60
    fi
    if wanted thin; then
        # it came there before the guard did, as a server that has stood for weeks
        stop_guard
        begin thin "$1" healthy
        # headroom counts what lies in the lists of the processors, too; with six tenths of the floor this guest, whose kernel is as large as any, stood still by itself
        healthy "take=$((($(meminfo MemAvailable) + $(percpu_free) - FLOOR * 85 / 100) / MIB - 150))M@200" take=150M@40 mark=thin_begins file=/tmp/there serve=40 give=1G
        until_true 90 test -e /tmp/there
        start_guard
        watch
        healthy_ends 90
    fi
}
start_sshd
furnish 60
start_guard
all_rounds
stop_guard
stop_sshd
