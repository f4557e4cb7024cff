# SPDX-License-Identifier: MIT
# The guard under systemd with its own unit: it starts, has the rights that the unit lists and no more, stops and ends who grows with these, and is there again when it is killed or hangs.
# shellcheck shell=sh disable=SC1091
#: memory 1G
#: bound 260
#: init systemd
#: needs umactl
#: needs engine
#: needs uma-guard=/usr/local/sbin/uma-guard
#: needs umactl-guard.service=/etc/systemd/system/umactl-guard.service
. /lib.sh

main_pid() { systemctl show -P MainPID umactl-guard; }
active() { [ "$(systemctl is-active umactl-guard)" = active ]; }
renewed() { active && [ "$(main_pid)" != 0 ] && [ "$(main_pid)" != "$old" ]; }
journal() { journalctl -u umactl-guard --no-pager -o cat; }
said() { journal | grep -q "$1"; }
has() { [ "$(sed -n "s/^$1:[[:space:]]*//p" "/proc/$(main_pid)/status")" = "$2" ]; }
locked() { [ "$(sed -n 's/^VmLck:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$(main_pid)/status")" -gt 0 ]; }
same() { active && [ "$(main_pid)" = "$old" ]; }
unsaid() { ! said "$1"; }
policy() { # BRAKE_MOST
    printf '[Brake]\nBrakeMost = %s\n[Kill]\nTermGrace = 1\nReleaseWait = 3\n' "$1" >/etc/umactl/guard.conf
    systemctl reload umactl-guard
}
stands() { grep -q '^State:.T' "/proc/$culprit/status"; }
floor_is() { umactl guard status | grep -q "^ *floor  *$1[. ]"; } # MIB
gone() { ! grep -q '^State:.[^ZX]' "/proc/$culprit/status" 2>/dev/null; }

check "systemd is process 1" [ "$(cat /proc/1/comm)" = systemd ]
systemctl start umactl-guard
check "the unit is active: it told READY" active
# CAP_DAC_READ_SEARCH 2, CAP_KILL 5, CAP_IPC_LOCK 14, CAP_SYS_PTRACE 19, CAP_SYS_NICE 23 (linux/capability.h)
check "its capabilities are those that the unit lists" has CapEff 0000000000884024
check "and it can get no others" has CapBnd 0000000000884024
check "its system calls are filtered" has Seccomp 2
check "it can get no new privileges" has NoNewPrivs 1
check "its memory is locked" locked
check "systemd waits 10 s for a sign of life" [ "$(systemctl show -P WatchdogUSec umactl-guard)" = 10s ]
check "it knows that it may end processes of all users" unsaid "of this user alone"
umactl guard status 2>&1 | head -n 6 | while read -r line; do note "status: $line"; done
check "umactl guard status reaches it" sh -c 'umactl guard status >/dev/null 2>&1'
old=$(main_pid)
mkdir -p /etc/umactl
printf '[Floor]\nFloor = 96M\n' >/etc/umactl/guard.conf
check "reload reaches it" systemctl reload umactl-guard
check "a changed policy holds" until_true 3 floor_is 96
printf '[Floor]\nFloor = 200M\n[Brake\n' >/etc/umactl/guard.conf
systemctl reload umactl-guard
check "a broken one is said with its file" until_true 3 said guard.conf
check "and that the one before holds" until_true 3 said "the one before holds"
check "it does" floor_is 96
check "and the guard goes on" same
check "reload with a policy in order" policy 60
check "that policy is read: the floor is the default again" until_true 3 floor_is 60 # a sixteenth of this machine's memory
sleep 11
check "the watchdog is fed for longer than its 10 s" same
# its parent is process 1, as a service's is
(engine name=culprit "anon=$(($(meminfo MemAvailable) / MIB - 200))M@100" anon=2G@20 stay >/dev/null 2>&1 & echo $! >/tmp/culprit)
read -r culprit </tmp/culprit
check "who grows is stopped" until_true 90 stands
kill -KILL "$old"
check "killed, it is started anew" until_true 5 renewed
check "it goes on where that one was ended" until_true 5 said "goes on where a guard before it was ended"
check "who was stopped still stands" stands
check "with a shorter time for a stop" policy 0.5
check "he is ended" until_true 90 gone
rm /etc/umactl/guard.conf
old=$(main_pid)
kill -STOP "$old"
check "stopped for longer than the watchdog, it is started anew" until_true 25 renewed
# root with five capabilities; a unit without any of this has 9.6
systemd-analyze security umactl-guard --no-pager 2>&1 | tail -n 1 | while read -r line; do note "exposure: $line"; done
journal | tail -n 25 | while read -r line; do note "journal: $line"; done
