"""The modules where TorchX has names of specs: ``api``, ``builders``, ``finder``, ``file_linter``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from torchx_core.errors import ComponentArgumentError, ComponentNotFoundException
from torchx_core.specs import TORCHX_HOME, AppDef, GiB, Role, cases, materialize_appdef
from torchx_core.specs.builders import component_args_from_str, parse_args
from torchx_core.specs.file_linter import get_fn_docstring, validate
from torchx_core.specs.finder import (
    CustomComponentsFinder,
    get_builtin_source,
    get_component,
    get_components,
)

THEIRS: Any = import_module("torchx.specs.api")
NOT_OURS = {
    "Awaitable",  # what TorchX's module imports for itself
    "JSONDecodeError",
    "T",
    "CfgT",
    "Template",
}


CLASS_FILE = """
from __future__ import annotations
from torchx_core.specs import AppDef, Role

Text = str

class Make:
    def __init__(self, word: Text, n: int = 1) -> None:
        self.words = [word] * n

    def build(self) -> AppDef:
        return AppDef("made", [Role("main", "", args=self.words)])
"""


def train(  # noqa: D417  # some arguments are not explained
    script: str, *args: str, lr: float = 0.1, flags: dict[str, list[str]] | None = None
) -> AppDef:
    """Train a model.

    Args:
        script: the program
    """
    return AppDef("train", [Role("main", "img", entrypoint=script, args=[*args, str(lr), repr(flags)])])


@dataclass
class Trainer:
    """Train by a class."""

    script: str
    epochs: int = 1

    def build(self) -> AppDef:
        """Return the app."""
        return AppDef("trainer", [Role("main", "img", entrypoint=self.script, args=[str(self.epochs)])])


def test_api_has_the_names_of_torchx() -> None:
    """Every public name that TorchX's module defines itself."""
    module: dict[str, object] = {**THEIRS.__dict__}
    theirs = {
        name
        for name, value in module.items()
        if not name.startswith("_")
        and getattr(value, "__module__", "torchx.specs.api") == "torchx.specs.api"
        and type(value).__name__ not in ("module", "_Feature")
    }
    assert theirs - NOT_OURS - set(import_module("torchx_core.specs.api").__all__) == set()


@pytest.mark.parametrize("name", ["api", "builders", "finder", "file_linter"])
def test_what_a_module_lists_is_there(name: str) -> None:
    """Each name of ``__all__`` can be had."""
    module = import_module(f"torchx_core.specs.{name}")
    assert [each for each in module.__all__ if not hasattr(module, each)] == []


def test_a_gib_is_counted_in_mib() -> None:
    """As ``Resource.memMB`` is."""
    assert GiB == import_module("torchx.specs").GiB


@pytest.mark.parametrize("name", ["cluster_name", "name", "a_b_c", "num_2x"])
def test_cases_are_those_of_torchx(name: str) -> None:
    """Both ways."""
    camel = THEIRS.cases.snake_to_camel(name)
    assert cases.snake_to_camel(name) == camel
    assert cases.camel_to_snake(camel) == THEIRS.cases.camel_to_snake(camel)


def test_the_home_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory below ``$TORCHX_HOME``, which is there afterwards; without the variable ``~/.torchx``."""
    monkeypatch.setenv("TORCHX_HOME", str(tmp_path / "home"))
    assert TORCHX_HOME("a", "b") == tmp_path / "home" / "a" / "b"
    assert (tmp_path / "home" / "a" / "b").is_dir()
    monkeypatch.delenv("TORCHX_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert TORCHX_HOME() == tmp_path / ".torchx"


def test_words_come_before_config_and_config_before_defaults() -> None:
    """The order is TorchX's; names of no argument are left aside."""
    words = ["--script", "a.py", "--", "-x"]
    defaults = {"lr": "1.5", "other": "1"}
    assert materialize_appdef(train, words, defaults).roles[0].args == ["-x", "1.5", "None"]
    assert materialize_appdef(train, words, defaults, {"lr": 2}).roles[0].args[1] == "2.0"
    assert materialize_appdef(train, ["--lr=3", *words], defaults, {"lr": 2}).roles[0].args[1] == "3.0"


def test_a_nested_value_comes_from_python() -> None:
    """No text spells a dict of lists, but a default may be one."""
    app = materialize_appdef(train, ["--script", "a.py"], {"flags": {"a": ["1"]}})
    assert app.roles[0].args == ["0.1", "{'a': ['1']}"]
    with pytest.raises(ComponentArgumentError, match="as a value of Python's"):
        materialize_appdef(train, ["--script", "a.py", "--flags", "a=1"])


def test_a_class_is_built() -> None:
    """In place of a function."""
    assert materialize_appdef(Trainer, ["--script", "a.py", "--epochs=3"]).roles[0].args == ["3"]


def test_the_values_are_told() -> None:
    """By how the function takes them, or as attributes."""
    args = component_args_from_str(train, ["--script", "a.py", "--lr=1", "x", "y"])
    assert args.positional_args == {"script": "a.py"}
    assert args.var_args == ["x", "y"]
    assert args.kwargs == {"lr": 1.0, "flags": None}
    assert parse_args(train, ["--script", "a.py"]).lr == 0.1


def test_a_component_is_found_as_torchx_describes_one() -> None:
    """Its function can be materialized."""
    found = get_component("utils.echo")
    assert (found.name, found.fn_name, found.validation_errors) == ("utils.echo", "echo", [])
    assert found.description == "Print a message."
    assert materialize_appdef(found.fn, ["--msg", "hi"]).roles[0].args == ["hi"]
    assert get_components()["dist.ddp"].fn_name == "ddp"


def test_a_class_component_can_be_materialized(tmp_path: Path) -> None:
    """What stands for the class has the class's arguments, also where annotations are text."""
    file = tmp_path / "of_a_class.py"
    file.write_text(CLASS_FILE)
    found = get_component(f"{file}:Make")
    assert found.fn_name == "Make"
    assert [same.name for same in CustomComponentsFinder(str(file), "Make").find()] == [found.name]
    assert materialize_appdef(found.fn, ["--word", "a", "--n", "2"]).roles[0].args == ["a", "a"]


@pytest.mark.parametrize(
    ("name", "words"), [("utils.echo", ["--msg=hi"]), ("utils.booth", ["--x1=1", "--x2=2"])]
)
def test_the_source_of_a_built_in_component_works_alone(name: str, words: list[str]) -> None:
    """It has the helpers that the component calls, so that a copy of it makes the same app."""
    scope: dict[str, object] = {}
    exec(get_builtin_source(name), scope)  # noqa: S102  # our own source
    made = scope[name.rpartition(".")[2]]
    assert callable(made)
    assert materialize_appdef(made, words) == materialize_appdef(get_component(name).fn, words)


def test_an_unknown_component_is_not_found() -> None:
    """With the error of TorchX's name."""
    with pytest.raises(ComponentNotFoundException):
        get_component("utils.ehco")


def test_a_file_is_validated_without_running_it(tmp_path: Path) -> None:
    """One message for each thing that is wrong, with its line."""
    file = tmp_path / "components.py"
    file.write_text("boom()\n\ndef bad(a, **b: str) -> int: ...\n\ndef good(a: str) -> AppDef: ...\n")
    assert validate(str(file), "good") == []
    assert [(each.line, each.severity) for each in validate(str(file), "bad")] == [(3, "error")] * 3
    assert "no 'other'" in validate(str(file), "other")[0].description
    file.write_text("def :")
    assert "is not Python" in validate(str(file), "good")[0].description


def test_what_a_docstring_tells() -> None:
    """An argument that it does not explain has a space, as argparse wants it."""
    told, arguments = get_fn_docstring(train)
    assert told == "Train a model."
    assert arguments == {"script": "the program", "args": " ", "lr": " ", "flags": " "}
