"""Lines from records: joined, cut and told apart by attempts; and found again from any place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchx_core.schedulers.docker.frames import STDERR, STDOUT, Record
from torchx_core.schedulers.docker.lines import MAX_LINE, Run, Seek, StreamLines, StreamPlace

KEY = "54b078eb6902"
RECORD = 1 << 14

texts = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\x1e"), max_size=40), max_size=12)


def stamp(number: int) -> bytes:
    """Return the time of a record; pairs of them share it."""
    return b"2026-11-21T14:00:00.%09dZ" % (number // 2 * 300_000)


def _lines(printed: bytes) -> list[bytes]:
    *whole, last = printed.split(b"\n")
    return [line + b"\n" for line in whole] + ([last] if last else [])


def read(records: list[Record], place: StreamPlace | None = None) -> tuple[list[Run], StreamPlace]:
    """Make runs of the records, and finish as at a container's end."""
    lines, runs = StreamLines(STDOUT, KEY, place or StreamPlace()), list[Run]()
    for record in records:
        attempt = lines.next_attempt(record)
        if attempt is None:
            lines.take(record, runs)
        else:
            lines.begin(attempt, record, runs)
    lines.finish(runs)
    return runs, lines.place


def told(runs: list[Run]) -> list[tuple[int, bytes, bool]]:
    """Return attempt, text and whether a newline followed, line by line."""
    return [
        (run.attempt, line, run.eol or i < len(run.lines) - 1)
        for run in runs
        for i, line in enumerate(run.lines)
    ]


@given(texts, st.sampled_from([b"", b"\n"]))
def test_lines_come_out_as_they_were_printed(printed: list[str], end: bytes) -> None:
    """Empty ones, control characters and carriage returns, and an unfinished last one."""
    data = "\n".join([*printed, "last"]).encode() + end
    lines = told(read(_cut(data))[0])
    assert b"\n".join(text for _, text, _ in lines) + end == data
    assert [eol for _, _, eol in lines] == [True] * len(printed) + [bool(end)]


def test_a_line_of_many_records_is_one_line() -> None:
    """A record may end within a character."""
    line = ("x" * (RECORD - 1) + "é" + "y" * RECORD * 2).encode()
    assert told(read(_cut(line + b"\n"))[0]) == [(0, line, True)]


def test_a_very_long_line_is_cut_between_characters() -> None:
    """Into pieces that say that no newline followed, and that together are the line."""
    line = ("x" + "é" * MAX_LINE).encode()
    lines = told(read(_cut(line + b"\n"))[0])
    assert [eol for _, _, eol in lines] == [False, False, True]
    assert b"".join(text for _, text, _ in lines) == line
    assert all("\ufffd" not in text.decode("utf-8", "replace") for _, text, _ in lines)


def test_attempts_are_told_by_their_markers() -> None:
    """A marker ends an unfinished line, is no line itself, and another app's is one."""
    marker = b"\x1etorchx:54b078eb6902:%d\n"
    other = b"\x1etorchx:ffffffffffff:7\n"
    printed = [marker % 0, b"a\n", b"b", marker % 1, other, b"c\n"]
    runs, _ = read([Record(STDOUT, stamp(i), data) for i, data in enumerate(printed)])
    assert told(runs) == [(0, b"a", True), (0, b"b", False), (1, other[:-1], True), (1, b"c", True)]


def test_lines_of_one_millisecond_are_one_run() -> None:
    """However the records arrived; so what is read later has the same times."""
    stamps = [b"2026-11-21T14:00:00.%09dZ" % ns for ns in (1_000_000, 1_999_999, 2_000_000)]
    runs, _ = read([Record(STDOUT, at, b"x\n") for at in stamps])
    assert [(run.stamp[-4:], len(run.lines)) for run in runs] == [(b".001", 2), (b".002", 1)]


@given(st.data())
def test_reading_goes_on_from_any_place(data: st.DataObject) -> None:
    """Nothing repeated, nothing skipped: with pieces of lines, equal stamps and a clock that was set back."""
    sizes = data.draw(
        st.lists(st.sampled_from([1, 5, RECORD - 1, RECORD, RECORD + 3, 3 * RECORD]), max_size=6)
    )
    printed = b"".join(b"%c" % (65 + i) * size + b"\n" for i, size in enumerate(sizes))
    records = _cut(printed)
    if data.draw(st.booleans(), label="clock set back"):
        half = len(records) // 2
        records = [
            Record(r.stream, b"2026-11-21T13:00" + r.stamp[16:] if i >= half else r.stamp, r.data)
            for i, r in enumerate(records)
        ]
    stop = data.draw(st.integers(0, len(records)))
    lines, first = StreamLines(STDOUT, KEY, StreamPlace()), list[Run]()
    for record in records[:stop]:
        lines.take(record, first)
    rest = Seek(lines.place, b"").take(records)
    assert told(first) + told(read(rest, lines.place)[0]) == told(read(records)[0])


def test_a_place_that_is_gone_gives_what_is_left() -> None:
    """Everything that is there was printed after it."""
    records = _cut(b"c\nd\n")
    seek = Seek(StreamPlace(stamp=b"2026-11-21T13:00:00.000000000Z", seen=1), b"")
    assert seek.take(records) == []
    assert not seek.found
    assert seek.give_up() == records


def test_a_place_before_what_was_asked_for_needs_no_seeking() -> None:
    """A stream that was silent for long has all of what comes ahead of it."""
    records = [Record(STDERR, stamp(9), b"x\n")]
    seek = Seek(
        StreamPlace(stamp=b"2026-11-21T13:00:00.000000000Z", seen=1), b"2026-11-21T14:00:00.000000000Z"
    )
    assert seek.take(records) == records


def _cut(printed: bytes) -> list[Record]:
    """Cut what was printed as the engine does: at newlines and after 16 KiB; one line, one stamp."""
    return [
        Record(STDOUT, stamp(number), line[at : at + RECORD])
        for number, line in enumerate(_lines(printed))
        for at in range(0, len(line), RECORD)
    ]
