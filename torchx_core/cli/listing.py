"""The apps of all schedulers together, and which of these could not be asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypedDict, Unpack

from torchx_core import Runner, get_runner
from torchx_core.errors import BackendAbsentError, TorchXError
from torchx_core.schedulers import ListAppResponse

__all__ = ["Conditions", "Listing", "apps_of", "ask_all"]


class Listing(NamedTuple):
    """The apps of all schedulers asked, and why some could not be asked."""

    apps: list[ListAppResponse]
    unreachable: dict[str, str]


class Conditions(TypedDict, total=False):
    """Which apps to list; all of them where nothing is said. See `Runner.list`."""

    newest: int | None
    """Of each scheduler and session."""
    begins: str
    live: bool


def apps_of(
    runner: Runner,
    scheduler: str | None = None,
    *,
    all_sessions: bool = False,
    **conditions: Unpack[Conditions],
) -> Listing:
    """Return the apps of the runner's session on that scheduler, or on the configured one, else on all.

    Args:
        runner: Whose session, and whose schedulers.
        scheduler: Ask this one alone.
        all_sessions: Whatever their session.
        conditions: Which of them.

    Raises:
        TorchXError: The one scheduler that was to be asked could not be.
    """
    only = scheduler or _configured_scheduler()
    if only is None:
        return ask_all(runner, all_sessions=all_sessions, **conditions)
    return Listing(_oldest_first(_list(runner, only, conditions, all_sessions=all_sessions)), {})


def _configured_scheduler() -> str | None:
    from torchx_core.config import read_config

    setting = read_config().settings("cli:list").get("scheduler")
    return setting.text if setting else None


def ask_all(runner: Runner, *, all_sessions: bool = False, **conditions: Unpack[Conditions]) -> Listing:
    """Return the apps of the runner's session, or of all, on all of its schedulers that answer; oldest first.

    One whose backend is absent, as Docker's where there is no engine, has no apps, and is not named.
    """
    listing = Listing([], {})
    for name in runner.scheduler_backends():
        try:
            listing.apps.extend(_list(runner, name, conditions, all_sessions=all_sessions))
        except BackendAbsentError:
            continue
        except TorchXError as err:
            listing.unreachable[name] = str(err)
    return Listing(_oldest_first(listing.apps), listing.unreachable)


def _list(
    runner: Runner, scheduler: str, conditions: Conditions, *, all_sessions: bool
) -> list[ListAppResponse]:
    if not all_sessions:
        return runner.list(scheduler, **conditions)
    apps: list[ListAppResponse] = []
    for session in runner.scheduler(scheduler).sessions():
        with get_runner(session) as each:
            apps.extend(each.list(scheduler, **conditions))
    return apps


def _oldest_first(apps: Iterable[ListAppResponse]) -> list[ListAppResponse]:
    return sorted(apps, key=lambda app: (app.submitted_at or 0.0, app.app_handle))
