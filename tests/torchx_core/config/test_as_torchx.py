"""The real TorchX, from the package index, reads the same files to the same values."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core import config as ours
from torchx_core.specs import CfgVal, runopt

theirs = import_module("torchx.runner.config")
torchx_specs = import_module("torchx.specs")

FILES = {
    "one": """
# what the user wants for all projects
[cli:run]
scheduler = local_cwd

[local_cwd]
logDir = /tmp/100%% sure
prepend_cwd = yes

[kubernetes]
queue = default
; a comment

[component:dist.ddp]
j = 1x2
env = A=B,C=D
""",
    "two": """
[component:dist.ddp]
j : 2x2
script : train.py
args = --lr 1
       --name a=b

[local_cwd]
log_dir=/tmp/two
auto_set_cuda_visible_devices = True
prepend_cwd =None
[tracker:mlflow]
config = some where
[torchx:tracker]
mlflow =
""",
}


@pytest.fixture(autouse=True)
def own_signal_handlers() -> Iterator[None]:
    """Put back what TorchX's local scheduler replaces when it is made."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture(params=[("one", "two"), ("two", "one"), ("two", "none"), ("one",)], ids="-".join)
def dirs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Directories with files, the strongest first."""
    monkeypatch.delenv("TORCHXCONFIG", raising=False)
    for name, text in FILES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / ".torchxconfig").write_text(text)
    names: tuple[str, ...] = request.param
    return [str(tmp_path / name) for name in names]


def test_the_same_files(dirs: list[str]) -> None:
    """In the same order."""
    assert ours.find_configs(dirs) == theirs.find_configs(dirs)


def test_torchxconfig_means_the_same(dirs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Exclusive where it names a file, and nothing is read where it is empty."""
    for value in (os.path.join(dirs[-1], ".torchxconfig"), ""):  # noqa: PTH118  (both return strings)
        monkeypatch.setenv("TORCHXCONFIG", value if Path(value).is_file() else "")
        assert ours.find_configs(dirs) == theirs.find_configs(dirs)


@pytest.mark.parametrize("given", [{}, {"log_dir": "mine"}, {"prepend_cwd": None}])
def test_the_same_cfg(dirs: list[str], given: dict[str, CfgVal]) -> None:
    """What is given stays; of the rest, the first directory wins."""
    cfg, wanted = dict(given), dict[str, Any](given)
    ours.apply("local_cwd", cfg, dirs)
    theirs.apply("local_cwd", wanted, dirs)
    assert cfg == wanted


@pytest.mark.parametrize("prefix", ["component", "cli", "tracker", "torchx", "none"])
def test_the_same_sections(dirs: list[str], prefix: str) -> None:
    """By prefix."""
    assert ours.load_sections(prefix, dirs) == theirs.load_sections(prefix, dirs)


def test_the_same_run_defaults(dirs: list[str]) -> None:
    """Of the command line."""
    wanted = {
        key: theirs.get_config("cli", "run", key, dirs) for key in ("scheduler", "component", "workspace")
    }
    assert ours.read_config(dirs, {}).run_defaults() == ours.RunDefaults(**wanted)


@given(
    st.sampled_from([str, int, float, bool, list[str], dict[str, str]]),
    st.text("ab1:,;.= -", max_size=8) | st.sampled_from(["true", "OFF", "1e3", "-7", "maybe", "a:1,b:2;c:"]),
)
def test_the_same_values(type_: object, text: str) -> None:
    """Whatever TorchX makes of a text without quotes; where it fails, ours has a ValueError at most."""
    text = text.strip()  # as every value in a file is
    try:
        wanted = torchx_specs.runopt(None, type_, False, "").cast_to_type(text)
    except (IndexError, ValueError):
        with suppress(ValueError):
            runopt(None, type_, False, "").cast_to_type(text)
    else:
        assert runopt(None, type_, False, "").cast_to_type(text) == wanted
