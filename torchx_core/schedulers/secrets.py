"""Keeps secrets out of what people see."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["MASK", "looks_secret", "mask_env"]

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
)


def looks_secret(name: str) -> bool:
    """Return whether a variable of that name is likely to hold a secret.

    Example:
        >>> looks_secret("WANDB_API_KEY"), looks_secret("MONKEY")
        (True, False)
    """
    upper = name.upper()
    return any(word in upper for word in _WORDS)


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the values of those that look secret replaced."""
    return {name: MASK if looks_secret(name) else value for name, value in env.items()}
