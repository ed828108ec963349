"""Names for apps that nobody named."""

from __future__ import annotations

import os

__all__ = ["get_len_random_id", "make_unique", "random_id", "random_uint64"]

_LETTERS = "bcdfghjklmnpqrstvwxz"
_MAX_NAME = 40
_LENGTH = 13
"""As many letters as 56 bits make."""


def make_unique(name: str, string_length: int = 0) -> str:
    """Return an app id that starts with the name and ends in random letters.

    Only lower-case letters, digits and dashes: it is a legal host name, container name and file name.

    Args:
        name: Shortened, and other characters than these made dashes, where needed.
        string_length: How many random letters; 0 for 13 (56 bits).
    """
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower()).strip("-")[:_MAX_NAME]
    return f"{slug or 'app'}-{get_len_random_id(string_length or _LENGTH)}"


def random_uint64() -> int:
    """Return a random number of 64 bits; a seed given to `random` does not change it."""
    return int.from_bytes(os.urandom(8))


def random_id(max_length: int | None = None) -> str:
    """Return 13 random letters (56 bits), or max_length where that is fewer; none where it is negative."""
    return get_len_random_id(_LENGTH if max_length is None else min(_LENGTH, max_length))


def get_len_random_id(string_length: int) -> str:
    """Return so many random letters, without vowels, so that they make no word."""
    return "".join(_LETTERS[int.from_bytes(os.urandom(4)) % len(_LETTERS)] for _ in range(string_length))
