"""What a record says, as JSON in a label; what cannot be so is found where it is read, and told as damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

from torchx_core.errors import CorruptRecordError, InvalidInputError, NewerRecordError
from torchx_core.schedulers.docker.answers import Json
from torchx_core.schedulers.docker.labels import APP, CONTENT, SESSION
from torchx_core.schedulers.docker.volume_state import Attempt
from torchx_core.specs import AppState, AppStatus, is_terminal
from torchx_core.supervisor.reading import DamagedFile, parse_object
from torchx_core.supervisor.shape import Misshapen, build, is_number, is_whole, rows, shown

__all__ = [
    "BEGUN",
    "FINAL",
    "OWNER",
    "RESTART",
    "SPEC",
    "STOP",
    "UNDONE",
    "Planned",
    "Stop",
    "attempts",
    "check",
    "dumped",
    "naming_damage",
    "parsed",
    "replicas",
    "stop",
]

T = TypeVar("T")

VERSION = 1
SPEC, BEGUN, STOP, RESTART, OWNER, FINAL = "spec", "begun", "stop", "restart", "owner", "final"
UNDONE = "UNDONE"
"""Outcome of a submit that is being taken back."""
_BACKEND = "local_docker"
_OUTCOMES = frozenset({UNDONE, *(state.name for state in AppState if is_terminal(state))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One replica, as it was submitted."""

    index: int
    """Number in the whole app."""
    role: str
    replica: int
    container: str
    policy: str
    max_retries: int
    by_engine: bool
    """The engine starts it again after a failure; otherwise whoever follows does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The app is to end."""

    outcome: str
    """FAILED or CANCELLED; UNDONE for a submit that is being taken back."""
    msg: str
    grace_s: float
    time: float
    """When it was asked for, in seconds since the epoch."""
    cause: int | None = None
    """Index of the replica whose end is why; None when it ends for another reason."""


class _Spec(NamedTuple):
    nonce: str
    salt: str
    submitted_at: float
    asked: object
    replicas: object


class _Asked(NamedTuple):
    app: object
    cfg: object
    secrets: dict[str, str]


class _Cfg(NamedTuple):
    grace_s: float
    shim: str


class _Begun(NamedTuple):
    time: float


class _Restart(NamedTuple):
    targets: object
    cause: str
    time: float


class _Owner(NamedTuple):
    token: str


class _Final(NamedTuple):
    status: object
    attempts: object
    ended_at: float
    begun: object
    stop: object


def dumped(content: Json) -> str:
    """Return the text of a record."""
    return json.dumps({"version": VERSION, **content}, separators=(",", ":"))


def parsed(name: str, labels: Mapping[str, str]) -> Json:
    """Return what the volume's label says, of whatever kind.

    Raises:
        CorruptRecordError: It has none, or that is no record.
        NewerRecordError: A newer version of this library wrote it.
    """
    if CONTENT not in labels:
        raise CorruptRecordError(f"volume {name}", "is not one of this library's")
    with naming_damage(name, labels):
        content = parse_object(labels[CONTENT].encode("utf-8", "surrogatepass"), name)
        version = content.get("version")
        if not is_whole(version):
            raise Misshapen("has no version")
    if cast("int", version) > VERSION:
        raise NewerRecordError(f"volume {name}", cast("int", version), VERSION)
    return content


@contextmanager
def naming_damage(name: str, labels: Mapping[str, str]) -> Generator[None]:
    """Tell damage of the volume's record by the error that says so, and how to forget the app."""
    try:
        yield
    except (Misshapen, DamagedFile) as err:
        problem = err.problem if isinstance(err, DamagedFile) else str(err)
        known = {APP, SESSION} <= labels.keys()
        handle = f"{_BACKEND}://{labels[SESSION]}/{labels[APP]}" if known else ""
        raise CorruptRecordError(f"volume {name}", problem, handle) from err


def check(kind: str, content: Json, spec: Json) -> None:
    """See that a record of the kind can say that, of the app with that record of its own.

    Raises:
        Misshapen: It cannot.
    """
    if kind in _CHECKS:
        _CHECKS[kind](content, spec)


def replicas(spec: Json) -> tuple[Planned, ...]:
    """Return every replica, in the order of roles."""
    return tuple(build(Planned, row) for row in rows(spec, "replicas"))


def attempts(final: Json) -> list[tuple[Attempt, ...]]:
    """Return the attempts of each replica of an app that is over."""
    found = rows(final, "attempts")
    return [tuple(build(Attempt, row) for row in rows({"attempts": one}, "attempts")) for one in found]


def stop(content: Json) -> Stop:
    """Return the request that the app ends."""
    found = _built(Stop, content)
    if found.outcome not in _OUTCOMES:
        raise Misshapen(f"the app cannot end as {shown(found.outcome)}")
    return found


def _check_spec(content: Json, _spec: Json) -> None:
    asked = _built(_Asked, _built(_Spec, content).asked)
    if not isinstance(asked.app, dict):
        raise Misshapen(f"app is {shown(asked.app)}")
    _built(_Cfg, asked.cfg)
    for name in ("deadline", "timeout_s", "lease_s"):
        limit = cast("Json", asked.cfg).get(name)
        if limit is not None and not is_number(limit):
            raise Misshapen(f"{name} is {shown(limit)}")
    replicas(content)


def _check_restart(content: Json, _spec: Json) -> None:
    targets = _built(_Restart, content).targets
    if not isinstance(targets, dict):
        raise Misshapen(f"targets is {shown(targets)}")
    for index, attempt in cast("Json", targets).items():
        if not index.isdecimal() or not is_whole(attempt):
            raise Misshapen(f"targets has {shown(index)}: {shown(attempt)}")


def _check_final(content: Json, spec: Json) -> None:
    final = _built(_Final, content)
    if final.begun is not None:
        _built(_Begun, final.begun)
    if final.stop is not None:
        stop(cast("Json", final.stop))
    wanted, found = len(replicas(spec)), len(attempts(content))
    if found != wanted:
        raise Misshapen(f"{found} replicas have ended, of {wanted}")
    try:
        status = AppStatus.from_json(cast("Json", final.status))
    except InvalidInputError as err:
        raise Misshapen(str(err)) from err
    if not is_terminal(status.state):
        raise Misshapen(f"the app cannot end as {status.state}")


_CHECKS: Mapping[str, Callable[[Json, Json], object]] = {
    SPEC: _check_spec,
    BEGUN: lambda content, _: _built(_Begun, content),
    STOP: lambda content, _: stop(content),
    RESTART: _check_restart,
    OWNER: lambda content, _: _built(_Owner, content),
    FINAL: _check_final,
}


def _built(kind: type[T], record: object) -> T:
    """Return the value, without the fields that its type does not have."""
    if isinstance(record, dict):
        fields = cast("Json", record)
        record = {name: fields[name] for name in kind.__annotations__ if name in fields}
    return build(kind, record)
