"""TorchX's path of importing what may not be installed."""

from __future__ import annotations

import importlib
import logging
from typing import Any, TypeVar, cast

__all__ = ["import_attr", "load_module"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


def load_module(path: str) -> Any | None:  # noqa: ANN401  # whatever the attribute is
    """Return the module of that name, or of ``module:attribute`` the attribute; None where there is none.

    A module that exists and cannot be imported is None as well, with a warning that says why.
    """
    name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(name)
        return getattr(module, attribute) if attribute else module
    except Exception as err:  # noqa: BLE001  # a module may raise anything while it is imported
        if not _is_absent(name, err):
            _log.warning("cannot load %s: %s: %s", path, type(err).__name__, err)
        return None


def import_attr(name: str, attr: str, default: T) -> T:
    """Return the module's attribute, or the default where there is no such module.

    Raises:
        ImportError: The module exists, and cannot be imported.
        AttributeError: It has no such attribute.
    """
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as err:
        if _is_absent(name, err):
            return default
        raise
    return cast("T", getattr(module, attr))


def _is_absent(name: str, error: Exception) -> bool:
    """Return whether the module itself, or a package that it lies in, is what was not found."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return missing is not None and f"{name}.".startswith(f"{missing}.")
