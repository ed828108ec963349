"""What apps say, and what other people's apps are called, cannot drive the terminal of whoever looks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_apps import ended
from cli_terminal import in_terminal, torchx_core

from torchx_core import AppDef, Role, get_runner
from torchx_core.errors import AppStatusError

HANDLE = "local_cwd://torchx/x"
EVIL = "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x1b[?1049h\x1bc\x9b5A\a\x0e"
LINES = [f"before{EVIL}", "\x1b[31mred\x1b[0m", "\x1b]0;torn", "end"]
SHOWN = ["before", "red", "0;torn", "end"]
PROGRAM = f"""
import json, os, sys
for line in {LINES!r}:
    print(line, flush=True)
with open(os.environ["TORCHX_REPORT_FILE"], "a") as reports:
    print(json.dumps({{"type": "progress", "fraction": 0.5, "message": {EVIL + "half"!r}}}), file=reports)
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as errors:
    json.dump({{"message": {{"message": {EVIL + "broken"!r}}}}}, errors)
sys.exit(3)
"""
FORBIDDEN = [b"\x1b]", b"\x1b[2J", b"\x1b[?", b"\x1bc", b"\xc2\x9b", b"\a", b"\x0e"]


def hostile_app() -> AppDef:
    """Return an app that says what it can."""
    return AppDef("app", [Role("w", "", entrypoint="python3", args=["-c", PROGRAM.replace("$", "$$")])])


@pytest.fixture
def submitted() -> str:
    """A hostile app that has ended; its handle."""
    with get_runner() as runner:
        handle = runner.run(hostile_app(), "local_cwd", app_id="x")
    ended(handle)
    return handle


@pytest.mark.parametrize("command", ["log", "status", "wait", "describe", "list"])
def test_a_terminal_is_not_driven(submitted: str, command: str) -> None:
    """By no command that shows an app; the words arrive."""
    with in_terminal(command, *([] if command == "list" else [submitted])) as terminal:
        terminal.exit_code()
        assert [sequence for sequence in FORBIDDEN if sequence in terminal.raw] == []
        shown = terminal.scrolled()
    assert any(submitted in line or "w/0" in line or "roles" in line for line in shown)
    if command == "log":
        assert shown == [f"w/0 {line}" for line in SHOWN]
        assert b"\x1b[31mred" in terminal.raw
    if command == "status":
        assert "broken" in "\n".join(shown)


@pytest.mark.parametrize("command", ["log", "status", "wait", "list"])
def test_a_record_that_somebody_has_written_drives_nothing(
    submitted: str, tmp_path: Path, command: str
) -> None:
    """We submit no role or app with such a name; another program may have put one there."""
    folder = tmp_path / "state" / "local_cwd" / "torchx"
    spec = folder / "x" / "spec.json"
    spec.write_text(re.sub('": ?"w"', f'": {json.dumps(f"w{EVIL}")}'.replace("\\", "\\\\"), spec.read_text()))
    (folder / "x").rename(folder / f"x{EVIL.replace('/', '')}" if command == "list" else folder / "x")
    with in_terminal(command, *([] if command == "list" else [submitted])) as terminal:
        terminal.exit_code()
        assert [sequence for sequence in FORBIDDEN if sequence in terminal.raw] == []
        shown = terminal.scrolled()
    assert shown != []
    if command == "list":  # no handle can name it
        assert not any("local_cwd://" in line for line in shown), shown


def test_a_run_with_its_live_board_drives_nothing() -> None:
    """Lines, progress and the failure of the app that is followed."""
    Path("app.json").write_text(hostile_app().to_json())
    with in_terminal("run", "--app", "app.json") as terminal:
        assert terminal.exit_code() == 3
        assert [sequence for sequence in FORBIDDEN if sequence in terminal.raw] == []
        shown = terminal.scrolled()
    assert [line for line in shown if line.startswith("w/0 ")][: len(SHOWN)] == [
        f"w/0 {line}" for line in SHOWN
    ]
    assert any("broken" in line for line in shown)


def test_a_terminal_without_colours_gets_none(submitted: str) -> None:
    """No colour is shown there, be it one of the command's own or one that the app printed."""
    with in_terminal("log", submitted, env={"TERM": "dumb"}) as terminal:
        terminal.exit_code()
        assert b"\x1b" not in terminal.raw


def test_a_pipe_gets_every_byte(submitted: str) -> None:
    """What is read by a program is what the app wrote."""
    done = torchx_core("log", submitted)
    assert done.stdout.splitlines(keepends=True) == [f"w/0 {line}\n" for line in LINES]
    rows = [json.loads(line) for line in torchx_core("log", "--json", submitted).stdout.splitlines()]
    assert [row["text"] for row in rows] == LINES


def test_an_error_s_words_drive_nothing(submitted: str) -> None:
    """Python prints an uncaught error to the terminal as it is; its facts keep what was said."""
    status = ended(submitted)
    with pytest.raises(AppStatusError, match="broken") as caught:
        status.raise_for_status()
    assert not [sequence for sequence in FORBIDDEN if sequence.decode() in str(caught.value)]
    assert EVIL in json.loads(status.roles[0].replicas[0].structured_error_msg)["message"]["message"]
