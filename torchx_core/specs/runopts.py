"""The options that a scheduler takes, and the checks of a cfg against them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torchx_core.errors import (
    InvalidInputError,
    InvalidOptionTypeError,
    InvalidRunConfigException,
    did_you_mean,
)
from torchx_core.specs.cfg_string import (
    CfgSyntaxError,
    RawValue,
    is_key,
    read_text,
    read_value,
    split_cfg,
    write_value,
)
from torchx_core.specs.cfg_types import CfgVal, Kind, get_type_name, is_of_kind, kind_of
from torchx_core.specs.checks import is_list, is_map, show

__all__ = ["runopt", "runopts"]


@dataclass
class runopt:  # noqa: N801  (TorchX's name)
    """One option; `runopts.add` makes it."""

    default: CfgVal
    opt_type: object
    """``str``, ``int``, ``float``, ``bool``, ``list[str]`` or ``dict[str, str]``."""
    is_required: bool
    help: str

    @property
    def kind(self) -> Kind:
        """The type, as a word to match on."""
        kind = kind_of(self.opt_type)
        if kind is None:
            raise InvalidInputError(
                f"unsupported type of a run option: {get_type_name(self.opt_type)};"
                " expected str, int, float, bool, list[str] or dict[str, str]"
            )
        return kind

    def cast_to_type(self, value: str) -> CfgVal:
        """Read the text of a value that stands alone, as in a configuration file.

        Raises:
            ValueError: It does not spell a value of the option's type.

        Example:
            >>> runopt(None, list[str], False, "a list").cast_to_type("a;b,c")
            ['a', 'b', 'c']
        """
        return read_text(value, self.kind)


class runopts:  # noqa: N801  (TorchX's name)
    """The options of one scheduler, in the order they were added.

    A registered ``cluster_name`` may be spelled ``clusterName`` as well; results use the registered name.
    Methods that check a cfg raise `InvalidRunConfigException`, whose ``cfg_key`` names the option.

    Example:
        >>> opts = runopts()
        >>> opts.add("log_dir", type_=str, help="where logs go")
        >>> opts.add("retries", type_=int, default=0, help="how often to try again")
        >>> opts.resolve(opts.cfg_from_str("log_dir=/tmp/x"))
        {'log_dir': '/tmp/x', 'retries': 0}
    """

    def __init__(self) -> None:
        self._opts: dict[str, runopt] = {}
        self._aliases: dict[str, str] = {}

    def add(
        self,
        cfg_key: str,
        type_: object,
        help: str,  # noqa: A002  (TorchX's name)
        default: CfgVal = None,
        required: bool = False,  # noqa: FBT001, FBT002  (TorchX's signature)
    ) -> None:
        """Register an option; adding a key again replaces it.

        Args:
            cfg_key: Its name.
            type_: ``str``, ``int``, ``float``, ``bool``, ``list[str]`` or ``dict[str, str]``.
            help: One line for people.
            default: Its value when it is not given; None for "not set".
            required: Whether it must be given.

        Raises:
            InvalidInputError: A name that no text form can hold, an unsupported type, or a default for a
                required option.
            InvalidOptionTypeError: A default of another type.
        """
        if not is_key(cfg_key):
            raise InvalidInputError(
                f"not a name for a run option: {cfg_key!r}; expected letters, digits and _.-"
            )
        option = runopt(default, type_, required, help)
        if required and default is not None:
            raise InvalidInputError(
                f"run option {cfg_key} is required, so it cannot have a default: {default!r}"
            )
        if default is not None and not is_of_kind(default, option.kind):
            raise InvalidOptionTypeError(
                f"default of run option {cfg_key} must be {option.kind}: {show(default)}"
            )
        self._register(cfg_key, option)

    def _register(self, key: str, option: runopt) -> None:
        _ = option.kind
        self._opts[key] = option
        self._aliases[_camel_case(key)] = key

    def update(self, other: runopts) -> None:
        """Add the other's options; where both have one, the other's replaces it."""
        for key, option in other:
            self._register(key, option)

    def __or__(self, other: runopts) -> runopts:
        """Return new options: ours, updated with the other's."""
        both = runopts()
        both.update(self)
        both.update(other)
        return both

    def __iter__(self) -> Iterator[tuple[str, runopt]]:
        """Yield names and options."""
        return iter(self._opts.items())

    def __len__(self) -> int:
        """Return the number of options."""
        return len(self._opts)

    def get(self, name: str) -> runopt | None:
        """Return the option of that name, in either spelling, or None."""
        key = self.canonical_key(name)
        return None if key is None else self._opts[key]

    def canonical_key(self, name: str) -> str | None:
        """Return the registered spelling of a name (``clusterName`` -> ``cluster_name``), or None."""
        return name if name in self._opts else self._aliases.get(name)

    @staticmethod
    def is_type(obj: object, tp: object) -> bool:
        """Return whether the value is of that option type: a bool is no int, an int will do as a float."""
        kind = kind_of(tp)
        return kind is not None and is_of_kind(obj, kind)

    def resolve(self, cfg: Mapping[str, CfgVal], *, ignore_unknown: bool = False) -> dict[str, CfgVal]:
        """Check a cfg and fill in the defaults.

        Args:
            cfg: The values given; None counts as not given.
            ignore_unknown: Keep options that are not registered as they are, instead of raising: for a
                scheduler that hands them on to another, which knows them.

        Returns:
            Every registered option exactly once, by its registered name, private to the caller.

        Raises:
            InvalidRunConfigException: Unknown, missing, contradictory, or of the wrong type.
        """
        given = self._canonical(cfg, ignore_unknown=ignore_unknown)
        unknown = {name: copy.copy(v) for name, v in cfg.items() if self.canonical_key(name) is None}
        return {**{key: self._checked(key, option, given.get(key), cfg) for key, option in self}, **unknown}

    def _canonical(self, cfg: Mapping[str, CfgVal], *, ignore_unknown: bool) -> dict[str, CfgVal]:
        found: dict[str, tuple[str, CfgVal]] = {}
        for name, value in cfg.items():
            key = self._known(name, cfg, ignore_unknown=ignore_unknown)
            if key is None:
                continue
            other, before = found.get(key, (name, value))
            if other != name and before is not None and value is not None and before != value:
                reason = f"run option {key} is given twice: {other}={before!r} and {name}={value!r}"
                raise InvalidRunConfigException(reason, key, cfg)
            found[key] = (other, before) if value is None else (name, value)
        return {key: value for key, (_, value) in found.items()}

    def _known(self, name: str, cfg: Mapping[str, object], *, ignore_unknown: bool) -> str | None:
        key = self.canonical_key(name)
        if key is None and not ignore_unknown:
            known = ", ".join(self._opts) or "none"
            hint = did_you_mean(name, self._opts, self._aliases)
            raise InvalidRunConfigException(f"unknown run option {name!r}; known: {known}{hint}", name, cfg)
        return key

    @staticmethod
    def _checked(key: str, option: runopt, value: CfgVal, cfg: Mapping[str, CfgVal]) -> CfgVal:
        if value is None:
            if option.is_required:
                raise InvalidRunConfigException(f"run option {key} is required ({option.kind})", key, cfg)
            return copy.copy(option.default)
        if not is_of_kind(value, option.kind):
            reason = f"run option {key} must be {option.kind}: {show(value)}"
            raise InvalidRunConfigException(reason, key, cfg)
        return copy.copy(value)

    def cfg_from_str(self, cfg_str: str, *, ignore_unknown: bool = False) -> dict[str, CfgVal]:
        """Read ``key=value,key=value``; `cfg_string` has the grammar.

        Defaults are not filled in and nothing is required here: pass the result to `resolve`. A key given
        twice keeps its last value.

        Raises:
            InvalidRunConfigException: Not that syntax, an unknown option, or not a value of its type.

        Example:
            >>> opts = runopts()
            >>> opts.add("FOO", type_=list[str], help="a list")
            >>> opts.add("BAR", type_=str, help="a text")
            >>> opts.cfg_from_str("FOO=v1,v2,BAR=v3")
            {'FOO': ['v1', 'v2'], 'BAR': 'v3'}
        """
        try:
            pairs = dict(split_cfg(cfg_str))
        except CfgSyntaxError as err:
            raise InvalidRunConfigException(f"malformed cfg {cfg_str!r}: {err}", "", {}) from err
        shown = {name: raw.text for name, raw in pairs.items()}
        values: dict[str, CfgVal] = {}
        for name, raw in pairs.items():
            key = self._known(name, shown, ignore_unknown=ignore_unknown)
            if key is not None:
                values[name] = _read(raw, self._opts[key].kind, key, shown)
        return self._canonical(values, ignore_unknown=False)

    def cfg_to_str(self, cfg: Mapping[str, CfgVal]) -> str:
        """Return the text that `cfg_from_str` reads back; options that are None are left out.

        Raises:
            InvalidRunConfigException: An unknown option or a value of the wrong type.
        """
        given = self._canonical(cfg, ignore_unknown=False)
        return ",".join(
            f"{key}={write_value(self._checked(key, self._opts[key], value, cfg))}"
            for key, value in given.items()
            if value is not None
        )

    def cfg_from_json_repr(self, json_repr: str, *, ignore_unknown: bool = False) -> dict[str, CfgVal]:
        """Read a JSON object; items of lists and dicts are turned into strings, other types must fit.

        Defaults are not filled in and nothing is required here: pass the result to `resolve`.

        Raises:
            InvalidRunConfigException: Not a JSON object, an unknown option, or a value of the wrong type.
        """
        loaded = _load_object(json_repr)
        values: dict[str, CfgVal] = {}
        for name, value in loaded.items():
            key = self._known(name, loaded, ignore_unknown=ignore_unknown)
            if key is not None:
                values[name] = _from_json(value, self._opts[key].kind, key, loaded)
        return self._canonical(values, ignore_unknown=False)

    def __repr__(self) -> str:
        """Return a help text: a usage line, then the required and the optional options."""
        required = [(key, option) for key, option in self if option.is_required]
        optional = [(key, option) for key, option in self if not option.is_required]
        usage = ",".join(
            [f"{k}={k.upper()}" for k, _ in required] + [f"[{k}={k.upper()}]" for k, _ in optional]
        )
        lines = ["usage:", f"    {usage}"]
        for title, section in (("required", required), ("optional", optional)):
            if section:
                lines += ["", f"{title} arguments:", *(_help(key, option) for key, option in section)]
        return "\n".join(lines)


def _camel_case(key: str) -> str:
    return re.sub(r"(?<=[^\W_])_([^\W_])", lambda found: found[1].upper(), key)


def _read(raw: RawValue, kind: Kind, key: str, cfg: Mapping[str, object]) -> CfgVal:
    try:
        return read_value(raw, kind)
    except CfgSyntaxError as err:
        raise InvalidRunConfigException(f"run option {key} must be {kind}: {err}", key, cfg) from err


def _load_object(text: str) -> dict[str, object]:
    import json  # imported here: few callers have JSON

    try:
        loaded: object = json.loads(text)
    except ValueError as err:
        raise InvalidRunConfigException(f"malformed cfg: not JSON ({err}): {text!r}", "", {}) from err
    if not is_map(loaded):
        raise InvalidRunConfigException(f"malformed cfg: expected a JSON object: {text!r}", "", {})
    return {str(name): value for name, value in loaded.items()}


def _from_json(value: object, kind: Kind, key: str, cfg: Mapping[str, object]) -> CfgVal:
    if value is None:
        return None
    if kind == "list[str]" and is_list(value):
        return [str(item) for item in value]
    if kind == "dict[str, str]" and is_map(value):
        return {str(name): str(item) for name, item in value.items()}
    if isinstance(value, str | int | float) and is_of_kind(value, kind):
        return value
    raise InvalidRunConfigException(f"run option {key} must be {kind}: {show(value)}", key, cfg)


def _help(key: str, option: runopt) -> str:
    default = "" if option.is_required else f", {option.default}"
    return f"    {key}={key.upper()} ({option.kind}{default})\n        {option.help}"
