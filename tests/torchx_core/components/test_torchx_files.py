"""Component files written for TorchX run here, with the import changed and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from component_files import Files

from torchx_core import AppState, Runner, get_runner
from torchx_core.components import find_component

FILE = '''
"""Jobs of a team, in the style of TorchX's documents."""

import os
from typing import Annotated, Dict, List, Optional

import TORCHX.specs as specs
from TORCHX.specs import macros


def train(
    *script_args: str,
    script: str,
    j: str = "1x2",
    name: Optional[str] = None,
    env: Optional[Dict[str, str]] = None,
    hosts: List[str] = ["one"],
    lr: float = 0.1,
    debug: bool = False,
    level: Annotated[str, "-l"] = "info",
) -> specs.AppDef:
    """
    Train a model on several nodes.

    Args:
        script_args: arguments of the script
        script: what to run
        j: nodes x processes
        name: name of the app
        env: environment (e.g. A=1,B=2)
        hosts: where
        lr: learning rate
        debug: tell more
        level: of the log
    """
    nnodes, nproc = (int(n) for n in j.split("x"))
    return specs.AppDef(
        name=name or os.path.splitext(os.path.basename(script))[0],
        roles=[
            specs.Role(
                name="trainer",
                image="unused",
                entrypoint="sh",
                args=[
                    script,
                    macros.replica_id,
                    *[str(n) for n in (nproc, lr, debug, level, ",".join(hosts))],
                    *script_args,
                ],
                env={"COLOUR": "none", **(env or {})},
                num_replicas=nnodes,
                retry_policy=specs.RetryPolicy.APPLICATION,
                resource=specs.Resource(cpu=1, gpu=0, memMB=64),
            )
        ],
        metadata={"team": "vision"},
    )


class Sweep:
    """Run a script once per value.

    Args:
        script: what to run
        values: one replica each
    """

    def __init__(self, script: str, *values: str, h: Optional[str] = None):
        self.script, self.values, self.h = script, values, h

    def build(self) -> specs.AppDef:
        roles = [
            specs.Role(
                name=f"value-{value}",
                image="unused",
                entrypoint="sh",
                args=[self.script, value],
                resource=specs.resource(cpu=1, memMB=64, h=self.h),
            )
            for value in self.values
        ]
        return specs.AppDef(name="sweep", roles=roles)
'''
SCRIPT = 'for word; do printf "%s|" "$word"; done; echo "$COLOUR"\n'


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A runner with a state directory of its own."""
    with get_runner("s", state_dir=str(tmp_path / "state")) as runner:
        yield runner


@pytest.fixture(params=["torchx_core", "torchx"])
def jobs(request: pytest.FixtureRequest, files: Files) -> Path:
    """The file, for us and for TorchX itself."""
    pytest.importorskip(request.param)
    files.write("script.sh", SCRIPT)
    return files.write("team_jobs.py", FILE.replace("TORCHX", request.param))


def outputs(runner: Runner, handle: str) -> list[str]:
    """Wait for a good end and return what each replica of each role printed."""
    status, app = runner.wait(handle, timeout_s=240), runner.describe(handle)
    assert status
    assert app
    replicas = [(role.name, k) for role in app.roles for k in range(role.num_replicas)]
    printed = ["".join(runner.log_lines(handle, name, k)) for name, k in replicas]
    assert status.state == AppState.SUCCEEDED, (status.msg, printed)
    return printed


def test_a_function_runs_from_words(runner: Runner, jobs: Path) -> None:
    """Long and short flags, ``-j 2x2``, varargs."""
    script = str(jobs.with_name("script.sh"))
    words = ["-j", "2x2", "--script", script, "--env", "COLOUR=red", "-l", "warn", "--debug", "True"]
    words += ["--hosts", "a, b", "--", "--epochs", "3"]
    handle = runner.run_component(f"{jobs}:train", words, "local_cwd")
    assert outputs(runner, handle) == [f"{k}|2|0.1|True|warn|a,b|--epochs|3|red\n" for k in (0, 1)]


def test_a_function_runs_from_values(runner: Runner, jobs: Path) -> None:
    """As from a JSON document."""
    args: dict[str, object] = {"script": str(jobs.with_name("script.sh")), "lr": 1, "script_args": ["x y"]}
    handle = runner.run_component(f"{jobs}:train", args, "local_cwd")
    assert outputs(runner, handle) == ["0|2|1.0|False|info|one|x y|none\n"]
    app = runner.describe(handle)
    assert app
    assert (app.name, app.metadata) == ("script", {"team": "vision"})


def test_a_class_runs(runner: Runner, jobs: Path) -> None:
    """A role per value."""
    words = ["--script", str(jobs.with_name("script.sh")), "1", "2"]
    handle = runner.run_component(f"{jobs}:Sweep", words, "local_cwd")
    assert outputs(runner, handle) == ["1|\n", "2|\n"]


def test_the_arguments_are_explained(jobs: Path) -> None:
    """From the docstring, for a function and for a class."""
    train, sweep = find_component(f"{jobs}:train"), find_component(f"{jobs}:Sweep")
    assert train.summary == "Train a model on several nodes."
    assert {p.name: p.help for p in train.parameters}["env"] == "environment (e.g. A=1,B=2)"
    assert {p.name: p.flags for p in train.parameters}["level"] == ("-l", "--level")
    assert [(p.name, p.help) for p in sweep.parameters] == [
        ("script", "what to run"),
        ("values", "one replica each"),
        ("h", ""),
    ]
