"""The names of ``torchx.util.types``: values from text, by the annotation of a parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Final, TypeVar, Union, cast, get_args, get_origin

__all__ = [
    "decode",
    "decode_from_string",
    "decode_optional",
    "get_argparse_param_type",
    "is_bool",
    "is_primitive",
    "none_throws",
    "to_dict",
    "to_list",
]

T = TypeVar("T")

_PRIMITIVES: Final[tuple[object, ...]] = (int, str, float)
_KEY: Final = r"""\s*[^\s=,;"'][^=,;"']*="""
_PAIR: Final = re.compile(
    rf"""(?P<key>{_KEY})\s*(?P<value>(?:"[^"]*"|'[^']*'|.)*?)\s*(?:$|[,;](?={_KEY}))""", re.DOTALL
)


def to_list(arg: str) -> list[str]:
    """Return the parts between commas, without the white space around them; of nothing, nothing."""
    return [part.strip() for part in arg.split(",")] if arg.strip() else []


def to_dict(arg: str) -> dict[str, str]:
    """Read ``key=value,key=value``, where ``;`` will do for ``,``.

    A separator that no key and ``=`` follow belongs to the value. Quotes around a whole value are left out.

    Raises:
        ValueError: It has another form, or a value is missing (an empty one is ``''``).

    Example:
        >>> to_dict("FOO=v1,v2;BAR=v3")
        {'FOO': 'v1,v2', 'BAR': 'v3'}
    """
    pairs: dict[str, str] = {}
    at = 0
    while at < len(arg):
        found = _PAIR.match(arg, at)
        if not found or not found["value"]:
            raise ValueError(f"malformed: {arg!r}; expected KEY=VALUE[,KEY=VALUE...], an empty VALUE as ''")
        pairs[found["key"][:-1].strip()] = _unquoted(found["value"])
        at = found.end()
    return pairs


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def decode(encoded_value: object, annotation: object) -> object:
    """Return the value that a text spells for such a parameter; what is no text is returned as it is."""
    wanted = _plain(annotation)
    if not isinstance(encoded_value, str):
        return encoded_value
    if is_bool(wanted):
        return encoded_value.lower() == "true"
    return encoded_value if is_primitive(wanted) else decode_from_string(encoded_value, annotation)


def decode_from_string(encoded_value: str, annotation: object) -> dict[object, object] | list[object] | None:
    """Read ``a,b`` for a list, or ``k=v,k=v`` for a dict; of nothing, None.

    Raises:
        ValueError: The annotation is neither, or the items are of another type than int, float or str; or
            the text does not spell one.
    """
    if not encoded_value:
        return None
    wanted = _plain(annotation)
    items = get_args(wanted)
    if all(map(is_primitive, items)):
        makers = cast("tuple[Callable[[str], object], ...]", items)
        if get_origin(wanted) is list:
            return [makers[0](item) for item in to_list(encoded_value)]
        if get_origin(wanted) is dict:
            return {makers[0](key): makers[1](value) for key, value in to_dict(encoded_value).items()}
    raise ValueError(f"cannot read {annotation}; expected a list or a dict of int, float or str")


def is_bool(param_type: object) -> bool:
    """Return whether the type is bool."""
    return param_type is bool


def is_primitive(param_type: object) -> bool:
    """Return whether the type is int, float or str."""
    return any(param_type is primitive for primitive in _PRIMITIVES)


def decode_optional(param_type: object) -> object:
    """Return ``T`` for ``T | None``, any other type as it is."""
    if get_origin(param_type) not in (Union, UnionType):
        return param_type
    named = get_args(param_type)
    return named[0] if len(named) == len(("T", None)) and named[1] is NoneType else param_type


def get_argparse_param_type(parameter: inspect.Parameter) -> Callable[[str], object]:
    """Return what makes the parameter's value of a word: int, float, or else str."""
    wanted = _plain(parameter.annotation)
    return cast("Callable[[str], object]", wanted) if is_primitive(wanted) else str


def none_throws(optional: T | None, message: str = "Unexpected `None`") -> T:
    """Return the value.

    Raises:
        AssertionError: It is None.
    """
    if optional is None:
        raise AssertionError(message)
    return optional


def _plain(annotation: object) -> object:
    """Return ``T`` for ``Annotated[T, ...]``."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
