"""What ``--help`` shows: whole sentences, without markup, at any width."""

from __future__ import annotations

import click
import pytest
from cli_apps import Cli, ended, submitted
from cli_terminal import in_terminal

from torchx_core.cli.program import COMMANDS, program
from torchx_core.testing import Exit, Print


@pytest.mark.parametrize("columns", [60, 80])
def test_the_list_of_commands_has_whole_sentences(columns: int) -> None:
    """Each goes on over as many lines as it needs."""
    with in_terminal("--help", columns=columns, lines=100) as terminal:
        assert terminal.exit_code() == 0
        shown = terminal.shown()
    commands = " ".join(" ".join(shown[shown.index("Commands:") + 1 :]).split())
    context = click.Context(program)
    for name in COMMANDS:
        command = program.get_command(context, name)
        assert command is not None
        assert f"{name} {command.get_short_help_str()}" in commands
        assert command.get_short_help_str().endswith(".")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_text_has_no_markup(cli: Cli, name: str) -> None:
    """Its paragraphs begin where the first one does, and have no holes."""
    done = cli(name, "--help")
    assert done.code == 0
    assert "``" not in done.out
    text = done.out.split("\n\n", 1)[1].split("\nOptions:")[0]
    assert all(line.startswith("  ") and "  " not in line.strip() for line in text.splitlines() if line)
    assert not any(line.startswith("   ") for line in text.splitlines())


@pytest.mark.parametrize("name", ["status", "log", "top", "exec", "cancel"])
def test_a_help_text_says_how_an_app_is_named(cli: Cli, name: str) -> None:
    """A command that takes an app says how to name one; a command that takes none does not."""
    assert "APP is a handle, an app's id" in cli(name, "--help").out
    assert "APP is" not in cli("list", "--help").out


def test_what_other_programs_call_them_are_aliases(cli: Cli) -> None:
    """``ps`` and ``logs``."""
    handle = submitted(Print("x"), Exit(0))
    ended(handle)
    assert cli("logs", handle) == cli("log", handle)
    assert cli("ps", "-s", "local_cwd", "--json") == cli("list", "-s", "local_cwd", "--json")
