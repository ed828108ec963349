"""Makes of a Prefect flow run's log what the judge compares with the truth, and judges what engines show.

Prefect's log has records of many lines, each of one replica: ``[role/replica] text``. The text says which
stream and attempt it belongs to, where the witness has not written over it by carriage returns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from judge import TERMINAL, Evidence, Promises, Violation, judge, judge_lines
from truth import Copy, Key, Said

__all__ = [
    "AppSeen",
    "CallSeen",
    "HostSeen",
    "app_of",
    "judge_call",
    "judge_hosts",
    "shown_copies",
    "source_of",
]

Document = dict[str, Any]
_PREFIXED = re.compile(r"\[(\w+)/(\d+)\] (.*)", re.DOTALL)
_LINE = re.compile(r"\w+/\d+/(\d+)(?:@\S+)? (stdout|stderr) \d+ \w+ ")
_CHANGE = re.compile(
    r"is ([A-Z]+)(?:, killed by ([A-Z0-9+]+)|, exit code (\d+))?(?: \(attempt (\d+)\))?(?:: .*)?", re.DOTALL
)
_APP = re.compile(r"app is ([A-Z]+)(?:: .*)?", re.DOTALL)
_REPORTS = ("progress ", "metric ", "result ")


@dataclass(kw_only=True)
class AppSeen:
    """One app that a call had."""

    app_id: str
    copies: list[Copy]
    status: Document | None
    """As the core tells it; None when there is none."""
    alive: list[str]
    """Which of its witnesses ran when the flow run was over."""

    submitted_at: float


@dataclass(kw_only=True)
class CallSeen:
    """What is known of one call of `run_app`, in all starts of its flow run."""

    number: int
    apps: list[AppSeen]
    """The oldest first."""
    records: list[Document]
    """Those of its task runs."""
    outcomes: list[Document]
    """What each try of it that ended returned or raised."""
    artifacts: list[Document] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class HostSeen:
    """One app in which a worker ran the flow."""

    handle: str
    state: str
    message: str
    is_over: bool


def judge_hosts(
    hosts: Sequence[HostSeen],
    starts: Sequence[Document],
    *,
    dispatches: int,
    may_end: Mapping[str, tuple[str, ...]],
) -> list[Violation]:
    """Return every promise that was broken to a flow run by the workers that ran it.

    Args:
        hosts: The apps in which the flow ran.
        starts: What the processes of these noted when the flow began.
        dispatches: How often the flow run was handed to a worker, at most.
        may_end: States that are excused, and words that are in the message of such an app.
    """
    found = []
    if len(hosts) > dispatches:
        found.append(Violation("app-twice", f"{len(hosts)} apps of {dispatches} dispatches"))
    for handle, count in Counter(start["app"] for start in starts).items():
        if count > 1:
            found.append(Violation("ran-twice", f"{handle}: {count} processes began the flow"))
    known = {host.handle for host in hosts}
    found += [Violation("strange-app", str(s["app"])) for s in starts if s["app"] not in known]
    found += [Violation("two-at-once", f"{s['app']} began beside another") for s in starts if s["overlap"]]
    for host in hosts:
        if not host.is_over:
            found.append(Violation("left-running", f"{host.handle} is {host.state}"))
        elif host.state != "SUCCEEDED" and not any(w in host.message for w in may_end.get(host.state, ())):
            found.append(Violation("wrong-state", f"{host.handle}: {host.state} ({host.message})"))
    return found


def judge_call(seen: CallSeen, promises: Promises, *, starts: int, has_rest: bool) -> list[Violation]:
    """Return every promise that was broken to one call.

    Args:
        seen: What it was shown.
        promises: What may be expected.
        starts: How often its flow run began.
        has_rest: Somebody was there to show the log to its end.
    """
    found = [*_judge_apps(seen, starts, promises_app=not promises.may_end)]
    ends = [*(app.submitted_at for app in seen.apps[1:]), float("inf")][: len(seen.apps)]
    since = 0.0
    for app, until in zip(seen.apps, ends, strict=True):
        records = [each for each in seen.records if since <= _time(each) < until]
        since = until
        copies = shown_copies(app.copies)
        chain = list(_Reader(copies).documents(records))
        evidence = Evidence(alive=app.alive)
        if has_rest:
            evidence.chains["log"] = chain
        else:
            found += judge_lines(copies, [*chain, *_losses(copies)], replace(promises, may_lose=True))
        if app.status is not None:
            evidence.statuses["status"] = app.status
        found += [Violation(v.name, f"{app.app_id}: {v.detail}") for v in judge(copies, evidence, promises)]
    return found


def _losses(copies: Iterable[Copy]) -> Iterator[Document]:
    """Yield what says of every copy that some of its lines are missing."""
    for copy in copies:
        yield {"type": "lost", "role": copy.role, "replica": copy.replica, "attempt": copy.attempt}


def _judge_apps(seen: CallSeen, starts: int, *, promises_app: bool) -> Iterator[Violation]:
    """Judge that a call has one app, and another only after a failure, in a later start of its flow run."""
    if len(seen.apps) > starts:
        yield Violation("app-twice", f"call {seen.number}: {len(seen.apps)} apps in {starts} starts")
    for app in seen.apps[:-1]:
        if app.status is None or app.status["state"] not in {"FAILED", "CANCELLED"}:
            yield Violation("app-twice", f"call {seen.number}: another app after {app.app_id}")
    if not seen.apps and promises_app:
        yield Violation("no-app", f"call {seen.number} in {starts} starts: {seen.outcomes}")
    if seen.apps and seen.outcomes:
        yield from _judge_outcome(seen)


def _judge_outcome(seen: CallSeen) -> Iterator[Violation]:
    """Judge that what the call came to in the end is what its last app came to."""
    last, status = seen.outcomes[-1], seen.apps[-1].status
    is_earlier = last["time"] < seen.apps[-1].submitted_at  # the run that had the last app came to no end
    if is_earlier or status is None or ("error" in last and last["error"] != "AppStatusError"):
        return
    if (status["state"] == "SUCCEEDED") != ("result" in last):
        yield Violation("wrong-outcome", f"call {seen.number}: {status['state']} app, but {last}")
    elif "result" in last and last["result"] != status.get("result"):
        yield Violation(
            "wrong-result", f"call {seen.number}: {last['result']!r}, not {status.get('result')!r}"
        )
    elif "error" in last:
        yield from _judge_message(seen, str(last["text"]))


def _judge_message(seen: CallSeen, text: str) -> Iterator[Violation]:
    """Judge that a failure names a replica that failed, and how it did."""
    ends = {(c.role, c.replica): c for c in sorted(seen.apps[-1].copies, key=lambda c: c.attempt)}
    failed = [copy for copy in ends.values() if copy.exit_code or copy.signal]
    head = text.splitlines()[0] if text else ""
    for copy in failed:
        how = copy.signal or f"exit code {copy.exit_code}"
        if f"{copy.role}/{copy.replica}" in head and how in head:
            return
    if failed:
        yield Violation("wrong-cause", f"call {seen.number}: {head!r}")


# --- the log


def shown_copies(copies: Sequence[Copy]) -> list[Copy]:
    r"""Return the copies with their lines as an engine shows them: of ``\r`` the last state, none open."""
    return [replace(copy, said=_shown(copy.said)) for copy in copies]


def _shown(said: list[Said]) -> list[Said]:
    shown: list[Said] = []
    is_open: dict[str, int] = {}
    for line in said:
        at = is_open.pop(line.stream, None)
        if at is not None:  # its beginning had no newline
            first = shown[at]
            both = first._replace(text=first.text + line.text, sure=first.sure and line.sure, whole=False)
            shown[at] = both
        else:
            at = len(shown)
            shown.append(line)
        if not line.eol:
            is_open[line.stream] = at
    return [_as_shown(line) for line in shown]


def _as_shown(line: Said) -> Said:
    text = line.text.rstrip("\r").rpartition("\r")[2]
    # What is left of a bar does not say which of several it is of.
    # An open one is shown when its replica has ended.
    return line._replace(text=text, eol=True, whole=line.whole and line.eol and text == line.text)


class _Reader:
    """Reads the records of one app."""

    def __init__(self, copies: list[Copy]) -> None:
        """Know what may be shown."""
        self._copies = {copy.key: copy for copy in copies}
        self._left = {copy.key: [(line.stream, line.text) for line in copy.said] for copy in copies}
        self._attempts: dict[tuple[str, int], int] = {}

    def documents(self, records: Iterable[Document]) -> Iterator[Document]:
        """Yield the events that the records tell of, the app's own at the end."""
        states: list[Document] = []
        for where, text in _texts(records):
            if where is not None:
                yield from self._take(*where, text)
            elif found := _APP.fullmatch(text):
                states.append({"type": "state", "state": found[1]})
        yield from sorted(states, key=lambda state: state["state"] in TERMINAL)

    def _take(self, role: str, number: int, text: str) -> Iterator[Document]:
        about = {"role": role, "replica": number}
        if text.startswith("is ") and (change := _CHANGE.fullmatch(text)):
            state, name, code, again = change.groups()
            attempt = int(again or 1) - 1
            if state == "RUNNING":
                self._attempts[role, number] = attempt
            exit_code = None if name else int(code or 0)
            yield {"type": "replica", **about, "attempt": attempt, "state": state, "signal": name,
                   "exit_code": exit_code}  # fmt: skip
        elif "output lost: " in text:
            yield {"type": "lost", **about, "attempt": self._attempts.get((role, number), 0)}
        elif not text.startswith(_REPORTS):
            yield from self._take_line(role, number, text)

    def _take_line(self, role: str, number: int, text: str) -> Iterator[Document]:
        found = _LINE.match(text)
        attempt = int(found[1]) if found else self._attempts.get((role, number), 0)
        key = role, number, attempt
        left = self._left.get(key, [])
        streams = [found[2]] if found else ["stdout", "stderr"]
        # What is left of a bar does not name its stream: of two the log has the one that was written first.
        wanted = (i for i, line in enumerate(left) if line[0] in streams and line[1] == text)
        stream, is_piece = streams[0], False
        if (at := next(wanted, None)) is not None:
            stream, _ = left.pop(at)
        elif cut := [line.stream for line in self._said(key) if _is_cut(line, text)]:
            stream, is_piece = cut[0], True
        yield {"type": "log", "role": role, "replica": number, "attempt": attempt, "stream": stream,
               "text": text, "eol": not is_piece}  # fmt: skip

    def _said(self, key: Key) -> list[Said]:
        return self._copies[key].said if key in self._copies else []


def _is_cut(line: Said, text: str) -> bool:
    """Return whether the text is what is left of a line whose program was killed while it wrote that."""
    return not line.sure and line.text != text and line.text.startswith(text)


def source_of(record: Document) -> str:
    """Return the replica that the record is of, such as ``head0.0``; nothing when it is of none."""
    name, is_of_an_app, _ = str(record["name"]).partition("@")
    source = name.removesuffix(".reports").removesuffix(".results")
    return source if is_of_an_app and source != "torchx" else ""


def app_of(record: Document) -> str:
    """Return the id of the app that the record is of; nothing for a message about one."""
    return str(record["name"]).rpartition("@")[2].rpartition("/")[2] if "@" in record["name"] else ""


def _texts(records: Iterable[Document]) -> Iterator[tuple[tuple[str, int] | None, str]]:
    """Yield the lines of the records, each with whose it is; pieces of a long line as one."""
    waiting: dict[str, tuple[tuple[str, int], str]] = {}  # by logger: a result may come between two pieces
    for record in records:
        source = source_of(record)
        if not source:
            yield None, record["message"]
            continue
        role, _, number = source.rpartition(".")
        where = role, int(number)
        for line in record["message"].split("\n"):
            found = _PREFIXED.fullmatch(line)
            text = found[3] if found and (found[1], int(found[2])) == where else f"not prefixed: {line}"
            before = waiting.get(record["name"])
            if text.startswith("…"):
                text = (before[1] if before else "") + text[1:]
            elif before:
                yield before
            waiting[record["name"]] = where, text
    yield from waiting.values()


def _time(record: Document) -> float:
    return datetime.fromisoformat(record["timestamp"]).timestamp()
