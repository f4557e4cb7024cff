# SPDX-License-Identifier: MIT
# Who is to blame: a small one that grows beside a large one that does not, one of fifty, a storm of forks, one whose memory comes back late, and one that no signal ends.
# shellcheck shell=sh disable=SC1091,SC2046,SC2034,SC2154,SC2317
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
RATE=@$(scaled 3000)
also() { # NAME COMMAND...: an innocent of this round alone
    start_job "$@" 3>/dev/null
    extra="$extra $started"
}
# large MIB: a program that took its memory before, and uses it
large() {
    also large bystander "$1M"
    filled() { [ "$(rss "$started")" -ge $(($1 * MIB)) ]; }
    until_true 60 filled "$1"
}
# All fifty have what they take.
fifty() { [ "$(pool holders | grep -c 'tenant$')" = 50 ]; }
cases() { # ROUND
    if wanted innocent; then
        begin innocent "$1" danger
        large 300
        culprit $(load_to 150) serve=1 mark=collapse_begins "take=2G$RATE" stay
        watch
        danger_ends "${DANGER_SECONDS:-40}"
    fi
    if wanted workers; then
        begin workers "$1" danger
        culprit weights=/disk/weights workers=2 take=150M@60 serve=2 mark=collapse_begins "take=2G$RATE" stay
        watch
        danger_ends "${DANGER_SECONDS:-40}"
    fi
    if wanted tenants; then
        begin tenants "$1" danger
        start_job tenants engine name=tenant tenants=50 take=5M anon=1M idle
        until_true 60 fifty
        for each in $(pidof tenant); do extra="$extra $each"; done
        culprit $(load_to 120) serve=2 mark=collapse_begins "take=2G$RATE" stay
        watch
        danger_ends "${DANGER_SECONDS:-40}"
    fi
    if wanted storm; then
        begin storm "$1" danger
        culprit $(load_to 150) serve=1 mark=collapse_begins storm=100@10 stay
        watch
        danger_ends "${DANGER_SECONDS:-40}"
    fi
    if wanted late; then
        pool set pool-on-close=1 return-delay-ms=2500 pool-orders=2047 deaf=1
        begin late "$1" danger
        large 200
        culprit $(load_to 120) serve=1 mark=collapse_begins "take=2G$RATE" stay
        watch
        until_true "${DANGER_SECONDS:-40}" no_culprit
        sleep 3
        danger_ends 1
        pool set pool-on-close=0 return-delay-ms=0 pool-orders=0 deaf=0
    fi
    if wanted unkillable; then
        begin unkillable "$1" danger
        large 200
        culprit $(load_to 120) hang=14 serve=1 mark=collapse_begins "take=2G$RATE" stay
        watch
        danger_ends "${DANGER_SECONDS:-40}"
    fi
}
start_sshd
furnish 60
start_guard
all_rounds
stop_guard
stop_sshd
