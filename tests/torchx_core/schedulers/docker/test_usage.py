"""What replicas in containers use: compared with what their programs say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from docker_apps import end, new_runner
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE

from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppState, ReplicaStatus, Resource, RetryPolicy, Role

MB = 1 << 20
_BURN = "import os, sys\nx = bytearray({mb} << 20)\nwhile sum(os.times()[:2]) < {s}: pass\n"
_THEN_FAIL_ONCE = "sys.exit(os.environ['TORCHX_ATTEMPT'] == '0')\n"


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """A runner whose apps are gone afterwards."""
    with new_runner(engine.url) as runner:
        yield runner


def _ended(
    runner: Runner, code: str, *, cfg: dict[str, object] | None = None, **role: object
) -> ReplicaStatus:
    fields = {"name": "r", "image": PYTHON_IMAGE, "entrypoint": "python3", "args": ["-c", code], **role}
    app = AppDef("app", [Role(**fields)])  # type: ignore[arg-type]  # the tests pass what Role takes
    handle = runner.run(app, "local_docker", cfg)  # type: ignore[arg-type]  # likewise
    return end(runner, handle).roles[0].replicas[0]


def test_final_figures_are_what_the_program_used(runner: Runner) -> None:
    """CPU time, peak and limit, and how long it ran: in whole seconds, by this image's ``date``."""
    usage = _ended(runner, _BURN.format(mb=80, s=1.2), resource=Resource(1, 0, 300)).usage
    assert usage.cpu_s is not None
    assert usage.memory_peak_bytes is not None
    assert 1.2 <= usage.cpu_s < 5
    assert 80 * MB <= usage.memory_peak_bytes <= 300 * MB
    assert usage.memory_limit_bytes == 300 * MB
    assert usage.wall_s is not None
    assert usage.wall_s >= 1


def test_attempts_add_up(runner: Runner) -> None:
    """Each start of a container is counted by itself: their times are summed up, the greatest peak counts."""
    code = _BURN.format(mb="(90 if os.environ['TORCHX_ATTEMPT'] == '0' else 10)", s=0.4) + _THEN_FAIL_ONCE
    replica = _ended(
        runner, code, max_retries=1, retry_policy=RetryPolicy.REPLICA, resource=Resource(1, 0, 0)
    )
    assert (replica.state, replica.attempt) == (AppState.SUCCEEDED, 1)
    assert (replica.usage.cpu_s or 0) >= 0.8
    assert 90 * MB <= (replica.usage.memory_peak_bytes or 0) < 400 * MB
    assert replica.usage.memory_limit_bytes is None


def test_out_of_memory_says_peak_and_limit(runner: Runner) -> None:
    """Of a program that asks for more than it may have."""
    replica = _ended(runner, "x = bytearray(400 << 20)", resource=Resource(1, 0, 64))
    assert (replica.state, replica.signal) == (AppState.FAILED, "SIGKILL")
    assert replica.msg == "out of memory: peak 64 MB of 64 MB allowed by memMB"


def test_without_a_shell_little_is_known(runner: Runner) -> None:
    """How long it ran the engine knows; what it used nobody does, and no figure is made up."""
    usage = _ended(runner, _BURN.format(mb=1, s=0.1), cfg={"shim": "none"}).usage
    assert usage.wall_s is not None
    assert (usage.cpu_s, usage.memory_peak_bytes) == (None, None)
