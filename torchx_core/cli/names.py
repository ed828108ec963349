"""Finds the app that a word means: an app id, the beginning of one, or ``@latest``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torchx_core import Runner, get_runner
from torchx_core.cli.listing import Conditions, Listing, apps_of
from torchx_core.errors import InvalidInputError, NotFoundError, SchedulerError, did_you_mean
from torchx_core.schedulers import ListAppResponse
from torchx_core.specs import AppHandle, make_app_handle

__all__ = ["LATEST", "find_apps", "meant"]

LATEST: Final = "@latest"
_HANDLE: Final = "://"
_MOST_SHOWN: Final = 10


def find_apps(words: Sequence[str], session: str | None = None) -> list[AppHandle]:
    """Return the handle of each word, which may be a handle already; then nothing is looked up.

    Args:
        words: Handles, app ids, beginnings of ids, ``@latest``.
        session: Whose apps the words name that are no handles; None for the runner's own default.

    Raises:
        TorchXError: As `meant`; or the one scheduler that is configured to be asked cannot be.
    """
    if all(_HANDLE in word for word in words):
        return list(words)
    with get_runner(session) as runner:
        listing = _listing_for([word for word in words if _HANDLE not in word], runner)
        return [word if _HANDLE in word else meant(word, listing, runner.name) for word in words]


def _listing_for(words: Sequence[str], runner: Runner) -> Listing:
    """Return those apps that the words may mean; where there are none, all, of which some may be close."""
    listing = apps_of(runner, **_enough_for(words))
    return listing if listing.apps else apps_of(runner)


def _enough_for(words: Sequence[str]) -> Conditions:
    if len(set(words)) > 1:
        return Conditions()
    return Conditions(newest=2) if words[0] == LATEST else Conditions(begins=words[0])  # two may be as new


def meant(word: str, listing: Listing, session: str) -> AppHandle:
    """Return the handle of the one app that the word means; never one of two.

    A whole id comes before ids that only begin with it. Every scheduler has to have answered: nobody knows
    what else one has.

    Args:
        word: An app id, the beginning of one, or ``@latest``.
        listing: Every app that there is, and who could not be asked.
        session: Whose apps they are, for messages.

    Raises:
        MalformedAppHandleException: No app can be called that.
        InvalidInputError: It means several apps; they are listed.
        NotFoundError: It means none.
        SchedulerError: A scheduler may have another app that is meant, and cannot be asked.
    """
    make_app_handle("any", session, word)
    for name, why in listing.unreachable.items():
        problem = f"cannot tell which app {word!r} is: {name} was not asked: {why}"
        raise SchedulerError(f"{problem}; give the app's whole handle")
    if word == LATEST:
        return _the_only(_latest(listing.apps, session), f"{word} is any of")
    exact = [app for app in listing.apps if app.app_id == word]
    if exact:
        return _the_only(exact, f"{word!r} is the id of")
    begun = [app for app in listing.apps if app.app_id.startswith(word)]
    if not begun:
        close = did_you_mean(word, [app.app_id for app in listing.apps])
        problem = f"no app of session {session!r} has an id that is, or begins with, {word!r}"
        raise NotFoundError(f"{problem}{close or '; torchx-core list shows them'}")
    return _the_only(begun, f"{word!r} begins the ids of")


def _latest(apps: Sequence[ListAppResponse], session: str) -> list[ListAppResponse]:
    """Return the app that was submitted last; several where a scheduler's clock cannot tell them apart."""
    times = [app.submitted_at for app in apps if app.submitted_at is not None]
    if not times:
        raise NotFoundError(f"no {LATEST} app: session {session!r} has none")
    return [app for app in apps if app.submitted_at == max(times)]


def _the_only(apps: Sequence[ListAppResponse], means: str) -> AppHandle:
    handles = [app.app_handle for app in apps]
    if len(handles) == 1:
        return handles[0]
    shown = ", ".join(handles[-_MOST_SHOWN:])
    more = f", and {len(handles) - _MOST_SHOWN} older ones" if len(handles) > _MOST_SHOWN else ""
    raise InvalidInputError(f"{means} {len(handles)} apps: {shown}{more}; give more of it, or a whole handle")
