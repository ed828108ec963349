"""Places: hosts that a scheduler's name names."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchx_core import get_runner
from torchx_core.config import read_config
from torchx_core.errors import InvalidInputError, MalformedAppHandleException, UnknownSchedulerException
from torchx_core.schedulers.remote.places import find_place
from torchx_core.specs import make_app_handle, parse_app_handle

FULL = "ssh://me@10.0.0.5:2222?python=~/venv/bin/python&state_dir=/data/torchx"


def test_a_name_that_is_not_defined_is_one_that_ssh_knows() -> None:
    """The name is passed to ssh, whose configuration may have it as an alias."""
    place = find_place("gpu-box", None, {})
    assert (place.host.address, place.host.python, place.state_dir) == ("gpu-box", "python3", None)


@pytest.mark.parametrize("places", [{"gpu-box": FULL}, f"other=far gpu-box={FULL}"])
def test_an_address_says_the_rest(places: dict[str, str] | str) -> None:
    """An address names user, port and Python, and where records lie."""
    host, state_dir = find_place("gpu-box", places, {"TORCHX_PLACES": "gpu-box=not-this-one"})
    assert (host.address, host.python_word, state_dir) == (
        "me@10.0.0.5:2222",
        "~/venv/bin/python",
        "/data/torchx",
    )


def test_the_environment_says_it_where_nobody_else_does() -> None:
    """`TORCHX_PLACES` has the form of the field of an Airflow connection."""
    assert find_place("b", None, {"TORCHX_PLACES": "a=x b=y@z"}).host.address == "y@z"


@pytest.mark.parametrize(
    ("name", "places", "message"),
    [
        ("a/b", None, "not the name of a place: 'a/b'"),
        ("", None, "not the name of a place: ''"),
        ("-oProxyCommand=x", None, "not the name of a place"),
        ("a", "a", r"not a place: 'a' \(places\); expected NAME=\[ssh://\]"),
        ("a", "a=ssh://x:y@h", "not the address of a host: 'ssh://x@h'.*keys instead of a password"),
        ("a", "a=h?pythonn=x", r"place a in places: 'pythonn=x'; known: python=…, state_dir=…; did you mean"),
        ("a", "a=h?python=", "place a in places: 'python='; known:"),
        ("a", "a=h?python=-c", "not a program: '-c'"),
    ],
)
def test_what_is_wrong_is_said(name: str, places: str | None, message: str) -> None:
    """The error says where it was given, and what is allowed."""
    with pytest.raises(InvalidInputError, match=message):
        find_place(name, places, {})


def test_a_handle_carries_the_place() -> None:
    """Whoever has the handle finds the app."""
    handle = make_app_handle("local_cwd@gpu-box", "s", "x")
    assert parse_app_handle(handle) == ("local_cwd@gpu-box", "s", "x")
    with pytest.raises(MalformedAppHandleException):
        parse_app_handle("@gpu-box://s/x")


def test_only_some_schedulers_have_places() -> None:
    """The error says which, and how Docker reaches another host."""
    with get_runner("s", places={}) as runner:
        assert runner.scheduler("slurm@login").backend == "slurm@login"
        with pytest.raises(InvalidInputError, match=r"local_cwd, local_dir, slurm can.*docker_host=ssh://"):
            runner.scheduler("local_docker@box")
        with pytest.raises(UnknownSchedulerException):
            runner.scheduler("local_cwdd")
        with pytest.raises(InvalidInputError, match="not the name of a place: ''"):
            runner.scheduler("local_cwd@")


def test_options_of_the_scheduler_count_at_every_place(tmp_path: Path) -> None:
    """Options of the place come before those of its scheduler."""
    (tmp_path / ".torchxconfig").write_text(
        "[local_cwd]\ngrace_s=3\nlog_mode=pipe\n[local_cwd@gpu-box]\ngrace_s=4\n"
    )
    with get_runner("s") as runner:
        opts = runner.scheduler("local_cwd@gpu-box").run_opts()
    found = read_config([str(tmp_path)], {}).cfg("local_cwd@gpu-box", opts, {})
    assert found == {"grace_s": 4.0, "log_mode": "pipe"}
