from __future__ import annotations

from torchx_core.display.points import Points

WANTED = 1000


def test_a_long_curve_is_thinned_out_evenly_and_keeps_what_stands_out() -> None:
    """As many points of the beginning are left as of the end; the peak and the lowest are among them."""
    points = Points(WANTED)
    for step in range(100_000):
        points.add(step, {40_001: 9.0, 70_003: -9.0}.get(step, step % 7 / 10))
    xs = [point.x for point in points.points]
    assert len(xs) < 2 * WANTED
    assert {(40_001, 9.0), (70_003, -9.0)} < {(point.x, point.y) for point in points.points}
    assert xs[-1] == 99_999
    assert xs == sorted(xs)
    first_tenth = sum(x < 10_000 for x in xs)
    assert WANTED / 20 < first_tenth < WANTED / 5
    assert abs(sum(point.weight for point in points.points) - points.count) < 1


def test_without_steps_points_are_counted() -> None:
    """Also once they are fewer than were added."""
    points = Points(10)
    for _ in range(100):
        points.add(None, 1.0)
    assert points.points[-1].x == 99
    assert not points.steps


def test_values_that_are_no_numbers_are_gaps() -> None:
    """They go first: whatever is beside them stands out more."""
    points = Points(10)
    for step in range(40):
        points.add(step, float("nan") if step % 2 else 1.0)
    points.add(10**400, float("inf"))
    assert None in [point.y for point in points.points]
    assert points.points[-1].x == 40
