"""The judge: compares what the product showed of an app with what its witnesses wrote down; pure functions.

What is shown of an app is a list of documents (`follower.document`), whoever showed it: a chain of followers,
the program's ``log --json``, an engine's task log. Every judgement is a named `Violation`.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from truth import Copy, Key, Said

__all__ = ["Call", "Evidence", "Promises", "Violation", "judge", "judge_calls", "judge_lines"]

Document = dict[str, Any]
TERMINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}
MOMENT_S = 0.2
_TOLD = 128 + signal.SIGTERM
"""In how short a time two deaths are one to whoever waits for both, on a busy host."""


class Violation(NamedTuple):
    """A promise that was broken."""

    name: str
    detail: str


class Call(NamedTuple):
    """One call of the public API or the command line."""

    name: str
    outcome: str
    """What it returned, or the class of the error that it raised."""
    ours: bool = True
    """Whether the error, if any, is a TorchXError (or the program's exit code for one)."""
    hung: bool = False
    detail: str = ""


@dataclass(kw_only=True)
class Promises:
    """What may be expected in this scenario: the backend's capabilities, less what its faults excuse."""

    exact: bool = False
    """stdout and stderr keep their order."""
    restarts_at_once: bool = True
    """Replicas that start again together do so in one moment: nothing fails between two of their starts."""
    doubt_s: float = 0.0
    """How long it is in doubt whether a program that died of SIGTERM was told to; others may fail first."""
    separate_streams: bool = True
    exit_codes: bool = True
    reports: bool = True
    may_lose: bool = False
    """The supervisor was killed: what it had not stored may be lost, but lines not without a word."""
    may_lose_unnoticed: bool = False
    """The container engine was killed: what it had in memory is lost, and nobody can know."""
    may_lose_unfinished: bool = False
    """The container engine was ended: a line that had no newline yet is lost, and nobody can know."""
    may_drop: bool = False
    """The disk was full: lines may be lost, but not without a word, and nothing else."""
    may_end: frozenset[str] = frozenset()
    """States that a fault or a limit of the app excuses, besides what its replicas did themselves."""
    words: tuple[str, ...] = ()
    """One of them is in the message of a state that is excused."""
    outside: frozenset[str] = frozenset()
    """Signals that the scenario sent to replicas."""
    max_retries: dict[str, int] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    """Retry policy of each role."""


@dataclass(kw_only=True)
class Evidence:
    """What the product showed and answered."""

    chains: dict[str, list[Document]] = field(default_factory=dict)
    """Whole event streams, each by one chain of cursors, from the start to the terminal event."""
    logs: dict[str, list[Document]] = field(default_factory=dict)
    """Log lines alone, of an ended app."""
    statuses: dict[str, Document] = field(default_factory=dict)
    """The terminal status as each interface told it."""
    calls: list[Call] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    """Witnesses and grandchildren that ran when the app was told to be over."""
    left: list[str] = field(default_factory=list)
    """What was still there after `delete`."""


def judge(truth: Sequence[Copy], seen: Evidence, promises: Promises) -> list[Violation]:
    """Return every promise that was broken; an empty list for a good run."""
    found = [*_judge_copies(truth, promises), *judge_calls(seen.calls)]
    for name, chain in seen.chains.items():
        found += _named(name, _judge_chain(truth, chain, promises))
    for name, log in seen.logs.items():
        told = [
            document for chain in seen.chains.values() for document in chain if document["type"] == "lost"
        ]
        found += _named(name, judge_lines(truth, [*log, *told], promises))
    for name, status in seen.statuses.items():
        found += _named(name, _judge_status(truth, status, promises))
    if len(states := {name: status["state"] for name, status in seen.statuses.items()}) > 1:
        found += [Violation("two-ends", str(states))] if len(set(states.values())) > 1 else []
    found += [Violation("left-running", name) for name in seen.alive]
    found += [Violation("left-behind", name) for name in seen.left]
    return found


def _named(name: str, found: Iterable[Violation]) -> Iterator[Violation]:
    return (Violation(v.name, f"{name}: {v.detail}") for v in found)


# --- what ran


def _judge_copies(truth: Sequence[Copy], promises: Promises) -> Iterator[Violation]:
    for key, count in Counter(copy.key for copy in truth).items():
        if count > 1:
            yield Violation("ran-twice", f"{_show(key)}: {count} processes")
    for copy in truth:
        if copy.overlap:
            yield Violation("two-at-once", f"{_show(copy.key)} began while an earlier attempt lived")
        if copy.broken_pipe and not promises.may_lose:
            yield Violation("pipe-closed", f"{_show(copy.key)}: its output was closed while it ran")


def judge_calls(calls: Iterable[Call]) -> Iterator[Violation]:
    """Judge calls: none hangs, none raises an error that is not ours."""
    for call in calls:
        if call.hung:
            yield Violation("hang", f"{call.name} {call.detail}")
        elif not call.ours:
            yield Violation("foreign-error", f"{call.name}: {call.outcome} {call.detail}")


# --- lines


def judge_lines(truth: Sequence[Copy], log: Sequence[Document], promises: Promises) -> list[Violation]:
    """Judge every line: exactly once, in order, under the right role, replica, attempt and stream."""
    copies = {copy.key: copy for copy in truth}
    shown: dict[Key, list[Document]] = {}
    lost: set[Key] = set()
    for document in log:
        key = (document.get("role", ""), document.get("replica", 0), document.get("attempt", 0))
        if document["type"] == "log":
            shown.setdefault(key, []).append(document)
        elif document["type"] == "lost":
            lost.add(key)
    found = [
        Violation("needless-loss", _show(key))
        for key in lost
        if not (promises.may_lose or (promises.may_drop and _is_less(shown.get(key, []), copies.get(key))))
    ]
    for key in sorted(shown.keys() | copies.keys()):
        said = copies[key].said if key in copies else []
        if promises.may_lose_unfinished:
            said = [line._replace(sure=line.sure and line.eol) for line in said]
        found += _judge_attempt(
            key, said, shown.get(key, []), promises, lost=key in lost or promises.may_lose_unnoticed
        )
    return found


def _is_less(shown: list[Document], copy: Copy | None) -> bool:
    """Return whether less is shown than was printed."""
    seen: int = sum(len(document["text"]) + document["eol"] for document in shown)
    return copy is not None and seen < sum(len(line.text) + line.eol for line in copy.said)


def _judge_attempt(
    key: Key, said: list[Said], shown: list[Document], promises: Promises, *, lost: bool
) -> Iterator[Violation]:
    names = ("stdout", "stderr") if promises.separate_streams else ("",)
    for stream in names:
        expected = [line for line in said if not stream or line.stream == stream]
        texts = [(d["text"], d["eol"]) for d in shown if not stream or d["stream"] == stream]
        yield from _judge_stream(f"{_show(key)} {stream}", expected, texts, lost=lost)
    if promises.exact and not lost:
        yield from _judge_order(key, said, shown)


def _judge_stream(
    where: str, said: list[Said], shown: list[tuple[str, bool]], *, lost: bool
) -> Iterator[Violation]:
    """Compare one stream as text: all that surely left the program, then a beginning of the rest."""
    text = "".join(line + "\n" * eol for line, eol in shown)
    sure = "".join(line.text + "\n" * line.eol for line in said if line.sure)
    whole = "".join(line.text + "\n" * line.eol for line in said)
    if text.startswith(sure) and _begins(whole, text):
        return
    wanted = Counter(line.text for line in said if line.sure)
    possible = Counter(line.text for line in said)
    got = Counter(line for line in text.split("\n") if line)
    missing, strange = wanted - got, got - possible
    repeated = [line for line in strange if line in possible]
    foreign = [line for line in strange if line not in possible and not _is_last(line, text, lost=lost)]
    if missing and not lost:
        yield Violation("lost-line", f"{where}: {_some(missing)}")
    if repeated:
        yield Violation("repeated-line", f"{where}: {_some(repeated)}")
    if foreign:
        yield Violation("strange-line", f"{where}: {_some(foreign)}")
    if not (missing or repeated or foreign) and not lost:
        yield Violation("disorder", f"{where}: {_first_difference(sure, text)}")


def _begins(whole: str, text: str) -> bool:
    """Return whether the text is the whole's beginning; a character may have been cut by the end."""
    return whole.startswith((text, text.rstrip("\ufffd")))


def _is_last(line: str, text: str, *, lost: bool) -> bool:
    """Return whether this is a piece at the end, after which output was lost."""
    return lost and text.removesuffix("\n").endswith(line)


def _judge_order(key: Key, said: list[Said], shown: list[Document]) -> Iterator[Violation]:
    joined = {(line.stream, line.number + 1) for line in said if not line.eol}
    told = [
        line.text for line in said if line.whole and line.eol and (line.stream, line.number) not in joined
    ]
    place = {text: i for i, text in enumerate(told)}
    seen = [document["text"] for document in shown if document["text"] in place]
    for before, after in pairwise(seen):
        if place[before] > place[after]:
            yield Violation("streams-disordered", f"{_show(key)}: {before[:40]!r} before {after[:40]!r}")
            return


# --- events


def _judge_chain(truth: Sequence[Copy], chain: Sequence[Document], promises: Promises) -> Iterator[Violation]:
    yield from judge_lines(truth, chain, promises)
    ends = [i for i, d in enumerate(chain) if d["type"] == "state" and d["state"] in TERMINAL]
    if ends != [len(chain) - 1]:
        yield Violation("no-single-end", f"terminal events at {ends} of {len(chain)} events")
    yield from _judge_changes(truth, chain, promises)
    if promises.reports:
        yield from _judge_reports(truth, chain, promises)
    if ends and chain[ends[-1]].get("status"):
        yield from _judge_status(truth, chain[ends[-1]]["status"], promises)


def _judge_changes(
    truth: Sequence[Copy], chain: Sequence[Document], promises: Promises
) -> Iterator[Violation]:
    changes: dict[Key, list[Document]] = {}
    for d in chain:
        if d["type"] == "replica":
            changes.setdefault((d["role"], d["replica"], d["attempt"]), []).append(d)
    for copy in truth:
        own = changes.get(copy.key, [])
        ends = [d for d in own if d["state"] in TERMINAL]
        if [d["state"] for d in own].count("RUNNING") != 1 or len(ends) != 1:
            if not promises.may_lose:
                yield Violation("changes", f"{_show(copy.key)}: {[d['state'] for d in own]}")
        elif promises.exit_codes and (wrong := _wrong_end(copy, ends[0], promises)):
            yield Violation("wrong-end", wrong)


def _wrong_end(copy: Copy, told: Document, promises: Promises) -> str:
    """Return what is wrong about how an attempt is told to have ended; empty when nothing is."""
    code, name = told.get("exit_code"), told.get("signal")
    wrong = f"{_show(copy.key)} ended by {_end_of(copy)}, told {told['state']} {code} {name}"
    if copy.exit_code is None and copy.signal is None:  # somebody else ended it
        killed = name in {"SIGKILL", "SIGTERM"} | promises.outside
        return "" if killed or (promises.may_lose and code is None and name is None) else wrong
    if name in promises.outside or (promises.may_lose and code is None and name is None):
        return ""
    if copy.signal is not None:
        return "" if (code, name) == (None, copy.signal) else wrong
    good = (code, name) == (copy.exit_code, None) and (told["state"] == "SUCCEEDED") <= (code == 0)
    return "" if good else wrong


def _wrong_last_end(copies: dict[Key, Copy], copy: Copy, told: Document, promises: Promises) -> str:
    """Return what is wrong about how a replica is told to have ended.

    Who died just when he had started its last attempt may not have written that down: then the status has the
    exit code of the attempt before.
    """
    before = copies.get((copy.role, copy.replica, copy.attempt - 1))
    was_killed = copy.exit_code is None and copy.signal is None
    if promises.may_lose and was_killed and before and not _wrong_end(before, told, promises):
        return ""
    return _wrong_end(copy, told, promises)


def _judge_reports(
    truth: Sequence[Copy], chain: Sequence[Document], promises: Promises
) -> Iterator[Violation]:
    for copy in truth:
        told = [
            _as_report(d) for d in chain if d["type"] in {"progress", "metric"} and _key_of(d) == copy.key
        ]
        made = [(report, sure) for report, sure in copy.reports if report["type"] in {"progress", "metric"}]
        surely = [report for report, sure in made if sure]
        if not promises.may_lose and told not in (surely, [report for report, _ in made]):
            yield Violation("reports", f"{_show(copy.key)} reported {len(surely)}, told {len(told)}")


def _as_report(document: Document) -> Document:
    names = {"progress": ("fraction", "message"), "metric": ("name", "value", "step")}[document["type"]]
    return {"type": document["type"], **{name: document[name] for name in names}}


# --- the end


def _judge_status(truth: Sequence[Copy], status: Document, promises: Promises) -> Iterator[Violation]:
    state = status["state"]
    why_not = {"SUCCEEDED": _no_success, "FAILED": _no_failure}.get(state, _no_other)
    if problem := why_not(truth, status, promises):
        excused = state in promises.may_end and (
            not promises.words or any(word in status["msg"] for word in promises.words)
        )
        if not excused:
            yield Violation("wrong-state", f"{state} ({status['msg']}): {problem}")
    copies = {copy.key: copy for copy in truth}
    for replica in _replicas(status):
        copy = copies.get((replica["role"], replica["id"], replica["attempt"]))
        if copy is None:
            if replica["state"] == "SUCCEEDED":
                yield Violation("invented", f"{replica['role']}/{replica['id']} succeeded, and never ran")
        elif replica["state"] not in TERMINAL:
            if not promises.may_lose:
                yield Violation("unended", f"{_show(copy.key)} is {replica['state']} of a {state} app")
        elif promises.exit_codes and (wrong := _wrong_last_end(copies, copy, replica, promises)):
            yield Violation("wrong-end", wrong)
    yield from _judge_retries(truth, status, promises)
    if promises.reports:
        yield from _judge_result(truth, status, promises)


def _judge_retries(truth: Sequence[Copy], status: Document, promises: Promises) -> Iterator[Violation]:
    """Judge who was started again with whom, and how often."""
    failures = Counter(
        (c.role, c.replica) for c in truth if _failed_by_itself(c) and not _fails_along(c, truth, promises)
    )
    for (role, replica), count in failures.items():
        if count > promises.max_retries.get(role, 0) + 1:
            yield Violation("too-many-attempts", f"{role}/{replica} failed {count} times")
    if status["state"] == "CANCELLED" or (status["state"] == "FAILED" and not promises.restarts_at_once):
        return  # perhaps in the middle of a restart
    last = {(r["role"], r["id"]): r["attempt"] for r in _replicas(status)}
    again = [c for c in truth if _failed_by_itself(c) and last[c.role, c.replica] > c.attempt]
    for failed in again:
        for mate in truth:
            restarts = mate.started < failed.last and _share(failed, mate, promises)
            if restarts and last[mate.role, mate.replica] <= mate.attempt:
                yield Violation("not-restarted", f"{_show(mate.key)} went on when {_show(failed.key)} failed")


def _fails_along(copy: Copy, truth: Sequence[Copy], promises: Promises) -> bool:
    """Return whether a peer's failure had this attempt start again anyway: it costs no try of its own.

    Of two that die within a moment nobody who waits for both can tell which was the first.
    """
    moment_s = MOMENT_S + (promises.doubt_s if copy.signal == "SIGTERM" or copy.exit_code == _TOLD else 0.0)
    return any(
        peer.last <= copy.last + moment_s
        and (copy.started <= peer.last or (not promises.restarts_at_once and copy.attempt == peer.attempt))
        and _share(peer, copy, promises)
        for peer in truth
        if peer is not copy and _failed_by_itself(peer)
    )


def _failed_by_itself(copy: Copy) -> bool:
    return not copy.told and (copy.signal is not None or bool(copy.exit_code))


def _share(failed: Copy, mate: Copy, promises: Promises) -> bool:
    """Return whether the one starts again when the other has failed."""
    policy = promises.policies.get(failed.role)
    return policy == "APPLICATION" or (policy == "ROLE" and mate.role == failed.role)


def _no_success(truth: Sequence[Copy], _status: Document, _promises: Promises) -> str:
    bad = [copy for copy in _last_copies(truth).values() if copy.exit_code != 0]
    return f"{_show(bad[0].key)} ended by {_end_of(bad[0])}" if bad else "" if truth else "nothing ran"


def _no_failure(truth: Sequence[Copy], status: Document, promises: Promises) -> str:
    """Return why the app should not have failed, or fails by another cause than its status says."""
    spent = [
        copy
        for copy in _last_copies(truth).values()
        if copy.exit_code != 0 and copy.attempt >= promises.max_retries.get(copy.role, 0)
    ]
    if not spent:
        return "no replica failed in its last attempt"
    if not promises.exit_codes:
        return ""
    failed = [r for r in _replicas(status) if r["state"] == "FAILED"]
    first = min(failed, key=lambda r: r.get("ended_at") or float("inf"), default=None)
    causes = {(copy.role, copy.replica) for copy in spent}
    named = any(status["msg"].startswith(f"{role}/{k} failed") for role, k in causes)
    if first is None or not (named or (first["role"], first["id"]) in causes):
        return f"told to have failed first: {first and (first['role'], first['id'])}, in truth: {causes}"
    return ""


def _no_other(_truth: Sequence[Copy], status: Document, _promises: Promises) -> str:
    return f"nobody asked for {status['state']}"


def _judge_result(truth: Sequence[Copy], status: Document, promises: Promises) -> Iterator[Violation]:
    surely, perhaps = [], []
    for copy in _last_copies([c for c in truth if any(r["type"] == "result" for r, _ in c.reports)]).values():
        results = [(r["value"], sure) for r, sure in copy.reports if r["type"] == "result"]
        surely += [value for value, sure in results if sure][-1:]
        perhaps += [value for value, _ in results][-1:]
    allowed = [*surely, *perhaps] if surely else [*perhaps, None]
    if status.get("result") not in allowed and not promises.may_lose:
        yield Violation("wrong-result", f"{status.get('result')!r}, reported were {allowed}")


# --- small things


def _last_copies(truth: Iterable[Copy]) -> dict[tuple[str, int], Copy]:
    last: dict[tuple[str, int], Copy] = {}
    for copy in sorted(truth, key=lambda c: c.attempt):
        last[copy.role, copy.replica] = copy
    return last


def _replicas(status: Document) -> list[Document]:
    return [replica for role in status["roles"] for replica in role["replicas"]]


def _key_of(document: Document) -> Key:
    return document["role"], document["replica"], document["attempt"]


def _end_of(copy: Copy) -> str:
    if copy.signal is not None:
        return copy.signal
    return "somebody else" if copy.exit_code is None else f"exit {copy.exit_code}"


def _show(key: Key) -> str:
    return "/".join(map(str, key))


def _some(lines: Iterable[str]) -> str:
    all_of_them = list(lines)
    return f"{len(all_of_them)}, as {all_of_them[0][:60]!r}"


def _first_difference(expected: str, got: str) -> str:
    for i, (a, b) in enumerate(zip(expected.split("\n"), got.split("\n"), strict=False)):
        if a != b:
            return f"line {i} is {b[:60]!r}, not {a[:60]!r}"
    return f"{len(got)} characters, not {len(expected)}"
