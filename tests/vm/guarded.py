# SPDX-License-Identifier: MIT
"""How a scenario of the guard is judged: each round by what became of its processes, and by whether the machine could be used from outside meanwhile.

A round is between the results "begin CASE ROUND" and "end CASE ROUND"; what the guest saw of it is one line, "round KEY=VALUE..." (guarded.sh).
"""
import statistics

from guest import MIB

# A login takes 0.9 to 2 s here when nothing is wrong, as the guest is emulated, and 5 to 10 beside other work on the same cores: what was not answered is a fault, what was
# answered late is only told (ssh.ANSWER_SECONDS).
BEAT_SECONDS = 3.0      # `stall` calls 2 s standing still; with the same allowance
WHOSE = {"uma-guard": True}  # others are measured, not judged


class Round:
    def __init__(self, fields, begin, end, outcome):
        self.fields, self.begin, self.end = fields, begin, end
        beats = [beat for beat in outcome.beats if begin <= beat[0] <= end]
        times = [begin] + [beat[0] for beat in beats] + [end]
        self.gap = max(outcome.silence(a, b) for a, b in zip(times, times[1:]))
        self.asked, self.unanswered, self.login, self.command = outcome.visitor.within(begin, end)

    def __getattr__(self, name):
        return self.fields[name]

    def number(self, name):
        try:
            return float(self.fields.get(name, ""))
        except ValueError:
            return None

    @property
    def healthy(self):
        return self.kind == "healthy"

    def reaction(self):
        """Seconds from the crossing of the floor to the first stop or end of the culprit; negative: before it."""
        times = [t for t in (self.number("stopped"), self.number("gone")) if t is not None]
        crossed = self.number("crossed")
        return min(times) - crossed if times and crossed is not None else None

    def faults(self):
        """What went wrong, in words."""
        lost = int(self.number("innocents") - self.number("innocents_alive"))
        faults = [f"{lost} of {self.innocents} who did nothing died"] * (lost > 0)
        if int(self.number("stopped_others")):
            faults.append("others were stopped")
        if int(self.number("wrong")):
            faults.append("the guard acted on others")
        if self.healthy and (self.number("stopped") is not None or int(self.number("brakes") + self.number("terms") + self.number("kills"))):
            faults.append("the guard acted where nothing was wrong")
        if self.healthy and self.finished != "1":
            faults.append("the engine did not come to its end")
        if not self.healthy and int(self.number("culprits_left")):
            faults.append("the culprit lives")
        if self.unanswered or not self.asked:
            faults.append(f"ssh: {self.unanswered} of {self.asked} not answered")
        if self.gap > BEAT_SECONDS:
            faults.append(f"{self.gap:.1f} s without a heartbeat")
        return faults


def rounds(outcome):
    """Every round, also one that the guest did not live to end: then without the guest's line."""
    start = outcome.beats[0][0] if outcome.beats else 0.0
    found, begin, name, fields = [], None, None, None
    for at, marker, text in outcome.lines:
        word, _, rest = text.partition(" ")
        if marker != "result" or at is None:
            continue
        if word == "begin":
            begin, name, fields = start + at, rest, None
        elif word == "round":
            fields = dict(pair.split("=", 1) for pair in rest.split())
        elif word == "end" and fields:
            found.append(Round(fields, begin, start + at, outcome))
            begin = None
    return found, name if begin is not None else None


def _spread(values, unit, scale=1.0, digits=1):
    values = [v * scale for v in values if v is not None]
    if not values:
        return "-"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f}){unit}" if len(values) > 1 else f"{values[0]:.{digits}f}{unit}"


def table(found):
    """Rows of a Markdown table, one a case and a guard."""
    rows = {}
    for r in found:
        rows.setdefault((r.case, r.guard), []).append(r)
    lines = []
    for (case, guard), those in rows.items():
        culprits = sum(int(r.number("culprits")) for r in those)
        lines.append("| " + " | ".join([
            case, guard, str(len(those)), f"{sum(not r.faults() for r in those)}",
            "-" if those[0].healthy else f"{sum(r.number('stopped') is not None for r in those)}, {culprits - sum(int(r.number('culprits_left')) for r in those)} of {culprits}",
            f"{sum(int(r.number('innocents') - r.number('innocents_alive')) for r in those)} of {sum(int(r.number('innocents')) for r in those)}",
            f"{min(r.number('lowest') or 0 for r in those) / MIB:.0f} MiB",
            _spread([r.reaction() for r in those], " ms", 1000, 0),
            _spread([r.number("took_ns") for r in those], " ms", 1e-6),
            f"{sum(r.unanswered for r in those)} of {sum(r.asked for r in those)}, {max((r.login or 0 for r in those), default=0):.1f} s",
            f"{max(r.gap for r in those):.1f} s"]) + " |")
    return lines


HEADING = ["| case | guard | rounds | all well | culprit stopped, ended | innocents lost | lowest headroom | crossing to action | reading to action | ssh unanswered, longest login | longest without a heartbeat |",
           "|---|---|---|---|---|---|---|---|---|---|---|"]


def judge(outcome, tap):
    found, unfinished = rounds(outcome)
    for r in found:
        faults = r.faults()
        text = f"{r.case}, round {r.round}: " + ("the culprit alone" if not r.healthy else "nobody was touched")
        details = (f"{r.case}, round {r.round}, {r.guard}: culprits left {r.culprits_left}, innocents {r.innocents_alive} of {r.innocents}, lowest {(r.number('lowest') or 0) / MIB:.0f} MiB, "
                   f"crossed {r.crossed or '-'}, stopped {r.stopped or '-'}, gone {r.gone or '-'}; brake {r.brakes}, term {r.terms}, kill {r.kills}, room {r.rooms}; "
                   f"login {r.login or 0:.1f} s, command {r.command or 0:.1f} s, {r.asked - r.unanswered} of {r.asked}, heartbeat {r.gap:.1f} s, "
                   f"the guard used {(r.number('guard_time') or 0) / 100:.2f} s of {r.end - r.begin:.0f}")
        if WHOSE.get(r.guard):
            tap.check(not faults, text + (f": {'; '.join(faults)}" if faults else ""))
        elif faults:
            tap.note("; ".join(faults))
        tap.note(details)
    if unfinished or outcome.stopped:
        tap.check(not WHOSE.get(found[-1].guard if found else "uma-guard"), f"{unfinished or 'the guest'}: the guest came to its end: {outcome.stopped or 'cut off'}")
    tap.check(found, "rounds were run")
    tap.note("\n".join(HEADING + table(found)))
    return found
