"""TorchX's path of warnings about old names, for packages that give their own users such warnings."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["deprecated", "deprecated_module"]

P = ParamSpec("P")
R = TypeVar("R")


def deprecated_module(old_import: str, new_import: str, *, stacklevel: int = 3) -> None:
    """Warn that a module has another name now; the module of the old name calls this when it is imported.

    Args:
        old_import: The old name.
        new_import: The new one.
        stacklevel: Whose line the warning shows: 3 is that of whoever imports the module that calls this.
    """
    message = f"Deprecated: {old_import} is {new_import} now; the old name will be removed"
    warnings.warn(message, UserWarning, stacklevel=stacklevel)


def deprecated(*, replacement: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: each call of what it decorates warns.

    Args:
        replacement: What to call in its place.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        hint = f"; use {replacement}" if replacement else ""

        @functools.wraps(function)
        def warned(*args: P.args, **kwargs: P.kwargs) -> R:
            warnings.warn(f"{function.__name__} is deprecated{hint}", UserWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warned

    return decorate
