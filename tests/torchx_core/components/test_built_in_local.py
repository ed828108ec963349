"""Every built-in component runs for real, on the local scheduler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchx_core import AppState, AppStatus, Runner, get_runner
from torchx_core.components import dist
from torchx_core.specs import macros

HERE = str(Path(sys.executable).parent)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner with a state directory of its own; `python` and `torchrun` are this environment's."""
    monkeypatch.setenv("PATH", os.pathsep.join([HERE, os.environ["PATH"]]))
    with get_runner("s", state_dir=str(tmp_path / "state")) as runner:
        yield runner
        for app in runner.list("local_cwd"):  # what a failed test left running
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle, timeout_s=240)


def run(
    runner: Runner, component: str, *words: str, app_id: str | None = None
) -> tuple[AppStatus, list[str]]:
    """Run to the end and return the status, and the output of each replica."""
    handle = runner.run_component(component, words, "local_cwd", app_id=app_id)
    status = runner.wait(handle, timeout_s=240)
    app = runner.describe(handle)
    assert status
    assert app
    [role] = app.roles
    return status, ["".join(runner.log_lines(handle, role.name, k)) for k in range(role.num_replicas)]


def ran(runner: Runner, component: str, *words: str) -> list[str]:
    """Run to a good end and return the output of each replica."""
    status, output = run(runner, component, *words)
    assert status.state == AppState.SUCCEEDED, output
    return output


def test_echo(runner: Runner) -> None:
    """In every replica."""
    assert ran(runner, "utils.echo", "--msg", "a $HOME  *", "--num_replicas", "2") == ["a $HOME  *\n"] * 2


def test_touch(runner: Runner, tmp_path: Path) -> None:
    """The file is there."""
    ran(runner, "utils.touch", "--file", str(tmp_path / "a file"))
    assert (tmp_path / "a file").read_bytes() == b""


def test_sh_runs_the_words_as_they_are(runner: Runner) -> None:
    """Nothing is expanded or split, whatever they hold; the app id is filled in as everywhere."""
    words = ["%s|", "a b", "$HOME", "'q'", '"', "*", "; exit 3", "", "$(id)", "\\n"]
    [output] = ran(runner, "utils.sh", "--", "printf", *words)
    assert output == "".join(f"{word}|" for word in words[1:])


def test_sh_has_the_shell_s_own_commands(runner: Runner) -> None:
    """Their exit code is the app's; shell syntax is there for who asks for a shell."""
    status, _ = run(runner, "utils.sh", "exit", "3")
    assert status.roles[0].replicas[0].exit_code == 3
    assert ran(runner, "utils.sh", "--env", "A=x", "sh", "-c", "echo $A | tr x y") == ["y\n"]


def test_sh_with_another_program(runner: Runner) -> None:
    """The words are its arguments, without quotes that nobody would remove."""
    assert ran(runner, "utils.sh", "--entrypoint", "printf", "--", "%s", "a b") == ["a b"]


def test_python(runner: Runner, tmp_path: Path) -> None:
    """A text, a module and a script; dollars in a text stay dollars."""
    (tmp_path / "script.py").write_text("import sys; print(sys.argv[1:])")
    assert ran(
        runner, "utils.python", "-c", "import sys; print(sys.argv[1:], '$HOME')", "--", "--a", "b c"
    ) == ["['--a', 'b c'] $HOME\n"]
    assert "January 2024" in ran(runner, "utils.python", "-m", "calendar", "--", "2024", "1")[0]
    assert ran(runner, "utils.python", "--script", str(tmp_path / "script.py"), "x") == ["['x']\n"]


def test_binary(runner: Runner) -> None:
    """A program with its arguments."""
    assert ran(runner, "utils.binary", "--entrypoint", "/bin/echo", "--", "-e", "a b") == ["a b\n"]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_copy(runner: Runner, tmp_path: Path, scheme: str) -> None:
    """Byte for byte, into a directory that is made."""
    source, target = tmp_path / "from", tmp_path / "made" / "to it"
    source.write_bytes(bytes(range(256)) * 1000)
    ran(runner, "utils.copy", "--src", f"{scheme}{source}", "--dst", f"{scheme}{target}")
    assert target.read_bytes() == source.read_bytes()


def test_copy_of_a_url(runner: Runner, tmp_path: Path) -> None:
    """By fsspec, where that is installed; its own scheme for local files stands for any other."""
    pytest.importorskip("fsspec")
    (tmp_path / "from").write_text("text")
    ran(runner, "utils.copy", "--src", f"local://{tmp_path}/from", "--dst", f"local://{tmp_path}/made/to")
    assert (tmp_path / "made" / "to").read_text() == "text"


def test_copy_of_a_missing_file_fails(runner: Runner, tmp_path: Path) -> None:
    """No empty copy is left behind."""
    status, [output] = run(runner, "utils.copy", "--src", str(tmp_path / "no"), "--dst", str(tmp_path / "to"))
    assert status.state == AppState.FAILED
    assert "No such file or directory" in output
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("scheme", ["", "local://"])
def test_booth(runner: Runner, tmp_path: Path, scheme: str) -> None:
    """The value is the app's result, and lies where TorchX puts it."""
    words = ["--x1", "1", "--x2", "2", "--trial_idx", "7", "--tracker_base", f"{scheme}{tmp_path}/trials"]
    status, _ = run(runner, "utils.booth", *words)
    assert (status.state, status.result) == (AppState.SUCCEEDED, {"booth_eval": 5.0})
    assert json.loads((tmp_path / "trials" / "7").read_text()) == {"booth_eval": 5.0}


TRAIN = """
import os, sys
import torch.distributed as dist, torch
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("rank", dist.get_rank(), "of", int(total.item()), sys.argv[1:], flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def train(tmp_path: Path) -> str:
    """A program whose processes add up how many they are."""
    (tmp_path / "train.py").write_text(TRAIN)
    return str(tmp_path / "train.py")


@pytest.mark.torch
def test_torchrun_on_one_node(runner: Runner, train: str) -> None:
    """Two processes meet, and their arguments arrive as they are."""
    words = ["-j", "1x2", "--memMB", "4000", "--script", train, "--", "a b", "$HOME", "'*'"]
    [output] = ran(runner, "dist.torchrun", *words)
    for rank in (0, 1):
        assert f"""rank {rank} of 2 ['a b', '$HOME', "'*'"]""" in output


@pytest.mark.torch
def test_torchrun_on_two_nodes_of_two_apps(runner: Runner, train: str) -> None:
    """Both run at once on this host with the default port: each app has one of its own."""
    words = ["-j", "2x1", "--memMB", "4000", "--script", train, "--", "a b", "$HOME"]
    handles = [runner.run_component("dist.torchrun", words, "local_cwd") for _ in range(2)]
    for handle in handles:
        status = runner.wait(handle, timeout_s=240)
        assert status
        output = ["".join(runner.log_lines(handle, "train", k)) for k in (0, 1)]
        assert status.state == AppState.SUCCEEDED, output
        ranks = {line for text in output for line in text.splitlines() if "of 2" in line}
        assert sorted(line.partition(":")[2] for line in ranks) == [
            f"rank {rank} of 2 ['a b', '$HOME']" for rank in (0, 1)
        ]


def test_several_nodes_of_one_host_meet_on_a_port_that_is_theirs(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every node is told the one that the scheduler holds; one that somebody chose is taken as it is."""
    tool = tmp_path / "torchrun"
    tool.write_text('#!/bin/sh\necho "$TORCHX_RANK0_PORT" "$2"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    told = ran(runner, "dist.torchrun", "-j", "3x1", "-m", "x")
    [port] = {text.split()[0] for text in told}
    assert [text.split() for text in told] == [[port, f"localhost:{port}"]] * 3
    told = ran(runner, "dist.torchrun", "-j", "2x1", "--rdzv_port", "31000", "-m", "x")
    assert [text.split()[1] for text in told] == ["localhost:31000"] * 2


def test_nodes_whose_scheduler_holds_no_port_agree_on_one(tmp_path: Path) -> None:
    """TorchX's own local scheduler says only that replica 0 is on this host."""
    (tmp_path / "torchrun").write_text('#!/bin/sh\necho "$2"\n')
    (tmp_path / "torchrun").chmod(0o755)
    role = dist.torchrun(m="x", j="2x1").roles[0]
    env = {"PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]]), "TORCHX_RANK0_HOST": "localhost"}
    told: list[str] = []
    for app_id, replica in (("a", "0"), ("a", "1"), ("b", "0")):
        values = macros.Values(img_root="", app_id=app_id, replica_id=replica, rank0_env="TORCHX_RANK0_HOST")
        words = ["sh", *values.apply(role).args]
        told.append(subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout)
    assert told[0] == told[1] != told[2]
    assert told[0].startswith("localhost:2")
