"""Links from a task's page to its app: its page in Airflow, its scheduler's, and what it serves itself.

Airflow's web server reads a link from the XCom of its key. The operator, or the trigger of a deferred task,
writes that as soon as it is known where the link leads.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from typing_extensions import override

from airflow_torchx._addresses import tab_of
from airflow_torchx._engine import BaseOperator, BaseOperatorLink
from airflow_torchx._tries import TaskTry
from torchx_core.display.services import find_services
from torchx_core.specs import AppDef, AppStatus

__all__ = [
    "HasLinks",
    "TorchXPageLink",
    "TorchXRunLink",
    "TorchXServiceLink",
    "find_links",
    "page_link",
]


@runtime_checkable
class HasLinks(Protocol):
    """An operator that has links to its app."""

    links: dict[str, str]
    """XCom key of a link -> address."""


class _KnownLink(BaseOperatorLink):
    """A link that the operator knows once its app runs."""

    @override
    def get_link(self, operator: BaseOperator, *, ti_key: object) -> str:
        """Return the address, or nothing."""
        return operator.links.get(self.xcom_key, "") if isinstance(operator, HasLinks) else ""


class TorchXPageLink(_KnownLink):
    """The app's page, a tab of its task instance."""

    @property
    @override
    def name(self) -> str:
        """What the button says."""
        return "App"


class TorchXRunLink(_KnownLink):
    """The app's page at its scheduler, where that has one."""

    @property
    @override
    def name(self) -> str:
        """What the button says."""
        return "Scheduler"


class TorchXServiceLink(_KnownLink):
    """The first port that the app's roles name in their ``port_map``: TensorBoard, say."""

    @property
    @override
    def name(self) -> str:
        """What the button says."""
        return "Service"


def find_links(app: AppDef, status: AppStatus) -> dict[str, str]:
    """Return where the links lead, by the keys of their XComs; one that leads nowhere yet is left out."""
    known = (url for url in find_services(app, status).values() if url)
    found = {TorchXRunLink().xcom_key: status.ui_url, TorchXServiceLink().xcom_key: next(known, None)}
    return {key: url for key, url in found.items() if url}


def page_link(this_try: TaskTry) -> dict[str, str]:
    """Return where the link to the app's page in Airflow leads, by the key of its XCom."""
    url = tab_of(this_try.dag_id, this_try.run_id, this_try.task_id, this_try.map_index)
    return {TorchXPageLink().xcom_key: url}
