"""From text to the values of a scheduler's options."""

from __future__ import annotations

from typing import Final, NamedTuple

from torchx_core.config.settings import Origin, Section, Setting
from torchx_core.errors import InvalidRunConfigException, did_you_mean
from torchx_core.specs import CfgVal, runopt, runopts

__all__ = ["NONE_TEXT", "PLACEHOLDER", "CfgSetting", "read_section", "read_variable"]

NONE_TEXT: Final = "None"
"""Written for "not set": the scheduler's default holds, whatever a weaker file says."""
PLACEHOLDER: Final = "#FIXME"
"""What TorchX writes where a value is still to be filled in: such an option counts as absent."""


class CfgSetting(NamedTuple):
    """The value of one option, and where it comes from."""

    value: CfgVal
    origin: Origin


def read_section(section: Section, opts: runopts) -> dict[str, CfgSetting]:
    """Return the options of a scheduler's section, under their registered names.

    Raises:
        InvalidConfigError: An unknown option, a value of the wrong type, or one option in two spellings
            with two values.
    """
    found: dict[str, CfgSetting] = {}
    for name, setting in section.settings.items():
        key, option = _registered(name, setting.origin, section.name, opts)
        if setting.text.startswith(PLACEHOLDER):
            continue
        value = None if setting.text == NONE_TEXT else _value(key, option, setting)
        first = found.setdefault(key, CfgSetting(value, setting.origin))
        if first.origin != setting.origin and first.value != value:
            raise setting.origin.error(
                f"run option {key} is set twice: {value!r}, and {first.value!r} in line {first.origin.line}"
            )
    return found


def _registered(name: str, origin: Origin, scheduler: str, opts: runopts) -> tuple[str, runopt]:
    key, option = opts.canonical_key(name), opts.get(name)
    if key is None or option is None:
        known = [key for key, _ in opts]
        raise origin.error(
            f"unknown run option {name!r} of {scheduler}; known: {', '.join(known) or 'none'}"
            + did_you_mean(name, known)
        )
    return key, option


def _value(key: str, option: runopt, setting: Setting) -> CfgVal:
    try:
        return option.cast_to_type(setting.text)
    except ValueError as err:
        raise setting.origin.error(f"run option {key} must be {option.kind}: {err}") from err


def read_variable(name: str, text: str, opts: runopts) -> dict[str, CfgSetting]:
    """Return the options in a variable of the form ``KEY=VALUE,KEY=VALUE``.

    Raises:
        InvalidConfigError: Not that form, an unknown option, or a value of the wrong type.
    """
    origin = Origin(source=f"${name}")
    try:
        values = opts.cfg_from_str(text)
    except InvalidRunConfigException as err:
        raise origin.error(str(err)) from err
    return {key: CfgSetting(value, origin) for key, value in values.items()}
