# SPDX-License-Identifier: MIT
# The guard with less than it should have: a driver that does not say who holds what any more, a second in which it did not run, a swap file that fills.
# shellcheck shell=sh disable=SC1091,SC2046,SC2034,SC2154,SC2086,SC2317
#: memory 1G
#: disk 1000M 16M 16M
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

RATE=@$(scaled 3000)
cases() { # ROUND
    if wanted hung; then
        begin hung "$1" danger
        culprit $(load_to 200) serve=4 mark=collapse_begins "take=2G$RATE" stay
        watch
        sleep 6
        [ -z "$feed" ] || kill -USR1 $feed
        danger_ends "${DANGER_SECONDS:-40}"
        [ -z "$feed" ] || kill -USR2 $feed
    fi
    if wanted stopped; then
        begin stopped "$1" danger
        culprit $(load_to 150) serve=1 mark=collapse_begins "take=2G$RATE" stay
        watch
        half_way() { [ "$(meminfo MemAvailable)" -lt $((FLOOR + 30 * MIB)) ]; }
        until_true 30 half_way
        [ -z "$guard" ] || kill -STOP $guard
        sleep 1
        [ -z "$guard" ] || kill -CONT $guard
        danger_ends "${DANGER_SECONDS:-40}"
    fi
    if wanted swap; then
        begin swap "$1" danger
        swapon /disk/swap
        culprit $(load_to 150) serve=1 mark=collapse_begins "take=2G$RATE" stay
        watch
        danger_ends "${DANGER_SECONDS:-40}"
        swapoff /disk/swap
    fi
}
fallocate -l 400M /disk/swap
chmod 600 /disk/swap
mkswap /disk/swap >/dev/null
start_sshd
furnish 60
start_guard
all_rounds
stop_guard
stop_sshd
