"""A real PostgreSQL at the centre of a network of hosts, in memory: nothing of it is left."""

from __future__ import annotations

import os
from pathlib import Path

from hosts import Network

from torchx_core.testing import wait_until

__all__ = ["POSTGRES", "start_postgres", "why_no_postgres"]

POSTGRES = Path("/var/lib/postgresql")
"""Where the centre must have an empty folder."""
START_S = 300.0
_AS_POSTGRES = (
    "setpriv",
    "--reuid=postgres",
    "--regid=postgres",
    "--clear-groups",
    "env",
    "-C",
    str(POSTGRES),
)


def why_no_postgres() -> str | None:
    """Return why none can be started here, or None when one can."""
    if _programs() is None:
        return "not installed: PostgreSQL; `make celery-servers` installs it on Debian"
    return None


def _programs() -> Path | None:
    """Return where Debian keeps the newest release's programs."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


def start_postgres(network: Network, name: str, log: Path) -> None:
    """Start one that every host reaches at the centre's port 5432; role and database have that name."""
    programs, data, centre = _programs(), POSTGRES / "data", network.centre
    centre.run("chown", "postgres:", str(POSTGRES))
    centre.run(*_AS_POSTGRES, f"{programs}/initdb", "-A", "trust", "-D", str(data))
    rule = "host all all 10.214.0.0/16 trust"
    centre.run(*_AS_POSTGRES, "sh", "-c", f"echo {rule} >>{data}/pg_hba.conf")
    options = ["-h", network.address, "-k", str(POSTGRES), "-c", "fsync=off", "-D", str(data)]
    centre.start([*_AS_POSTGRES, f"{programs}/postgres", *options], os.environ, log)
    for statement in (f"create role {name} login", f"create database {name} owner {name}"):
        _execute(network, [*_AS_POSTGRES, f"{programs}/psql", "-h", str(POSTGRES), "-c", statement])


def _execute(network: Network, command: list[str]) -> None:
    """Run the command as soon as the server answers."""

    def is_done() -> bool:
        try:
            network.centre.run(*command)
        except AssertionError as error:
            return "already exists" in str(error)
        return True

    wait_until(is_done, START_S)
