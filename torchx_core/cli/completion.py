"""What a shell may complete a word to; asked on every press of the tab key, so nothing here may fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from torchx_core.compat import PREFIX
from torchx_core.errors import TorchXError

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from torchx_core import Runner
    from torchx_core.components import Component

__all__ = ["complete_cfg", "complete_components", "complete_flags", "complete_handles", "complete_schedulers"]


def complete_schedulers(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the schedulers."""
    from torchx_core import get_runner

    with get_runner() as runner:
        return _starting(runner.scheduler_backends(), incomplete)


def complete_handles(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the handles of the session, newest first; a word may begin a handle or an app id."""
    from torchx_core import get_runner

    if incomplete.startswith("@"):
        return _starting(["@latest"], incomplete)
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


def complete_components(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the components that are known by name or lie in the file that is named, else files.

    Only the first word after the options is one; what follows are its arguments, which may be files.
    """
    from click.shell_completion import CompletionItem  # here: no other command needs it

    if ctx.params.get("component_and_args"):
        return [CompletionItem(incomplete, type="file")]
    file, colon, _ = incomplete.rpartition(":")
    if colon:
        from torchx_core.components.peek import components_in

        names = [f"{file}:{name}" for name in components_in(Path(file))]
        return list(map(CompletionItem, _starting(names, incomplete)))
    names = _starting((component.name for component in _known_components()), incomplete)
    return list(map(CompletionItem, names)) or [CompletionItem(incomplete, type="file")]


def complete_flags(component: str, incomplete: str) -> list[CompletionItem]:
    """Return a component's own flags. A file is read for that, never run: nobody has asked for that yet."""
    from click.shell_completion import CompletionItem

    from torchx_core.components.peek import flags_in, source_of

    flags: dict[str, str] = {}
    known = [each for each in _known_components() if each.name == component]
    if known:
        flags = {parameter.flags[-1]: parameter.help for parameter in known[0].parameters if parameter.flags}
    elif source := source_of(component):
        flags = flags_in(*source)
    return [CompletionItem(flag, help=flags.get(flag)) for flag in _starting([*flags, "--help"], incomplete)]


def _known_components() -> list[Component]:
    from torchx_core.components import list_components

    try:
        return list_components()
    except TorchXError:
        return []


def complete_cfg(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return ``KEY=`` for the scheduler's options, after the pairs that are there already."""
    from torchx_core import get_runner

    done, comma, _ = incomplete.rpartition(",")
    try:
        with get_runner() as runner:
            options = runner.scheduler_run_opts(ctx.params.get("scheduler") or runner.default_scheduler())
            return _starting((f"{done}{comma}{key}=" for key, _ in options), incomplete)
    except TorchXError:
        return []


def _starting(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
