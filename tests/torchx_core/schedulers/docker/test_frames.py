"""Bytes from the engine: chunks, frames and stamps, however the bytes are cut."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.schedulers.docker.exchange import Body, ProtocolError
from torchx_core.schedulers.docker.frames import (
    STDERR,
    STDOUT,
    SYSTEM,
    BadFrame,
    Frames,
    Record,
    check_timestamp,
    moved_back,
    to_seconds,
    unix_time,
)

STAMP = b"2026-11-21T14:36:18.123456789Z"

records = st.lists(
    st.builds(Record, st.sampled_from([STDOUT, STDERR]), st.just(STAMP), st.binary(max_size=60)), max_size=12
)
cuts = st.lists(st.integers(1, 9), min_size=1)


def frame(stream: int, payload: bytes) -> bytes:
    """Return what the engine sends."""
    return pack(">B3xI", stream, len(payload)) + payload


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut the bytes into pieces of these sizes, again and again."""
    found: list[bytes] = []
    while data:
        size = sizes[len(found) % len(sizes)]
        found.append(data[:size])
        data = data[size:]
    return found


@given(records, cuts)
def test_frames_are_put_together_from_any_pieces(expected: list[Record], sizes: list[int]) -> None:
    """Whatever bytes are in them, and wherever the connection cut them."""
    sent = b"".join(frame(r.stream, r.stamp + b" " + r.data) for r in expected)
    frames = Frames()
    assert [record for piece in pieces(sent, sizes) for record in frames.take(piece)] == expected


@given(st.lists(st.binary(max_size=60), max_size=12), cuts)
def test_stamps_of_whole_seconds_are_made_as_long_as_the_others(texts: list[bytes], sizes: list[int]) -> None:
    """Podman sends no fraction, and what follows may look like one."""
    sent = b"".join(frame(STDOUT, b"2026-11-21T14:36:18Z " + text) for text in texts)
    frames = Frames()
    found = [record for piece in pieces(sent, sizes) for record in frames.take(piece)]
    assert found == [Record(STDOUT, b"2026-11-21T14:36:18.000000000Z", text) for text in texts]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), cuts)
def test_chunks_are_put_together_from_any_pieces(chunks: list[bytes], sizes: list[int]) -> None:
    """The empty chunk, and not a byte before it, is the end."""
    sent = b"".join(b"%x;x=y\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n"
    body = Body({"transfer-encoding": "chunked"})
    *before, last = pieces(sent, sizes)
    content = b"".join(body.take(piece) for piece in before)
    assert not body.ended
    assert content + body.take(last) == b"".join(chunks)
    assert body.ended


@pytest.mark.parametrize(
    ("fields", "whole"),
    [({"content-length": "4"}, True), ({"content-length": "5"}, False), ({}, True)],
    ids=["as long as told", "cut off", "of unknown length"],
)
def test_a_body_that_was_cut_off_is_told_from_a_whole_one(fields: dict[str, str], *, whole: bool) -> None:
    """By its length, where it has one; without one it ends with the connection."""
    body = Body(fields)
    assert body.take(b"abcd") == b"abcd"
    assert body.end() is whole


def test_a_log_that_was_cut_off_is_told_from_a_whole_one() -> None:
    """An engine that dies within an answer sends no last chunk."""
    body = Body({"transfer-encoding": "chunked"})
    body.take(b"4\r\nabcd\r\n")
    assert not body.end()


@pytest.mark.parametrize("data", [b"no size\r\n", b"f" * 5000, b"-5\r\nhello", b"1_0\r\n"])
def test_what_is_no_chunk_is_refused(data: bytes) -> None:
    """Instead of waiting for ever for its end."""
    with pytest.raises(ProtocolError, match="size of a chunk"):
        Body({"transfer-encoding": "chunked"}).take(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (frame(SYSTEM, b"Error grabbing logs: unexpected EOF"), "cannot read the log: Error grabbing logs"),
        (frame(7, STAMP + b" x"), "not a log's frame"),
        (frame(STDOUT, b"no stamp"), "not a log's frame"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, message: str) -> None:
    """The error repeats what the engine says about a log that it cannot read."""
    with pytest.raises(BadFrame, match=message):
        Frames().take(data)


def test_a_stamp_is_turned_into_what_queries_take() -> None:
    """To the nanosecond, which no float holds."""
    assert unix_time(STAMP) == "1795271778.123456789"
    assert moved_back(STAMP, 60) == b"2026-11-21T14:35:18.123456789Z"
    assert to_seconds(STAMP[:23]) == 1795271778.123


@pytest.mark.parametrize("stamp", [b"", b"now", STAMP[:-1], b"2026-13-41T14:36:18.123456789Z"])
def test_what_is_no_stamp_is_refused(stamp: bytes) -> None:
    """A cursor may say anything."""
    with pytest.raises(ValueError, match=r"time"):
        check_timestamp(stamp)
