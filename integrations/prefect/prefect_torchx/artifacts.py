"""Artifacts of one run that are written once and replaced in place, as few times as people need."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, final
from uuid import UUID

from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate

from prefect_torchx.api import Api, Refused, Unreachable

__all__ = ["Artifacts", "Drawn"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What an artifact shows."""

    type: str
    """As Prefect's page knows it: table, progress, markdown, image."""
    data: object
    description: str = ""


@final
class Artifacts:
    """Writes artifacts of a run; a failure is a warning, said once for each."""

    def __init__(self, name: str, flow_run_id: str, task_run_id: str) -> None:
        """Write nothing yet.

        Args:
            name: What their keys begin with: lower-case letters, digits and dashes.
            flow_run_id: Whose they are; empty without one.
            task_run_id: The same.
        """
        self._name = name
        self._flow_run_id: Final = UUID(flow_run_id) if flow_run_id else None
        self._task_run_id: Final = UUID(task_run_id) if task_run_id else None
        self._ids: dict[str, UUID] = {}
        self._written: dict[str, Drawn] = {}
        self._given_up: set[str] = set()

    def write(self, api: Api, kind: str, drawn: Drawn) -> bool:
        """Write the artifact of that kind; return False when it is worth another try."""
        if self._written.get(kind) == drawn or kind in self._given_up:
            return True
        try:
            self._put(api, kind, drawn)
        except Unreachable as err:
            logger.debug("artifact %s-%s waits: %s", self._name, kind, err)
            return False
        except Refused as err:
            self._given_up.add(kind)
            logger.warning("artifact %s-%s cannot be written: %s", self._name, kind, err)
        return True

    def _put(self, api: Api, kind: str, drawn: Drawn) -> None:
        known = self._ids.get(kind)
        if known is None:
            self._ids[kind] = api.create_artifact(
                ArtifactCreate(
                    key=f"{self._name}-{kind}",
                    type=drawn.type,
                    description=drawn.description,
                    data=drawn.data,
                    flow_run_id=self._flow_run_id,
                    task_run_id=self._task_run_id,
                )
            )
        else:
            api.update_artifact(known, ArtifactUpdate(data=drawn.data, description=drawn.description))
        self._written[kind] = drawn
