"""The types that a run option can have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias, assert_never, get_args, get_origin

from torchx_core.specs.checks import is_list, is_map

__all__ = ["CfgVal", "Kind", "get_type_name", "is_of_kind", "kind_of"]

CfgVal: TypeAlias = str | int | float | bool | list[str] | dict[str, str] | None
"""The value of a run option; None means "not set"."""

Kind: TypeAlias = Literal["str", "int", "float", "bool", "list[str]", "dict[str, str]"]

_SCALARS: Final[dict[object, Kind]] = {str: "str", int: "int", float: "float", bool: "bool"}
_GENERICS: Final[dict[object, Kind]] = {(list, (str,)): "list[str]", (dict, (str, str)): "dict[str, str]"}


def kind_of(tp: object) -> Kind | None:
    """Return which option type ``tp`` spells, or None; ``List[str]`` of `typing` is ``list[str]``."""
    return _SCALARS.get(tp) or _GENERICS.get((get_origin(tp), get_args(tp)))


def is_of_kind(value: object, kind: Kind) -> bool:
    """Return whether the value is of the kind: a bool is no int, and an int will do as a float."""
    match kind:
        case "str":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "list[str]":
            return is_list(value) and not isinstance(value, tuple) and _all_str(value)
        case "dict[str, str]":
            return is_map(value) and _all_str(value) and _all_str(value.values())
        case _:
            assert_never(kind)


def _all_str(items: Iterable[object]) -> bool:
    return all(isinstance(item, str) for item in items)


def get_type_name(tp: object) -> str:
    """Return how messages and help texts spell the type.

    Example:
        >>> get_type_name(int), get_type_name(list[str])
        ('int', 'list[str]')
    """
    own = None if getattr(tp, "__module__", "") == "typing" else getattr(tp, "__name__", None)
    return kind_of(tp) or str(own or tp)
