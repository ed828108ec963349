"""What an error came from, also where somebody is handling another one."""

from __future__ import annotations

from typing import NoReturn

import pytest

from torchx_core.schedulers.causes import causes


def fail(err: Exception) -> NoReturn:
    """Fail with that error."""
    raise err


def failing(*, of_itself: bool) -> None:
    """Fail as a library does: by an error that another one led to, or by one alone."""
    if of_itself:
        raise OSError("alone")
    try:
        fail(ConnectionResetError("inner"))
    except ConnectionResetError:
        raise OSError("outer")  # noqa: B904  # chained by context alone, as many libraries do


def caught(*, of_itself: bool) -> list[str]:
    """Return what the error came from."""
    try:
        failing(of_itself=of_itself)
    except OSError as err:
        return [str(cause) for cause in causes(err)]
    pytest.fail("it does not fail")


@pytest.mark.parametrize(("of_itself", "expected"), [(True, ["alone"]), (False, ["outer", "inner"])])
def test_what_the_caller_handles_is_no_cause(expected: list[str], *, of_itself: bool) -> None:
    """A user may call us in an except clause, and that may be within another."""
    assert caught(of_itself=of_itself) == expected
    try:
        fail(PermissionError("the user's"))
    except PermissionError:
        assert caught(of_itself=of_itself) == expected
        try:
            fail(FileNotFoundError("the user's second"))
        except FileNotFoundError:
            assert caught(of_itself=of_itself) == expected


def test_an_explicit_cause_is_one() -> None:
    """Raised from another, or from nothing."""
    err = ValueError("what")
    err.__cause__ = KeyError("why")
    assert [*causes(err)] == [err, err.__cause__]
    bare = ValueError("what")
    bare.__context__, bare.__suppress_context__ = KeyError("hidden"), True
    assert [*causes(bare)] == [bare]
