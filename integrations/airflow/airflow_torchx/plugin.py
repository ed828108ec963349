"""Airflow's plugin that shows an app's page beside its task; Airflow finds it by its entry point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cached_property
from typing import Any, TypeAlias, final

from airflow.plugins_manager import AirflowPlugin

from airflow_torchx._addresses import PAGE, base_path

__all__ = ["TorchXPlugin"]

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


@final
class _LazyApp:
    """Imports what serves pages when a page is asked for: workers load plugins too."""

    @cached_property
    def _app(self) -> App:
        from airflow_torchx._page import make_app

        return make_app()

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        await self._app(scope, receive, send)


class TorchXPlugin(AirflowPlugin):
    """Serves the pages of apps, and shows them as a tab of their task instances."""

    name = "torchx"
    fastapi_apps = [{"app": _LazyApp(), "url_prefix": f"/{PAGE}", "name": "TorchX apps"}]  # noqa: RUF012  (Airflow's)
    external_views = [  # noqa: RUF012  (likewise)
        {
            "name": "TorchX app",
            "href": f"{base_path()}/{PAGE}/dags/{{DAG_ID}}/runs/{{RUN_ID}}/tasks/{{TASK_ID}}/{{MAP_INDEX}}/",
            "destination": "task_instance",
            "url_route": PAGE,
        }
    ]
