"""The text form of values: what TorchX reads, what it cannot, and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.components.value_text import BadValue, accept_value, read_text, write_text
from torchx_core.components.value_types import value_type

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", ",", ";", "=", "a,b=c", '"', "'", '""', "it's", " x ", '"a" b', "a=,b=", "\n", "k=v;k=v"]
)
SCALARS = {
    str: TEXTS,
    int: st.integers(),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
}


@pytest.mark.parametrize(
    ("text", "tp", "value"),
    [
        ("a b", str, "a b"),
        ("", str, ""),
        ("-3", int, -3),
        ("1e-3", float, 0.001),
        ("True", bool, True),
        ("false", bool, False),
        ("a, b ,c", list[str], ["a", "b", "c"]),
        ("1,2", list[int], [1, 2]),
        ("a,,b", list[str], ["a", "", "b"]),
        ("A=1", dict[str, str], {"A": "1"}),
        ("A=v1,v2,B=v3", dict[str, str], {"A": "v1,v2", "B": "v3"}),
        ("A=v1;v2;B=v3", dict[str, str], {"A": "v1;v2", "B": "v3"}),
        ("A='x=1,y=2'", dict[str, str], {"A": "x=1,y=2"}),
        ('A=""', dict[str, str], {"A": ""}),
        ("a=1,b=2", dict[str, int], {"a": 1, "b": 2}),
        ("1=a", dict[int, str], {1: "a"}),
    ],
)
def test_what_torchx_reads(text: str, tp: object, value: object) -> None:
    """Arguments that work with TorchX mean the same here."""
    assert read_text(text, value_type(tp)) == value


@pytest.mark.parametrize(
    ("text", "tp", "value"),
    [
        ("yes", bool, True),
        ("OFF", bool, False),
        ("True,no", list[bool], [True, False]),
        ("3", int | None, 3),
        ('"a,b",c', list[str], ["a,b", "c"]),
        ("it's,here", list[str], ["it's", "here"]),
        ('"a" b,c', list[str], ['"a" b', "c"]),
        ("", list[str], []),
        ("", dict[str, str], {}),
        ("A=b=c", dict[str, str], {"A": "b=c"}),
        ("A=", dict[str, str], {"A": ""}),
        ("k8s.io/a=x,b=y", dict[str, str], {"k8s.io/a": "x", "b": "y"}),
        ("'a,b'=c", dict[str, str], {"a,b": "c"}),
        ("A=x,", dict[str, str], {"A": "x,"}),
        ("1,x", tuple[int, str], (1, "x")),
    ],
)
def test_what_torchx_cannot_read(text: str, tp: object, value: object) -> None:
    """More booleans, quoted items, empty values, ``=`` in values, tuples."""
    assert read_text(text, value_type(tp)) == value


@pytest.mark.parametrize(
    ("value", "tp", "why"),
    [
        ("maybe", bool, "must be one of true, 1, yes, on, false, 0, no, off: 'maybe'"),
        ("1.5", int, "must be int: '1.5'"),
        ("x", float | None, "must be float: 'x'"),
        ("1,x", list[int], "must be int: 'x'"),
        ("novalue", dict[str, str], "must be KEY=VALUE[,KEY=VALUE…]: 'novalue'"),
        ("=x", dict[str, str], "must be KEY=VALUE[,KEY=VALUE…]: '=x'"),
        ("1,2,3", tuple[int, int], "must have 2 items, tuple[int, int]: 3 given"),
        (2, str, "must be str: 2 (int)"),
        (True, int, "must be int: True (bool)"),
        (1, bool, "must be bool: 1 (int)"),
        (1.5, int, "must be int: 1.5 (float)"),
        (10**400, float, "must be float: an integer that is too large for one"),
        (None, str, "must be str: None (NoneType)"),
        (["a"], dict[str, str], "must be dict[str, str]: ['a'] (list)"),
        ([1], list[str], "must be str: 1 (int)"),
        ({"a": "b"}, list[str], "must be list[str]: {'a': 'b'} (dict)"),
    ],
)
def test_a_wrong_value_is_refused(value: object, tp: object, why: str) -> None:
    """With what was expected, and what was given."""
    with pytest.raises(BadValue) as refused:
        accept_value(value, value_type(tp))
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("value", "tp", "accepted"),
    [
        (None, str | None, None),
        (3, float, 3.0),
        ("3", int, 3),
        (("a", "b"), list[str], ["a", "b"]),
        (["1", 2], list[int], [1, 2]),
        ({"1": 2}, dict[int, int], {1: 2}),
        ([1, "x"], tuple[int, str], (1, "x")),
        ("a=1", dict[str, int], {"a": 1}),
    ],
)
def test_values_from_json_get_their_type(value: object, tp: object, accepted: object) -> None:
    """JSON knows fewer types; a text is read as on a command line."""
    assert accept_value(value, value_type(tp)) == accepted


@given(st.data())
def test_writing_and_reading_gives_the_value_back(data: st.DataObject) -> None:
    """For every type, whatever the texts hold: separators, quotes, white space, nothing."""
    first, second = (data.draw(st.sampled_from(sorted(SCALARS, key=str))) for _ in range(2))
    containers = {
        first: SCALARS[first],
        list[first]: st.lists(SCALARS[first]),  # type: ignore[valid-type]  # drawn
        dict[first, second]: st.dictionaries(SCALARS[first], SCALARS[second]),  # type: ignore[valid-type]  # drawn
        tuple[first, second]: st.tuples(SCALARS[first], SCALARS[second]),  # type: ignore[valid-type]  # drawn
    }
    tp = data.draw(st.sampled_from(sorted(containers, key=str)))
    value = data.draw(containers[tp])
    assert read_text(write_text(value), value_type(tp)) == value
