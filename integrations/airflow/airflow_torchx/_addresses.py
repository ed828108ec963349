"""Where our pages are in the web server. Loads nothing, as every process of Airflow loads the plugin."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

__all__ = ["PAGE", "base_path", "tab_of"]

PAGE = "torchx"
"""What our part of Airflow's addresses begins with, and what its tabs are called there."""


def base_path() -> str:
    """Return what all addresses of this Airflow begin with (``[api] base_url``); most often nothing."""
    try:
        from airflow.sdk.configuration import conf
    except ImportError:  # 3.1
        from airflow.configuration import conf

    return urlsplit(str(conf.get("api", "base_url", fallback=""))).path.rstrip("/")


def tab_of(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """Return the path of the tab with the app's page; -1 for a task that is not mapped."""
    run = f"/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
    mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
    return f"{base_path()}{run}/tasks/{quote(task_id, safe='')}{mapped}/plugin/{PAGE}"
