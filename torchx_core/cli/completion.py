"""What a shell may complete a word to; asked on every press of the tab key, so nothing here may fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from torchx_core.compat import PREFIX
from torchx_core.errors import TorchXError

if TYPE_CHECKING:
    import click

    from torchx_core import Runner

__all__ = ["complete_cfg", "complete_components", "complete_handles", "complete_schedulers"]


def complete_schedulers(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the schedulers."""
    from torchx_core import get_runner

    with get_runner() as runner:
        return _starting(runner.scheduler_backends(), incomplete)


def complete_handles(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the handles of the session, newest first; a word may begin a handle or an app id."""
    from torchx_core import get_runner

    scheduler, found, path = incomplete.partition("://")
    session = path.partition("/")[0] if found else ""
    with get_runner(session or None) as runner:
        handles = list(_handles(runner, scheduler if found else None))
    return _starting(handles, incomplete) or [
        h for h in handles if h.rpartition("/")[2].startswith(incomplete)
    ]


def _handles(runner: Runner, scheduler: str | None) -> Iterator[str]:
    for name in [scheduler] if scheduler else _quick(runner.scheduler_backends()):
        try:
            yield from [app.app_handle for app in reversed(runner.list(name))]
        except TorchXError:
            continue  # not here, or not reachable: its handles cannot be completed


def _quick(schedulers: Iterable[str]) -> list[str]:
    """Leave out those for which TorchX would have to be imported: a key press should not take a second."""
    return [name for name in schedulers if not name.startswith(PREFIX)]


def complete_components(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the components that are known by name; only the first word after the options is one."""
    from torchx_core.components import list_components

    if ctx.params.get("component_and_args"):
        return []
    try:
        return _starting((component.name for component in list_components()), incomplete)
    except TorchXError:
        return []


def complete_cfg(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return ``KEY=`` for the scheduler's options, after the pairs that are there already."""
    from torchx_core import get_runner

    done, comma, _ = incomplete.rpartition(",")
    try:
        with get_runner() as runner:
            options = runner.scheduler_run_opts(ctx.params.get("scheduler") or runner.scheduler_backends()[0])
            return _starting((f"{done}{comma}{key}=" for key, _ in options), incomplete)
    except TorchXError:
        return []


def _starting(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
