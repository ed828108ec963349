"""Addresses of an app for people: its page at its scheduler, and what its replicas serve."""

from __future__ import annotations

from torchx_core.specs import AppDef, AppStatus

__all__ = ["find_links"]


def find_links(app: AppDef, status: AppStatus) -> dict[str, str]:
    """Return names and addresses: each port of a ``port_map`` at its role's first replica."""
    found = {"app": status.ui_url} if status.ui_url else {}
    hosts = {role.role: role.replicas[0].hostaddr for role in status.roles if role.replicas}
    for role in app.roles:
        for name, port in role.port_map.items():
            if hosts.get(role.name):
                found[f"{role.name} {name}"] = f"http://{hosts[role.name]}:{port}"
    return found
