"""What is wrong with a component is told before its code runs: where it is, and what to write."""

from __future__ import annotations

import py_compile
import sys

import pytest
from component_files import Files

from torchx_core.components import find_component
from torchx_core.errors import ComponentNotFoundException, ComponentValidationException

HEAD = "raise SystemExit('this ran')\n"
TYPES = "use str, int, float, bool, list[T], tuple[T, U], dict[K, V] or T | None"


@pytest.mark.parametrize(
    ("definition", "line", "argument", "problem", "advice"),
    [
        ("def f(x) -> AppDef: ...", 2, "x", "has no type annotation", "write `x: str`, or another type"),
        ("def f(*x) -> AppDef: ...", 2, "x", "has no type annotation", "write `x: str`, or another type"),
        ("def f(*, x) -> AppDef: ...", 2, "x", "has no type annotation", "write `x: str`, or another type"),
        (
            "def f(\n  a: str,\n  **x: str,\n) -> AppDef: ...",
            4,
            "x",
            "takes any name (**)",
            "name each argument, or take a dict[str, str]",
        ),
        ("def f(x: list) -> AppDef: ...", 2, "x", "does not say what is in it", "write list[str]"),
        ("def f(x: Dict) -> AppDef: ...", 2, "x", "does not say what is in it", "write dict[str, str]"),
        (
            "def f(x: dict[str]) -> AppDef: ...",
            2,
            "x",
            "is a dict without a type for keys and one for values",
            "write dict[str, str]",
        ),
        ("def f(x: list[list[str]]) -> AppDef: ...", 2, "x", "is a list of list[str]", TYPES),
        ("def f(x: dict[str, object]) -> AppDef: ...", 2, "x", "is a dict of str, object", TYPES),
        ("def f(x: set[str]) -> AppDef: ...", 2, "x", "has the unsupported type set[str]", TYPES),
        (
            "def f(x: t.Sequence[str]) -> AppDef: ...",
            2,
            "x",
            "has the unsupported type t.Sequence[str]",
            TYPES,
        ),
        (
            "def f(x: Callable[[], str]) -> AppDef: ...",
            2,
            "x",
            "has the unsupported type Callable[[], str]",
            TYPES,
        ),
        ("def f(x: bytes) -> AppDef: ...", 2, "x", "has the unsupported type bytes", TYPES),
        ("def f(x: 'set[str]') -> AppDef: ...", 2, "x", "has the unsupported type set[str]", TYPES),
        ("def f(x: 'li[') -> AppDef: ...", 2, "x", "has the annotation 'li[', which is not Python", TYPES),
        ("def f(x: 3) -> AppDef: ...", 2, "x", "has the unsupported type 3", TYPES),
        (
            "def f(x: int | str) -> AppDef: ...",
            2,
            "x",
            "may have several types, typing.Union[int, str]",
            "choose one of them",
        ),
        ("def f(x: int): ...", 2, None, "does not say what it returns", "add `-> AppDef`"),
        (
            "def f(\n  x: int,\n) -> dict[str, str]: ...",
            4,
            None,
            "returns dict[str, str]",
            "write `-> AppDef`",
        ),
        ("def f() -> 'Role': ...", 2, None, "returns 'Role'", "write `-> AppDef`"),
        ("async def f() -> AppDef: ...", 2, None, "is async", "write a plain `def`"),
        ("class f: ...", 2, None, "is a class without `build`", "add `def build(self) -> AppDef`"),
        ("class f:\n  def build(self): ...", 3, None, "does not say what it returns", "add `-> AppDef`"),
        (
            "class f:\n  def __init__(self, x): ...\n  def build(self) -> AppDef: ...",
            3,
            "x",
            "has no type annotation",
            "write `x: str`, or another type",
        ),
        ("def f( -> AppDef", 2, None, "is not Python: invalid syntax", "correct it"),
    ],
)
def test_a_flaw_is_told_before_the_code_runs(
    files: Files, definition: str, line: int, argument: str | None, problem: str, advice: str
) -> None:
    """Each flaw with its place, its argument, and what to write instead; the file would end this process."""
    file = files.write("c.py", HEAD + definition)
    with pytest.raises(ComponentValidationException) as refused:
        find_component(f"{file}:f")
    assert refused.value.problems == [
        {"file": str(file), "line": line, "argument": argument, "problem": problem, "advice": advice}
    ]
    who = f"argument {argument!r} " if argument else ""
    assert str(refused.value) == f"cannot use component '{file}:f': {file}:{line}: {who}{problem}, {advice}"


@pytest.mark.parametrize(
    ("definition", "argument", "problem", "advice"),
    [
        ("Pair = set[str]\ndef f(x: Pair) -> AppDef: ...", "x", "has the unsupported type set[str]", TYPES),
        ("class Mine: ...\ndef f(x: Mine) -> AppDef: ...", "x", "has the unsupported type Mine", TYPES),
        (
            "if TYPE_CHECKING:\n  from here import Mine\ndef f(x: 'Mine') -> AppDef: ...",
            "x",
            "has the annotation 'Mine', which does not evaluate",
            "import what it names also when the program runs",
        ),
        ("def f(*x: list[str]) -> AppDef: ...", "x", "takes words of type list[str]", "write `*x: str`"),
        (
            "def f(a: Annotated[str, '-x'], x: str) -> AppDef: ...",
            "x",
            "has the flag -x of argument 'a'",
            "choose another flag",
        ),
        ("class f(Exception): ...", None, "is a class without `build`", "add `def build(self) -> AppDef`"),
        ("def f() -> AppDef: ...\nf = 3", None, "is no function", "write `def …(…) -> AppDef`"),
        ("def f() -> AppDef: ...\nf = max", None, "has no signature", "write it in Python"),
    ],
)
def test_a_flaw_that_text_cannot_show_is_found_in_what_was_loaded(
    files: Files, definition: str, argument: str | None, problem: str, advice: str
) -> None:
    """Aliases, classes of the file, and flags that clash."""
    imports = "from typing import TYPE_CHECKING, Annotated\nfrom torchx_core.specs import AppDef\n"
    file = files.write("later.py", imports + definition)
    with pytest.raises(ComponentValidationException) as refused:
        find_component(f"{file}:f")
    [told] = refused.value.problems
    assert (told["argument"], told["problem"], told["advice"]) == (argument, problem, advice)


def test_all_flaws_are_told_at_once(files: Files) -> None:
    """Nobody wants to correct them one run at a time."""
    file = files.write("many.py", "def f(a, b: set[int], **c: str):\n    ...\n")
    with pytest.raises(ComponentValidationException) as refused:
        find_component(f"{file}:f")
    assert [(p["argument"], p["line"]) for p in refused.value.problems] == [
        ("a", 1),
        ("b", 1),
        ("c", 1),
        (None, 1),
    ]


@pytest.mark.parametrize(
    "annotation",
    [
        "AppDef",
        "specs.AppDef",
        "torchx.specs.AppDef",
        "'AppDef'",
        "'specs.AppDef'",
    ],
)
@pytest.mark.parametrize("package", ["torchx_core", "torchx"])
def test_both_app_types_may_be_returned(files: Files, package: str, annotation: str) -> None:
    """Ours and TorchX's, however they are spelled."""
    file = files.write(
        "both.py",
        f"""
        import {package} as torchx
        import {package}.specs as specs
        from {package}.specs import AppDef

        def f(name: str) -> {annotation}:
            return AppDef(name, roles=[specs.Role(name="r", image="i", entrypoint="true")])
        """,
    )
    app = find_component(f"{file}:f").build(["--name", "x"])
    assert (type(app).__module__, app.name) == ("torchx_core.specs.app", "x")


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ("raise KeyError('no such key')", "cannot be loaded: KeyError: 'no such key'"),
        ("import no_such_module_here", "cannot be loaded: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(3)", "cannot be loaded: SystemExit: 3"),
    ],
)
def test_a_file_that_fails_is_told_with_its_line(files: Files, definition: str, problem: str) -> None:
    """Even one that leaves the interpreter; nothing of it stays loaded, and it may be corrected."""
    file = files.write(
        "fails.py", f"from torchx_core.specs import AppDef\n{definition}\ndef f() -> AppDef: ...\n"
    )
    with pytest.raises(ComponentValidationException) as refused:
        find_component(f"{file}:f")
    [told] = refused.value.problems
    assert str(told["problem"]).startswith(problem)
    assert told["line"] == 2 + definition.count("\n")
    file.write_text("from torchx_core.specs import AppDef\ndef f() -> AppDef: ...\n# corrected\n")
    assert find_component(f"{file}:f").parameters == ()


def test_a_component_that_returns_no_app_is_told(files: Files) -> None:
    """At the component's own place in its file."""
    file = files.write(
        "none.py", "from torchx_core.specs import AppDef\n\ndef f() -> AppDef:\n    return None\n"
    )
    with pytest.raises(ComponentValidationException, match=r"none\.py:3: returned no AppDef: None"):
        find_component(f"{file}:f").build()


def test_a_name_that_the_file_only_imports_is_not_its_component(files: Files) -> None:
    """The file that defines it is the one to name; the closest of what is there is suggested."""
    file = files.write("here.py", "from elsewhere import train\ndef trial() -> AppDef: ...\n")
    with pytest.raises(ComponentNotFoundException, match=r"defines no 'trail'; it has trial; did you mean"):
        find_component(f"{file}:trail")
    with pytest.raises(ComponentNotFoundException, match="defines no 'train'"):
        find_component(f"{file}:train")


def test_a_module_without_its_text_is_checked_when_it_is_loaded(files: Files) -> None:
    """As one that is delivered compiled; the same flaws are told."""
    source = files.write("compiled.py", "def f(a, **b: str):\n    ...\n")
    py_compile.compile(str(source), str(files.root / "only" / "compiled.pyc"))
    sys.path.insert(0, str(files.root / "only"))
    with pytest.raises(ComponentValidationException) as refused:
        find_component("compiled.f")
    assert [(p["argument"], p["problem"]) for p in refused.value.problems] == [
        ("a", "has no type annotation"),
        ("b", "takes any name (**)"),
    ]
    with pytest.raises(ComponentNotFoundException, match="defines no 'g'"):
        find_component("compiled.g")


def test_a_file_in_another_encoding_than_it_declares_is_told(files: Files) -> None:
    """Its text cannot be looked at, so it does not run."""
    file = files.write("latin.py", "")
    file.write_bytes(b"# coding: utf-8\nname = '\xe9'\ndef f() -> AppDef: ...\n")
    with pytest.raises(ComponentValidationException, match="cannot be loaded: SyntaxError"):
        find_component(f"{file}:f")


def test_definitions_may_depend_on_conditions(files: Files) -> None:
    """Below ``if``, ``else``, ``try`` and ``except``; the last definition is the one that is checked."""
    file = files.write(
        "conditions.py",
        """
        from torchx_core.specs import AppDef, Role

        try:
            import no_such_module_here
            def f(missing) -> AppDef: ...
        except ImportError:
            if True:
                def f(name: str) -> AppDef:
                    return AppDef(name)
        """,
    )
    assert find_component(f"{file}:f").build(["--name", "x"]).name == "x"
