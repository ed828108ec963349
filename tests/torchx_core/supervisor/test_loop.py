"""The loop speaks of descriptors by their owner, and hands on output in the order of its arrival."""

from __future__ import annotations

import os
from io import FileIO

import pytest

from torchx_core.supervisor.loop import Loop


def _pipe() -> tuple[FileIO, FileIO]:
    read, write = os.pipe2(os.O_NONBLOCK)
    return FileIO(read), FileIO(write, "wb")


def test_a_number_that_is_used_again_belongs_to_its_new_owner() -> None:
    """Closing a pipe once more does not touch the pipe that got its number meanwhile."""
    loop = Loop()
    old, old_end = _pipe()
    loop.watch(old, lambda: None)
    number = old.fileno()
    loop.close(old)
    new, new_end = _pipe()
    with old_end, new, new_end:
        assert new.fileno() == number
        read: list[bytes | None] = []
        loop.watch(new, lambda: read.append(new.read()))
        loop.close(old)
        new_end.write(b"whole")
        assert loop.turn(wait=True)
        assert read == [b"whole"]
        with pytest.raises(ValueError, match="closed"):
            old.read()
        loop.close(new)


def test_a_pipe_that_an_earlier_reader_closed_is_not_read() -> None:
    """Of two pipes that are ready at once the first may end the second."""
    loop = Loop()
    first, first_end = _pipe()
    second, second_end = _pipe()
    read: list[str] = []

    def read_first() -> None:
        read.append("first")
        loop.close(second)

    loop.watch(first, read_first, edge=True)
    loop.watch(second, lambda: read.append("second"), edge=True)
    with first_end, second_end:
        first_end.write(b"x")
        second_end.write(b"x")
        loop.turn(wait=True)
        assert read == ["first"]
        loop.close(first)


def test_output_is_taken_in_the_order_of_its_arrival_and_alone() -> None:
    """What is no output waits for the next turn; of the output, what was written first comes first."""
    loop = Loop()
    request, request_end = _pipe()
    out, out_end = _pipe()
    err, err_end = _pipe()
    read: list[str] = []
    for name, pipe in (("request", request), ("out", out), ("err", err)):

        def take(name: str = name, pipe: FileIO = pipe) -> None:
            pipe.read()
            read.append(name)

        loop.watch(pipe, take, edge=name != "request", output=name != "request")
    with request_end, err_end, out_end:
        for end in (request_end, err_end, out_end):
            end.write(b"x")
        assert loop.take_output() == {err, out}
        assert loop.take_output() == set()
        assert read == ["err", "out"]
        loop.turn(wait=True)
        assert read == ["err", "out", "request"]
        for pipe in (request, out, err):
            loop.close(pipe)
