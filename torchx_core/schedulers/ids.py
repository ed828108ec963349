"""Names for apps that nobody named."""

from __future__ import annotations

import os

__all__ = ["make_unique"]

_LETTERS = "bcdfghjklmnpqrstvwxz"
_MAX_NAME = 40


def make_unique(name: str) -> str:
    """Return an app id that starts with the name and ends in 13 random letters (56 bits).

    Only lower-case letters, digits and dashes: it is a legal host name, container name and file name.
    """
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower()).strip("-")[:_MAX_NAME]
    number = int.from_bytes(os.urandom(8))
    letters = ""
    for _ in range(13):
        number, index = divmod(number, len(_LETTERS))
        letters += _LETTERS[index]
    return f"{slug or 'app'}-{letters}"
