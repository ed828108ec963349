"""Modules are called by the words of the glossary and of the field."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
GONE = {
    *("hold", "held", "farewell", "departure", "story", "wish", "tell", "courier", "parcel", "shelf"),
    *("bookmark", "intake", "handout", "care", "doorbell", "bells", "knock", "looking", "inquiry", "asking"),
    *("trouble", "keeping", "notes", "stamps", "life", "desk", "talk", "pulls", "play", "gather", "claims"),
    *("settle",),
}
"""What modules were called by, and nobody could know from its name."""


def test_no_module_has_a_name_that_only_we_understand() -> None:
    """No module of the core or of the integrations is called by a word that the glossary has replaced."""
    modules = [*ROOT.glob("torchx_core/**/*.py"), *ROOT.glob("integrations/*/*_torchx/**/*.py")]
    assert len(modules) > 300
    assert [path for path in modules if GONE & {path.stem.lstrip("_"), *path.stem.split("_")}] == []
