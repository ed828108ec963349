"""What a page is given, as plain JSON values: what was run, and increments of what has happened."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Final, TypeAlias, TypedDict, cast

from torchx_core.display.masking import REFERENCE, Mask, hide, make_mask, secret_texts
from torchx_core.display.services import find_services
from torchx_core.display.text import begun
from torchx_core.schedulers.secrets import MASK, mask_env
from torchx_core.specs import AppDef, AppHandle, AppStatus, Role, parse_app_handle

__all__ = [
    "AppDocument",
    "AttemptDocument",
    "CurveDocument",
    "FailureDocument",
    "Increment",
    "LineRun",
    "app_mask",
    "describe_app",
    "services_of",
]

LineRun: TypeAlias = tuple[str, int, int, str, float, list[str]]
"""Replica, attempt, 1 for stderr, level, time, lines."""


class RoleDocument(TypedDict):
    """What one role's replicas run."""

    name: str
    command: str
    command_shown: str
    """The same, with the first line alone of a word that is a whole program."""
    facts: list[tuple[str, str]]
    env: list[tuple[str, str]]


class AppDocument(TypedDict):
    """What was run, and what can be done about it."""

    handle: str
    name: str
    id: str
    scheduler: str
    session: str
    roles: list[RoleDocument]
    metadata: list[tuple[str, str]]
    commands: list[tuple[str, str]]


class AttemptDocument(TypedDict, total=False):
    """What is new about one attempt of a replica; what is not said stays as it was."""

    replica: str
    attempt: int
    state: str
    start: float
    end: float
    exit: str
    host: str
    msg: str
    log_dir: str
    usage: list[tuple[str, float]]


class CurveDocument(TypedDict):
    """New points of one curve."""

    name: str
    replica: str
    attempt: int
    x: list[float]
    """Steps; where `steps` is false, how many points were before, counted from this increment on."""
    y: list[float | None]
    """None where the value is no number that an axis can show."""
    t: list[float]
    steps: bool
    count: int
    """How many points there were before they were thinned out."""


class FailureDocument(TypedDict):
    """What to read first when an app has not succeeded."""

    headline: str
    replica: str
    message: str
    error: str
    others: str
    log_dir: str
    last: list[tuple[str, list[str]]]
    advice: list[str]


class Increment(TypedDict, total=False):
    """What a page learns at once. The first one has all that is known; later ones what is new."""

    app: AppDocument
    states: list[tuple[str, float, str]]
    state: str
    """The present one, where no change was seen."""
    message: str
    restarts: int
    over: bool
    attempts: list[AttemptDocument]
    progress: list[tuple[str, int, float, str, float]]
    """Replica, attempt, fraction, message, time."""
    lines: list[LineRun]
    left_out: int
    """How many lines before these are not shown."""
    curves: list[CurveDocument]
    usage: list[CurveDocument]
    notices: list[tuple[str, str, float]]
    services: list[tuple[str, str]]
    links: list[tuple[str, str, str]]
    """Replica, name, and where it leads, as the app has reported it."""
    result: str
    failure: FailureDocument
    cursor: str


_UNSAID: Final[tuple[object, ...]] = (None, "", 0, -1, [], {}, "APPLICATION")


def app_mask(app: AppDef) -> Mask:
    """Return what hides the app's secrets: of its variables, and of the words of its command lines."""
    secrets: dict[str, str] = {}
    hide(app.to_dict(), secrets)
    return make_mask(app, secret_texts(secrets))


def describe_app(app: AppDef, app_handle: AppHandle) -> AppDocument:
    """Return what was run, without its secrets, and the commands that do something about it."""
    parsed = parse_app_handle(app_handle)
    mask = app_mask(app)
    return {
        "handle": app_handle,
        "name": app.name,
        "id": parsed.app_id,
        "scheduler": parsed.scheduler_backend,
        "session": parsed.session_name,
        "roles": [_role(role, mask) for role in app.roles],
        "metadata": [(str(name), mask(_text(value))) for name, value in app.metadata.items()],
        "commands": [
            ("Cancel it", f"torchx-core cancel {app_handle}"),
            ("Follow its log", f"torchx-core log --tail {app_handle}"),
            ("See its state", f"torchx-core status {app_handle}"),
        ],
    }


def services_of(app: AppDef, status: AppStatus) -> list[tuple[str, str]]:
    """Return names and addresses of what the app serves, and of its page at the scheduler."""
    found = {name: url for name, url in find_services(app, status).items() if url}
    return [*([("Scheduler", status.ui_url)] if status.ui_url else []), *found.items()]


def _role(role: Role, mask: Mask) -> RoleDocument:
    hidden = hide([role.entrypoint, *role.args], {}, words=True)
    words = list(map(mask, _revealed(cast("list[str | Mapping[str, str]]", hidden))))
    return {
        "name": role.name,
        "command": shlex.join(words),
        "command_shown": shlex.join(map(begun, words)),
        "facts": [(name, mask(_text(value))) for name, value in _facts(role) if value not in _UNSAID],
        "env": [(name, mask(value)) for name, value in mask_env(role.env).items()],
    }


def _facts(role: Role) -> list[tuple[str, object]]:
    resource = role.resource
    return [
        ("Replicas", role.num_replicas),
        ("At least", role.min_replicas),
        ("Image", role.image),
        ("CPU cores", max(0, resource.cpu)),
        ("GPUs", max(0, resource.gpu)),
        ("Memory", f"{resource.memMB} MB" if resource.memMB > 0 else ""),
        ("Devices", resource.devices),
        ("Capabilities", resource.capabilities),
        ("Retries", role.max_retries),
        ("Retried together", str(role.retry_policy.value) if role.max_retries else ""),
        ("Ports", role.port_map),
        ("Mounts", "; ".join(map(str, role.mounts))),
        ("Workspace", str(role.workspace) if role.workspace else ""),
        ("Metadata", role.metadata),
    ]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _revealed(words: list[str | Mapping[str, str]]) -> list[str]:
    """Return the words with a mask where `hide` has put a reference."""
    return [MASK if isinstance(word, Mapping) and REFERENCE in word else cast("str", word) for word in words]
