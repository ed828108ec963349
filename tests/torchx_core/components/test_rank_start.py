"""The shell of `dist.torchrun`: how it has torchrun start ranks, whatever torchrun and shell there are."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from torchx_core.components import dist
from torchx_core.specs import macros

TELL = """\
import json, os, sys
names = ("TORCHELASTIC_ERROR_FILE", "TORCHX_FIRST_ERROR_FILE", "OMP_NUM_THREADS")
seen = {name: os.environ.get(name) for name in names}
print(json.dumps([sys.argv[1:], seen]))
"""
"""Says how it was called."""
START = "-cimport os; exec(os.environ.pop('TORCHX_RANK_PROGRAM'))"
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
WORDS = ("a b", "$HOME", "--", "", "*", "'")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell that an image may have."""
    name = cast("str", request.param)
    return [str(shutil.which(name)), *(["sh"] if name == "busybox" else [])]


def called(
    shell: list[str], place: Path, nodes: str = "1", ranks: str = "2", **env: str
) -> tuple[list[str], dict[str, str | None]]:
    """Return the words that torchrun gets where that directory is all of PATH, and what it sees."""
    role = dist.torchrun(*WORDS, script="train.py", j=f"{nodes}x{ranks}").roles[0]
    values = macros.Values(img_root="", app_id="app-1", replica_id="0", rank0_env="RANK0")
    run = subprocess.run(
        [*shell, *values.apply(role).args],
        env={"PATH": str(place), "RANK0": "h", **env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr == ""
    words, seen = json.loads(run.stdout)
    return words, seen


def install(place: Path, first_lines: str) -> None:
    """Put a torchrun there that says how it was called."""
    (place / "torchrun").write_text(first_lines + TELL)
    (place / "torchrun").chmod(0o755)


@pytest.mark.parametrize("nodes", ["1", "2"])
def test_ranks_start_by_torchrun_s_own_python(shell: list[str], nodes: str, tmp_path: Path) -> None:
    """The one that its first line names; the program's words arrive as they are."""
    install(tmp_path, f"#!{sys.executable}\n")
    words, seen = called(shell, tmp_path, nodes, TORCHELASTIC_ERROR_FILE="/d/error.json")
    assert words[-11:] == ["--no-python", sys.executable, "-u", START, "train.py", *WORDS]
    assert "--" not in words[:-11]
    assert seen == {
        "TORCHELASTIC_ERROR_FILE": "/d/agent.error.json",
        "TORCHX_FIRST_ERROR_FILE": "/d/error.json",
        "OMP_NUM_THREADS": "1",
    }


@pytest.mark.parametrize("nodes", ["1", "2"])
@pytest.mark.parametrize(
    ("ranks", "env", "threads"),
    [
        ("2", {}, "1"),
        ("2", {"OMP_NUM_THREADS": "4"}, "4"),
        ("1", {}, None),
        ("1", {"OMP_NUM_THREADS": "4"}, "4"),
    ],
)
def test_threads_of_a_rank_are_what_torchrun_would_choose(
    shell: list[str], nodes: str, ranks: str, env: dict[str, str], threads: str | None, tmp_path: Path
) -> None:
    """One where there are several ranks, which torchrun says at length when nobody has said it before."""
    install(tmp_path, f"#!{sys.executable}\n")
    _, seen = called(shell, tmp_path, nodes, ranks, **env)
    assert seen["OMP_NUM_THREADS"] == threads


def test_a_path_that_is_too_long_for_a_first_line(shell: list[str], tmp_path: Path) -> None:
    """Then pip has a shell find Python, which lies beside torchrun."""
    (tmp_path / "python").symlink_to(sys.executable)
    install(tmp_path, f"""#!/bin/sh\n'''exec' "{tmp_path}/python" "$0" "$@"\n' '''\n""")
    words, _ = called(shell, tmp_path)
    assert words[-11:-9] == ["--no-python", f"{tmp_path}/python"]


def test_another_python_may_be_asked_for(shell: list[str], tmp_path: Path) -> None:
    """As torchrun lets one."""
    install(tmp_path, f"#!{sys.executable}\n")
    words, _ = called(shell, tmp_path, PYTHON_EXEC="other")
    assert words[-10] == "other"


def test_a_torchrun_that_is_nobody_s_starts_the_program_itself(shell: list[str], tmp_path: Path) -> None:
    """No Python is guessed: what it starts may be no Python at all."""
    install(tmp_path, f'#!/bin/sh\nexec {sys.executable} - "$@" <<"END"\n')
    with (tmp_path / "torchrun").open("a") as file:
        file.write("END\n")
    words, seen = called(shell, tmp_path, TORCHELASTIC_ERROR_FILE="/d/error.json")
    assert words[-9:] == ["--role", "", "train.py", *WORDS]
    assert seen == {
        "TORCHELASTIC_ERROR_FILE": "/d/error.json",
        "TORCHX_FIRST_ERROR_FILE": None,
        "OMP_NUM_THREADS": None,
    }


def test_no_torchrun_is_told_as_a_shell_tells_it(shell: list[str], tmp_path: Path) -> None:
    """By exit code 127 and the name."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        called(shell, tmp_path)
    assert caught.value.returncode == 127
    assert "torchrun" in caught.value.stderr
