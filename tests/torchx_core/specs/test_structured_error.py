from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.specs import NONE
from torchx_core.specs.structured_error import StructuredError, parse_structured_error

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["message", "extraInfo", "timestamp"]), inner)
    ),
)


@pytest.mark.parametrize("text", ["", "  \n", NONE])
def test_nothing(text: str) -> None:
    """No text is no error."""
    assert parse_structured_error(text) is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {
                "message": {
                    "message": "boom",
                    "errorCode": 3,
                    "extraInfo": {"timestamp": "0", "py_callstack": "…"},
                }
            },
            StructuredError(message="boom", exit_code=3, time="1970-01-01T00:00:00Z", traceback="…"),
        ),
        (
            {"message": "boom", "errorCode": "3", "timestamp": 1.5},
            StructuredError(message="boom", exit_code=3, time="1970-01-01T00:00:01Z"),
        ),
        ({"message": " boom\n"}, StructuredError(message="boom")),
        ({"message": {"message": "boom", "errorCode": 0}}, StructuredError(message="boom")),
        ({"message": "boom", "errorCode": "x", "extraInfo": 3}, StructuredError(message="boom")),
        ({"message": "boom", "timestamp": 1e300}, StructuredError(message="boom")),
        ({"message": "boom", "timestamp": float("inf")}, StructuredError(message="boom")),
        ({"message": "boom", "timestamp": [1]}, StructuredError(message="boom")),
    ],
)
def test_known_forms(data: dict[str, object], expected: StructuredError) -> None:
    """The nested and the flat form are read; what is odd in them is left out."""
    assert parse_structured_error(json.dumps(data)) == expected


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    "text",
    [
        '{"message": "tor',
        "Traceback …",
        "[1, 2]",
        '"text"',
        "3",
        "{}",
        '{"message": 3}',
        '{"message": " "}',
        "[" * 5000,
    ],
)
def test_unknown_forms_are_the_message(text: str) -> None:
    """What cannot be read is shown as it is: better than nothing, and never an exception."""
    assert parse_structured_error(f" {text} ") == StructuredError(message=text)


@given(json_values.map(json.dumps) | st.text())
def test_never_raises(text: str) -> None:
    """Whatever a dying program wrote, asking for the status works."""
    error = parse_structured_error(text)
    assert (error is None) == (text.strip() in ("", NONE))
