"""Where an app's pages are."""

from __future__ import annotations

from torchx_core.components.dist import torchrun
from torchx_core.display.services import find_services
from torchx_core.specs import AppDef, AppState, AppStatus, ReplicaStatus, Role, RoleStatus


def status_of(role: str) -> AppStatus:
    """An app that runs, with one replica on host h."""
    replica = ReplicaStatus(id=0, state=AppState.RUNNING, role=role, hostname="h", hostaddr="h")
    return AppStatus(state=AppState.RUNNING, roles=[RoleStatus(role, [replica])])


def test_a_port_of_a_role_is_a_page() -> None:
    """At the host of its first replica."""
    app = AppDef("a", [Role("r", image="", port_map={"tensorboard": 6006})])
    assert find_services(app, status_of("r")) == {"r tensorboard": "http://h:6006"}


def test_where_replicas_meet_is_no_page() -> None:
    """A browser gets no answer at torchrun's rendezvous; a second port is one."""
    app = torchrun(script="train.py", j="1x2")
    app.roles[0].port_map["tensorboard"] = 6006
    name = app.roles[0].name
    assert find_services(app, status_of(name)) == {f"{name} tensorboard": "http://h:6006"}
