"""Keeps overlays in the metadata of an app or a role."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final, cast

from torchx_core.errors import InvalidInputError
from torchx_core.specs.app import AppDef, Role
from torchx_core.specs.checks import is_map, show
from torchx_core.specs.overlays.files import load_overlays
from torchx_core.specs.overlays.merge import accumulate
from torchx_core.specs.overlays.plain import as_overlay

__all__ = ["MARKER", "get_overlay", "set_overlay"]

log: Final = logging.getLogger(__name__)

MARKER: Final = "__torchx_overlays__"
"""In the metadata of a namespace it says that the other keys are kinds; TorchX reads and writes the same."""


def set_overlay(target: AppDef | Role, namespace: str, kind: str, overlay: object) -> None:
    """Attach an overlay to the app or role, on top of what the same namespace and kind have already.

    It is kept in ``target.metadata[namespace][kind]`` as plain data, operators included, and so survives
    YAML and JSON. Nothing is changed when it is refused.

    Args:
        target: The app or role; changed.
        namespace: Of the scheduler that will look for it, for example ``kubernetes``.
        kind: What it is laid over, for example ``V1Pod``.
        overlay: A map or a dataclass; `None` in a field of a dataclass leaves the field alone. A tuple
            replaces a list, as PUT does.

    Raises:
        InvalidInputError: It is no plain data, does not fit what is there, or the namespace is a file.
    """
    _check_kind(kind)
    given = as_overlay(overlay)
    metadata = cast("dict[str, object]", target.metadata)  # an app's too holds maps, as in TorchX
    kinds = metadata.get(namespace, {})
    if not is_map(kinds):
        raise InvalidInputError(
            f"metadata[{namespace!r}] is {show(kinds)}, to which no overlay can be added; remove it first"
        )
    held = kinds.get(kind)
    stored = as_overlay(held) if is_map(held) else {}
    accumulate(stored, given, f"{namespace}.{kind}")
    metadata[namespace] = {**kinds, MARKER: True, kind: stored}


def get_overlay(
    target: AppDef | Role, namespace: str, kind: str, *, flat_fallback: bool = True
) -> dict[str, object]:
    """Return a copy of the overlay, with its operators, or ``{}`` when there is none.

    Where ``metadata[namespace]`` is a text it names a file, JSON or YAML, that has the kinds.

    Args:
        target: The app or role.
        namespace: Of the scheduler.
        kind: What the overlay is laid over.
        flat_fallback: Take a namespace that somebody wrote without kinds for this one, with a warning.

    Raises:
        InvalidInputError: The file cannot be read, or holds no map.
    """
    _check_kind(kind)
    kinds: object = target.metadata.get(namespace, {})
    if isinstance(kinds, str):
        kinds = load_overlays(kinds)
    if not is_map(kinds):
        return {}
    found = kinds.get(kind)
    if is_map(found):
        return as_overlay(found)
    if MARKER in kinds or not flat_fallback or not _is_flat(kinds.values()):
        return {}
    log.warning(
        "metadata[%r] has no kind %r: taken for one whole flat overlay; use set_overlay", namespace, kind
    )
    return as_overlay(kinds)


def _check_kind(kind: str) -> None:
    if kind == MARKER:
        raise InvalidInputError(f"no kind of overlay can be called {MARKER!r}; it marks namespaces")


def _is_flat(values: Collection[object]) -> bool:
    """Return whether it looks like one overlay: several maps and nothing else look like several kinds."""
    return bool(values) and not (len(values) > 1 and all(is_map(value) for value in values))
