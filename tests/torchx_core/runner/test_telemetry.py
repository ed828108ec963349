"""What OpenTelemetry is told, seen by its own exporters in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torchx_core import AppDef, Role, get_runner
from torchx_core.runner import telemetry

PROGRAM = """
import json, sys
from contextlib import suppress
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from torchx_core import AppDef, Role, get_runner

spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))

def app(script):
    return AppDef("app", [Role("main", image="", entrypoint="sh", args=["-c", script])])

with get_runner("s", state_dir=sys.argv[1]) as runner:
    with trace.get_tracer("test").start_as_current_span("task"):
        one = runner.run(
            app("echo $TRACEPARENT; seq 2; exit 7"), "local_cwd", {"lease_s": 600}, app_id="one"
        )
        shown = [line.text for batch in runner.follow(one) for line in batch.lines()]
    for _ in runner.follow(one, renew=False):
        pass
    two = runner.run(app("echo up; sleep 600"), "local_cwd", app_id="two")
    for batch in runner.follow(two):
        if [*batch.lines()]:
            runner.cancel(two, grace_s=0, reason="enough")
            break
    for _ in runner.follow(two, batch.cursor):
        pass
    with suppress(Exception):
        runner.run(app("true"), "local_cwd", app_id="two")

points = {}
for resource in reader.get_metrics_data().resource_metrics:
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            for point in metric.data.data_points:
                labels = sorted(value for key, value in point.attributes.items() if key != "torchx.scheduler")
                points[" ".join([metric.name, *labels])] = getattr(point, "value", None) or point.count
finished = [json.loads(span.to_json()) for span in spans.get_finished_spans()]
json.dump({"spans": finished, "points": points, "shown": shown}, sys.stdout)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All that the program's exporters got."""
    pytest.importorskip("opentelemetry.sdk")
    state_dir = tmp_path_factory.mktemp("state")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(state_dir)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def spans(told: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the spans of that name, in their order."""
    return [span for span in told["spans"] if span["name"] == name]


def test_submit_and_follow_are_spans_of_whoever_calls(told: dict[str, Any]) -> None:
    """So an engine's trace has them below its task."""
    [task] = spans(told, "task")
    submit, follow = spans(told, "torchx.submit")[0], spans(told, "torchx.follow")[0]
    assert submit["parent_id"] == follow["parent_id"] == task["context"]["span_id"]
    assert submit["attributes"] == {
        "torchx.scheduler": "local_cwd",
        "torchx.session": "s",
        "torchx.handle": "local_cwd://s/one",
    }


def test_an_app_learns_what_its_spans_belong_to(told: dict[str, Any]) -> None:
    """To the span that is current where it is submitted; as OpenTelemetry writes it in an environment."""
    [task] = spans(told, "task")
    ids = [int(task["context"][name], 16) for name in ("trace_id", "span_id")]
    assert told["shown"][0].startswith(f"00-{ids[0]:032x}-{ids[1]:016x}-")


def test_the_span_records_how_the_app_ended(told: dict[str, Any]) -> None:
    """Which replica failed, and how; one who only looks is no span."""
    one, _left, two = spans(told, "torchx.follow")
    assert one["attributes"] == {
        "torchx.scheduler": "local_cwd",
        "torchx.session": "s",
        "torchx.handle": "local_cwd://s/one",
        "torchx.lines": 3,
        "torchx.state": "FAILED",
        "torchx.failed.role": "main",
        "torchx.failed.replica": 0,
        "torchx.failed.exit_code": 7,
    }
    assert one["status"]["status_code"] == "ERROR"
    assert two["attributes"]["torchx.state"] == "CANCELLED"
    assert two["status"]["status_code"] == "UNSET"


def test_a_cancel_is_a_span(told: dict[str, Any]) -> None:
    """With its reason."""
    [cancel] = spans(told, "torchx.cancel")
    assert cancel["attributes"]["torchx.cancel.reason"] == "enough"
    assert cancel["attributes"]["torchx.cancel.outcome"] == "REQUESTED"


def test_a_submit_that_fails_is_told(told: dict[str, Any]) -> None:
    """With its error."""
    last = spans(told, "torchx.submit")[-1]
    assert last["status"]["status_code"] == "ERROR"
    assert "torchx.handle" not in last["attributes"]
    assert last["events"][0]["attributes"]["exception.type"].endswith("AppIdConflictError")


def test_all_is_counted(told: dict[str, Any]) -> None:
    """By scheduler, and by what became of it."""
    assert told["points"] == {
        "torchx.submits ok": 2,
        "torchx.submits AppIdConflictError": 1,
        "torchx.submit.duration": 3,
        "torchx.cancels REQUESTED": 1,
        "torchx.ends FAILED": 1,
        "torchx.ends CANCELLED": 1,
        "torchx.end.latency": 2,
        "torchx.lines": 4,
        "torchx.renewals": 1,
    }


def test_nothing_is_imported_for_it(tmp_path: Path) -> None:
    """A process without OpenTelemetry stays one."""
    program = (
        "import sys; from torchx_core import AppDef, Role, get_runner; runner = get_runner();"
        "runner.wait(runner.run(AppDef('a', [Role('r', '', entrypoint='true')]), 'local_cwd'));"
        "sys.exit('opentelemetry' in sys.modules)"
    )
    env = {**os.environ, "TORCHX_STATE_DIR": str(tmp_path / "state")}
    subprocess.run([sys.executable, "-c", program], env=env, check=True)


def test_a_recorder_that_fails_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was submitted stays so, and is followed to its end."""

    class Broken:
        def count(self, name: str, *_: object) -> None:
            raise OSError(name)

        measure = count

    monkeypatch.setattr(telemetry, "_recorders", [Broken()])
    app = AppDef("a", [Role("r", "", entrypoint="echo", args=["there"])])
    with get_runner("s", state_dir=str(tmp_path / "state")) as runner:
        assert [
            line.text for batch in runner.follow(runner.run(app, "local_cwd")) for line in batch.lines()
        ] == ["there"]
    assert "a metric was not recorded" in caplog.text


def test_who_asks_for_it_has_it_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What becomes of an app is in records whose fields a collector finds without reading text."""
    app = AppDef("a", [Role("r", "", entrypoint="sh", args=["-c", "exit 3"])])
    with get_runner("s", state_dir=str(tmp_path / "state")) as runner:
        with caplog.at_level("DEBUG", "torchx_core.apps"):
            handle = runner.run(app, "local_cwd", app_id="x")
            for _ in runner.follow(handle):
                pass
            runner.cancel(handle, reason="late")
        for _ in runner.follow(handle):
            pass
    told = [record for record in caplog.records if record.name == "torchx_core.apps"]
    assert [record.getMessage() for record in told] == [
        f"{what} {handle}" for what in ("submitted", "ended", "cancel")
    ]
    assert {record.__dict__["torchx_session"] for record in told} == {"s"}
    assert told[1].__dict__["torchx_state"] == "FAILED"
    assert told[1].__dict__["torchx_failed_exit_code"] == 3
    assert told[2].__dict__["torchx_cancel_outcome"] == "ALREADY_TERMINAL"
