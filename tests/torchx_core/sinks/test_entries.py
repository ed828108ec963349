"""What sinks are given of a report."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchx_core.sinks.entries import Entries, Outcome, Point

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def metric(name: str, value: float, step: int | None) -> dict[str, object]:
    """Return a report as `torchx_core.runtime` makes it."""
    return {"type": "metric", "name": name, "value": value, "step": step}


def seen(entries: Entries, report: dict[str, object]) -> list[tuple[str, float, int]]:
    """Return the numbers that a sink gets."""
    return [(e.name, e.value, e.step) for e in entries.of(report) if isinstance(e, Point)]


def test_a_metric_has_its_step() -> None:
    """Also one that is 0 or below it."""
    entries = Entries()
    assert [seen(entries, metric("loss", 0.5, step)) for step in (7, 0, -1)] == [
        [("loss", 0.5, 7)],
        [("loss", 0.5, 0)],
        [("loss", 0.5, -1)],
    ]


def test_without_steps_values_are_counted() -> None:
    """Each metric by itself, and progress too."""
    entries = Entries()
    reports = [metric("a", 1, None), metric("b", 2, None), metric("a", 3, None)]
    progress: dict[str, object] = {"type": "progress", "fraction": 0.5, "message": "half"}
    assert [*seen(entries, reports[0]), *seen(entries, reports[1]), *seen(entries, reports[2])] == [
        ("a", 1, 0),
        ("b", 2, 0),
        ("a", 3, 1),
    ]
    assert seen(entries, progress) + seen(entries, progress) == [("progress", 0.5, 0), ("progress", 0.5, 1)]


def test_no_step_is_longer_than_clients_take() -> None:
    """They keep 64 bits."""
    assert seen(Entries(), metric("a", 1, 1 << 80)) == [("a", 1, (1 << 63) - 1)]


def test_a_result_is_there_whole_and_as_its_numbers() -> None:
    """Truth values, texts and lists are no curve."""
    value = {"acc": 0.9, "deep": {"n": 3, "ok": True}, "text": "1", "list": [1, 2], "huge": 10**400}
    entries = Entries()
    report: dict[str, object] = {"type": "result", "value": value}
    assert entries.of(report)[0] == Outcome(value)
    assert seen(entries, report) == [("result/acc", 0.9, 1), ("result/deep/n", 3.0, 1)]


def test_a_link_is_nothing_to_a_sink() -> None:
    """It is a sink that reports them."""
    assert Entries().of({"type": "link", "name": "mlflow", "target": "http://x"}) == []


@given(JSON)
def test_any_result_can_be_taken(value: object) -> None:
    """Whatever JSON holds."""
    assert Entries().of({"type": "result", "value": value})[0] == Outcome(value) or value != value  # noqa: PLR0124
