"""Docstrings in Google style explain a component and its arguments."""

from __future__ import annotations

from torchx_core.components.docstring import Docstring, read_docstring


def test_every_part_is_found() -> None:
    """Summary, description, arguments with and without types, over several lines; other sections end them."""
    text = """Train a model.

    On one node
    or several.

    Example:
        name: not an argument

    Args:
        epochs (int): how often
            to go over the data

        *script_args: passed on,
            see: the manual
        lr:
            the learning rate

    Returns:
        app: the app
    """
    assert read_docstring(text) == Docstring(
        "Train a model.",
        "On one node\nor several.",
        {
            "epochs": "how often to go over the data",
            "script_args": "passed on, see: the manual",
            "lr": "the learning rate",
        },
    )


def test_no_docstring_explains_nothing() -> None:
    """Everything is empty, and a docstring of one line has only a summary."""
    assert read_docstring(None) == Docstring("", "", {})
    assert read_docstring("Train.") == Docstring("Train.", "", {})
