"""How the program and every engine show an app: texts, levels, last lines, limits, masks, tables, curves."""

from __future__ import annotations

__all__: list[str] = []
