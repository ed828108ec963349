"""Takes secrets out of plain values, which Prefect shows to everybody, and puts them back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from torchx_core.errors import InvalidInputError, did_you_mean
from torchx_core.schedulers.secrets import looks_secret, secret_parts

__all__ = ["hide", "reveal", "secret_texts"]

REFERENCE: Final = "$secret"
"""``{"$secret": name}`` stands for the secret of that name."""

_ASSIGNED: Final = re.compile(r"(?:^|[,;=])-{0,2}([\w-]+)(?=[=:])")
"""The names in ``A=1,B=2``, in ``--a=1`` and in ``env=A:1``."""
_OPTION: Final = re.compile(r"--?([\w-]+)")
_MODELS_PART: Final = re.compile(r"TOKENI[SZ]", re.IGNORECASE)
"""What has the word token in its name, and is none: ``--tokenizer bert``."""


def hide(
    value: Any,  # noqa: ANN401  (any JSON value)
    secrets: dict[str, Any],
    key: str = "",
    *,
    words: bool = False,
) -> Any:  # noqa: ANN401
    """Return the value with references in place of the texts in it that look secret.

    A text looks secret by the name it has, or because a URL in it has a password.

    Args:
        value: Maps, lists and what they hold; not changed.
        secrets: Name -> value; what is hidden is added here.
        key: The name that the value itself has, or the list that it stands in.
        words: Whether texts may be like the words of a command line; those of a map's ``args`` always may. A
            word that assigns to something that looks secret is hidden as a whole, and so is the word after
            an option that looks secret.

    Example:
        >>> secrets = {}
        >>> hide({"env": {"HF_TOKEN": "sesame"}}, secrets), secrets
        ({'env': {'HF_TOKEN': {'$secret': 'HF_TOKEN'}}}, {'HF_TOKEN': 'sesame'})
    """
    if isinstance(value, str):
        names = [key, *(_ASSIGNED.findall(value) if words else ())]
        secret = next(filter(_looks_secret, names), None)
        if secret is None and secret_parts("", value):
            secret = key or "url"
        return value if secret is None else _kept(secret, value, secrets)
    if isinstance(value, Mapping):
        if _is_reference(value):
            return value
        return {
            name: hide(item, secrets, str(name), words=words or name == "args")
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        keys = _keys_of_words(value, key) if words else [key] * len(value)
        return [hide(item, secrets, of, words=words) for item, of in zip(value, keys, strict=True)]
    return value


def secret_texts(secrets: Mapping[str, Any]) -> list[str]:
    """Return the texts that must not be shown: secrets, what words among them assign, passwords in URLs.

    Example:
        >>> secret_texts({"api-key": "--api-key=sesame"})
        ['--api-key=sesame', 'sesame']
    """
    texts = [str(value) for value in secrets.values()]
    parts = [part for text in texts for part in (*_assigned(text), *secret_parts("", text))]
    return texts + parts


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
    return looks_secret(_MODELS_PART.sub("", name).replace("-", "_"))


def _keys_of_words(words: Sequence[Any], key: str) -> list[str]:
    """Return for each word the name of the option before it; the list's own for the others."""
    options = (_OPTION.fullmatch(word) if isinstance(word, str) else None for word in ["", *words][:-1])
    values = (isinstance(word, str) and not word.startswith("-") for word in words)
    return [
        option[1] if option and is_value else key for option, is_value in zip(options, values, strict=True)
    ]


def _assigned(word: str) -> Iterator[str]:
    """Yield what the word assigns to names that look secret: all of the rest, and as far as it may go."""
    for found in _ASSIGNED.finditer(word):
        if _looks_secret(found[1]):
            rest = word[found.end() + 1 :]
            yield from {rest, re.split(r"[\s,;]", rest)[0]}


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
