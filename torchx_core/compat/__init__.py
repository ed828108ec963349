"""Schedulers of an installed TorchX, behind this package's own interface.

Any scheduler that TorchX knows is found here under ``torchx:<its name>``: ``torchx:slurm``,
``torchx:kubernetes``, a plugin's. TorchX renders, submits, cancels and reads logs; what it does not keep (who
owns an app, why it was cancelled, that it was submitted at all) is written down beside it.

Finding their names imports nothing of TorchX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from torchx_core.errors import SchedulerError

if TYPE_CHECKING:
    from torchx_core.compat.scheduler import BridgeScheduler

__all__ = ["ENTRY_POINT_GROUP", "PREFIX", "find_factory", "is_installed", "scheduler_names"]

PREFIX: Final = "torchx:"

_BUILT_IN: Final = ("local_docker", "local_cwd", "slurm", "kubernetes")
ENTRY_POINT_GROUP: Final = "torchx.schedulers"
"""TorchX's own; deprecated there in favour of ``torchx_plugins.schedulers``, and read by it all the same."""


def is_installed() -> bool:
    """Return whether TorchX could be imported; does not import it."""
    from importlib.util import find_spec

    return find_spec("torchx") is not None


def scheduler_names(plugged_in: Iterable[str]) -> list[str]:
    """Return the names of TorchX's schedulers with the prefix; none where TorchX is not installed.

    What lies in a ``torchx_plugins`` package is found when it is asked for and not listed here, because
    knowing its name means importing it.

    Args:
        plugged_in: The names in `ENTRY_POINT_GROUP`.
    """
    names = dict.fromkeys([*_BUILT_IN, *plugged_in])
    return [PREFIX + name for name in names] if is_installed() else []


def find_factory(backend: str) -> Callable[..., BridgeScheduler]:
    """Return what makes the bridge to the scheduler; TorchX is imported when that is called.

    Raises:
        SchedulerError: TorchX is not installed.
    """
    if not is_installed():
        raise SchedulerError(
            f"scheduler {backend!r} needs TorchX, which is not installed;"
            " install the package torchx-nightly (or torchx), or choose a scheduler without 'torchx:'"
        )
    from torchx_core.compat.create import factory

    return factory(backend)
