"""Which arguments can travel, and what is said of the others before anything is submitted."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from function_files import Load

import torchx_core.functions
from torchx_core.errors import FunctionArgumentError
from torchx_core.functions import function_app


def train(config: object, lr: float = 0.1, *rest: object, fast: bool = False, **more: object) -> None:
    """Take arguments of every kind."""


def plain(value: object) -> None:
    """Take one argument."""


class Color(StrEnum):
    """Be a text."""

    RED = "red"


def sent(args: list[object], kwargs: dict[str, object]) -> dict[str, Any]:
    """Return what the command line of a replica carries."""
    [_, _, *words] = function_app(train, args, kwargs).roles[0].args
    call: dict[str, Any] = json.loads("".join(words).replace("$$", "$"))
    return call


def test_arguments_are_carried_as_the_function_takes_them() -> None:
    """Tuples as lists, texts of an enumeration as texts; defaults are the function's own matter."""
    call = sent([(1, Color.RED)], {"lr": 0.5, "fast": True, "other": {"k": None}})
    assert (call["args"], call["kwargs"]) == ([[1, "red"], 0.5], {"fast": True, "other": {"k": None}})
    assert sent([1, 2, 3, 4], {})["args"] == [1, 2, 3, 4]


def test_the_caller_s_values_are_copied() -> None:
    """What happens to them later changes no app."""
    config = {"a": [1]}
    app = function_app(plain, [config])
    config["a"].append(2)
    assert app == function_app(plain, [{"a": [1]}])


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "argument", "message"),
    [
        (
            train,
            [],
            {},
            None,
            "missing a required argument: 'config'; it takes (config, lr=0.1, *rest, fast=False, **more)",
        ),
        (plain, [1, 2], {}, None, "too many positional arguments; it takes (value)"),
        (plain, [1], {"other": 1}, None, "got an unexpected keyword argument 'other'"),
        (
            plain,
            [{1, 2}],
            {},
            "value",
            "argument 'value' must be plain data that JSON can hold: {1, 2} (set)",
        ),
        (plain, [b"x"], {}, "value", "(bytes)"),
        (plain, [float("nan")], {}, "value", "nan (float)"),
        (plain, [{"a": [0, Path("/x")]}], {}, "value", "argument 'value'['a'][1] must be plain data"),
        (plain, [{1: "a"}], {}, "value", "argument 'value' key must be a string: 1 (int)"),
        (train, [1, 2, 3, plain], {}, "rest", "argument 'rest'[1] must be plain data"),
        (train, [1], {"other": 1j}, "more", "argument 'more'['other'] must be plain data"),
        (
            plain,
            ["x" * 262_144],
            {},
            "value",
            "argument 'value' takes 262146 bytes; text and arguments of a call",
        ),
        (plain, ["é" * 50_000], {}, "value", "argument 'value' takes 300002 bytes"),
    ],
)
def test_what_cannot_travel_is_named(
    function: Callable[..., object],
    args: list[object],
    kwargs: dict[str, object],
    argument: str | None,
    message: str,
) -> None:
    """The argument, where in it, the value and its type."""
    with pytest.raises(FunctionArgumentError) as refused:
        function_app(function, args, kwargs)
    assert str(refused.value).startswith(f"cannot call function '{function.__name__}': ")
    assert message in str(refused.value)
    assert refused.value.argument == argument


def test_a_function_may_be_too_long_itself(load: Load) -> None:
    """No argument is blamed in that case."""
    lengthy = load(f"def lengthy(a):\n    return '{'x' * 300_000}'\n")
    with pytest.raises(
        FunctionArgumentError, match=r"its text takes 3000\d\d bytes; text and arguments of a call"
    ):
        function_app(lengthy, [1])


def test_no_word_is_longer_than_linux_takes() -> None:
    """MAX_ARG_STRLEN is 128 KiB, and the call may take twice that."""
    args = function_app(plain, ["$" * 200_000]).roles[0].args
    assert max(len(word.replace("$$", "$")) for word in args) < 1 << 17


def test_an_old_python_can_run_a_replica() -> None:
    """An image may have the oldest that its framework supports, and any locale."""
    program = Path(torchx_core.functions.__file__).with_name("replica.py").read_text()
    assert program.isascii()
    ast.parse(program, feature_version=(3, 8))
