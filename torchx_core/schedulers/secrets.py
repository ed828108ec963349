"""Keeps secrets out of what people see."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["MASK", "looks_secret", "mask_env", "mask_value", "secret_parts"]

MASK = "***"
_WORDS = (
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "SSH_KEY",
    "FERNET_KEY",
    "ENCRYPTION_KEY",
    "AUTH_STRING",
    "CUSTOM_HEADERS",
    "WEBHOOK",
)
_MODELS_WORDS = re.compile(r"TOKENI[SZ]|(?:MAX|MIN|NUM|N)_(?:\w+_)?TOKENS|TOKENS_PER")
"""What a language model's settings are called: to hide ``TOKENIZERS_PARALLELISM=false`` would hide every
``false`` in the log."""
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^\s/:@]*):([^\s/@]+)(?=@)")
"""The user and the password of ``postgresql://user:password@host/db``."""


def looks_secret(name: str) -> bool:
    """Return whether a variable of that name is likely to hold a secret.

    Example:
        >>> looks_secret("WANDB_API_KEY"), looks_secret("MONKEY"), looks_secret("MAX_NEW_TOKENS")
        (True, False, False)
    """
    upper = _MODELS_WORDS.sub("", name.upper())
    return upper.endswith("_PASS") or any(word in upper for word in _WORDS)


def secret_parts(name: str, value: str) -> list[str]:
    """Return what of the variable's value must not be seen.

    That is all of it where the name looks secret, and otherwise the passwords of the URLs in it.

    Example:
        >>> secret_parts("DATABASE_URL", "postgresql://ann:sesame@db/runs"), secret_parts("HF_TOKEN", "hf_x")
        (['sesame'], ['hf_x'])
    """
    if looks_secret(name):
        return [value]
    return [found[2] for found in _PASSWORD_IN_URL.finditer(value)]


def mask_value(name: str, value: str) -> str:
    """Return the variable's value with `MASK` in place of each of its `secret_parts`.

    Example:
        >>> mask_value("DATABASE_URL", "postgresql://ann:sesame@db/runs")
        'postgresql://ann:***@db/runs'
    """
    return MASK if looks_secret(name) else _PASSWORD_IN_URL.sub(rf"\1:{MASK}", value)


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with what must not be seen of their values replaced."""
    return {name: mask_value(name, value) for name, value in env.items()}
