"""How the processes of a test run share the tests: a file at a time, and all of Airflow's go to one of them.

A process that runs its first DAG loads what takes eight seconds of CPU time.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

__all__ = ["OneAirflow"]

AIRFLOWS = "tests/airflow_torchx"


class OneAirflow(LoadFileScheduling):  # type: ignore[misc]  # xdist says nothing of its types
    """xdist's own way by files, with one folder that counts as a file."""

    def _split_scope(self, nodeid: str) -> str:
        """Return what goes to a process as a whole."""
        return AIRFLOWS if nodeid.startswith(f"{AIRFLOWS}/") else str(super()._split_scope(nodeid))
