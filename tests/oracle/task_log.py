"""Judges the log of an engine's task: whatever was tried, each line of each of its apps is there once.

A line of the log is ``[ROLE/REPLICA]`` and what the replica wrote, as a terminal may show it. It says itself
of which app, attempt and stream it is (`witness.line`), except for the end of a progress bar.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from judge import Violation
from truth import Copy, Said

__all__ = ["judge_task_log"]

_SHOWN = re.compile(r"\[(\w+)/(\d+)\] (.*)", re.DOTALL)
_WHO = re.compile(r"(\w+)/(\d+)/(\d+)(@\S+)? (stdout|stderr) ")
_OURS = re.compile(r"(is [A-Z]{6}|progress \d|metric loss|result |.* output lost: )")
"""How a line begins by which the engine tells something else of a replica."""

_IN_A_MILLISECOND = 100
"""How far lines may change places where Airflow merges several files of one try: it goes by milliseconds."""

Stream = tuple[str, str]
"""Whose lines they are (``ROLE/REPLICA/ATTEMPT@APP``), and the stream."""


def judge_task_log(
    truth: Sequence[Copy], log: Sequence[str], *, cut_short: Collection[str] = (), is_merged: bool = False
) -> list[Violation]:
    """Return every promise about lines that was broken.

    Args:
        truth: Of all apps of the task.
        log: The lines of all tries, in order.
        cut_short: The apps of which the log may lack the end.
        is_merged: Whether a try has several log files, as one that was deferred has.
    """
    shown: dict[Stream, list[str]] = defaultdict(list)
    nameless: Counter[str] = Counter()
    found: list[Violation] = []
    for text in log:
        if (line := _SHOWN.fullmatch(text)) is None or _OURS.match(line[3]):
            continue
        if (who := _WHO.match(line[3])) is None:
            nameless[text] += 1
        elif (line[1], line[2]) != (who[1], who[2]):
            found.append(Violation("wrong-replica", f"{text[:80]!r}"))
        else:
            shown[line[3].split(" ")[0], who[5]].append(line[3])
    bars_sure, bars = Counter[str](), Counter[str]()
    streams = {(copy.who, stream): copy for copy in truth for stream in ("stdout", "stderr")}
    for (who_says, stream), copy in streams.items():
        sure, whole = _as_shown(copy, stream)
        own = [line for line in whole if _WHO.match(line)]
        may_end = copy.who.rpartition("@")[2] in cut_short
        if not may_end:
            bars_sure.update(f"[{copy.role}/{copy.replica}] {line}" for line in sure if not _WHO.match(line))
        bars.update(f"[{copy.role}/{copy.replica}] {line}" for line in whole if not _WHO.match(line))
        surely = [line for line in sure if _WHO.match(line)]
        got = shown.pop((who_says, stream), [])
        if is_merged:
            got = _in_place(got, own)
        found += _judge_stream(f"{who_says} {stream}", [] if may_end else surely, own, got)
    for (who_says, stream), lines in shown.items():
        found.append(Violation("strange-line", f"{who_says} {stream}: {lines[0][:80]!r}"))
    if missing := bars_sure - nameless:
        found.append(Violation("lost-line", f"{dict(missing)}"[:300]))
    found += [
        Violation("repeated-line" if text in bars else "strange-line", f"{count} x {text[:80]!r}")
        for text, count in (nameless - bars).items()
        if text in bars or not any(each.startswith(text) for each in bars)  # else cut by the program's end
    ]
    return found


def _in_place(got: list[str], own: list[str]) -> list[str]:
    """Return the lines with those put back that have moved within a millisecond."""
    place = {line: i for i, line in enumerate(own)}
    near = all(abs(place.get(line, i) - i) <= _IN_A_MILLISECOND for i, line in enumerate(got))
    return sorted(got, key=lambda line: place.get(line, len(own))) if near else got


def _as_shown(copy: Copy, stream: str) -> tuple[list[str], list[str]]:
    """Return the lines of a stream that surely left the program, and all that may have."""
    said = [each for each in copy.said if each.stream == stream]
    return _lines([each for each in said if each.sure]), _lines(said)


def _lines(said: Sequence[Said]) -> list[str]:
    text = "".join(each.text + "\n" * each.eol for each in said)
    return (
        [line.rstrip("\r").rpartition("\r")[2] for line in text.removesuffix("\n").split("\n")]
        if text
        else []
    )


def _judge_stream(where: str, sure: list[str], whole: list[str], got: list[str]) -> Iterator[Violation]:
    if got[: len(sure)] == sure and _begins(whole, got):
        return
    missing, strange = Counter(sure) - Counter(got), Counter(got) - Counter(whole)
    repeated = [line for line in strange if line in whole]
    foreign = [line for line in strange if line not in whole and not any(w.startswith(line) for w in whole)]
    if missing:
        yield Violation("lost-line", f"{where}: {len(missing)}, as {next(iter(missing))[:80]!r}")
    if repeated:
        yield Violation("repeated-line", f"{where}: {len(repeated)}, as {repeated[0][:80]!r}")
    if foreign:
        yield Violation("strange-line", f"{where}: {foreign[0][:80]!r}")
    if not (missing or strange):
        yield Violation("disorder", f"{where}: {_first_difference(whole, got)}")


def _begins(whole: list[str], got: list[str]) -> bool:
    """Return whether these are the first lines, of which the last one may be cut."""
    if not got:
        return True
    *before, last = got
    return len(got) <= len(whole) and before == whole[: len(before)] and whole[len(before)].startswith(last)


def _first_difference(whole: list[str], got: list[str]) -> str:
    for i, (a, b) in enumerate(zip(whole, got, strict=False)):
        if a != b:
            return f"line {i} is {b[:60]!r}, not {a[:60]!r}"
    return f"{len(got)} lines of {len(whole)}"
