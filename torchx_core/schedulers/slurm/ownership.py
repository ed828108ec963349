"""Who owns an app: numbered files, of which the highest counts; each has one writer, without a lock."""

from __future__ import annotations

from torchx_core.schedulers.slurm.record import AppRecord
from torchx_core.supervisor.records import write_once

__all__ = ["owner_of", "set_owner"]


def owner_of(record: AppRecord) -> str | None:
    """Return the owner's token, or None."""
    return _latest(record)[1]


def set_owner(record: AppRecord, token: str, expected: str | None, *, force: bool) -> bool:
    """Change the owner if it is the expected one; return whether the token owns the app now."""
    while True:
        number, present = _latest(record)
        if present == token:
            return True
        if present != expected and not force:
            return False
        write_once(record.directory, _name(number), {"token": token})  # somebody faster: look again


def _latest(record: AppRecord) -> tuple[int, str | None]:
    """Return the next free number, and the token of the one before."""
    number, token = 0, None
    while content := record.read(_name(number)):
        number, token = number + 1, str(content["token"])
    return number, token


def _name(number: int) -> str:
    return f"owner.{number}.json"
