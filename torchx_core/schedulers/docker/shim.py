r"""The shell script around each replica's program: what holds inside the container when nobody looks.

It counts the attempts and keeps a journal of them on the app's volume, marks the start of each in the log,
ends the container at the deadline, without its lease or when another replica has failed for good, and leaves
the program's exit code as it is. It stays as the program's parent; ``TINI_KILL_PROCESS_GROUP`` makes the init
process send a signal to the whole group, so the program gets it as if the script were not there.

::

    /run/torchx/lease                 whoever follows writes something new here, again and again
    /run/torchx/reports/<i>.<n>       TORCHX_REPORT_FILE of attempt n of the app's replica i
    /run/torchx/state/journal.<i>     start <n> <time>; end <n> <exit code> <told to end: 0 or 1> <time>
                                      <most memory, in bytes> <CPU time, in nanoseconds>, each perhaps -
    /run/torchx/state/error.<i>.<n>   TORCHELASTIC_ERROR_FILE; torchrun's own in agent.error.<i>.<n>
    /run/torchx/state/order.<i>       the attempt that whoever follows has ordered: <n> <exit code> <time>,
                                      the latter two of the attempt before
    /run/torchx/state/over            why the app ends: failed <i> <exit code>, deadline or lease; first wins
    /run/torchx/state/began           when the first replica started

**One start, one attempt.** Two who look at once may both start a container, and the second start may come
after the program's end. So the script runs the program only when this is the first attempt, when the engine
starts it again after a failure and a retry is left, or when the attempt was ordered; any other start ends at
once with the exit code of the attempt before, and leaves no trace.

**It must not matter to the program.** The program is run by ``exec`` in a subshell, so no builtin and no
function of the script takes its place; the script's variables are not exported, unless the program's
environment has one of these very names, which start with ``tx_``; the shell's own remarks ("Killed") go
nowhere; the watcher is nobody's child.

**Without an init program** the script is process 1 itself (Podman's init passes signals to the script alone).
Then it runs the program beside itself, passes SIGTERM on to everything in the container, and reaps orphans. A
program that a shell runs so ignores SIGINT unless it says otherwise.

**What an attempt has used** the container's own control group knows as long as something runs in it. With
version 2 and the host's namespace of control groups (``cgroup.type`` is missing) it would be the whole host.

Source: seen on engine 20.10.24 with docker-init 0.19.0 and the shells of busybox 1.35 and dash 0.5.12: a TERM
to PID 1 from inside reaches tini although it is init, as root and as another user; kill -1 spares init.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

__all__ = [
    "DATA",
    "ERRORS",
    "LEASE",
    "MARKER_PREFIX",
    "REPORTS",
    "STATE",
    "ShimSettings",
    "command",
    "parse_marker",
]

DATA: Final = "/run/torchx"
"""Where the app's volume is mounted."""
STATE: Final = f"{DATA}/state"
REPORTS: Final = f"{DATA}/reports"
LEASE: Final = f"{DATA}/lease"
ERRORS: Final = f"{STATE}/error"

MARKER_PREFIX: Final = b"\x1etorchx:"
"""Starts the line that each attempt begins with, on both streams: ``\\x1etorchx:<key>:<attempt>``."""

_SLOWEST_TICK_S: Final = 5
_GANG_TICK_S: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimSettings:
    """What the script of one replica goes by; times are whole seconds."""

    key: str
    """`names.app_key`."""
    index: int
    engine_retries: int
    """How many times the engine starts it again by itself."""
    max_retries: int
    """How many times anybody does."""
    grace_s: int
    watches_others: bool
    timeout_s: int | None = None
    deadline: int | None = None
    lease_s: int | None = None
    has_init: bool = True
    """Process 1 is an init that passes signals on; else the script is."""

    @property
    def tick_s(self) -> int | None:
        """How often the watcher looks; None when there is nothing to watch."""
        wanted = [_GANG_TICK_S] if self.watches_others else []
        wanted += [_SLOWEST_TICK_S] if self.timeout_s or self.deadline else []
        wanted += [ceil(self.lease_s / 8)] if self.lease_s else []
        return min(*wanted, _SLOWEST_TICK_S) if wanted else None


def command(settings: ShimSettings, argv: list[str]) -> list[str]:
    """Return what the container runs."""
    return ["/bin/sh", "-c", _header(settings) + _BODY, "torchx", *argv]


def parse_marker(line: bytes, key: str) -> int | None:
    r"""Return the attempt that the line begins, or None when it is a line of the program.

    Example:
        >>> parse_marker(b"\x1etorchx:54b078eb6902:2\n", "54b078eb6902")
        2
    """
    start = MARKER_PREFIX + key.encode() + b":"
    number = line.rstrip(b"\n")[len(start) :]
    return int(number) if line.startswith(start) and number.isdigit() else None


def _header(s: ShimSettings) -> str:
    values = {
        "key": s.key,
        "i": s.index,
        "engine": s.engine_retries,
        "last": s.max_retries,
        "grace": s.grace_s,
        "tick": s.tick_s,
        "timeout": s.timeout_s,
        "until": s.deadline,
        "lease": s.lease_s,
        "init": 1 if s.has_init else None,
    }
    return " ".join(f"tx_{name}={'' if v is None else v}" for name, v in values.items()) + "\n"


_BODY: Final = r"""
tx_d=/run/torchx tx_s=$tx_d/state tx_j=$tx_s/journal.$tx_i
exec 3>&2 2>/dev/null
tx_told=0; trap tx_told=1 TERM INT

tx_over() { (set -C; echo "$*" >$tx_s/over); }
tx_watch() {
  trap '' TERM INT HUP QUIT
  sleep 1  # a signal that falls between the program's fork and its exec is lost
  tx_idle=0 tx_seen=
  while [ ! -e $tx_s/over ]; do
    tx_nap=$tx_tick
    if [ "$tx_until" ]; then
      tx_left=$((tx_until - $(date +%s)))
      [ $tx_left -le 0 ] && tx_over deadline && break
      [ $tx_left -lt $tx_nap ] && tx_nap=$tx_left
    fi
    sleep $tx_nap || return
    if [ "$tx_lease" ]; then
      tx_now=; read -r tx_now <$tx_d/lease
      if [ "$tx_now" = "$tx_seen" ]; then tx_idle=$((tx_idle + tx_nap)); else tx_idle=0 tx_seen=$tx_now; fi
      [ $tx_idle -ge $tx_lease ] && tx_over lease && break
    fi
  done
  kill -TERM 1; sleep $tx_grace; kill -KILL -1
}

tx_used() {  # each start of a container has a new control group
  # Not by read: after a trap has run, that of BusyBox 1.38 never returns.
  tx_g=/sys/fs/cgroup
  tx_peak=$(cat $tx_g/memory/memory.max_usage_in_bytes)
  tx_cpu=$(cat $tx_g/cpuacct/cpuacct.usage)
  if [ -e $tx_g/cgroup.type ]; then
    tx_peak=$(cat $tx_g/memory.peak)
    set -- $(cat $tx_g/cpu.stat)
    tx_cpu=${2:+${2}000}
  fi
}

# May this start be an attempt?
tx_n=-1 tx_code=137
tx_what=
[ -e $tx_j ] && while read -r tx_line tx_a tx_b tx_c; do
  tx_what=$tx_line
  case $tx_what in start) tx_n=$tx_a tx_code=137 ;; end) tx_code=$tx_b ;; esac
done <$tx_j
if [ -e $tx_s/over ]; then
  [ $tx_n -ge 0 ] && [ $tx_engine -eq 0 ] && exit $tx_code
  exit 0  # else the engine would start it again
fi
tx_order=0 tx_was= tx_when=
[ -e $tx_s/order.$tx_i ] && read -r tx_order tx_was tx_when <$tx_s/order.$tx_i
tx_n=$((tx_n + 1)) tx_ordered=0
[ $tx_n -le $tx_order ] && tx_ordered=1
if [ $tx_n -gt 0 ] && [ $tx_ordered = 0 ]; then
  { [ $tx_n -le $tx_engine ] && [ $tx_code -ne 0 ]; } || exit $tx_code
fi
if [ "$tx_what" = start ]; then  # the attempt before was killed together with this script
  echo end $((tx_n - 1)) ${tx_was:-137} $tx_ordered ${tx_when:-$(date +%s.%N)} >>$tx_j
fi

if [ "$tx_timeout" ]; then
  (set -C; date +%s >$tx_s/began)
  tx_began=; read -r tx_began <$tx_s/began
  tx_end=$((${tx_began:-$(date +%s)} + tx_timeout))
  { [ "$tx_until" ] && [ $tx_until -lt $tx_end ]; } || tx_until=$tx_end
fi
[ "$tx_until" ] && export TORCHX_DEADLINE=$tx_until
export TORCHX_ATTEMPT=$tx_n
export TORCHX_REPORT_FILE=$tx_d/reports/$tx_i.$tx_n
export TORCHELASTIC_ERROR_FILE=${TORCHELASTIC_ERROR_FILE:-$tx_s/error.$tx_i.$tx_n}
echo start $tx_n $(date +%s.%N) >>$tx_j
printf '\036torchx:%s:%s\n' $tx_key $tx_n
printf '\036torchx:%s:%s\n' $tx_key $tx_n >&3
[ "$tx_tick" ] && ( tx_watch & ) </dev/null >/dev/null 3>&-
tx_code=143
if [ $tx_told = 1 ]; then :
elif [ "$tx_init" ]; then (exec 2>&3 3>&-; exec "$@"); tx_code=$?
else
  tx_pass() { tx_told=1 tx_rung=1; kill -TERM -1; }
  trap tx_pass TERM INT
  (exec 2>&3 3>&-; exec "$@") & tx_pid=$!
  [ $tx_told = 1 ] && kill -TERM -1  # it came before there was anybody to pass it on to
  tx_code= tx_rung=1
  while [ $tx_rung = 1 ]; do  # a signal ends a wait
    tx_rung=0; wait $tx_pid; tx_got=$?
    [ $tx_got = 127 ] && [ "$tx_code" ] || tx_code=$tx_got  # 127: it had ended when the signal came
  done
fi
tx_used
echo end $tx_n $tx_code $tx_told $(date +%s.%N) ${tx_peak:--} ${tx_cpu:--} >>$tx_j
[ $tx_code -ne 0 ] && [ $tx_told = 0 ] && [ $tx_n -ge $tx_last ] && tx_over failed $tx_i $tx_code
exit $tx_code
"""
