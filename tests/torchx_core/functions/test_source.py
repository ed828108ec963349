"""Which functions can travel, what is said of the others, and what travels."""

from __future__ import annotations

import json
import linecache
import os.path as paths
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache, partial, wraps
from pathlib import Path
from textwrap import dedent

import pytest
from function_files import FILE, Load

from torchx_core.errors import InvalidFunctionError
from torchx_core.functions import check_function
from torchx_core.functions.source import read_function

CONSTANT = 3


def neighbour() -> None:
    """Be beside the functions here."""


def wrapping(function: Callable[..., object]) -> Callable[..., object]:
    """Decorate by a wrapper that says what it wraps."""

    @wraps(function)
    def wrapper() -> object:
        return function()

    return wrapper


def hiding(function: Callable[..., object]) -> Callable[..., object]:
    """Decorate by a wrapper that does not."""

    def wrapper() -> object:
        return function()

    return wrapper


class Owner:
    """Have methods."""

    def method(self) -> None:
        """Be one."""


def generates() -> Iterator[int]:
    """Yield."""
    yield 1


async def generates_later() -> AsyncIterator[int]:
    """Yield."""
    yield 1


@wrapping
def wrapped() -> None:
    """Be wrapped."""


@hiding
def hidden() -> None:
    """Be wrapped."""


@cache
def cached() -> None:
    """Be something else."""


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda: None, r"test_source.py:\d+: it is a lambda; write a `def`"),
        (Owner, "it is a class; write a plain `def`"),
        (Owner().method, "it is a method, and its object would stay here; write a plain `def`"),
        (partial(neighbour), "it is a partial; write a plain `def`"),
        (cached, "it is a _lru_cache_wrapper; write a plain `def`"),
        (len, "it is a builtin_function_or_method; write a plain `def`"),
        (generates, r"test_source.py:\d+: it is a generator; return a list"),
        (generates_later, "it is a generator; return a list"),
        (wrapped, r"test_source.py:\d+: a decorator wraps it, and would stay here; use that inside it"),
        (hidden, "it uses 'function', which is defined outside it; define it inside"),
    ],
)
def test_what_is_no_plain_function_is_refused(function: Callable[..., object], reason: str) -> None:
    """With what it is, and what to do."""
    with pytest.raises(InvalidFunctionError, match=reason):
        check_function(function)


def uses_constant() -> int:
    """Read a global."""
    return CONSTANT


def uses_module() -> str:
    """Read a module."""
    return json.dumps(1)


def uses_renamed_module() -> str:
    """Read a module under another name."""
    return paths.sep


def uses_import() -> Path:
    """Read what was imported from a module."""
    return Path()


def uses_neighbour() -> None:
    """Read a function of this file."""
    neighbour()


def uses_default(value: int = CONSTANT) -> int:
    """Read a global before it begins."""
    return value


def uses_below() -> list[int]:
    """Read globals in what is inside it."""

    class Inner:
        mine = 1
        theirs = mine + CONSTANT

    return [Inner.theirs]


def uses_nothing_known() -> object:
    """Read what is nowhere."""
    return undefined  # type: ignore[name-defined]  # pyright: ignore[reportUndefinedVariable]  # noqa: F821


def uses_its_file() -> str:
    """Read what only modules in files have."""
    return __file__


@pytest.mark.parametrize(
    ("function", "line", "reason"),
    [
        (
            uses_constant,
            2,
            "it uses 'CONSTANT', which is defined outside it; pass it as an argument, or define",
        ),
        (uses_module, 2, "it uses 'json', which is defined outside it; write `import json` inside it"),
        (uses_renamed_module, 2, f"it uses 'paths', .*; write `import {paths.__name__} as paths` inside it"),
        (uses_import, 2, "it uses 'Path', .*; write `from pathlib import Path` inside it"),
        (uses_neighbour, 2, "it uses 'neighbour', .*; define it inside, or import it from a module"),
        (uses_default, 0, "it uses 'CONSTANT'"),
        (uses_below, 5, "it uses 'CONSTANT'"),
        (uses_nothing_known, 2, "it uses 'undefined'"),
        (uses_its_file, 2, "it uses '__file__'"),
    ],
)
def test_what_a_function_lacks_is_named_with_its_line(
    function: Callable[..., object], line: int, reason: str
) -> None:
    """The error says how to give it to the function."""
    where = f"test_source.py:{function.__code__.co_firstlineno + line}: "
    with pytest.raises(InvalidFunctionError, match=where + reason) as refused:
        check_function(function)
    assert len(refused.value.problems) == 1


def test_a_closure_lacks_what_is_around_it() -> None:
    """A closure lacks what it would change around it, and what is not set there yet."""
    count = 0

    def reads() -> list[int]:
        return [count, later]

    def writes() -> None:
        nonlocal count
        count += 1

    with pytest.raises(InvalidFunctionError, match=r"'count'.*pass it as an argument.*'later'"):
        check_function(reads)
    with pytest.raises(
        InvalidFunctionError, match="no binding for nonlocal 'count' found; write it so that it"
    ):
        check_function(writes)
    later = 1


def test_all_reasons_come_at_once_in_the_order_of_lines() -> None:
    """Who mends one need not come back for the next."""

    def many() -> object:
        from . import here  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]  # noqa: TID252

        return [here, CONSTANT, json, CONSTANT]  # pyright: ignore[reportUnknownVariableType]

    first = many.__code__.co_firstlineno
    with pytest.raises(InvalidFunctionError) as refused:
        check_function(many)
    assert [problem.partition(";")[0] for problem in refused.value.problems] == [
        f"test_source.py:{first + 1}: `from . import …` is relative to its package",
        f"test_source.py:{first + 3}: it uses 'CONSTANT', which is defined outside it",
        f"test_source.py:{first + 3}: it uses 'json', which is defined outside it",
    ]


RICH = """
    def rich(a: int, *b: Missing, c: Missing = 1, **d: Missing) -> Missing:
        global shared
        import json as j
        from os import path, sep

        shared = a
        value: Missing = 1
        print(walrus := value, [x for x in b if x > walrus], {y: z for y, z in d.items()})
        with open(sep) as file:
            del file
        try:
            pass
        except OSError as err:
            print(err, __name__)
        match d:
            case {"k": bound, **rest}:
                print(bound, rest)
        for i, *others in []:
            print(i, others)

        class Inner:
            field: Missing = 1
            other = field

            def method(self):
                return super().__init__, __class__, Inner, c

        def nested():
            nonlocal value
            value = shared
            return rich, j, path

        return Inner, nested, lambda q: q
"""


def test_what_a_function_has_is_not_missed(load: Load) -> None:
    """Whatever Python can bind a name with; annotations are nobody's need."""
    check_function(load("from __future__ import annotations\n" + dedent(RICH)))


DECORATED = """\
def kept(*marks):
    return lambda function: function

@kept(
    "several",
    "lines",
)
@kept()
def decorated(a, b=2):  # a comment
    '''Have a text

of lines that are not indented.'''
    return a, b
"""


def test_the_text_is_without_decorators_and_otherwise_as_written(load: Load) -> None:
    """With its place in the file, so that a traceback is right."""
    source = read_function(load(DECORATED))
    assert source.text == DECORATED.partition("@kept()\n")[2]
    assert (source.name, source.file, source.line) == ("decorated", FILE, 9)
    assert str(source.signature) == "(a, b=2)"


def test_an_indented_text_stays_as_it_is(load: Load) -> None:
    """Moving it to the left would change the texts in it that have several lines."""
    text = "if 1:\n    @str\n    def other(): ...\n    def inner():\n        return '''\nleft'''\n"
    source = read_function(load(text))
    assert source.text == "if True:\n" + text.partition("...\n")[2]
    assert source.line == 3


def test_a_file_that_has_changed_is_noticed(load: Load, tmp_path: Path) -> None:
    """Rather than another function run in the one's place."""
    one = load("def one():\n    return 1\n")
    (tmp_path / FILE).write_text("def other():\n    return 2\n")
    linecache.clearcache()
    with pytest.raises(InvalidFunctionError, match="its file has changed since it was loaded; load it again"):
        check_function(one)


def test_a_function_without_a_file_is_refused(load: Load, tmp_path: Path) -> None:
    """Its text is nowhere."""
    one = load("def one():\n    return 1\n")
    (tmp_path / FILE).unlink()
    linecache.clearcache()
    with pytest.raises(
        InvalidFunctionError, match=r"'one' as an app: its text cannot be read \(.*\); write it in"
    ):
        check_function(one)
