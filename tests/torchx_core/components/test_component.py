"""A component makes an app from words or values."""

from __future__ import annotations

import json
from typing import Annotated, Optional

import pytest
from component_files import Files
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.components import REQUIRED, Component, find_component
from torchx_core.components.parameters import read_parameters
from torchx_core.errors import ComponentArgumentError, ComponentHelpRequested
from torchx_core.specs import AppDef, Role


def everything(  # noqa: D417, PLR0913  # one of each, some unexplained
    first: str,
    /,
    count: int,
    rate: float = 0.5,
    *words: str,
    fast: bool = False,
    config: Annotated[str, "-cn", "unrelated"] = "base",
    names: list[str] | None = None,
    sizes: Optional[list[int]] = None,  # noqa: UP045  # as older files spell it
    env: dict[str, str] | None = None,
    limits: "dict[str, float] | None" = None,  # noqa: UP037  # as text
    pair: tuple[int, str] = (1, "a"),
    j: str = "1x2",
) -> AppDef:
    """Show what every argument arrives as.

    Args:
        first: the first
        words: all the others
        j: how many
    """
    seen = {k: v for k, v in locals().items() if k != "words"} | {"words": list(words)}
    return AppDef(json.dumps(seen), [Role("r", "i", entrypoint="true")])


EVERYTHING = Component(
    name="everything",
    summary="Show what every argument arrives as.",
    description="",
    source="test",
    file=__file__,
    line=1,
    parameters=read_parameters(everything),
    function=everything,
)
NONE = dict.fromkeys(("names", "sizes", "env", "limits"))
DEFAULTS = NONE | {"rate": 0.5, "words": [], "fast": False, "config": "base", "pair": [1, "a"], "j": "1x2"}


def seen(args: object, defaults: dict[str, str] | None = None) -> dict[str, object]:
    """Return what the component's arguments arrived as, without those that have the signature's default."""
    app = EVERYTHING.build(args, defaults)  # type: ignore[arg-type]  # also wrong ones
    values: dict[str, object] = json.loads(app.name)
    return {k: v for k, v in values.items() if k not in DEFAULTS or DEFAULTS[k] != v}


def test_words_and_values_mean_the_same() -> None:
    """A command line, a JSON object, and a JSON object of texts."""
    words = "--first a --count 3 --rate 1 --fast yes -cn big --names x,y --sizes 1,2 --env A=1,B=2"
    words += " --limits a=0.5 --pair 2,b -j 2x2 -- --epochs 3"
    scalars = {"first": "a", "count": 3, "rate": 1.0, "fast": True, "config": "big", "j": "2x2"}
    lists = {"names": ["x", "y"], "sizes": [1, 2], "pair": [2, "b"], "words": ["--epochs", "3"]}
    values = scalars | lists | {"env": {"A": "1", "B": "2"}, "limits": {"a": 0.5}}
    texts = {name: str(value) for name, value in scalars.items()}
    texts |= {"names": "x,y", "sizes": "1,2", "pair": "2,b", "words": "--epochs 3"}
    texts |= {"env": "A=1,B=2", "limits": "a=0.5"}
    assert seen(words.split()) == seen(values) == seen(texts) == values


def test_what_is_given_comes_before_what_is_configured() -> None:
    """Both come before the signature, varargs included; an empty ``--`` counts as given."""
    defaults = {"first": "conf", "count": "1", "j": "4x4", "words": "from 'the file'"}
    assert seen([], defaults) == {"first": "conf", "count": 1, "j": "4x4", "words": ["from", "the file"]}
    assert seen(["--count", "2", "-j", "8x8"], defaults)["count"] == 2
    assert seen({"count": 2, "words": ["a"]}, defaults)["words"] == ["a"]
    assert "words" not in seen(["--"], defaults)


@pytest.mark.parametrize(
    ("args", "defaults", "why"),
    [
        (["--first", "a"], {}, "argument 'count' is missing; give --count"),
        ([], {}, "argument 'first' is missing; give --first, --count"),
        (["--first=a", "--count=x"], {}, "argument 'count' must be int: 'x'"),
        ({"first": "a", "count": "x"}, {}, "argument 'count' must be int: 'x'"),
        ({"first": "a", "cuont": 1}, {}, "argument 'cuont' is unknown; known: .*; did you mean 'count'"),
        ({"first": "a", "count": None}, {}, r"argument 'count' must be int: None \(NoneType\)"),
        ({"first": 3, "count": 1}, {}, r"argument 'first' must be str: 3 \(int\)"),
        ({"words": 3}, {"first": "a", "count": "1"}, "argument 'words' must be a list of words: 3"),
        ({"words": [3]}, {"first": "a", "count": "1"}, r"argument 'words' must be str: 3 \(int\)"),
        ([], {"fist": "a"}, "argument 'fist' is unknown; known: .*; did you mean 'first'"),
        (
            {"first": "a", "count": 1},
            {"words": "it's"},
            "argument 'words' must be words as a shell reads them: \"it's\"",
        ),
        (["--first", 3], {}, r"argument '3' is no text: 3 \(int\); quote it"),
        ("--first a", {}, "argument '--first a' is one text; pass a list of words"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args: object, defaults: dict[str, str], why: str) -> None:
    """With the argument, the value, and what to do."""
    with pytest.raises(ComponentArgumentError, match=why):
        seen(args, defaults)


def test_a_component_without_varargs_takes_no_bare_words() -> None:
    """The word was meant as a value."""
    with pytest.raises(ComponentArgumentError, match=r"argument 'hello' has no flag; write --NAME=VALUE"):
        find_component("utils.echo").build(["hello"])
    assert find_component("utils.echo").build(["--"]).name == "echo"


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_is_handed_to_the_caller(word: str) -> None:
    """The text comes with the error; nothing leaves the process."""
    with pytest.raises(ComponentHelpRequested) as asked:
        EVERYTHING.build(["--first", "a", word])
    assert asked.value.usage == EVERYTHING.usage()


def test_the_usage_text_explains_every_argument() -> None:
    """What must be given, the flags, the kind of value, the default."""
    assert EVERYTHING.usage().splitlines() == [
        "usage: everything --first STR --count INT [OPTIONS] [--] [WORDS ...]",
        "",
        "Show what every argument arrives as.",
        "",
        "arguments:",
        *("  --first STR", "      the first (required)"),
        *("  --count INT", "      (required)"),
        *("  --rate FLOAT", "      (default: 0.5)"),
        *("  WORDS ...", "      all the others"),
        *("  --fast BOOL", "      (default: False)"),
        *("  -cn, --config STR", "      (default: base)"),
        "  --names STR,…",
        "  --sizes INT,…",
        "  --env STR=STR,…",
        "  --limits STR=FLOAT,…",
        *("  --pair INT,STR", "      (default: 1,a)"),
        *("  -j, --j STR", "      how many (default: 1x2)"),
    ]


def test_a_component_without_arguments_has_a_short_usage_text(files: Files) -> None:
    """There is nothing to explain."""
    file = files.write("bare.py", "from torchx_core.specs import AppDef\n\ndef f() -> AppDef: ...\n")
    assert find_component(f"{file}:f").usage() == f"usage: {file}:f\n"


def test_parameters_are_facts() -> None:
    """For completion, forms and tables."""
    count, j = (p for p in EVERYTHING.parameters if p.name in {"count", "j"})
    assert (str(count.type), count.kind, count.default, count.flags) == (
        "int",
        "positional",
        REQUIRED,
        ("--count",),
    )
    assert (j.kind, j.default, j.help, j.flags) == ("keyword", "1x2", "how many", ("-j", "--j"))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["--", "-x", "--count", "--help", "a=b", "a,b", '"', "$", ""]
)
VALUES = st.fixed_dictionaries(
    {"first": TEXT, "count": st.integers()},
    optional={
        "rate": st.floats(allow_nan=False),
        "words": st.lists(TEXT),
        "fast": st.booleans(),
        "config": TEXT,
        "names": st.lists(TEXT),
        "sizes": st.lists(st.integers()),
        "env": st.dictionaries(TEXT, TEXT),
        "limits": st.dictionaries(TEXT, st.floats(allow_nan=False)),
        "pair": st.tuples(st.integers(), TEXT).map(list),
        "j": TEXT,
    },
)


@given(VALUES)
def test_values_written_as_words_come_back(values: dict[str, object]) -> None:
    """Whatever they hold: a command line can say all that Python can."""
    assert seen(EVERYTHING.words(values)) == seen(values)


def test_none_cannot_be_written_as_a_word() -> None:
    """It is said by leaving the argument out."""
    with pytest.raises(
        ComponentArgumentError, match="argument 'env' is None, which no word means; leave it out"
    ):
        EVERYTHING.words({"env": None})
    with pytest.raises(ComponentArgumentError, match="argument 'evn' is unknown"):
        EVERYTHING.words({"evn": {}})


def test_a_class_makes_the_app_in_build(files: Files) -> None:
    """Its constructor takes the arguments; a dataclass's are its fields; ``build`` may be inherited."""
    file = files.write(
        "classes.py",
        """
        from __future__ import annotations
        from dataclasses import dataclass, field
        from torchx_core.specs import AppDef, Role

        class Job:
            \"\"\"Run a job.

            Args:
                name: what it is called
            \"\"\"
            def __init__(self, name: str, *words: str, j: str = "1x1") -> None:
                self.name, self.words, self.j = name, words, j

            def build(self) -> AppDef:
                text = " ".join([self.name, self.j, *self.words])
                return AppDef(text, roles=[Role(name="r", image="i", entrypoint="true")])

        class Special(Job): ...

        @dataclass
        class Plain:
            name: str
            tags: list[str] = field(default_factory=list)

            def build(self) -> AppDef:
                return AppDef(self.name + str(self.tags))
        """,
    )
    job, special, plain = (find_component(f"{file}:{name}") for name in ("Job", "Special", "Plain"))
    assert job.parameters[0].help == "what it is called"
    assert job.build(["-j", "2x2", "--name", "a", "--", "b", "c"]).name == "a 2x2 b c"
    assert special.build({"name": "a"}).name == "a 1x1"
    assert plain.build(["--name", "a", "--tags", "x,y"]).name == "a['x', 'y']"


def test_what_the_component_raises_passes_through(files: Files) -> None:
    """It is the component's own, and its traceback is what its author needs."""
    file = files.write(
        "raises.py",
        """
        from torchx_core.specs import AppDef

        def f(n: int) -> AppDef:
            raise ZeroDivisionError(n)
        """,
    )
    with pytest.raises(ZeroDivisionError, match="3"):
        find_component(f"{file}:f").build(["--n", "3"])
