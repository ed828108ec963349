"""Hides secrets: in what people see, and in plain values that an engine shows to everybody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, cast

from torchx_core.errors import InvalidInputError, did_you_mean
from torchx_core.schedulers.secrets import MASK, looks_secret, secret_parts
from torchx_core.specs import AppDef, AppStatus, LastLines, ReplicaStatus, RoleStatus

__all__ = ["Mask", "hide", "make_mask", "mask_status", "mask_texts", "mask_values", "reveal", "secret_texts"]

MIN_SECRET_CHARS = 5
"""Shorter values would be found in innocent places."""

REFERENCE: Final = "$secret"
"""``{"$secret": name}`` stands for the secret of that name."""

_ASSIGNED: Final = re.compile(r"(?:^|[,;=])-{0,2}([\w-]+)(?=[=:])")
"""The names in ``A=1,B=2``, in ``--a=1`` and in ``env=A:1``."""
_OPTION: Final = re.compile(r"--?([\w-]+)")

Mask: TypeAlias = Callable[[str], str]


# --- in texts


def make_mask(app: AppDef, hidden: Iterable[str] = ()) -> Mask:
    """Return a function that hides what is secret in the app's variables: by name, or in a URL.

    Args:
        app: Whose variables.
        hidden: What else to hide.
    """
    named = (part for role in app.roles for variable in role.env.items() for part in secret_parts(*variable))
    return mask_values([*named, *hidden])


def mask_values(values: Iterable[str]) -> Mask:
    """Return a function that hides these values, line by line, wherever they stand in a text or in JSON."""
    parts = {part for value in values for part in value.splitlines() if len(part) >= MIN_SECRET_CHARS}
    if not parts:
        return str
    longest_first = sorted({way for part in parts for way in _ways_to_write(part)}, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(MASK, text)


def mask_status(status: AppStatus, mask: Mask) -> AppStatus:
    """Return the status with all that a program has said in it masked: an engine may keep an error."""
    masked = replace(
        status,
        msg=mask(status.msg),
        structured_error_msg=mask(status.structured_error_msg),
        result=mask_texts(status.result, mask),
        roles=[
            RoleStatus(role.role, [_masked_replica(r, mask) for r in role.replicas]) for role in status.roles
        ],
    )
    if status.last_lines is not None:
        masked.last_lines = partial(_masked_lines, status.last_lines, mask)
    return masked


def mask_texts(value: object, mask: Mask, *, keys: bool = True) -> object:
    """Return the value, of maps, lists and what they hold, with all texts in it masked.

    Args:
        value: The value; not changed.
        mask: Hides secrets.
        keys: Mask the keys of maps as well; not where they are names of our own fields.
    """
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {mask(key) if keys else key: mask_texts(item, mask, keys=keys) for key, item in items}
    if isinstance(value, list):
        return [mask_texts(item, mask, keys=keys) for item in cast("list[object]", value)]
    return value


def _masked_lines(
    read: Callable[[ReplicaStatus], LastLines], mask: Mask, replica: ReplicaStatus
) -> LastLines:
    return LastLines(*(list(map(mask, lines)) for lines in read(replica)))


def _masked_replica(replica: ReplicaStatus, mask: Mask) -> ReplicaStatus:
    said = mask(replica.structured_error_msg)
    return replace(replica, msg=mask(replica.msg), structured_error_msg=said)


def _ways_to_write(text: str) -> Iterator[str]:
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


# --- in plain values


def hide(
    value: object,
    secrets: dict[str, Any],
    key: str = "",
    *,
    words: bool = False,
) -> object:
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
        fields = cast("Mapping[str, object]", value)
        if _is_reference(fields):
            return fields
        return {
            name: hide(item, secrets, str(name), words=words or name == "args")
            for name, item in fields.items()
        }
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        keys = _keys_of_words(items, key) if words else [key] * len(items)
        return [hide(item, secrets, of, words=words) for item, of in zip(items, keys, strict=True)]
    return value


def secret_texts(secrets: Mapping[str, object]) -> list[str]:
    """Return the texts that must not be shown: secrets, what words among them assign, passwords in URLs.

    Example:
        >>> secret_texts({"api-key": "--api-key=sesame"})
        ['--api-key=sesame', 'sesame']
    """
    texts = [str(value) for value in secrets.values()]
    parts = [part for text in texts for part in (*_assigned(text), *secret_parts("", text))]
    return texts + parts


def reveal(value: object, secrets: Mapping[str, object]) -> object:
    """Return the value with the secrets in place of their references.

    Raises:
        InvalidInputError: There is no secret of that name.
    """
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        if _is_reference(fields):
            return _found(str(fields[REFERENCE]), secrets)
        return {name: reveal(item, secrets) for name, item in fields.items()}
    if isinstance(value, list | tuple):
        return [reveal(item, secrets) for item in cast("Sequence[object]", value)]
    return value


def _looks_secret(name: str) -> bool:
    return looks_secret(name.replace("-", "_"))


def _keys_of_words(words: Sequence[object], key: str) -> list[str]:
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


def _is_reference(value: Mapping[str, object]) -> bool:
    return set(value) == {REFERENCE}


def _kept(name: str, value: str, secrets: dict[str, Any]) -> dict[str, str]:
    """Keep the value under its name; with a number, if another value has that name."""
    unique, number = name, 1
    while secrets.setdefault(unique, value) != value:
        number += 1
        unique = f"{name}-{number}"
    return {REFERENCE: unique}


def _found(name: str, secrets: Mapping[str, object]) -> object:
    if name not in secrets:
        known = ", ".join(secrets) or "none"
        raise InvalidInputError(f"unknown secret {name!r}; known: {known}{did_you_mean(name, secrets)}")
    return secrets[name]
