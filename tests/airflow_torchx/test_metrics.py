"""What Airflow's own metrics tell of apps."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from airflow_dags import Dags

from airflow_torchx._engine_metrics import airflow_stats

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What is added to Airflow's counters, by name and scheduler; a length of time counts as one."""
    counts: Counter[str] = Counter()

    def incr(stat: str, count: int = 1, *_: object, tags: dict[str, str] | None = None, **__: object) -> None:
        counts[f"{stat} {(tags or {}).get('torchx.scheduler')}"] += count

    def timing(
        stat: str, dt: float | timedelta, *_: object, tags: dict[str, str] | None = None, **__: object
    ) -> None:
        assert isinstance(dt, timedelta) or dt >= 0
        incr(stat, tags=tags)

    stats = airflow_stats()
    assert stats is not None
    monkeypatch.setattr(stats, "incr", staticmethod(incr))
    monkeypatch.setattr(stats, "timing", staticmethod(timing))
    return counts


def test_airflow_counts_what_becomes_of_apps(dags: Dags, counted: Counter[str]) -> None:
    """By state, as a part of the name: Airflow's StatsD has no tags unless it is told so."""
    dags.run("""
        def app(script):
            return AppDef("a", [Role("r", image="", entrypoint="sh", args=["-c", script])])
        TorchXRunOperator(task_id="good", app=app("seq 3"))
        TorchXRunOperator(task_id="bad", app=app("exit 3"))
    """)
    assert counted["torchx.renewals local_cwd"] >= 2
    del counted["torchx.renewals local_cwd"]
    assert {name: count for name, count in counted.items() if name.startswith("torchx.")} == {
        "torchx.submits.ok local_cwd": 2,
        "torchx.submit.duration local_cwd": 2,
        "torchx.lines local_cwd": 3,
        "torchx.ends.SUCCEEDED local_cwd": 1,
        "torchx.ends.FAILED local_cwd": 1,
        "torchx.end.latency local_cwd": 2,
    }


def test_a_trigger_counts_what_it_follows(dags: Dags, counted: Counter[str]) -> None:
    """In the triggerer, which is this process where a DAG is tried."""
    dags.run("""
        app = AppDef("a", [Role("r", image="", entrypoint="sh", args=["-c", "seq 3; sleep 1; seq 4"])])
        TorchXRunOperator(task_id="t", app=app, deferrable=True)
    """)
    assert counted["torchx.submits.ok local_cwd"] == 1
    assert counted["torchx.lines local_cwd"] == 7
    assert counted["torchx.ends.SUCCEEDED local_cwd"] >= 1
