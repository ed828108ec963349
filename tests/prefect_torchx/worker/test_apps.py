"""Following the apps of flow runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from own_threads import started_since, threads_now

from prefect_torchx.background import IDLE, KEPT
from prefect_torchx.worker.apps import follow_to_end
from torchx_core.runner import Runner
from torchx_core.schedulers import LogLines
from torchx_core.specs import AppDef, AppState, Role


def _app(script: str) -> AppDef:
    return AppDef("app", [Role("flow", image="", entrypoint="sh", args=["-c", script])])


def test_the_end_and_the_lines_arrive(runner: Runner) -> None:
    """Both come from one stream; lines only where somebody wants them."""
    handle = runner.run(_app("echo hello; exit 3"), "local_cwd")
    runs: list[LogLines] = []
    status = asyncio.run(follow_to_end(runner, handle, runs.append))
    assert status
    assert status.state is AppState.FAILED
    assert [line for run in runs for line in run.lines] == ["hello"]
    again = asyncio.run(follow_to_end(runner, handle))
    assert again
    assert again.state is AppState.FAILED


def test_an_app_that_is_gone_has_no_end(runner: Runner) -> None:
    """It is not waited for."""
    assert asyncio.run(follow_to_end(runner, "local_cwd://torchx/gone")) is None


def test_many_apps_need_no_threads(runner: Runner, tmp_path: Path) -> None:
    """One event loop follows them all."""
    go = tmp_path / "go"
    handles = [runner.run(_app(f"until test -e {go}; do sleep 0.05; done"), "local_cwd") for _ in range(5)]

    async def follow_all() -> tuple[list[str], list[AppState]]:
        before = threads_now()
        tasks = [asyncio.create_task(follow_to_end(runner, handle)) for handle in handles]
        more: list[str] = []
        for _ in range(300):  # to begin may take one for a moment
            await asyncio.sleep(0.2)
            more = started_since(before)
            if len(more) <= KEPT < len(handles) and set(more) <= {IDLE}:  # what waits for work is no app's
                more = []
                break
        go.touch()
        ended = await asyncio.gather(*tasks)
        return more, [status.state for status in ended if status]

    assert asyncio.run(follow_all()) == ([], [AppState.SUCCEEDED] * 5)


def test_leaving_leaves_the_app_alone(runner: Runner) -> None:
    """A worker that stops cancels its tasks, not its apps."""
    handle = runner.run(_app("sleep 60"), "local_cwd")

    async def leave() -> None:
        task = asyncio.create_task(follow_to_end(runner, handle))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(leave())
    status = runner.status(handle)
    assert status
    assert not status.is_terminal()
