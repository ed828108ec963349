"""Links from a task's page to its app: where the scheduler shows it, and what it serves itself.

Airflow's web server reads a link from the XCom of its key. The operator writes that as soon as the app runs,
if there is something to link to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from typing_extensions import override

from airflow_torchx import _engine
from airflow_torchx._engine import BaseOperator, BaseOperatorLink, Context
from torchx_core.specs import AppDef, AppStatus

__all__ = ["HasLinks", "TorchXRunLink", "TorchXServiceLink", "push_links"]


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


class TorchXRunLink(_KnownLink):
    """The app's page at its scheduler, where that has one."""

    @property
    @override
    def name(self) -> str:
        """What the button says."""
        return "App"


class TorchXServiceLink(_KnownLink):
    """The first port that the app's roles name in their ``port_map``: TensorBoard, say."""

    @property
    @override
    def name(self) -> str:
        """What the button says."""
        return "Service"


def push_links(operator: HasLinks, context: Context, app: AppDef, status: AppStatus) -> None:
    """Make the links work, while the app runs already."""
    found = {
        TorchXRunLink().xcom_key: status.ui_url,
        TorchXServiceLink().xcom_key: next(_services(app, status), None),
    }
    operator.links = {key: url for key, url in found.items() if url}
    for key, url in operator.links.items():
        _engine.push_xcom(context, key, url)


def _services(app: AppDef, status: AppStatus) -> Iterator[str]:
    hosts = {role.role: role.replicas[0].hostaddr for role in status.roles if role.replicas}
    for role in app.roles:
        for port in role.port_map.values():
            if hosts.get(role.name):
                yield f"http://{hosts[role.name]}:{port}"
