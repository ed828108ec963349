"""Reads overlays from files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from torchx_core.errors import InvalidInputError
from torchx_core.specs.checks import is_map, show

__all__ = ["load_overlays"]


def load_overlays(uri: str) -> Mapping[object, object]:
    """Return the content of a JSON or YAML file, which must be a map.

    Args:
        uri: A path, ``file://``, or any other scheme if the package ``fsspec`` is installed.

    Raises:
        InvalidInputError: It cannot be read, or is something else.
    """
    content = _parsed(_read(uri), uri)
    if not is_map(content):
        raise InvalidInputError(f"overlay file {uri!r} must hold a map: {show(content)}")
    return content


def _read(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    try:
        if not separator or scheme == "file":
            return Path(rest or uri).expanduser().read_text(encoding="utf-8")
        with import_module("fsspec").open(uri, "r") as file:
            return str(file.read())
    except ModuleNotFoundError as err:
        raise InvalidInputError(
            f"cannot read overlay file {uri!r}: {scheme}:// needs the package fsspec; install it"
        ) from err
    except (OSError, ValueError) as err:
        raise InvalidInputError(f"cannot read overlay file {uri!r}: {err}") from err


def _parsed(text: str, uri: str) -> object:
    try:
        return json.loads(text)  # first: not all JSON is YAML, tabs for example
    except ValueError:
        return _parsed_yaml(text, uri)


def _parsed_yaml(text: str, uri: str) -> object:
    import yaml

    class Loader(yaml.SafeLoader):
        """Knows tuples too, by which old overlay files replace a list."""

    def to_tuple(loader: Loader, node: yaml.SequenceNode) -> object:
        return tuple(loader.construct_sequence(node))

    Loader.add_constructor("tag:yaml.org,2002:python/tuple", to_tuple)
    try:
        content: object = yaml.load(text, Loader)  # noqa: S506  # a safe loader
    except yaml.YAMLError as err:
        raise InvalidInputError(f"overlay file {uri!r} is neither JSON nor YAML: {err}") from err
    return content
