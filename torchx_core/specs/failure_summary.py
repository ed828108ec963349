"""Why an app did not succeed, as text for people."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from torchx_core.specs.failure import Failure, find_failure, find_stops, is_of_a_peer
from torchx_core.specs.rank_marks import lines_by_rank, unmarked
from torchx_core.specs.sentinels import NONE
from torchx_core.specs.state import AppState
from torchx_core.specs.status import AppStatus, ReplicaStatus
from torchx_core.specs.structured_error import parse_structured_error
from torchx_core.specs.torchelastic import without_summary
from torchx_core.specs.tracebacks import find_raised
from torchx_core.terminal import harmless

__all__ = ["ending", "failure_summary", "name_of", "stops"]

MAX_LINES: Final = 10
MAX_LINE_CHARS: Final = 200
MAX_EXCEPTION_CHARS: Final = 300
MAX_TEXT_CHARS: Final = 10_000
_OTHERS_SHOWN: Final = 10
_STOPS_SHOWN: Final = 16
_OUT_OF_MEMORY: Final = "out of memory"
_NO_NEWS: Final = "Extension modules: "
"""What faulthandler ends a crash with, a line of some thousand letters."""


def failure_summary(status: AppStatus) -> str:
    """Return why the app did not succeed, most telling facts first; see `AppStatus.failure_summary`."""
    if status.state is AppState.SUCCEEDED:
        return ""
    failure = find_failure(status)
    lines = _of_the_app(status) if failure is None else _of_a_replica(failure, status)
    return harmless("\n".join(lines))


def _of_the_app(status: AppStatus) -> list[str]:
    error = parse_structured_error(status.structured_error_msg)
    when = f" (at {error.time})" if error and error.time else ""
    lines = [f"job did not succeed: app is {status.state}{when}"]
    lines += [_indented("error: ", _cut(error.text))] if error else []
    lines += [_indented("message: ", message) for message in _said(status.msg)]
    return lines + [f"  {stop}" for stop in stops(status)]


def stops(status: AppStatus) -> list[str]:
    """Return a line for each rank that was ended at the deadline: where it was."""
    return [f"{who} was at {place}" for who, place in islice(find_stops(status), _STOPS_SHOWN)]


def _of_a_replica(failure: Failure, status: AppStatus) -> list[str]:
    replica = failure.replica
    lines = [
        f"{name_of(failure)} {ending(failure)}{_details(failure)}{_by_what(failure)}; app is {status.state}"
    ]
    lines += [_indented("error: ", _cut(failure.text))] if failure.text else []
    lines += [_indented("message: ", message) for message in _messages(failure, status)]
    lines += [f"  logs: {replica.log_dir}"] if replica.log_dir else []
    others = [other for other in status.failed_replicas() if other is not replica]
    lines += [f"  also failed: {_others(others)}"] if others else []
    words = _last_words(failure)
    lines += [f"  last lines of {_name(replica)}:", *(f"    {line}" for line in words)] if words else []
    return lines


def name_of(failure: Failure) -> str:
    """Return who failed: ``rank 3 of replica trainer/1``."""
    who = f"replica {_name(failure.replica)}"
    if not failure.in_rank:
        return who
    return f"a rank of {who}" if failure.rank is None else f"rank {failure.rank} of {who}"


def ending(failed: Failure | ReplicaStatus) -> str:
    """Return how it ended: ``failed with exit code 1``."""
    if failed.signal:
        return f"was killed by {failed.signal}"
    return "failed" if failed.exit_code is None else f"failed with exit code {failed.exit_code}"


def _details(failure: Failure) -> str:
    replica = failure.replica
    details = [f"attempt {replica.attempt + 1}"] if replica.attempt else []
    details += [f"on {replica.hostname}"] if replica.hostname else []
    details += [f"at {failure.at}"] if failure.at else []
    return f" ({', '.join(details)})" if details else ""


def _by_what(failure: Failure) -> str:
    """Return what made it fail: that memory was short, or what was raised and where."""
    what = failure.exception or (failure.replica.msg if _is_of_memory(failure.replica) else "")
    if not what:
        return ""
    if len(what) > MAX_EXCEPTION_CHARS:
        what = f"{what[:MAX_EXCEPTION_CHARS]}..."
    return f": {what} ({failure.place})" if failure.place else f": {what}"


def _is_of_memory(replica: ReplicaStatus) -> bool:
    return replica.msg.startswith(_OUT_OF_MEMORY)


def _messages(failure: Failure, status: AppStatus) -> list[str]:
    replica = failure.replica
    told_above = not failure.exception and _is_of_memory(replica)
    own = [] if told_above else _said(replica.msg)
    # a backend that says what the first line says already
    of_all = [] if status.msg.startswith(f"{_name(replica)} failed") else _said(status.msg)
    return list(dict.fromkeys([*own, *of_all]))


def _said(message: str) -> list[str]:
    return [message] if message.strip() and message != NONE else []


def _last_words(failure: Failure) -> list[str]:
    """Return the last lines, those on stderr where no exception is known; what is told above is left out."""
    told = {line.strip() for text in [failure.text, *_of_peers(failure)] for line in text.split("\n")}
    both, stderr = (
        [line for line in without_summary(lines) if _is_news(line, told)] for lines in failure.lines
    )
    lines = both if failure.text or failure.in_rank or not stderr else stderr
    return [line[:MAX_LINE_CHARS] for line in lines[-MAX_LINES:]]


def _of_peers(failure: Failure) -> Iterator[str]:
    """Yield the tracebacks of ranks that have only lost the one that failed."""
    for lines in lines_by_rank(failure.lines.both).values() if failure.in_rank else ():
        raised = find_raised(lines)
        if raised is not None and is_of_a_peer(raised):
            yield raised.text


def _is_news(line: str, told: Collection[str]) -> bool:
    text = unmarked(line).strip()
    return bool(text) and text not in told and not text.startswith(_NO_NEWS)


def _others(failed: Sequence[ReplicaStatus]) -> str:
    shown = ", ".join(f"{_name(r)} ({_outcome(r)})" for r in failed[:_OTHERS_SHOWN])
    hidden = len(failed) - _OTHERS_SHOWN
    return f"{shown} and {hidden} more" if hidden > 0 else shown


def _outcome(replica: ReplicaStatus) -> str:
    if replica.signal:
        return replica.signal
    return "exit code unknown" if replica.exit_code is None else f"exit code {replica.exit_code}"


def _name(replica: ReplicaStatus) -> str:
    return f"{replica.role}/{replica.id}"


def _cut(text: str) -> str:
    """Return the end of a long text: an exception comes last."""
    return text if len(text) <= MAX_TEXT_CHARS else f"... {text[-MAX_TEXT_CHARS:]}"


def _indented(title: str, text: str) -> str:
    """Put the text behind the title, its further lines below its first."""
    first, *others = text.strip().split("\n")
    below = " " * len(f"  {title}")
    return "\n".join([f"  {title}{first}", *(f"{below}{line}".rstrip() for line in others)])
