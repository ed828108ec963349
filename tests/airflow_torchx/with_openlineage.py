"""What OpenLineage is told of a task's app; run by `test_lineage`, where the provider is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow_dags import Dags

from torchx_core.specs import AppDef, BindMount, Role

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]


def told(path: Path, kind: str) -> dict[str, Any]:
    """Return the event of that kind of the task's run."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    [event] = [e for e in events if e["eventType"] == kind and e["job"]["name"] == "d.t"]
    return dict(event)


def named(datasets: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Return namespaces and names."""
    return [(dataset["namespace"], dataset["name"]) for dataset in datasets]


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of all events."""
    path = tmp_path / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(path), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    yield path
    plugin: Any = import_module("airflow.providers.openlineage.plugins.listener")
    plugin.get_openlineage_listener().before_stopping(None)  # ends its processes


DAG = """
        outputs = ["s3://ann:hunter22@models/run-7?key=hunter22", "no address"]
        result = {{"inputs": "gs://raw/day=1/", "outputs": outputs}}
        program = f"from torchx_core.runtime import report_result; report_result({{result!r}}); {last}"
        role = Role("r", image="", entrypoint=sys.executable, args=["-c", program])
        TorchXRunOperator(task_id="t", app=AppDef("a", [role]), retries=0)
"""


@pytest.mark.parametrize(("last", "kind"), [("pass", "COMPLETE"), ("1 / 0", "FAIL")])
def test_an_app_tells_what_it_has_read_and_written(dags: Dags, events: Path, last: str, kind: str) -> None:
    """In its result; and its handle; after a failure, too."""
    outcome = dags.run(DAG.format(last=last))
    event = told(events, kind)
    assert named(event["inputs"]) == [("gs://raw", "day=1/")]
    assert named(event["outputs"]) == [("s3://models", "run-7")]
    app: Any = outcome.xcoms["t", "app"]
    query = event["run"]["facets"]["externalQuery"]
    assert (query["externalQueryId"], query["source"]) == (app["handle"], "local_cwd")
    assert "hunter22" not in json.dumps([event["inputs"], event["outputs"]])


def test_what_a_scheduler_mounts_is_read_or_written() -> None:
    """Mounts that it leaves out are neither."""
    from airflow_torchx._lineage import describe_lineage

    role = Role("r", image="", entrypoint="true")
    role.mounts = [BindMount("/data", "/in", read_only=True), BindMount("/runs", "/out")]
    seen: list[Any] = [
        describe_lineage(AppDef("a", [role]), handle, None)
        for handle in ("local_docker://torchx/a", "local_cwd://torchx/a")
    ]
    assert [[each.name for each in one.inputs] for one in seen] == [["/data"], []]
    assert [[each.name for each in one.outputs] for one in seen] == [["/runs"], []]
