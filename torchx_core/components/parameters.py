"""The arguments of a component, read from the function or class that was loaded."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Final, Literal

from torchx_core.components.docstring import read_docstring
from torchx_core.components.problems import Flaw
from torchx_core.components.value_types import UnsupportedType, ValueType, value_type

__all__ = ["REQUIRED", "Parameter", "UnusableSignature", "read_parameters"]


class _Required(Enum):
    REQUIRED = "required"


REQUIRED: Final = _Required.REQUIRED
"""In place of a default: the argument must be given."""

_KINDS: Final[dict[object, Literal["positional", "varargs", "keyword"]]] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.VAR_POSITIONAL: "varargs",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a component; for varargs, `type` is that of each word."""

    name: str
    type: ValueType
    kind: Literal["positional", "varargs", "keyword"]
    """How the function takes it; on a command line only varargs have no flag."""
    default: object = REQUIRED
    help: str = ""
    flags: tuple[str, ...] = ()
    """How a command line names it, short ones first, for example ``("-j", "--j")``."""


class UnusableSignature(ValueError):
    """What keeps a signature from being a component's; the caller adds which component it is about."""

    def __init__(self, flaws: list[Flaw]) -> None:
        """Carry the flaws, in the order of the signature."""
        self.flaws = flaws
        super().__init__(f"{len(flaws)} flaws")


def read_parameters(target: Callable[..., object], *, any_type: bool = False) -> tuple[Parameter, ...]:
    """Return the arguments in the order of the signature.

    Args:
        target: The function or class.
        any_type: Whether an argument may have a type that no text can spell, or none, which is then str.

    Raises:
        UnusableSignature: With everything that is wrong with it.
    """
    found: list[Parameter] = []
    flaws: list[Flaw] = []
    owners: dict[str, str] = {}
    explained = read_docstring(inspect.getdoc(target)).arguments
    for given, annotation in _annotated(target):
        try:
            tp = _type(given, annotation, any_type=any_type)
            found.append(_parameter(given, annotation, tp, explained.get(given.name, ""), owners))
        except UnsupportedType as err:
            flaws.append(Flaw(str(err), err.advice, given.name))
    if flaws:
        raise UnusableSignature(flaws)
    return tuple(found)


def _annotated(target: Callable[..., object]) -> Iterator[tuple[inspect.Parameter, object]]:
    made_by = inspect.unwrap(target)
    function = made_by.__init__ if inspect.isclass(made_by) else made_by
    scope = getattr(function, "__globals__", {})
    try:
        signature = inspect.signature(target)
    except ValueError:  # not written in Python
        raise UnusableSignature([Flaw("has no signature", "write it in Python")]) from None
    for given in signature.parameters.values():
        yield given, _evaluated(given.annotation, scope)


def _evaluated(annotation: object, scope: dict[str, object]) -> object:
    """Return what an annotation in quotes stands for; one that cannot be evaluated stays text."""
    if not isinstance(annotation, str):
        return annotation
    one = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(one, globalns=scope, include_extras=True)["it"]
    except (NameError, AttributeError, SyntaxError, TypeError):
        return annotation


def _type(given: inspect.Parameter, annotation: object, *, any_type: bool) -> ValueType:
    if not any_type:
        return _spelled_type(given, annotation)
    if annotation is inspect.Parameter.empty:
        return value_type(str)
    try:
        return _spelled_type(given, annotation)
    except UnsupportedType:
        return ValueType(shape="value", scalars=(), optional=True)


def _spelled_type(given: inspect.Parameter, annotation: object) -> ValueType:
    if annotation is inspect.Parameter.empty:
        raise UnsupportedType("has no type annotation", f"write `{given.name}: str`, or another type")
    if isinstance(annotation, str):
        raise UnsupportedType(
            f"has the annotation {annotation!r}, which does not evaluate",
            "import what it names also when the program runs",
        )
    return value_type(annotation)


def _parameter(
    given: inspect.Parameter, annotation: object, tp: ValueType, explanation: str, owners: dict[str, str]
) -> Parameter:
    kind = _KINDS.get(given.kind)
    if kind is None:
        raise UnsupportedType("takes any name (**)", "name each argument, or take a dict[str, str]")
    if kind == "varargs" and tp.shape != "scalar":
        raise UnsupportedType(f"takes words of type {tp}", f"write `*{given.name}: str`")
    flags = () if kind == "varargs" else _flags(given.name, annotation)
    for flag in flags:
        if owners.setdefault(flag, given.name) != given.name:
            raise UnsupportedType(f"has the flag {flag} of argument {owners[flag]!r}", "choose another flag")
    default = REQUIRED if given.default is inspect.Parameter.empty else given.default
    return Parameter(name=given.name, type=tp, kind=kind, default=default, help=explanation, flags=flags)


def _flags(name: str, annotation: object) -> tuple[str, ...]:
    metadata: tuple[object, ...] = getattr(annotation, "__metadata__", ())
    short = [note for note in metadata if isinstance(note, str) and note.startswith("-")]
    if not short and len(name) == 1:
        short = [f"-{name}"]
    return (*short, f"--{name}")
