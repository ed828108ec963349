"""Who owns an app: numbered records, of which the highest counts; each number has one writer."""

from __future__ import annotations

from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.names import record_name
from torchx_core.schedulers.docker.records import Records

__all__ = ["set_owner"]


def set_owner(engine: Engine, records: Records, token: str, expected: str | None, *, force: bool) -> bool:
    """Change the owner if it is the expected one; return whether the token owns the app now."""
    while records.owner != token:
        if records.owner != expected and not force:
            return False
        kind = f"{store.OWNER}.{records.owner_number + 1}"
        store.write(engine, records.app, kind, {"token": token})
        # A number that was freed below may be written again by somebody slow, so only a second look tells.
        seen = store.read(engine, records.app.session, records.app.app_id)
        if seen is None or seen.app.nonce != records.app.nonce:
            return False
        _remove_older(engine, records)
        records = seen
    return True


def _remove_older(engine: Engine, records: Records) -> None:
    if records.owner_number:
        kind = f"{store.OWNER}.{records.owner_number}"
        engine.remove_volume(record_name(records.app.name, records.app.nonce, kind))
