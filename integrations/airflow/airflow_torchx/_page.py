"""Serves the pages of the apps of tasks, inside Airflow's web server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic
from typing import Annotated, TypeAlias

from fastapi import Depends, FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from airflow_torchx._engine_page import NoConnectionError, TaskPlace, find_app, log_readers, reach
from torchx_core.errors import TorchXError, UnknownAppException
from torchx_core.page import HEADERS, AppPage, content_security_policy, make_notice
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle

__all__ = ["make_app"]

PLACE = "/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/{map_index}/"
STREAM_S = 300.0
"""How long a stream lasts; then the browser asks again, and whether its user still may is checked anew."""


class _NoPage(Exception):
    """There is nothing to show, and the text says why."""


def make_app() -> FastAPI:
    """Return the pages as an ASGI app."""
    app = FastAPI(title="TorchX apps", docs_url=None, redoc_url=None, openapi_url=None)
    # Whoever may read the task instance's log may see its page, for that is what it shows.
    allowed = [Depends(log_readers())]
    app.add_api_route(PLACE, _page, dependencies=allowed, response_class=HTMLResponse)
    app.add_api_route(f"{PLACE}events", _events, dependencies=allowed, response_class=StreamingResponse)
    return app


def _place(dag_id: str, run_id: str, task_id: str, map_index: str) -> TaskPlace:
    """Return the task instance; of one that is not mapped Airflow's page says no number."""
    number = int(map_index) if map_index.lstrip("-").isdecimal() else -1
    return TaskPlace(dag_id, run_id, task_id, number)


Place: TypeAlias = Annotated[TaskPlace, Depends(_place)]


def _page(place: Place) -> Response:
    try:
        runner, page = _open(place)
    except _NoPage as err:
        return HTMLResponse(make_notice("TorchX app", str(err)), headers=_headers())
    with runner:
        return HTMLResponse(page.live_html("events"), headers=_headers())


async def _events(place: Place, request: Request, after: Annotated[str, Query()] = "") -> Response:
    try:
        runner, page = await run_in_threadpool(_open, place)
    except _NoPage:
        return Response(status_code=204, headers=_headers())  # to this a browser does not ask again
    texts = _until(runner, page.aevents(request.headers.get("last-event-id") or after or None))
    return StreamingResponse(texts, media_type="text/event-stream", headers=_headers())


async def _until(runner: Runner, texts: AsyncIterator[str]) -> AsyncIterator[str]:
    deadline = monotonic() + STREAM_S
    with runner:
        yield "retry: 2000\n\n"
        async for text in texts:
            if text:
                yield text
            if monotonic() > deadline:
                return


def _open(place: TaskPlace) -> tuple[Runner, AppPage]:
    """Return the page of the task's latest app; the caller closes the runner."""
    found = find_app(place)
    if found is None:
        raise _NoPage(
            "This task instance has no TorchX app. It has one once a TorchXRunOperator has submitted it; "
            "a task of another kind never has."
        )
    try:
        runner = reach(found.conn_id)
    except (NoConnectionError, TorchXError) as err:
        raise _NoPage(_unseen(found.handle, str(err))) from err
    try:
        page = AppPage(runner, found.handle)
        owner = runner.owner(found.handle)
    except UnknownAppException as err:
        runner.close()
        raise _NoPage(_unseen(found.handle, "there is no such app where the web server looks")) from err
    except TorchXError as err:
        runner.close()
        raise _NoPage(_unseen(found.handle, str(err))) from err
    if not found.is_of(owner):
        # XComs can be edited by more people than may read the log of any task.
        runner.close()
        raise _NoPage(f"{found.handle} is not an app of this task instance.")
    return runner, page


def _unseen(handle: AppHandle, reason: str) -> str:
    return (
        f"Airflow's web server does not see the app {handle}: {reason}.\n\n"
        "It has to reach the app's scheduler as a worker does. Apps of local_cwd and local_dir are seen on "
        "the host that they run on, where TORCHX_STATE_DIR is the same; those of a Docker Engine where that "
        "engine is reached; those of Slurm where its commands or a login node are.\n\n"
        f"Where the app is seen, this shows the same page: `torchx-core page {handle}`"
    )


def _headers() -> dict[str, str]:
    return {**HEADERS, "Content-Security-Policy": content_security_policy(frames="'self'")}
