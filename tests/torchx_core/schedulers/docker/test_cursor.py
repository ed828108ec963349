"""Cursors: places that survive as strings, and belong to one app."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.errors import InvalidCursorError
from torchx_core.schedulers.docker.cursor import AppPlace, ReplicaPlace, decode_cursor, encode_cursor
from torchx_core.schedulers.docker.lines import LogPlace, StreamPlace

NONCE = "bfa3addf09dc"

counts = st.integers(0, 1000)
stamps = st.sampled_from([b"", b"2026-11-21T14:36:18.123456789Z"])
streams = st.builds(StreamPlace, stamps, counts, counts, st.binary(max_size=3), st.booleans())
logs = st.builds(
    LogPlace, since=stamps, streams=st.dictionaries(st.sampled_from([1, 2]), streams), gone=st.booleans()
)
replicas = st.dictionaries(counts, st.builds(ReplicaPlace, counts, counts, logs), max_size=3)


@given(st.one_of(st.builds(AppPlace, counts, st.just(False), replicas), st.just(AppPlace(done=True))))
def test_a_place_survives_as_a_string(place: AppPlace) -> None:
    """Whatever it says."""
    assert decode_cursor(encode_cursor(NONCE, place), NONCE) == place


@pytest.mark.parametrize(
    ("cursor", "message"),
    [
        ("", "not a JSON object"),
        ("[]", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"v":2}', "version"),
        ('{"v":1,"app":"other","at":"done"}', "another app"),
        ('{"v":1,"app":"bfa3addf09dc"}', "points nowhere"),
        ('{"v":1,"app":"bfa3addf09dc","at":{"changes":-1,"replicas":{}}}', "points nowhere"),
        ('{"v":1,"app":"bfa3addf09dc","at":{"changes":1,"replicas":{"0":[1,2]}}}', "points nowhere"),
        (
            '{"v":1,"app":"bfa3addf09dc","at":{"changes":1,"replicas":{"0":[1,0,"now",0,{}]}}}',
            "points nowhere",
        ),
    ],
)
@pytest.mark.usefixtures("no_collection")
def test_what_is_no_place_of_this_app_is_refused(cursor: str, message: str) -> None:
    """With what is wrong with it."""
    with pytest.raises(InvalidCursorError, match=message):
        decode_cursor(cursor, NONCE)


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_no_json_breaks_the_reader(at: object) -> None:
    """It is a place, or it is refused."""
    with suppress(InvalidCursorError):
        decode_cursor(json.dumps({"v": 1, "app": NONCE, "at": at}), NONCE)
