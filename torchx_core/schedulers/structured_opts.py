"""Run options as the fields of a dataclass, as schedulers that were written for TorchX declare them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, NamedTuple, Self, Union, cast, get_args, get_origin, get_type_hints

from torchx_core.errors import InvalidRunConfigException
from torchx_core.specs import CfgVal, cases, runopts

__all__ = ["StructuredOpts", "opts_type_of"]


class _Option(NamedTuple):
    """A field of the dataclass."""

    name: str
    key: str
    """The name of the option: the field's own, unless its metadata has another as ``cfg_key``."""
    names: tuple[str, ...]
    """All names by which it may be given, `key` first."""
    type: Any
    group: type[StructuredOpts] | None
    """The dataclass whose options the field holds, each with the field's name and a dot before its own."""
    default: object
    required: bool


@dataclass
class StructuredOpts(Mapping[str, CfgVal]):
    """The options of one scheduler: derive a dataclass from it, with a field for each.

    A field without a default is a required option. The string literal below a field is the option's help. A
    field whose type is another such class holds a group of options (``k8s.context``). An instance is a
    mapping of the options as well.

    Example:
        >>> @dataclass
        ... class Opts(StructuredOpts):
        ...     queue: str
        ...     retries: int = 3
        >>> dict(Opts.from_cfg({"queue": "night"}))
        {'queue': 'night', 'retries': 3}
    """

    _extra_cfg: dict[str, CfgVal] = field(
        default_factory=dict[str, CfgVal], repr=False, compare=False, kw_only=True
    )
    """What `from_cfg` was given besides the fields; part of the mapping."""

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, CfgVal]) -> Self:
        """Return the options with the values of the cfg; ``clusterName`` is ``cluster_name``.

        Raises:
            InvalidRunConfigException: An option is given by two names, with different values.
            TypeError: A required option is missing; `runopts.resolve` says so better, and comes first.
        """
        values: dict[str, Any] = {}
        used: set[str] = set()
        for option in _options(cls):
            if option.group:
                prefix = f"{option.name}."
                inner = {
                    key.removeprefix(prefix): value for key, value in cfg.items() if key.startswith(prefix)
                }
                used.update(prefix + key for key in inner)
                if inner or option.required:
                    values[option.name] = option.group.from_cfg(inner)
                continue
            given = [name for name in option.names if name in cfg]
            used.update(given)
            for name in given:
                value = values.setdefault(option.name, cfg[name])
                if value != cfg[name]:
                    both = f"{option.key} is given as {given[0]} and as {name}, with different values"
                    raise InvalidRunConfigException(both, option.key, cfg)
        opts = cls(**values)
        opts._extra_cfg = {key: value for key, value in cfg.items() if key not in used}
        return opts

    @classmethod
    def as_runopts(cls) -> runopts:
        """Return the options as the scheduler's `run_opts`."""
        opts = runopts()
        helps = cls.get_docstrings()
        for option in _options(cls):
            if option.group:
                for key, inner in option.group.as_runopts():
                    inner_key = f"{option.name}.{key}"
                    opts.add(inner_key, inner.opt_type, inner.help, inner.default, inner.is_required)
            else:
                default = cast(CfgVal, option.default)
                opts.add(
                    option.key, option.type, helps.get(option.name, option.name), default, option.required
                )
        return opts

    @classmethod
    def get_docstrings(cls) -> dict[str, str]:
        """Return the string literal below each field; none where the source is not at hand."""
        found: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            if issubclass(base, StructuredOpts) and base is not StructuredOpts:
                found.update(_literals(base))
        for option in _options(cls):
            if option.group:
                inner = option.group.get_docstrings()
                found.update({f"{option.name}.{key}": text for key, text in inner.items()})
        return found

    def __getitem__(self, key: str) -> CfgVal:
        """Return the option's value, by any of its names."""
        group, _, rest = key.partition(".")
        for declared in _declared(self):
            value: object = getattr(self, declared.name)
            if isinstance(value, StructuredOpts):
                if rest and declared.name == cases.camel_to_snake(group):
                    return value[rest]
            elif key in _names(declared):
                return cast(CfgVal, value)
        return self._extra_cfg[key]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the options."""
        for option in _options(type(self)):
            if option.group:
                inner: StructuredOpts | None = getattr(self, option.name)
                yield from (f"{option.name}.{key}" for key in inner or ())
            else:
                yield option.key
        yield from self._extra_cfg

    def __len__(self) -> int:
        """Return the number of options."""
        return sum(1 for _ in self)

    def __or__(self, other: Mapping[str, CfgVal]) -> dict[str, CfgVal]:
        """Return all options of both; where both have one, the other's value."""
        return {**self, **other}


def opts_type_of(scheduler: type, interface: type) -> type[StructuredOpts] | None:
    """Return the dataclass that the scheduler names as the interface's type argument, if it names one."""
    for cls in scheduler.__mro__:
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is interface:
                return _group(get_args(base)[0])
    return None


def _options(cls: type[StructuredOpts]) -> Iterator[_Option]:
    hints = get_type_hints(cls)
    for declared in _declared(cls):
        kind = _without_none(hints[declared.name])
        names = _names(declared)
        default, required = _default(declared)
        yield _Option(declared.name, names[0], names, kind, _group(kind), default, required)


def _declared(options: StructuredOpts | type[StructuredOpts]) -> list[Field[object]]:
    return [declared for declared in fields(options) if not declared.name.startswith("_")]


def _names(declared: Field[object]) -> tuple[str, ...]:
    """Return all names of the option that the field holds, without a look at its type."""
    name = declared.name
    key = str(declared.metadata.get("cfg_key", name))
    return tuple(dict.fromkeys([key, name, cases.snake_to_camel(name)]))


def _default(declared: Field[object]) -> tuple[object, bool]:
    """Return the field's default, and whether it has none; what a factory makes is no default to show."""
    if declared.default is not MISSING:
        return declared.default, False
    return None, declared.default_factory is MISSING


def _without_none(kind: Any) -> Any:  # noqa: ANN401  # an annotation
    """Return ``X`` for ``X | None``."""
    if get_origin(kind) not in {Union, UnionType}:
        return kind
    others = [arg for arg in get_args(kind) if arg is not NoneType]
    return others[0] if len(others) == 1 else kind


def _group(kind: object) -> type[StructuredOpts] | None:
    return kind if isinstance(kind, type) and issubclass(kind, StructuredOpts) else None


def _literals(cls: type[StructuredOpts]) -> dict[str, str]:
    """Return the string literals that follow the class's own fields."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):  # made by exec, or in a shell
        return {}
    body = cast(ast.ClassDef, tree.body[0]).body
    found: dict[str, str] = {}
    for statement, after in pairwise(body):
        match statement, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
            case _:
                pass
    return found
