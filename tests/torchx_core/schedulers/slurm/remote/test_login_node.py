from __future__ import annotations

import pytest

from torchx_core.errors import InvalidInputError
from torchx_core.runner import get_runner
from torchx_core.schedulers.slurm.remote.login_node import find_login_node, login_node


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("login", ("login", None, None)),
        ("alice@login.example.org", ("login.example.org", "alice", None)),
        ("ssh://alice@Login:2222/", ("Login", "alice", 2222)),
        ("10.0.0.7:22", ("10.0.0.7", None, 22)),
        ("[fe80::1%eth0]:22", ("fe80::1%eth0", None, 22)),
    ],
)
def test_addresses(address: str, expected: tuple[object, ...]) -> None:
    """As ssh and its URLs have them."""
    found = find_login_node(address, None, {})
    assert found is not None
    assert (found.name, found.user, found.port) == expected


@pytest.mark.parametrize(
    "address",
    [
        "-oProxyCommand=x",
        "a b",
        "@login",
        "login:",
        "login:0",
        "login:70000",
        "login/path",
        "http://login",
        "a@b@c",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    """The error quotes it, and says who named it."""
    with pytest.raises(InvalidInputError, match=r"not the address of a login node: .*TORCHX_SLURM_SSH"):
        find_login_node(None, None, {"TORCHX_SLURM_SSH": address})


def test_a_password_is_not_repeated() -> None:
    """The error for an address with a password hides it, and asks for a key."""
    with pytest.raises(InvalidInputError, match=r"'ssh://alice@login'.*keys instead of a password") as caught:
        find_login_node("ssh://alice:secret@login", None, {})
    assert "secret" not in str(caught.value)


def test_the_parameter_wins_over_the_environment() -> None:
    """Both say the address and the Python."""
    environ = {"TORCHX_SLURM_SSH": "far", "TORCHX_SLURM_SSH_PYTHON": "python3.12"}
    assert find_login_node(None, None, environ) == login_node("far", "python3.12")
    assert find_login_node("near", "python3.13", environ) == login_node("near", "python3.13")
    assert find_login_node(None, None, {}) is None


@pytest.mark.parametrize(
    ("python", "word"),
    [
        ("python3", "python3"),
        ("/opt/a b/python3", "'/opt/a b/python3'"),
        ("~/py/bin/python3", "~/py/bin/python3"),
        ("~/a'b", """~/'a'"'"'b'"""),
        ("x; rm -rf /", "'x; rm -rf /'"),
    ],
)
def test_a_python_is_one_word(python: str, word: str) -> None:
    """No shell takes a part of it for something else; the home directory is the login node's."""
    assert login_node("h", python).python_word == word


@pytest.mark.parametrize("python", ["-c", "a\nb"])
def test_what_is_no_python_is_refused(python: str) -> None:
    """Before anything is connected."""
    with pytest.raises(InvalidInputError, match=r"not a program: .*slurm_ssh_python"):
        find_login_node("login", python, {})


def test_a_wrong_address_ends_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever uses the scheduler hears of it before anything is submitted."""
    monkeypatch.setenv("TORCHX_SLURM_SSH", "no address")
    with get_runner() as runner, pytest.raises(InvalidInputError, match="no address"):
        runner.scheduler("slurm")
