"""Where an app's pages are: the ports that its roles name, at their replicas' hosts, and what it links to."""

from __future__ import annotations

import re

from torchx_core.schedulers import AppEvent, Link, ReplicaChanged, StateChanged
from torchx_core.specs import AppDef, AppState, AppStatus

__all__ = ["find_services", "linked_page", "may_tell_hosts"]

_RENDEZVOUS = "c10d"
"""What components for torchrun call the port at which replicas meet; a browser gets no answer there."""
_PAGE = re.compile(r"https?://[\w.~:/?#@!$&*+,;=%-]{1,2000}", re.ASCII)


def find_services(app: AppDef, status: AppStatus) -> dict[str, str | None]:
    """Return each port of a ``port_map`` at its role's first replica, in order: role and name -> address.

    torchrun's rendezvous is left out: that is no page. An address is None while the replica has no host: it
    waits in a queue, say.
    """
    hosts = {role.role: role.replicas[0].hostaddr for role in status.roles if role.replicas}
    return {
        f"{role.name} {name}": f"http://{host}:{port}" if (host := hosts.get(role.name)) else None
        for role in app.roles
        for name, port in role.port_map.items()
        if name != _RENDEZVOUS
    }


def may_tell_hosts(event: AppEvent) -> bool:
    """Return whether the app's status may know a host from this event on that it did not know before.

    A scheduler may say that an app runs before any replica does, and another one says no more than that.
    """
    match event:
        case StateChanged(state=AppState.RUNNING) | ReplicaChanged(replica=0, state=AppState.RUNNING):
            return True
        case _:
            return False


def linked_page(link: Link) -> str | None:
    """Return the address that the app links to; None for a path or an id, or what no browser should open.

    An app may write anything: only http and https count, and no character that means something in a page.

    Example:
        >>> where = "http://mlflow:5000/#/experiments/0/runs/9f2"
        >>> linked_page(Link(role="r", replica=0, attempt=0, name="mlflow", target=where, time=0.0)) == where
        True
    """
    return link.target if _PAGE.fullmatch(link.target) else None
