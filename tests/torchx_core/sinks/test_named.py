"""The text that names metric sinks."""

from __future__ import annotations

import pytest

from torchx_core.sinks.named import NamedSink, parse_sinks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" , ", []),
        ("tensorboard:/runs", [NamedSink("tensorboard", "/runs")]),
        ("mlflow", [NamedSink("mlflow", "")]),
        ("wandb:", [NamedSink("wandb", "")]),
        (
            "tensorboard:runs, mlflow:http://u:p@host:5000/x ,wandb:/w",
            [
                NamedSink("tensorboard", "runs"),
                NamedSink("mlflow", "http://u:p@host:5000/x"),
                NamedSink("wandb", "/w"),
            ],
        ),
    ],
)
def test_sinks_are_named_in_one_text(text: str, expected: list[NamedSink]) -> None:
    """Each is a kind and where it writes; where a client has a choice of its own, the kind will do."""
    assert parse_sinks(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tensorbord:/runs", "unknown metric sink 'tensorbord'; known: tensorboard, mlflow, wandb"),
        ("/runs", "expected KIND:TARGET,KIND:TARGET"),
        ("tensorboard", "tensorboard needs a directory: tensorboard:DIR"),
        ("mlflow:a,mlflow:b", "mlflow is named twice"),
    ],
)
def test_a_mistake_is_told(text: str, problem: str) -> None:
    """The message has what was given and what there is."""
    with pytest.raises(ValueError, match=problem):
        parse_sinks(text)
