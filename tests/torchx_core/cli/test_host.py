"""`doctor`, `runopts`, `components` and `configure`: what there is on this host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest
from cli_apps import Cli, ended, submitted

from torchx_core.config import read_config
from torchx_core.testing import Exit


def findings(cli: Cli) -> dict[str, dict[str, object]]:
    """Return subject -> finding, of the host and of local_cwd."""
    document = cast("dict[str, list[dict[str, object]]]", cli("doctor", "--json").json)
    return {
        str(each["subject"]): each
        for each in document["findings"]
        if not each["schedulers"] or "local_cwd" in cast("list[str]", each["schedulers"])
    }


def test_doctor_finds_a_healthy_host_healthy(cli: Cli) -> None:
    """Each line says what was looked at and what was found."""
    done = cli("doctor")
    assert done.code == 0
    assert "this host\n" in done.out
    assert "local_cwd, local_dir" in done.out
    for subject in ("Python", "state directory", "free space", "locks", "wake-ups", "open files", "clock"):
        assert f"  {subject} " in done.out


def test_doctor_counts_what_is_stored(cli: Cli, work: Path) -> None:
    """Records that cannot be read are named."""
    ended(submitted(Exit(0), app_id="good"))
    ended(submitted(Exit(0), app_id="bad"))
    (work.parent / "state" / "local_cwd" / "torchx" / "bad" / "spec.json").write_text("torn")
    records = findings(cli)["records"]
    assert records["verdict"] == "warning"
    assert str(records["text"]).startswith("1 apps, ")
    assert str(records["text"]).endswith("torchx/bad")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a place that this user cannot write to")
def test_doctor_names_a_state_directory_that_is_none(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem, with the exit code 1 and what to do."""
    monkeypatch.setenv("TORCHX_STATE_DIR", "/proc/nowhere")
    done = cli("doctor")
    assert done.code == 1
    assert "state directory  problem" in done.out
    assert "-> set TORCHX_STATE_DIR to a directory on a local disk" in done.out


def test_doctor_reads_the_configuration(cli: Cli, work: Path) -> None:
    """A file that every run would refuse is a problem."""
    assert findings(cli)["configuration"]["verdict"] == "absent"
    (work / ".torchxconfig").write_text("[local_cwd]\n")
    assert findings(cli)["configuration"]["verdict"] == "ok"
    (work / ".torchxconfig").write_text("[lcoal_cwd]\n")
    found = findings(cli)["configuration"]
    assert found["verdict"] == "problem"
    assert ".torchxconfig:1: unknown section" in str(found["text"])


def test_runopts_explains_each_option(cli: Cli) -> None:
    """Of one scheduler, or of all."""
    one, all_ = cli("runopts", "local_cwd"), cli("runopts")
    assert one.out.splitlines()[:2] == ["local_cwd", one.out.splitlines()[1]]
    assert "grace_s" in one.out
    assert {"local_cwd", "local_dir"} <= set(all_.out.splitlines())


def test_components_lists_and_explains(cli: Cli) -> None:
    """A summary for each, and the arguments of one."""
    assert "utils.echo" in cli("components").out
    explained = cli("components", "utils.echo").out
    assert "--msg STR" in explained
    assert "defined in " in explained


def test_configure_writes_a_file_that_is_read(cli: Cli, work: Path) -> None:
    """Everything is commented out, so nothing changes by it."""
    assert cli("configure", "-s", "local_cwd").out == f"{work / '.torchxconfig'} written\n"
    assert "#grace_s = 10.0" in (work / ".torchxconfig").read_text()
    assert read_config().settings("local_cwd") == {}


def test_configure_overwrites_nothing(cli: Cli, work: Path) -> None:
    """What is there may be somebody's work."""
    (work / ".torchxconfig").write_text("[local_cwd]\n")
    done = cli("configure")
    assert done.code == 2
    assert "is there already" in done.err
    assert (work / ".torchxconfig").read_text() == "[local_cwd]\n"


def test_version_is_told(cli: Cli) -> None:
    """With the program's name."""
    assert cli("--version").out.startswith("torchx-core ")
