"""The two spellings of an option's name: ``cluster_name`` and ``clusterName``."""

from __future__ import annotations

import re

__all__ = ["cases"]


class cases:  # noqa: N801  (TorchX's name)
    """Turns one spelling into the other.

    Example:
        >>> cases.snake_to_camel("cluster_name"), cases.camel_to_snake("clusterName")
        ('clusterName', 'cluster_name')
    """

    @staticmethod
    def snake_to_camel(name: str) -> str:
        """Return ``clusterName`` for ``cluster_name``."""
        first, *others = name.split("_")
        return first + "".join(word.title() for word in others)

    @staticmethod
    def camel_to_snake(name: str) -> str:
        """Return ``cluster_name`` for ``clusterName``."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
