"""`run FILE.py`: somebody's own script, as it is."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from cli_apps import Cli

from torchx_core import AppDef, Role, get_runner
from torchx_core.components.script import check_imports, is_script
from torchx_core.errors import InvalidAppError, InvalidInputError

TELLS = """
import json, sys
print(json.dumps([sys.executable, *sys.argv]))
print("last words", file=sys.stderr)
sys.exit(7 if "fail" in sys.argv else 0)
"""


@pytest.fixture
def script(work: Path) -> str:
    """A script in the working directory that prints which Python runs it, and its arguments."""
    (work / "train.py").write_text(TELLS)
    return "train.py"


def said(out: str) -> list[str]:
    """Return which Python ran the script, and its arguments."""
    handle, line = out.splitlines()[:2]
    assert handle.startswith("local_cwd://torchx/train-")
    words: list[str] = json.loads(line.removeprefix("train/0 "))
    return words


def test_it_runs_by_our_own_python(cli: Cli, script: str) -> None:
    """Which has the packages that were installed beside this library, whatever PATH finds first."""
    done = cli("run", script, "--lr", "0.1", "two words")
    assert said(done.out) == [sys.executable, "train.py", "--lr", "0.1", "two words"]
    assert (done.code, done.out.splitlines()[2:]) == (0, ["train/0 last words"])


def test_two_dashes_before_its_arguments_are_none_of_them(cli: Cli, script: str) -> None:
    """As with a component; later ones are."""
    assert said(cli("run", script, "--", "--lr", "--").out)[2:] == ["--lr", "--"]


def test_its_exit_code_is_ours(cli: Cli, script: str) -> None:
    """As that of any app."""
    assert cli("run", script, "fail").code == 7


def test_a_dry_run_shows_it(cli: Cli, script: str) -> None:
    """And runs nothing."""
    done = cli("run", "--dryrun", script, "1")
    assert done.code == 0
    assert "train.py" in done.out


def test_a_path_elsewhere(cli: Cli, tmp_path: Path) -> None:
    """A script need not lie in the working directory."""
    path = tmp_path / "train.py"
    path.write_text(TELLS)
    assert said(cli("run", str(path)).out)[1] == str(path)


def test_a_file_with_components_may_mean_two_things(cli: Cli, work: Path) -> None:
    """So that it is neither run as a script nor as one of them; what to write is said."""
    (work / "both.py").write_text("from torchx_core.specs import AppDef\ndef greet() -> AppDef: ...\n")
    done = cli("run", "both.py")
    assert done.code == 2
    assert "both.py:greet" in done.err
    assert "utils.python --script both.py" in done.err


def test_a_file_that_is_not_there(cli: Cli) -> None:
    """It is called that, and nothing is submitted."""
    done = cli("run", "trian.py")
    assert (done.code, done.out) == (3, "")
    assert "there is no file 'trian.py'" in done.err


def test_words_by_name_are_no_scripts(cli: Cli, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A component's arguments have names, a script's words have an order."""
    request = {"scheduler": "local_cwd", "component_name": script, "component_args": {"lr": "1"}}
    read, write = os.pipe()
    os.write(write, json.dumps(request).encode())
    os.close(write)
    with os.fdopen(read) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        done = cli("run", "--stdin")
    assert done.code == 2
    assert "give a list of them" in done.err


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("import torch\n", True),
        ("import os, torch.distributed as dist\n", True),
        ("from torch.nn import Linear\n", True),
        ("from .torch import x\n", False),
        ("def f():\n    import torch\n", False),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", False),
        ("import torch.\n", False),
        ("\0", False),
    ],
)
def test_a_script_that_needs_pytorch(
    work: Path, monkeypatch: pytest.MonkeyPatch, text: str, needs: bool
) -> None:
    """Where our Python has none, it is not submitted to fail at once; one that may do without it is."""
    script = work / "train.py"
    script.write_text(text)
    monkeypatch.setattr(sys, "path", [str(work / "site")])
    if needs:
        with pytest.raises(InvalidInputError, match=r"imports torch, which .* -m pip install torch"):
            check_imports(str(script))
        (work / "other" / "torch").mkdir(parents=True)
        (work / "other" / "torch" / "__init__.py").touch()
        monkeypatch.setattr(sys, "path", [str(work / "other")])
    check_imports(str(script))


@pytest.mark.parametrize("name", ["utils.echo", "train", "folder.py", "", "x" * 5000 + ".py", "no\0.py"])
def test_other_names_are_no_scripts(work: Path, name: str) -> None:
    """Those of components, of folders, and what is no name at all."""
    (work / "folder.py").mkdir()
    assert not is_script(name)


def torchrun(path: str) -> AppDef:
    """Return an app as `dist.torchrun` makes it, that looks for torchrun in these places alone."""
    text = 'echo begun\nexec torchrun --standalone "$@"'
    env = {"PATH": path}
    return AppDef("t", [Role("t", "", entrypoint="sh", args=["-c", text, "torchrun", "train.py"], env=env)])


def test_torchrun_that_is_missing(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for where the component's shell would, before anything is submitted."""
    sh = shutil.which("sh")
    assert sh is not None
    for name in ("bin", "env"):
        (work / name).mkdir()
    (work / "bin" / "sh").symlink_to(sh)
    (work / "env" / "torchrun").write_text("#!/bin/sh\necho ran $*\n")
    (work / "env" / "torchrun").chmod(0o755)
    with monkeypatch.context() as bare, get_runner() as runner:
        bare.setenv("PATH", str(work / "bin"))
        bare.setattr(sys, "executable", str(work / "bin" / "python"))
        with pytest.raises(InvalidAppError, match=r"'torchrun'; looked in .*/bin.* package torch: install"):
            runner.run(torchrun(""), "local_cwd")
        assert runner.list("local_cwd") == []
    with get_runner() as runner:
        handle = runner.run(torchrun(str(work / "env")), "local_cwd")
        lines = [line.text for batch in runner.follow(handle) for line in batch.lines()]
    assert lines == ["begun", "ran --standalone train.py"]
