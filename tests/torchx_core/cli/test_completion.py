"""What the tab key completes, through the protocol that click's shell scripts speak."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_apps import ended, submitted
from cli_terminal import torchx_core

from torchx_core.testing import Exit

MINE = """
from pathlib import Path
Path("ran").touch()
print("hello")
def train(epochs: int, *, j: str = "1x1") -> AppDef:
    \"\"\"Train.

    Args:
        epochs: how many
    \"\"\"
def _private() -> AppDef: ...
def other() -> int: ...
"""


def completed(*words: str) -> list[str]:
    """Return what fish would offer after these words; the last is the one at the cursor."""
    env = {
        "_TORCHX_CORE_COMPLETE": "fish_complete",
        "COMP_WORDS": " ".join(["torchx-core", *words[:-1]]),
        "COMP_CWORD": words[-1],
    }
    done = torchx_core(env=env)
    assert done.stderr == ""
    return [line.removeprefix("plain,").partition("\t")[0] for line in done.stdout.split("\n") if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    """Which a user's start-up file evaluates."""
    done = torchx_core(env={"_TORCHX_CORE_COMPLETE": f"{shell}_source"})
    assert "_TORCHX_CORE_COMPLETE" in done.stdout


def test_commands_are_completed() -> None:
    """With what they do."""
    assert completed("sta") == ["status", "stacks"]


def test_schedulers_are_completed() -> None:
    """After ``-s``."""
    assert completed("run", "-s", "local_d")[0] == "local_dir"


def test_handles_are_completed() -> None:
    """From their beginning, or from an app id alone; the newest first."""
    for app_id in ("train-1", "train-2"):
        ended(submitted(Exit(0), app_id=app_id))
    newest_first = ["local_cwd://torchx/train-2", "local_cwd://torchx/train-1"]
    assert completed("status", "local_cwd://") == newest_first
    assert completed("status", "train") == newest_first
    assert completed("cancel", newest_first[0], "train-1") == newest_first[1:]
    assert completed("log", "@") == ["@latest"]


def test_components_are_completed() -> None:
    """Only the first word, and from a file those that it defines; anything else may be a file."""
    assert completed("run", "utils.e") == ["utils.echo"]
    Path("mine.py").write_text(MINE)
    assert completed("run", "mine.py:") == ["mine.py:train"]
    assert completed("run", "min") == ["file,min"]
    assert completed("run", "dist.torchrun", "--script", "mi") == ["file,mi"]


def test_the_arguments_of_a_component_are_completed() -> None:
    """Its own, and none of `run`'s."""
    assert completed("run", "-s", "local_cwd", "utils.sh", "--mem") == ["--memMB"]
    assert completed("run", "utils.echo", "--msg", "x", "--num") == ["--num_replicas"]
    assert completed("run", "utils.echo", "--wai") == []
    assert completed("run", "--wai") == ["--wait"]


def test_completing_runs_nobodys_code() -> None:
    """The arguments of a component in a file, or in a module, are read from its text."""
    Path("mine.py").write_text(MINE)
    assert completed("run", "mine.py:train", "-") == ["--epochs", "-j", "--help"]
    assert completed("run", "mine.train", "--e") == ["--epochs"]
    assert completed("run", "mine.py:nothing", "--e") == []
    assert completed("run", "missing.py:train", "--e") == []
    assert not Path("ran").exists()


def test_options_of_the_scheduler_are_completed() -> None:
    """They are completed after the first pair as well."""
    assert completed("run", "-s", "local_cwd", "-cfg", "log_") == [
        "log_dir=",
        "log_mode=",
        "log_max_mb=",
    ]
    assert completed("run", "-cfg", "log_dir=x,gr") == ["log_dir=x,grace_s="]


def test_nothing_is_completed_where_nothing_is_known() -> None:
    """Nothing is printed there: a shell would show it in the middle of the line."""
    assert completed("status", "nowhere://") == []
    assert completed("run", "-s", "dokcer", "-cfg", "lo") == []
