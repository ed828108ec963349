"""What the tab key completes, through the protocol that click's shell scripts speak."""

from __future__ import annotations

import pytest
from cli_apps import ended, submitted
from cli_terminal import torchx_core

from torchx_core.testing import Exit


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
    assert completed("sta") == ["status"]


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


def test_components_are_completed() -> None:
    """Only the first word; what follows is the component's."""
    assert completed("run", "utils.e") == ["utils.echo"]
    assert completed("run", "utils.echo", "utils.e") == []


def test_options_of_the_scheduler_are_completed() -> None:
    """They are completed after the first pair as well."""
    assert completed("run", "-s", "local_cwd", "-cfg", "log_") == ["log_dir=", "log_mode="]
    assert completed("run", "-cfg", "log_dir=x,gr") == ["log_dir=x,grace_s="]


def test_nothing_is_completed_where_nothing_is_known() -> None:
    """Nothing is printed there: a shell would show it in the middle of the line."""
    assert completed("status", "nowhere://") == []
    assert completed("run", "-s", "dokcer", "-cfg", "lo") == []
