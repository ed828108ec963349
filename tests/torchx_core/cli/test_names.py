"""An app id, the beginning of one, or ``@latest`` in place of a handle: the right app, or an error."""

from __future__ import annotations

import pytest
from cli_apps import Cli, ended, state_of, submitted
from cli_terminal import in_terminal, torchx_core

from torchx_core import AppState
from torchx_core.cli.listing import Listing
from torchx_core.cli.names import meant
from torchx_core.errors import InvalidInputError, MalformedAppHandleException, NotFoundError, SchedulerError
from torchx_core.schedulers import ListAppResponse
from torchx_core.testing import Exit, Hold, Print


def listing(*apps: tuple[str, str, float | None], unreachable: dict[str, str] | None = None) -> Listing:
    """Return a listing of apps, each with its scheduler, id and time."""
    rows = [
        ListAppResponse(
            app_id=app_id, state=AppState.RUNNING, submitted_at=at, app_handle=f"{scheduler}://s/{app_id}"
        )
        for scheduler, app_id, at in apps
    ]
    return Listing(rows, unreachable or {})


APPS = listing(("a", "train", 1.0), ("a", "train-1", 2.0), ("b", "eval-1", 3.0), ("b", "torn", None))


@pytest.mark.parametrize(
    ("word", "handle"),
    [
        ("train", "a://s/train"),
        ("train-", "a://s/train-1"),
        ("e", "b://s/eval-1"),
        ("torn", "b://s/torn"),
        ("@latest", "b://s/eval-1"),
    ],
)
def test_a_word_means_one_app(word: str, handle: str) -> None:
    """A whole id before what only begins with it; the latest by when it was submitted."""
    assert meant(word, APPS, "s") == handle


@pytest.mark.parametrize(
    ("word", "handles"),
    [("t", ["a://s/train", "a://s/train-1", "b://s/torn"]), ("tr", ["a://s/train", "a://s/train-1"])],
)
def test_a_word_that_means_several_apps_is_refused(word: str, handles: list[str]) -> None:
    """With all of them, to choose from."""
    with pytest.raises(InvalidInputError) as caught:
        meant(word, APPS, "s")
    assert str(caught.value).startswith(
        f"{word!r} begins the ids of {len(handles)} apps: {', '.join(handles)};"
    )


def test_one_id_on_two_schedulers_is_refused() -> None:
    """Nobody knows which of them is meant."""
    both = listing(("a", "nightly", 1.0), ("b", "nightly", 2.0))
    with pytest.raises(InvalidInputError, match=r"is the id of 2 apps: a://s/nightly, b://s/nightly;"):
        meant("nightly", both, "s")


def test_two_apps_of_the_same_moment_are_both_the_latest() -> None:
    """A clock of whole seconds does not say which came last."""
    both = listing(("a", "x", 1.0), ("a", "y", 1.0))
    with pytest.raises(InvalidInputError, match="@latest is any of 2 apps"):
        meant("@latest", both, "s")


@pytest.mark.parametrize("word", ["train", "train-", "@latest"])
def test_while_a_scheduler_cannot_be_asked_no_word_is_sure(word: str) -> None:
    """It may have the app that is meant."""
    unsure = APPS._replace(unreachable={"c": "it is away"})
    with pytest.raises(SchedulerError, match=r"c was not asked: it is away; give the app's whole handle"):
        meant(word, unsure, "s")


@pytest.mark.parametrize(("word", "close"), [("trian-1", "train-1"), ("nothing-like-it", None)])
def test_a_word_that_means_nothing_suggests(word: str, close: str | None) -> None:
    """The closest id, or where to look."""
    with pytest.raises(NotFoundError) as caught:
        meant(word, APPS, "s")
    assert (f"did you mean {close!r}?" if close else "torchx-core list shows them") in str(caught.value)


def test_nothing_is_the_latest_of_nothing() -> None:
    """An error of its own, as it is no beginning of an id."""
    with pytest.raises(NotFoundError, match="session 's' has none"):
        meant("@latest", listing(), "s")


@pytest.mark.parametrize("word", ["", " ", "a b", "a/b", "a\x1b"])
def test_what_cannot_be_an_id_is_refused(word: str) -> None:
    """An empty word begins every id."""
    with pytest.raises(MalformedAppHandleException):
        meant(word, APPS, "s")


@pytest.mark.parametrize("command", ["status", "wait", "log", "describe", "top", "page"])
def test_every_command_takes_one(cli: Cli, command: str) -> None:
    """And does with it what it does with the handle."""
    handle = submitted(Print("x"), Exit(0), app_id="train-1")
    ended(handle)
    how = {"top": ("--once",), "page": ("--out", "-")}.get(command, ())
    by_handle = cli(command, handle, *how)
    assert by_handle.code == 0
    for word in ("train-1", "tr", "@latest"):
        by_word = cli(command, word, *how)
        assert by_word.code == 0
        assert command == "page" or by_word == by_handle  # the page says when it was made


def test_commands_that_go_inside_take_one(cli: Cli) -> None:
    """The app's words after it stay what they are."""
    submitted(Print("x"), Hold(), app_id="train-1")
    assert torchx_core("exec", "tr", "main/0", "--", "echo", "@latest").stdout == "@latest\n"
    assert cli("stacks", "tr", "nobody/0").code == 3


def test_what_ends_apps_takes_a_word_only_when_it_means_one(cli: Cli) -> None:
    """Otherwise nothing is touched; two words for one app are one app."""
    one, two = submitted(Hold(), app_id="train-1"), submitted(Hold(), app_id="train-2")
    for command in ("cancel", "delete"):
        done = cli(command, "train-1", "tr")
        assert (done.code, done.out) == (2, "")
        assert f"2 apps: {one}, {two};" in done.err
    assert {state_of(one), state_of(two)} <= {"SUBMITTED", "PENDING", "RUNNING"}
    assert cli("cancel", "train-1", one).out == f"{one} is being cancelled\n"
    ended(one)
    assert cli("delete", "train-1", "--json").json == {
        "handle": one,
        "scheduler": "local_cwd",
        "session": "torchx",
        "app_id": "train-1",
        "deleted": True,
    }
    assert (state_of(one), state_of(two)) == ("gone", "RUNNING")


def test_a_word_is_of_the_commands_session(cli: Cli) -> None:
    """`top` has one; an app of another session is named by its handle."""
    handle = submitted(Exit(0), app_id="train-1")
    ended(handle)
    assert cli("top", "tr", "--once", "--session", "other").code == 3
    assert "no app of session 'other'" in cli("top", "tr", "--once", "--session", "other").err


def test_a_terminal_is_told_which_app_a_word_means() -> None:
    """On stderr; nothing is said of a whole id."""
    handle = submitted(Print("x"), Exit(0), app_id="train-1")
    ended(handle)
    with in_terminal("log", "@latest") as terminal:
        assert terminal.exit_code() == 0
        assert terminal.shown() == [f"@latest is {handle}", "main/0 x"]
    with in_terminal("log", "train-1") as terminal:
        assert terminal.exit_code() == 0
        assert terminal.shown() == ["main/0 x"]
