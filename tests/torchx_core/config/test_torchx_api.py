from __future__ import annotations

import io
from pathlib import Path

import pytest

from torchx_core.config import apply, get_config, get_configs, load, load_sections
from torchx_core.errors import InvalidConfigError, UnknownSchedulerException
from torchx_core.specs import CfgVal

ONE = """
[local_cwd]
log_dir = one
[component:dist.ddp]
j = 1x2
[component:utils.echo]
msg = hi
[tracker:t]
config = a
"""
TWO = """
[local_cwd]
log_dir = two
grace_s = 3
[component:dist.ddp]
j = 2x2
image = two
"""


@pytest.fixture
def dirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two directories with files; the first wins."""
    monkeypatch.delenv("TORCHXCONFIG", raising=False)
    for name, text in (("one", ONE), ("two", TWO)):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".torchxconfig").write_text(text)
    return [str(tmp_path / "one"), str(tmp_path / "two")]


def test_apply_adds_what_is_missing(dirs: list[str]) -> None:
    """What the cfg has stays, then the first directory wins."""
    cfg: dict[str, CfgVal] = {"limits": "off"}
    apply("local_cwd", cfg, dirs)
    assert cfg == {"limits": "off", "log_dir": "one", "grace_s": 3.0}
    cfg = {"logDir": "mine"}
    apply("local_cwd", cfg, dirs)
    assert cfg == {"logDir": "mine", "grace_s": 3.0}


def test_apply_reads_the_environment_too(dirs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program gets the cfg that the command line would have."""
    monkeypatch.setenv("TORCHX_CFG_LOCAL_CWD", "log_dir=env")
    cfg: dict[str, CfgVal] = {}
    apply("local_cwd", cfg, dirs)
    assert cfg["log_dir"] == "env"


def test_load_reads_one_open_file() -> None:
    """Its name is in the errors."""
    cfg: dict[str, CfgVal] = {"log_dir": "mine"}
    load("local_cwd", io.StringIO(TWO), cfg)
    assert cfg == {"log_dir": "mine", "grace_s": 3.0}
    with pytest.raises(InvalidConfigError, match="<text>:1: no section yet"):
        load("local_cwd", io.StringIO("x"), cfg)


def test_load_names_the_file(dirs: list[str]) -> None:
    """As it was opened."""
    path = Path(dirs[0]) / ".torchxconfig"
    path.write_text("[local_cwd]\nlog_dri = x")
    with (
        path.open() as f,
        pytest.raises(InvalidConfigError, match=rf"{path}:2: unknown run option"),
    ):
        load("local_cwd", f, {})


def test_an_unknown_scheduler_is_refused(dirs: list[str]) -> None:
    """With the closest."""
    with pytest.raises(UnknownSchedulerException, match="did you mean 'local_cwd'"):
        apply("local_cdw", {}, dirs)


def test_sections_of_a_prefix(dirs: list[str]) -> None:
    """By the name behind it, merged over the files."""
    assert load_sections("component", dirs) == {
        "dist.ddp": {"j": "1x2", "image": "two"},
        "utils.echo": {"msg": "hi"},
    }
    assert load_sections("nothing", dirs) == {}


def test_one_section_and_one_option(dirs: list[str]) -> None:
    """What is not there is empty, or None."""
    assert get_configs("component", "dist.ddp", dirs) == {"j": "1x2", "image": "two"}
    assert get_configs("component", "none", dirs) == {}
    assert get_config("tracker", "t", "config", dirs) == "a"
    assert get_config("tracker", "t", "other", dirs) is None
