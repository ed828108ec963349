"""The types that an argument of a component can have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Final, Literal, TypeAlias, TypeGuard, Union, cast, get_args, get_origin

__all__ = ["SUPPORTED", "Scalar", "UnsupportedType", "ValueType", "value_type"]

Scalar: TypeAlias = type[str | int | float | bool]
SUPPORTED: Final = "use str, int, float, bool, list[T], tuple[T, U], dict[K, V] or T | None"

_SCALARS: Final[tuple[Scalar, ...]] = (str, int, float, bool)
_CONTAINERS: Final = {list: "list[str]", tuple: "tuple[str, str]", dict: "dict[str, str]"}


class UnsupportedType(ValueError):
    """An argument cannot have this type; ``advice`` says what to write instead."""

    def __init__(self, problem: str, advice: str = SUPPORTED) -> None:
        """Say what is wrong, as the end of a sentence that begins with the argument."""
        self.advice = advice
        super().__init__(problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType:
    """A scalar, a list, tuple or dict of scalars, or a value of Python's that no text can spell."""

    shape: Literal["scalar", "list", "tuple", "dict", "value"]
    scalars: tuple[Scalar, ...]
    """One for a scalar or a list, one per element for a tuple, key and value for a dict, else none."""
    optional: bool = False
    """Whether the value may be None."""

    def __str__(self) -> str:
        """Return it as an annotation would spell it."""
        if self.shape == "value":
            return "a value of Python's"
        names = ", ".join(scalar.__name__ for scalar in self.scalars)
        spelled = names if self.shape == "scalar" else f"{self.shape}[{names}]"
        return f"{spelled} | None" if self.optional else spelled


def value_type(annotation: object) -> ValueType:
    """Return the type that the annotation spells; metadata of ``Annotated`` is ignored.

    Raises:
        UnsupportedType: Text on a command line cannot be turned into it.

    Example:
        >>> print(value_type(list[int]), value_type(str | None), sep=", ")
        list[int], str | None
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        return value_type(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return _optional(annotation)
    if _is_scalar(annotation):
        return ValueType(shape="scalar", scalars=(annotation,))
    for container, example in _CONTAINERS.items():
        if annotation is container:
            raise UnsupportedType("does not say what is in it", f"write {example}")
        if origin is container:
            return _container(container, get_args(annotation))
    raise UnsupportedType(f"has the unsupported type {_spelled(annotation)}")


def _optional(annotation: object) -> ValueType:
    types = [arg for arg in get_args(annotation) if arg is not NoneType]
    if len(types) != 1:
        raise UnsupportedType(f"may have several types, {_spelled(annotation)}", "choose one of them")
    return replace(value_type(types[0]), optional=True)


def _container(container: type, args: tuple[object, ...]) -> ValueType:
    if container is dict and len(args) != len(("key", "value")):
        raise UnsupportedType("is a dict without a type for keys and one for values", "write dict[str, str]")
    scalars = tuple(arg for arg in args if _is_scalar(arg))
    if scalars != args:
        raise UnsupportedType(f"is a {container.__name__} of {', '.join(map(_spelled, args))}")
    shape = cast(Literal["list", "tuple", "dict"], container.__name__)
    return ValueType(shape=shape, scalars=scalars)


def _is_scalar(annotation: object) -> TypeGuard[Scalar]:
    return any(annotation is scalar for scalar in _SCALARS)


def _spelled(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
