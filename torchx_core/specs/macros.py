"""Placeholders that a scheduler fills in for each replica."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from torchx_core.specs.app import Role
from torchx_core.specs.checks import is_list, is_map

__all__ = ["macros"]


class macros:  # noqa: N801  (TorchX's name)
    """Placeholders for ``Role.args``, values of ``Role.env`` and ``Role.metadata``; nowhere else.

    The rules are those of `string.Template.safe_substitute`: ``$$`` is a literal ``$``, and what is not a
    macro, such as ``${HOME}``, stays as it is.

    Example:
        >>> values = macros.Values(img_root="/img", app_id="a1", replica_id="0", rank0_env="RANK0")
        >>> values.substitute(f"--out /data/{macros.app_id}")
        '--out /data/a1'
    """

    img_root = "${img_root}"
    """Root directory of the role's image."""
    base_img_root = "${base_img_root}"
    """Kept for old components; has no use."""
    app_id = "${app_id}"
    """The app id."""
    replica_id = "${replica_id}"
    """0-based number of the replica in its role; a restarted replica keeps it."""
    rank0_env = "${rank0_env}"
    """Name of the environment variable that holds the host name of replica 0 of the first role."""

    @dataclass
    class Values:
        """What the macros stand for in one replica."""

        img_root: str
        app_id: str
        replica_id: str
        rank0_env: str
        base_img_root: str = "DEPRECATED"

        def apply(self, role: Role) -> Role:
            """Return a deep copy of the role with the macros filled in; both share `Role.overrides`."""
            values = asdict(self)
            filled = copy.deepcopy(role, {id(role.overrides): role.overrides})
            filled.args = [_fill(arg, values) for arg in filled.args]
            filled.env = {name: _fill(text, values) for name, text in filled.env.items()}
            filled.metadata = {key: _fill_nested(value, values) for key, value in filled.metadata.items()}
            return filled

        def substitute(self, arg: str) -> str:
            """Return the text with the macros filled in."""
            return _fill(arg, asdict(self))


def _fill(text: str, values: Mapping[str, object]) -> str:
    if "$" not in text:
        return text
    from string import Template  # imported here: most texts have no macro

    return Template(text).safe_substitute(values)


def _fill_nested(value: object, values: Mapping[str, object]) -> object:
    if isinstance(value, str):
        return _fill(value, values)
    if is_map(value):
        return {key: _fill_nested(item, values) for key, item in value.items()}
    if is_list(value):
        return [_fill_nested(item, values) for item in value]
    return value
