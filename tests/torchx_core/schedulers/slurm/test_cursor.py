"""The place in the stream of a Slurm app, as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.errors import InvalidCursorError
from torchx_core.schedulers.cursors import seal
from torchx_core.schedulers.slurm.cursor import AppPlace, ReplicaPlace, decode_cursor, encode_cursor

_COUNTS = st.integers(0, 1 << 40)
_REPLICAS = st.builds(ReplicaPlace, _COUNTS, st.booleans(), st.booleans(), _COUNTS, _COUNTS, _COUNTS)


@given(
    st.builds(
        AppPlace,
        waited=st.booleans(),
        begun=st.booleans(),
        stopping=st.booleans(),
        replicas=st.dictionaries(st.integers(0, 999), _REPLICAS.filter(lambda r: r != ReplicaPlace())),
    )
)
def test_a_cursor_is_read_as_the_place_that_it_was_made_of(place: AppPlace) -> None:
    """For the app of which it is, and no other."""
    cursor = encode_cursor("app-1", place)
    assert decode_cursor(cursor, "app-1") == place
    with pytest.raises(InvalidCursorError):
        decode_cursor(cursor, "app-2")


def test_a_cursor_of_an_earlier_version_is_read() -> None:
    """It does not say whether it was told that the app is stopping: that was not told then."""
    earlier = {"waited": 1, "begun": 1, "replicas": {"3": [1, 1, 0, 7, 400, 20]}}
    place = decode_cursor(seal(earlier, app="app-1", version=1), "app-1")
    assert place == AppPlace(
        waited=True, begun=True, replicas={3: ReplicaPlace(1, started=True, runs=7, offset=400, reports=20)}
    )
