"""TorchX's schedulers are found by name, and cost nothing until one is used."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from torchx_core import AppDef, Role, compat, get_runner
from torchx_core.errors import InvalidRunConfigException, SchedulerError, UnknownSchedulerException
from torchx_core.specs import get_type_name

schedulers: Any = import_module("torchx.schedulers")


def test_the_names_are_those_of_torchx() -> None:
    """Its own ones, in its order."""
    assert compat.scheduler_names([]) == [f"torchx:{name}" for name in schedulers.DEFAULT_SCHEDULER_MODULES]
    assert compat.scheduler_names(["mine", "slurm"]) == [
        "torchx:local_docker",
        "torchx:local_cwd",
        "torchx:slurm",
        "torchx:kubernetes",
        "torchx:mine",
    ]


def test_every_runner_has_them() -> None:
    """After the built-in ones, so that the default stays what it is."""
    backends = get_runner().scheduler_backends()
    assert backends[0] == "local_cwd"
    assert {"torchx:local_cwd", "torchx:slurm"} <= set(backends)


@pytest.mark.parametrize("backend", ["torchx:shelf", "torchx:attic"])
def test_a_plugin_of_torchx_is_found(shelf: Path, backend: str) -> None:
    """Registered by an entry point or in a ``torchx_plugins`` package; only the first kind is listed."""
    with get_runner("plugins", state_dir=str(shelf)) as runner:
        listed = backend in runner.scheduler_backends()
        assert listed == (backend == "torchx:shelf")
        handle = runner.run(AppDef("a", [Role("r", "", entrypoint="echo", args=["hello"])]), backend)
        assert list(runner.log_lines(handle, "r", should_tail=True)) == ["hello\n"]


def test_an_unknown_name_is_refused_with_the_closest_one() -> None:
    """The error lists all names that TorchX knows."""
    with pytest.raises(UnknownSchedulerException, match=r"torchx:kubernetes.*did you mean 'torchx:slurm'"):
        get_runner().scheduler("torchx:slrum")


def test_without_torchx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is listed then, and everything else works."""
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "torchx")
    runner = get_runner()
    assert "local_cwd" in runner.scheduler_backends()
    assert not [name for name in runner.scheduler_backends() if name.startswith("torchx:")]
    with pytest.raises(
        SchedulerError, match=r"'torchx:slurm' needs TorchX.*install the package torchx-nightly"
    ):
        runner.scheduler("torchx:slurm")


def test_a_scheduler_that_cannot_be_made_says_why(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its constructor raises."""
    del shelf
    monkeypatch.delenv("TORCHX_SHELF")
    with pytest.raises(SchedulerError, match=r"'shelf'.*KeyError.*TORCHX_SHELF"):
        get_runner("unmakeable").scheduler("torchx:shelf")


@pytest.mark.parametrize("name", ["local_docker", "slurm", "kubernetes"])  # local_cwd: see test_processes.py
def test_the_options_are_those_of_torchx(name: str) -> None:
    """One to one: names, types, defaults, help."""
    theirs = schedulers.get_scheduler_factories()[name]
    ours = get_runner().scheduler_run_opts(f"torchx:{name}")
    expected = {
        key: (
            get_type_name(option.opt_type),
            option.default,
            option.is_required,
            " ".join(option.help.split()),
        )
        for key, option in theirs("x").run_opts()
    }
    assert {k: (str(o.kind), o.default, o.is_required, o.help) for k, o in ours} == expected


def test_unknown_options_are_refused_here() -> None:
    """With the closest known one, before TorchX is asked."""
    app = AppDef("a", [Role("r", "", entrypoint="true")])
    with pytest.raises(InvalidRunConfigException, match="did you mean 'log_dir'"):
        get_runner().dryrun(app, "torchx:local_cwd", {"log_dri": "/tmp"})


def test_what_torchx_refuses_is_an_invalid_app(shelf: Path) -> None:
    """Its own validation speaks, in one line."""
    app = AppDef("vase", [Role("r", "", entrypoint="true")])
    with pytest.raises(
        ValueError, match=r"TorchX refuses it: ValueError: vase is too fragile for torchx:shelf"
    ):
        get_runner("refused", state_dir=str(shelf)).dryrun(app, "torchx:shelf", {"fragile": True})


def test_a_diagnosis_claims_no_more_than_is_known(tmp_path: Path) -> None:
    """What was submitted from here; TorchX itself cannot be asked whether a backend works."""
    with get_runner("diagnosed", state_dir=str(tmp_path)) as runner:
        (finding,) = runner.scheduler("torchx:slurm").diagnose()
    assert (finding.subject, finding.verdict) == ("records", "ok")
    assert finding.text.startswith("0 apps in session diagnosed; whether the backend works shows when")
