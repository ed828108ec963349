"""What to read when an app has failed, as Markdown: who failed first, how, its last words, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchx_core.display.tails import Tails
from torchx_core.display.text import cut
from torchx_core.specs import AppHandle, AppState, AppStatus, ReplicaStatus
from torchx_core.specs.failure import Failure, find_failure
from torchx_core.specs.failure_summary import ending, name_of
from torchx_core.specs.structured_error import parse_structured_error

__all__ = ["advise", "headline", "post_mortem"]

LAST_LINES = 50
PEERS = 3
PEER_LINES = 10
MAX_ERROR_CHARS = 20_000
MAX_OTHERS = 10
MAX_HEADLINE_CHARS = 300
_MARKUP = re.compile(r"[\\`*_\[\]!|#~]")


def post_mortem(status: AppStatus, handle: AppHandle, tails: Tails) -> str:
    """Return the report; the caller masks it."""
    failure = find_failure(tails.explain(status))
    first = failure.replica if failure else None
    parts = [f"# {headline(status, failure)}", _facts(status, handle, first)]
    parts += _error(status, failure)
    if first:
        parts += _last_lines(first.role, first.id, tails.of(first.role, first.id)[-LAST_LINES:])
        for role, number in tails.others(first.role, first.id)[:PEERS]:
            parts += _last_lines(role, number, tails.of(role, number)[-PEER_LINES:])
    parts += ["## What to do", "\n".join(f"- {advice}" for advice in advise(status, handle))]
    return "\n\n".join(parts) + "\n"


def headline(status: AppStatus, failure: Failure | None) -> str:
    """Return who failed first, and how; where nobody did, what the app is."""
    if failure is None:
        return f"The app is {status.state}"
    who = name_of(failure)
    what = f": {_cell(cut(failure.exception, MAX_HEADLINE_CHARS))}" if failure.exception else ""
    return f"{who[:1].upper()}{who[1:]} {ending(failure)}{what}"


def _facts(status: AppStatus, handle: AppHandle, first: ReplicaStatus | None) -> str:
    rows = [("App", _code(handle)), ("State", str(status.state))]
    if status.msg.strip():
        rows.append(("Message", _cell(status.msg)))
    if first:
        again = f"; the app started again {status.num_restarts} times" if status.num_restarts > 0 else ""
        rows.append(("Attempts", f"{first.attempt + 1} of this replica{again}"))
        rows += [("Host", _cell(first.hostname))] if first.hostname else []
        rows += [("Said", _cell(first.msg))] if first.msg else []
    others = [replica for replica in status.failed_replicas() if replica is not first]
    if others:
        names = ", ".join(f"{r.role}/{r.id} ({ending(r)})" for r in others[:MAX_OTHERS])
        more = f" and {len(others) - MAX_OTHERS} more" if len(others) > MAX_OTHERS else ""
        rows.append(("Failed later", _cell(names + more)))
    rows += [("Log files", _code(first.log_dir))] if first and first.log_dir else []
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def _error(status: AppStatus, failure: Failure | None) -> list[str]:
    """Return what the program itself said about its failure."""
    of_the_app = None if failure else parse_structured_error(status.structured_error_msg)
    text = failure.text if failure else of_the_app.text if of_the_app else ""
    at = failure.at if failure else of_the_app.time if of_the_app else None
    if not text:
        return []
    where = [f"At {_code(failure.place)}."] if failure and failure.place else []
    return [f"## Its error{f' (at {at})' if at else ''}", *where, _fenced(cut(text, MAX_ERROR_CHARS))]


def _last_lines(role: str, number: int, lines: list[str]) -> list[str]:
    return [f"## Last lines of {role}/{number}", _fenced("\n".join(lines))] if lines else []


def advise(status: AppStatus, handle: AppHandle) -> Iterator[str]:
    """Yield what helps most with this kind of end; what is to be typed stands between backticks."""
    first = next(iter(status.failed_replicas()), None)
    if status.state is AppState.CANCELLED:
        yield "Somebody or something asked for its end; the message above says who or what."
    elif first and first.signal == "SIGKILL":
        yield "SIGKILL is most often the kernel, out of memory: raise the role's `memMB`, or use less."
    elif first and first.signal in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGABRT"):
        yield f"{first.signal} comes from native code: look for a library that does not fit this host."
    elif first and first.exit_code in (126, 127):
        yield "The shell found no such program: check the role's `entrypoint`, its image and its `PATH`."
    yield f"Read the whole log: `torchx-core log {handle}`"
    yield f"See every replica: `torchx-core status {handle}`"
    yield "Run it again: a retry submits a new app, for this one has ended."


def _fenced(text: str) -> str:
    """Return the text as a block that none of its own lines can end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def _cell(text: str) -> str:
    """Return what a program may have written as one line of plain text: no link, no picture, no HTML."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split())).replace("<", "&lt;")


def _code(text: str) -> str:
    plain = " ".join(text.split()).replace("`", "").replace("|", "\\|")
    return f"`{plain}`"
