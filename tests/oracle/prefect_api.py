"""What a user sees of Prefect, and does to it: plain requests, by no code of the product or of Prefect."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from torchx_core.testing import wait_until

__all__ = ["PrefectApi"]

Document = dict[str, Any]
PAGE = 200
"""The most that the server gives at once."""
ASK_S = 60.0
"""How long it may take to answer, on a busy host."""
GIVE_UP_S = 240.0
"""For how long it is asked again when it was too busy."""


class PrefectApi:
    """One flow run's pages."""

    def __init__(self, url: str) -> None:
        """Ask nothing yet."""
        self._client = httpx.Client(base_url=url, timeout=ASK_S)
        self.run = ""
        """The flow run's id."""

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    # --- acting

    def create(self, flow: str, folder: Path, *, supervised: bool) -> None:
        """Create a flow run; a supervised one has somebody who started its process, a script has not."""
        found = self._post("/flows/", {"name": flow})
        run = {"flow_id": found["id"], "parameters": {"folder": str(folder)}, "state": {"type": "PENDING"}}
        self.run = self._post("/flow_runs/", run)["id"]
        if supervised:
            self._ask("PATCH", f"/flow_runs/{self.run}", {"infrastructure_pid": "oracle"})

    def create_in_pool(self, flow: str, entrypoint: str, folder: Path, *, pool: str) -> None:
        """Create a work pool, which its first worker completes, a deployment, and a flow run of that."""
        with suppress(httpx.HTTPStatusError):  # 409: an earlier request, whose answer did not come, made it
            self._post("/work_pools/", {"name": pool, "type": "torchx"})
        found = self._post("/flows/", {"name": flow})
        code = folder / "code"
        code.mkdir()
        deployment = {
            "name": pool,
            "flow_id": found["id"],
            "work_pool_name": pool,
            "entrypoint": entrypoint,
            "path": str(code),  # without one Prefect copies the worker's directory for each start of the flow
            "parameters": {"folder": str(folder)},
        }
        made = self._post("/deployments/", deployment)
        run = {"state": {"type": "SCHEDULED"}, "idempotency_key": pool}
        self.run = self._post(f"/deployments/{made['id']}/create_flow_run", run)["id"]

    def set_state(self, kind: str, *, force: bool = True) -> None:
        """Set the flow run's state, by force whatever Prefect thinks of it."""
        state = {"type": kind, "name": kind.title()}
        self._post(f"/flow_runs/{self.run}/set_state", {"state": state, "force": force})

    # --- looking

    def state(self) -> Document:
        """Return the flow run's state."""
        return dict(self._ask("GET", f"/flow_runs/{self.run}").json()["state"])

    def wait_for(self, *kinds: str, limit_s: float) -> Document:
        """Wait until the flow run's state is of one of these types; return the last one that was seen."""
        seen: list[Document] = []

        def reached() -> bool:
            seen.append(self.state())
            return seen[-1]["type"] in kinds

        try:
            wait_until(reached, limit_s)
        except AssertionError:
            return seen[-1]
        return seen[-1]

    def task_runs(self) -> list[Document]:
        """Return every task run of the flow run."""
        return self._filter("/task_runs/filter", "task_runs", "EXPECTED_START_TIME_ASC", "id")

    def records(self) -> list[Document]:
        """Return every record of the flow run's log, by time."""
        return self._filter("/logs/filter", "logs", "TIMESTAMP_ASC", "flow_run_id")

    def artifacts(self) -> list[Document]:
        """Return every artifact of the flow run, the oldest first."""
        found = self._filter("/artifacts/filter", "artifacts", "UPDATED_DESC", "flow_run_id")
        return sorted(found, key=lambda each: str(each["created"]))

    def _filter(self, path: str, what: str, sort: str, by: str) -> list[Document]:
        if by == "id":
            only: Document = {"flow_runs": {"id": {"any_": [self.run]}}}
        else:
            only = {what: {by: {"any_": [self.run]}}}
        found: dict[str, Document] = {}
        offset = 0
        while page := self._post(path, {**only, "sort": sort, "limit": PAGE, "offset": offset}):
            offset += len(page)
            found |= {each["id"]: each for each in page}
        return list(found.values())

    def _post(self, path: str, body: Document) -> Any:
        return self._ask("POST", path, body).json()

    def _ask(self, method: str, path: str, body: Document | None = None) -> httpx.Response:
        """Ask until there is an answer: a busy server says 503 now and then, or breaks a connection off."""

        def ask() -> httpx.Response | None:
            try:
                answer = self._client.request(method, path, json=body)
            except httpx.TransportError:
                return None
            return None if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else answer

        return wait_until(ask, GIVE_UP_S).raise_for_status()
