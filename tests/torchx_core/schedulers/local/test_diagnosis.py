"""What the local schedulers find out about this host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from local_apps import app_of

from torchx_core import Runner
from torchx_core.schedulers import Finding, Verdict
from torchx_core.schedulers.local.diagnosis import diagnose
from torchx_core.testing import FakeHost, FakeScheduler

LOOK = """
import sys
from torchx_core.schedulers.local.diagnosis import diagnose
[found] = [f for f in diagnose(sys.argv[1], "local_cwd", ()) if f.subject == sys.argv[2]]
print(found.verdict.value, found.text, sep=": ")
"""


def found(state_dir: Path, gpus: tuple[str, ...] | None = ()) -> dict[str, Finding]:
    """Return subject -> finding."""
    return {finding.subject: finding for finding in diagnose(str(state_dir), "local_cwd", gpus)}


def own_control_groups() -> list[str]:
    """Return those that this process made; apps of other tests make and remove theirs meanwhile."""
    every = [name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names]
    return [name for name in every if name.startswith("torchx-") and name.endswith(f"-{os.getpid()}")]


def test_looking_leaves_nothing_behind(state_dir: Path) -> None:
    """No control group is left, and no state directory, which the first app makes."""
    assert found(state_dir)["state directory"].text == f"{state_dir}, made by the first app"
    assert not state_dir.exists()
    assert list(state_dir.parent.iterdir()) == []
    assert own_control_groups() == []


def test_apps_are_counted_and_weighed(runner: Runner, state_dir: Path) -> None:
    """Those of every session, with their logs."""
    runner.wait(runner.run(app_of("echo", "x" * 100_000), "local_cwd"))
    count, size = found(state_dir)["records"].text.split(", ")
    assert count == "1 apps"
    assert 0.1 < float(size.removesuffix(" MB")) < 1
    assert found(state_dir)["state directory"].text == str(state_dir)


@pytest.mark.parametrize(
    ("ulimit", "subject", "text"),
    [
        ("-n 256", "open files", "256, enough for 28 replicas of one app"),
        ("-u 512", "processes", "512 for this user"),
    ],
)
def test_a_low_limit_is_a_warning(ulimit: str, subject: str, text: str, state_dir: Path) -> None:
    """In a process of its own, which alone has the limit."""
    line = f"ulimit {ulimit}; exec {sys.executable} -c '{LOOK}' {state_dir} '{subject}'"
    said = subprocess.check_output(["bash", "-c", line], text=True)
    assert said == f"warning: {text}\n"


def test_gpus_are_listed(state_dir: Path) -> None:
    """A host without GPUs has no fault: they are absent."""
    assert found(state_dir, ("0", "1"))["GPUs"].text == "2: 0, 1"
    assert found(state_dir, ())["GPUs"].verdict is Verdict.ABSENT


def test_every_bad_finding_says_what_to_do(state_dir: Path) -> None:
    """Advice where there is something to do, and none where all is well."""
    for finding in diagnose(str(state_dir), "local_cwd", None):
        assert bool(finding.advice) == (finding.verdict in (Verdict.WARNING, Verdict.PROBLEM)), finding


def test_a_scheduler_without_a_diagnosis_is_asked_for_its_apps() -> None:
    """The finding shows whether its backend answers."""
    findings = FakeScheduler(FakeHost(), "s").diagnose()
    assert findings == [Finding(subject="backend", verdict=Verdict.OK, text="answers; 0 apps in session s")]
