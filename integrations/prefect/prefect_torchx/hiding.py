"""Takes secrets out of plain values, which Prefect shows to everybody, and puts them back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from torchx_core.errors import InvalidInputError, did_you_mean
from torchx_core.schedulers.secrets import looks_secret

__all__ = ["hide", "reveal"]

REFERENCE: Final = "$secret"
"""``{"$secret": name}`` stands for the secret of that name."""

_ASSIGNED: Final = re.compile(r"(?:^|[,;=])-{0,2}([\w-]+)(?=[=:])")
"""The names in ``A=1,B=2``, in ``--a=1`` and in ``env=A:1``."""


def hide(
    value: Any,  # noqa: ANN401  (any JSON value)
    secrets: dict[str, Any],
    key: str = "",
    *,
    words: bool = False,
) -> Any:  # noqa: ANN401
    """Return the value with references in place of the texts in it that look secret by the names they have.

    Args:
        value: Maps, lists and what they hold; not changed.
        secrets: Name -> value; what is hidden is added here.
        key: The name that the value itself has.
        words: Whether texts may be like the words of a command line; one that assigns to something that
            looks secret is hidden as a whole.

    Example:
        >>> secrets = {}
        >>> hide({"env": {"HF_TOKEN": "sesame"}}, secrets), secrets
        ({'env': {'HF_TOKEN': {'$secret': 'HF_TOKEN'}}}, {'HF_TOKEN': 'sesame'})
    """
    if isinstance(value, str):
        names = [key, *(_ASSIGNED.findall(value) if words else ())]
        secret = next(filter(_looks_secret, names), None)
        return value if secret is None else _kept(secret, value, secrets)
    if isinstance(value, Mapping):
        if _is_reference(value):
            return value
        return {name: hide(item, secrets, str(name), words=words) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [hide(item, secrets, words=words) for item in value]
    return value


def reveal(value: Any, secrets: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return the value with the secrets in place of their references.

    Raises:
        InvalidInputError: There is no secret of that name.
    """
    if isinstance(value, Mapping):
        if _is_reference(value):
            return _found(str(value[REFERENCE]), secrets)
        return {name: reveal(item, secrets) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [reveal(item, secrets) for item in value]
    return value


def _looks_secret(name: str) -> bool:
    return looks_secret(name.replace("-", "_"))


def _is_reference(value: Mapping[Any, Any]) -> bool:
    return set(value) == {REFERENCE}


def _kept(name: str, value: str, secrets: dict[str, Any]) -> dict[str, str]:
    """Keep the value under its name; with a number, if another value has that name."""
    unique, number = name, 1
    while secrets.setdefault(unique, value) != value:
        number += 1
        unique = f"{name}-{number}"
    return {REFERENCE: unique}


def _found(name: str, secrets: Mapping[str, Any]) -> Any:  # noqa: ANN401
    if name not in secrets:
        known = ", ".join(secrets) or "none"
        raise InvalidInputError(f"unknown secret {name!r}; known: {known}{did_you_mean(name, secrets)}")
    return secrets[name]
