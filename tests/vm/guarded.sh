# SPDX-License-Identifier: MIT
# What the scenarios of the guard share: the guard or another in its place, services that did nothing wrong, and rounds of a case, each judged from outside (guarded.py).
#   GUARD=uma-guard (default), none, earlyoom, nohang; RUNS=N rounds of each case; CASES=a,b of those that a scenario has: --set NAME=VALUE
# shellcheck shell=sh disable=SC1091,SC2154,SC2034,SC2086,SC2317

GUARD=${GUARD:-uma-guard}
RUN_FOLDER=/run/umactl-guard
STATE_FOLDER=/disk/guard
# the guard's default for a machine of this size (policy.c); for the others it is where the witness looks
FLOOR=$(($(meminfo MemTotal) / 16))
# MB/s of a machine of 121.7 GiB (130672 MB), as MiB/s of this one: a collapse takes the same time on both
scaled() { echo $((($1 * $(meminfo MemTotal) / 130672 + MIB / 2) / MIB)); }

# start_job NAME COMMAND...: an ordinary process whose parent is process 1, as a service's is; its number is in $started
start_job() {
    name=$1
    shift
    (
        job "$@" >&3 2>"/tmp/errors.$name" &
        echo $! >/tmp/started
    )
    read -r started </tmp/started
}
alive() { kill -0 "$1" 2>/dev/null && ! grep -q '^State:.[ZX]' "/proc/$1/status" 2>/dev/null; }
count_alive() {
    n=0
    for each in "$@"; do if alive "$each"; then n=$((n + 1)); fi; done
    echo $n
}

# ---- the guard ----
guard=
feed=
start_guard() {
    case $GUARD in
    none) return ;;
    uma-guard)
        mkdir -p $RUN_FOLDER $STATE_FOLDER
        # what is waited for is a twentieth to a third of the default, so that a round takes seconds
        cat >/tmp/guard.conf <<POLICY
[Brake]
BrakeMost = 0.5
[Warn]
WarnGrace = 1
[Kill]
TermGrace = 1
ReleaseWait = 3
[Room]
RoomEvery = 2
POLICY
        if [ -z "$feed" ]; then
            gpu_feed $RUN_FOLDER/gpu &
            feed=$!
        fi
        uma-guard --policy /tmp/guard.conf --run-folder $RUN_FOLDER --state-folder $STATE_FOLDER >/tmp/guard.log 2>&1 &
        ;;
    earlyoom) earlyoom -r 0 >/tmp/guard.log 2>&1 & ;; # its defaults: 10 % of memory and of swap
    nohang) python3 -S /usr/sbin/nohang --monitor --config /etc/nohang/nohang.conf >/tmp/guard.log 2>&1 & ;;
    *) not_ok "there is a guard of the name $GUARD" ;;
    esac
    guard=$!
    sleep 2
    alive $guard || not_ok "$GUARD runs: $(cat /tmp/guard.log)"
}
# what the guard said, to whoever reads
guard_says() { if [ -s /tmp/guard.log ]; then tail -n 20 /tmp/guard.log | cut -c 1-300 | while read -r line; do note "$GUARD: $line"; done; fi; }
stop_guard() {
    [ -z "$guard" ] || { kill $guard && wait $guard; } 2>/dev/null
    guard=
}
trail_last() { trail $STATE_FOLDER/trail last 2>/dev/null || echo 0; }

# ---- the machine: two services with ordinary memory, somebody's shell ----
innocents=
service_mib=0
furnish() { # SERVICE_MIB
    service_mib=$1
    innocents=
    pool set pool-orders=0 # what a round gives back is the machine's at once
    for service in one two; do
        start_job $service bystander "${1}M" 3>/dev/null
        innocents="$innocents $started"
    done
    start_job shell sh -c 'while :; do sleep 1; done'
    innocents="$innocents $started"
    furnished() { for each in $innocents; do [ "$each" = "$started" ] || [ "$(rss "$each")" -ge $((service_mib * MIB)) ] || return 1; done; }
    until_true 60 furnished
}

# ---- rounds ----
wanted() { # CASE
    case ",${CASES:-$1}," in *",$1,"*) return 0 ;; *) return 1 ;; esac
}
# load_to LEFT_MIB: steps of an engine that loads until so much is available: most of it fast, the last 150 MiB as 3 GB/s are to 128 GB
load_to() {
    now=$(($(meminfo MemAvailable) / MIB - $1))
    if [ $now -gt 150 ]; then echo "take=$((now - 150))M@300 take=150M@40"; elif [ $now -gt 0 ]; then echo "take=${now}M@40"; fi
}
# begin CASE ROUND KIND (danger or healthy): $culprits and $extra (innocents of this round alone) are set before watch
begin() {
    case_name=$1
    case_round=$2
    case_kind=$3
    culprits=
    extra=
    # without a guard those of the round before may be dead
    if [ "$(count_alive $innocents)" != "$(echo $innocents | wc -w)" ]; then
        kill -KILL $innocents 2>/dev/null
        furnish $service_mib
    fi
    available_before=$(meminfo MemAvailable)
    trail_before=$(trail_last)
    time_before=$(guard_time)
    rm -f /tmp/finished /tmp/there
    echo "@result begin $1 $2" >&3
}
culprit() { # ENGINE_STEP...
    start_job culprit engine name=culprit "$@"
    culprits="$culprits $started"
}
watch() {
    witness $FLOOR $culprits $innocents $extra >/tmp/witness &
    witness=$!
}
no_culprit() { [ "$(count_alive $culprits)" = 0 ]; }
is_back() { [ "$(meminfo MemAvailable)" -ge $((available_before - 24 * MIB)) ]; }
# processor time that the guard used so far: hundredths of a second
guard_time() { if [ -n "$guard" ]; then sed 's/^.*) //' "/proc/$guard/stat" | cut -d ' ' -f 12,13 | { read -r user system && echo $((user + system)); } else echo 0; fi; }
# the first line of the witness with this word for one of these processes: seconds of uptime
seen() { # WORD PID...
    word=$1
    shift
    awk -v word="$word" -v pids=" $* " '$1 == word && (NF == 2 || index(pids, " " $2 " ")) { print $NF; exit }' /tmp/witness
}
seen_count() { # WORD PID...
    word=$1
    shift
    awk -v word="$word" -v pids=" $* " '$1 == word && index(pids, " " $2 " ") { n++ } END { print n + 0 }' /tmp/witness
}
# actions KIND: how many the guard's trail has of this round; wrong_actions: of those on processes, the ones on another than the culprits
actions() { awk -v kind="$1" '$1 == "receipt" && $2 == kind && $5 == 0 { n++ } END { print n + 0 }' /tmp/trail; }
wrong_actions() { awk -v pids=" $culprits " '$1 == "receipt" && ($2 == "brake" || $2 == "term" || $2 == "kill") && !index(pids, " " $4 " ") { n++ } END { print n + 0 }' /tmp/trail; }
first_took() { awk '$1 == "receipt" && ($2 == "brake" || $2 == "term" || $2 == "kill") { print $6; exit }' /tmp/trail; }
# finish: says what became of whom, ends what is left, waits for the memory
finish() {
    ended=$(cut -d ' ' -f 1 /proc/uptime)
    living=$(count_alive $innocents $extra)
    total=$(echo $innocents $extra | wc -w)
    left=$(count_alive $culprits)
    kill $witness 2>/dev/null
    wait $witness 2>/dev/null
    : >/tmp/trail
    [ ! -e $STATE_FOLDER/trail ] || trail $STATE_FOLDER/trail "$trail_before" >/tmp/trail
    echo "@result round case=$case_name round=$case_round kind=$case_kind guard=$GUARD culprits=$(echo $culprits | wc -w) culprits_left=$left innocents=$total innocents_alive=$living" \
        "finished=$([ -e /tmp/finished ] && echo 1 || echo 0) floor=$FLOOR lowest=$(awk '$1 == "lowest" { print $2 }' /tmp/witness)" \
        "crossed=$(seen crossed) stopped=$(seen stopped $culprits) gone=$(seen gone $culprits) stopped_others=$(seen_count stopped $innocents $extra) ended=$ended" \
        "brakes=$(actions brake) terms=$(actions term) kills=$(actions kill) rooms=$(actions room) unkillable=$(actions unkillable) wrong=$(wrong_actions) took_ns=$(first_took) guard_time=$(($(guard_time) - time_before))" >&3
    if [ -n "${VERBOSE:-}" ]; then
        while read -r line; do note "trail: $line"; done </tmp/trail
        guard_says
        if [ -n "$guard" ] && ! alive $guard; then note "$GUARD is gone"; fi
    fi
    case $GUARD in uma-guard | none) ;; *) guard_says ;; esac
    kill -KILL $culprits $extra 2>/dev/null
    killall -q -KILL culprit 2>/dev/null
    until_true 15 is_back || note "$case_name: memory is not back: $(($(meminfo MemAvailable) / MIB)) of $((available_before / MIB)) MiB"
    echo "@result end $case_name $case_round" >&3
}
# until the culprit is gone, and a second more
danger_ends() { # SECONDS
    until_true "$1" no_culprit
    sleep 1
    finish
}
# healthy STEP...: an engine that has to come to its end
healthy() {
    start_job healthy sh -c 'engine "$@" && : >/tmp/finished' engine name=healthy "$@"
    extra="$extra $started"
}
healthy_ends() { # SECONDS
    until_true "$1" test -e /tmp/finished
    # one that ended well is not missing
    [ ! -e /tmp/finished ] || extra=
    finish
}
# several rounds of the cases that the scenario's function `cases ROUND` has
all_rounds() {
    round=0
    while [ $round -lt "${RUNS:-2}" ]; do
        round=$((round + 1))
        cases $round
    done
}
