"""Values from text, as the installed TorchX reads them."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Annotated, Any, Dict, List, Optional, Union  # noqa: UP035  # as old components write them

import pytest

from torchx_core.util import types as ours

theirs: Any = import_module("torchx.util.types")
ANNOTATIONS: list[Any] = [
    int,
    str,
    float,
    bool,
    list[str],
    list[float],
    List[int],  # noqa: UP006
    dict[str, str],
    Dict[int, float],  # noqa: UP006
    Optional[int],  # noqa: UP045
    int | None,
    Union[int, str],  # noqa: UP007
    list[str] | None,
    Annotated[list[str], "-l"],
    Annotated[int, "-i"],
    list[list[str]],
]


def told(function: Any, *args: object) -> object:
    """What a call returns, or that it raises a ValueError."""
    try:
        return function(*args)
    except ValueError:
        return ValueError


@pytest.mark.parametrize("text", ["", " ", "a", "a,b", " a , b ", "a;b", ",", "a,"])
def test_lists(text: str) -> None:
    """Commas separate, and nothing is quoted."""
    assert ours.to_list(text) == theirs.to_list(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "FOO=v1",
        "FOO=v1,v2",
        "FOO=v1;v2,BAR=v3",
        "FOO=''",
        'FOO=""',
        "FOO=,",
        "FOO=v1,v2;",
        "key1=value1,,foo=bar",
        'FOO="value with = and , and ;"',
        "FOO='a,b=c',BAR='d'",
        "1=1.0,2=42.1, 3 = 10 ",
        "a.b-c=1",
        "FOO",
        "FOO,",
        "FOO=",
        "FOO=;BAR=v1",
    ],
)
def test_dicts(text: str) -> None:
    """Pairs, whose values may have separators."""
    assert told(ours.to_dict, text) == told(theirs.to_dict, text)


def test_an_equals_sign_belongs_to_a_value() -> None:
    """TorchX loses those at its end, as of base64."""
    assert ours.to_dict("FOO=v1;v2,BAR=v3==") == {"FOO": "v1;v2", "BAR": "v3=="}


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
@pytest.mark.parametrize("text", ["", "1", "true", "a,b", "1=2,3=4", None, {"a": ["1"]}])
def test_values(text: object, annotation: object) -> None:
    """By annotation, with and without ``Annotated``; TorchX breaks where no text is to be a bool."""
    if annotation is bool and not isinstance(text, str | None):
        assert ours.decode(text, annotation) == text
        return
    expected = told(theirs.decode, text, annotation)
    assert told(ours.decode, text, annotation) == (
        expected or False if annotation is bool and text == "" else expected
    )


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
def test_types(annotation: object) -> None:
    """Which are primitive, optional, and what reads a word."""
    assert ours.is_primitive(annotation) == theirs.is_primitive(annotation)
    assert ours.is_bool(annotation) == theirs.is_bool(annotation)
    assert ours.decode_optional(annotation) == theirs.decode_optional(annotation)
    parameter = inspect.Parameter("p", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    assert ours.get_argparse_param_type(parameter) == theirs.get_argparse_param_type(parameter)


def test_none_throws() -> None:
    """It is an AssertionError, with a message of one's own."""
    assert ours.none_throws(0) == 0
    with pytest.raises(AssertionError, match="missing"):
        ours.none_throws(None, "missing")
