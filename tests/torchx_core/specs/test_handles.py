from __future__ import annotations

import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.specs import MalformedAppHandleException, ParsedAppHandle, make_app_handle, parse_app_handle

FIRST = string.ascii_letters + string.digits + "_"
schedulers = st.builds(str.__add__, st.sampled_from(FIRST), st.text(FIRST + ".:+-", max_size=12))
parts = st.text(max_size=20).filter(lambda t: t.isprintable() and not set(t) & {" ", "/"})


def made(scheduler: str, session: str, app_id: str) -> bool:
    """Whether these parts make a handle."""
    with contextlib.suppress(MalformedAppHandleException):
        return bool(make_app_handle(scheduler, session, app_id))
    return False


def parsed(handle: str) -> ParsedAppHandle | None:
    """The parts of a handle, or None when it is not one."""
    with contextlib.suppress(MalformedAppHandleException):
        return parse_app_handle(handle)
    return None


@given(schedulers, parts, parts.filter(bool))
def test_round_trip(scheduler: str, session: str, app_id: str) -> None:
    """Whatever can be made into a handle is parsed back into the same parts."""
    assert parse_app_handle(make_app_handle(scheduler, session, app_id)) == (scheduler, session, app_id)


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_make_refuses_exactly_what_parse_refuses(scheduler: str, session: str, app_id: str) -> None:
    """No parts make a handle that is read back as other parts."""
    given_parts = (scheduler, session, app_id)
    assert made(*given_parts) == (parsed(f"{scheduler}://{session}/{app_id}") == given_parts)


@pytest.mark.parametrize("scheduler", ["local_cwd", "torchx:local_cwd", "k8s.v1", "a+b-c", "odd:"])
def test_scheduler_names(scheduler: str) -> None:
    """Scheduler names may hold dots, colons, plus and minus."""
    assert parse_app_handle(f"{scheduler}://s/a") == ParsedAppHandle(scheduler, "s", "a")


@pytest.mark.parametrize(
    ("handle", "problem"),
    [
        ("", "there is no '://'"),
        ("local_cwd:/s/a", "there is no '://'"),
        ("://s/a", "scheduler ''"),
        ("lo cal://s/a", "scheduler 'lo cal'"),
        (" local://s/a", "scheduler ' local'"),
        ("local\n://s/a", r"scheduler 'local\\n'"),
        ("-x://s/a", "scheduler '-x'"),
        ("local://sa", "0 '/' after '://' instead of one"),
        ("local://s/a/b", "2 '/' after '://' instead of one"),
        ("a://b://c/d", "3 '/' after '://' instead of one"),
        ("local://s/", "app id '' is empty"),
        ("local://s s/a", "session 's s' has white space"),
        ("local://s/a\n", r"app id 'a\\n' has white space or a control character"),
        ("local://s/a\0", "app id"),
        ("local://s/a\u200b", "app id"),
    ],
)
def test_malformed_handles(handle: str, problem: str) -> None:
    """The error quotes the handle and says which part is wrong."""
    with pytest.raises(MalformedAppHandleException, match=problem) as caught:
        parse_app_handle(handle)
    assert caught.value.app_handle == handle


def test_make_refuses_a_slash() -> None:
    """A part with a slash would be read back as two."""
    with pytest.raises(MalformedAppHandleException, match="session 's/x' has a '/'"):
        make_app_handle("local", "s/x", "a")
