"""Errors: one line, the right exit code, and no traceback unless it is asked for."""

from __future__ import annotations

import pytest
from cli_apps import Cli, app_file, submitted

from torchx_core.cli import errors
from torchx_core.cli.output import Output
from torchx_core.testing import Exit, Hold

NOBODY = "local_cwd://torchx/nobody"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["status", NOBODY], 3, f"unknown app {NOBODY}; it was never submitted there"),
        (["wait", NOBODY], 3, f"unknown app {NOBODY}"),
        (["log", NOBODY], 3, f"unknown app {NOBODY}"),
        (["cancel", NOBODY], 3, f"unknown app {NOBODY}"),
        (["delete", NOBODY], 3, f"unknown app {NOBODY}"),
        (["describe", NOBODY], 3, f"unknown app {NOBODY}"),
        (["status", "x"], 3, "no app of session 'torchx' has an id that is, or begins with, 'x'"),
        (["status", "a b"], 2, "app id 'a b' has white space"),
        (["delete", "@latest"], 3, "no @latest app"),
        (["log", "a://b"], 2, "malformed app handle 'a://b'"),
        (["list", "-s", "dokcer"], 3, "unknown scheduler 'dokcer'"),
        (["runopts", "local_cwt"], 3, "did you mean 'local_cwd'?"),
        (["components", "utils.ehco"], 3, "did you mean 'utils.echo'?"),
        (["run", "utils.ehco"], 3, "did you mean 'utils.echo'?"),
        (["run", "utils.echo", "--mgs", "x"], 2, "did you mean '--msg'?"),
        (["run", "-cfg", "log_dri=x", "utils.echo"], 2, "did you mean 'log_dir'?"),
        (["run", "-cfg", "log_dir", "utils.echo"], 2, "malformed cfg 'log_dir'"),
        (["run"], 2, "nothing to run: name a component"),
        (["run", "--app", "missing.yaml"], 2, "cannot read the app file 'missing.yaml'"),
        (["run", "--app", "a", "utils.echo"], 2, "a component and --app exclude each other"),
        (["run", "--stdin", "utils.echo"], 2, "--stdin excludes a component and --app"),
        (["run", "-d", "--wait", "utils.echo"], 2, "--detach excludes --wait and --log"),
        (["run", "--timeout", "soon", "utils.echo"], 2, "not a length of time: 'soon'"),
        (["run", "--app-id", "a/b", "utils.echo"], 2, "has a '/'"),
        (["log", NOBODY, "--regex", "("], 2, "not a regular expression: '('"),
        (["log", NOBODY, "--since", "then"], 2, "not a moment: 'then'"),
        (["prune"], 2, "no bound: give --max-age, --max-count or --max-bytes"),
        (["prune", "--max-bytes", "2G"], 2, "not a size: '2G'"),
        (["configure", "--required", "--all"], 2, "--required excludes --all"),
        (["--log_level", "loud", "list"], 2, "'loud' is none of"),
        (["statsu"], 2, "no such command: 'statsu'; did you mean 'status'?"),
        (["stat"], 2, "no such command: 'stat'; did you mean 'status'?"),
        (["kill", NOBODY], 2, "no such command: 'kill'; did you mean 'cancel'?"),
        (["xyzzy"], 2, "no such command: 'xyzzy'\n"),
    ],
    ids=str,
)
def test_each_mistake_has_a_line_and_a_code(cli: Cli, words: list[str], code: int, message: str) -> None:
    """What is wrong, which value, and what to do; nothing on stdout."""
    done = cli(*words)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert [line for line in done.err.splitlines() if line][-1].startswith("error: ")


def test_an_id_that_is_taken_shows_the_difference(cli: Cli) -> None:
    """The one error that a repeated run can meet."""
    submitted(Hold())
    done = cli("run", "--app", app_file(Exit(0)), "--app-id", "x")
    assert done.code == 2
    assert "app id 'x' is taken by a different request" in done.err


def test_an_app_that_runs_is_not_deleted(cli: Cli) -> None:
    """The message says what to do first."""
    done = cli("delete", submitted(Hold()))
    assert done.code == 2
    assert "cancel it and wait first" in done.err


def test_debug_shows_where(cli: Cli) -> None:
    """Above the same line, and with the same code."""
    done = cli("status", NOBODY, "--debug")
    assert done.code == 3
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("error: unknown app")


def test_a_bug_is_called_one(capfd: pytest.CaptureFixture[str]) -> None:
    """It has a code of its own, and says how to see more."""
    output = Output.of_process()
    assert errors.explain(ZeroDivisionError("division by zero"), output) == 70
    assert capfd.readouterr().err == (
        "error: unexpected ZeroDivisionError: division by zero; --debug shows where\n"
    )
