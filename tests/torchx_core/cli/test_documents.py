"""What the documents say about the command line is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from torchx_core.cli.exit_codes import ExitCode
from torchx_core.cli.program import COMMANDS, program

DOCS = Path(__file__).parents[3] / "docs"
REFERENCE = (DOCS / "reference" / "cli.md").read_text()
HOW_TO = (DOCS / "how-to" / "cli.md").read_text()


@pytest.mark.slow
def test_the_how_to_works(work: Path) -> None:
    """Its blocks, in their order, are a program that a shell runs to its end."""
    folder = work / "bin"
    folder.mkdir()
    (folder / "torchx-core").write_text(f'#!/bin/sh\nexec {sys.executable} -m torchx_core "$@"\n')
    (folder / "torchx-core").chmod(0o700)
    blocks = re.findall(r"```sh\n(.*?)```", HOW_TO, re.DOTALL)
    done = subprocess.run(
        ["sh", "-eu", "-c", "\n".join(blocks)],
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "hello world" in done.stdout
    assert "exit code 125: cancelled" in done.stdout
    subprocess.run(["rm", "-r", folder], check=True)


def test_the_reference_has_every_command() -> None:
    """Each has a section with its options, made from the code."""
    assert tuple(re.findall(r"```\{cli-command\} (\w+)", REFERENCE)) == COMMANDS


def test_the_reference_has_every_exit_code() -> None:
    """The page lists exactly the program's exit codes; 128 stands for 128 + N."""
    table = REFERENCE.split("## Exit codes", 1)[1].split("## ", 1)[0]
    assert [int(code) for code in re.findall(r"^\| (\d+)", table, re.MULTILINE)] == [int(c) for c in ExitCode]


def test_the_reference_has_every_schema() -> None:
    """Each file is linked."""
    linked = set(re.findall(r"cli-schemas/(\w+\.json)", REFERENCE))
    assert linked == {path.name for path in (DOCS / "reference" / "cli-schemas").iterdir()}


def test_every_option_is_explained() -> None:
    """A help text that ends in a full stop, for each option of each command."""
    context = click.Context(program)
    for name in COMMANDS:
        command = program.get_command(context, name)
        assert command is not None
        options = [param for param in command.params if isinstance(param, click.Option)]
        assert [o.name for o in options if not (o.help or "").endswith(".")] == [], name
        assert {"json", "debug"} <= {option.name for option in options}
