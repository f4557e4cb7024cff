# SPDX-License-Identifier: MIT
# A collapse at 0.5, 3 and 15 GB/s of a machine of 128 GB, scaled to this one, and as fast as it goes; a slow leak: the engine is stopped before the end, and nobody else.
# shellcheck shell=sh disable=SC1091,SC2046
#: memory 1G
#: disk 400M
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
collapse() { # CASE ROUND RATE LEFT_MIB: what is left when the collapse begins
    begin "$1" "$2" danger
    culprit weights=/disk/weights $(load_to "$4") serve=1 mark=collapse_begins "take=2G$3" stay
    watch
    danger_ends "${DANGER_SECONDS:-40}"
}
cases() { # ROUND
    wanted collapse_0.5 && collapse collapse_0.5 "$1" "@$(scaled 500)" 95
    wanted collapse_3 && collapse collapse_3 "$1" "@$(scaled 3000)" 150
    wanted collapse_15 && collapse collapse_15 "$1" "@$(scaled 15000)" 260
    wanted collapse_most && collapse collapse_most "$1" "" 300
    wanted leak || return 0
    begin leak "$1" danger
    culprit weights=/disk/weights $(load_to 76) leak=2G@2 stay
    watch
    danger_ends "${DANGER_SECONDS:-40}"
}
start_sshd
furnish 60
start_guard
all_rounds
stop_guard
stop_sshd
