from __future__ import annotations

from local_apps import app_of

from prefect_torchx.pictures import find_links
from torchx_core.specs import AppState, AppStatus, ReplicaStatus, RoleStatus


def test_links_lead_to_the_apps_page_and_to_its_ports() -> None:
    """Each port at its role's first replica."""
    app = app_of("true", port_map={"tensorboard": 6006})
    replica = ReplicaStatus(id=0, state=AppState.RUNNING, role="r", hostname="node7")
    status = AppStatus(state=AppState.RUNNING, ui_url="https://x/1", roles=[RoleStatus("r", [replica])])
    assert find_links(app, status) == {"app": "https://x/1", "r tensorboard": "http://node7:6006"}


def test_without_a_page_or_a_port_there_is_no_link() -> None:
    """A replica that has no host yet has no link."""
    assert find_links(app_of("true", port_map={"x": 1}), AppStatus(state=AppState.PENDING)) == {}
