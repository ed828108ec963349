"""Python functions as containers: the image has Python and nothing of ours."""

from __future__ import annotations

import time
from collections.abc import Sequence

from docker_apps import end, new_runner
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE

from torchx_core.functions import function_app
from torchx_core.schedulers import Result
from torchx_core.specs import AppState


def total(numbers: Sequence[int], text: str) -> dict[str, object]:
    """Add, and say where."""
    import os
    import sys

    rank = int(os.environ["RANK"])
    sys.stdout.write(f"rank {rank} of {os.environ['WORLD_SIZE']}\n")
    return {"total": sum(numbers), "rank": rank, "text": text}


def moment() -> float:
    """Return what time it is."""
    import time  # the replica has this function's text alone

    return time.time()


def fails() -> None:
    """Fail."""
    raise ValueError("no data")


def test_a_function_in_containers(engine: DockerEngine) -> None:
    """Each replica knows its rank, a large argument arrives, rank 0's value is the result."""
    text = "$HOME ${app_id} é" * 10_000
    with new_runner(engine.url) as runner:
        app = function_app(total, [[1, 2]], {"text": text}, replicas=2, image=PYTHON_IMAGE)
        handle = runner.run(app, "local_docker")
        status = end(runner, handle)
        assert status.state is AppState.SUCCEEDED, status.failure_summary()
        assert status.result == {"total": 3, "rank": 0, "text": text}
        assert [list(runner.log_lines(handle, "total", k)) for k in (0, 1)] == [
            ["rank 0 of 2\n"],
            ["rank 1 of 2\n"],
        ]


def test_a_result_has_the_time_at_which_it_was_returned(engine: DockerEngine) -> None:
    """A report of a container is not shown as if it were as old as its attempt."""
    with new_runner(engine.url) as runner:
        handle = runner.run(function_app(moment, image=PYTHON_IMAGE), "local_docker")
        events = [event for batch in runner.follow(handle) for event in batch.events]
        (result,) = (event for event in events if isinstance(event, Result))
        assert isinstance(result.value, float)
        assert result.value <= result.time <= time.time()


def test_a_failure_in_a_container(engine: DockerEngine) -> None:
    """The message leads with the exception, and shows a line of a file that the image does not have."""
    with new_runner(engine.url) as runner:
        status = end(runner, runner.run(function_app(fails, image=PYTHON_IMAGE), "local_docker"))
        lines = status.failure_summary().splitlines()
        assert lines[1] == "  error: ValueError: no data"
        assert '             raise ValueError("no data")' in lines
