from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import pytest

from torchx_core.display.curves import MAX_CURVES, MAX_PICTURES, MAX_POINTS, Curves, data_uri, draw
from torchx_core.schedulers import Metric

SVG = "{http://www.w3.org/2000/svg}"


def _metric(value: float, step: int | None = None, *, name: str = "loss", replica: int = 0) -> Metric:
    return Metric(role="r", replica=replica, attempt=0, name=name, value=value, step=step, time=0.0)


def _points(svg: str) -> list[list[tuple[float, float]]]:
    """Return each curve's points, where they are in the picture."""
    lines = ET.fromstring(svg).iter(f"{SVG}polyline")  # noqa: S314  (of our own making)
    texts = [line.attrib["points"].split() for line in lines]
    return [[(float(x), float(y)) for x, _, y in (text.partition(",") for text in curve)] for curve in texts]


def _texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314  (of our own making)


def test_a_metric_is_a_picture_with_a_curve_for_each_replica() -> None:
    """It has a title, names, and numbers at the axes; what falls is drawn as falling."""
    curves = Curves()
    for step in range(4):
        curves.take(_metric(1.0 - step / 4, step))
        curves.take(_metric(0.5, step, replica=1))
    assert curves
    svg = curves.pictures()["loss"]
    [falling, level] = _points(svg)
    assert [y for _, y in falling] == sorted(y for _, y in falling)
    assert len({y for _, y in level}) == 1
    assert {"loss", "r/0", "r/1", "0", "3", "0.2", "1"} <= set(_texts(svg))
    assert curves.latest() == [("loss", "r/0", 3.0, 0.25), ("loss", "r/1", 3.0, 0.5)]


def test_without_steps_values_are_numbered() -> None:
    """In the order in which they were reported, for each replica."""
    curves = Curves()
    for value in (3.0, 2.0, 1.0):
        curves.take(_metric(value))
    assert curves.latest() == [("loss", "r/0", 2.0, 1.0)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308])
def test_what_no_axis_can_show_is_left_out(value: float) -> None:
    """A loss that has diverged must not take the picture of what came before with it."""
    curves = Curves()
    curves.take(_metric(value))
    assert not curves
    curves.take(_metric(1.0, 1))
    curves.take(_metric(value, 2))
    assert curves.latest() == [("loss", "r/0", 1.0, 1.0)]


@pytest.mark.parametrize(
    "points",
    [
        [(0.0, 0.0)],
        [(5.0, 1e-30)],
        [(1.0, -7.0), (2.0, -7.0)],
        [(0.0, 1e99), (1e12, -1e99)],
        [(0.0, 1.0), (1.0, 1.0000000001)],
    ],
)
def test_every_point_is_inside_the_picture(points: list[tuple[float, float]]) -> None:
    """Whatever the values: one of them, all equal, huge, tiny."""
    [curve] = _points(draw("x", {"r/0": points}))
    assert len(curve) == len(points)
    assert all(0 <= x <= 640 and 0 <= y <= 280 for x, y in curve)


def test_names_cannot_break_out_of_the_picture() -> None:
    """A metric's name is anything."""
    assert "<script>&" in _texts(draw("<script>&", {'"r"/0': [(0.0, 0.0)]}))


def test_what_is_kept_and_drawn_is_bounded() -> None:
    """A run of weeks with thousands of metrics is still a picture that a browser shows; its end is exact."""
    curves = Curves()
    for step in range(100_000):
        curves.take(_metric(float(step), step))
    for number in range(100):
        curves.take(_metric(1.0, name=f"m{number}"))
        curves.take(_metric(1.0, name="a", replica=number))
    pictures = curves.pictures()
    assert len(pictures) == MAX_PICTURES
    assert len(_points(pictures["a"])) == MAX_CURVES
    [curve] = _points(curves.pictures()["loss"])
    assert MAX_POINTS <= len(curve) <= 2 * MAX_POINTS
    assert ("loss", "r/0", 99_999.0, 99_999.0) in curves.latest()


def test_a_picture_can_be_its_own_address() -> None:
    """In base 64, which every page takes."""
    assert data_uri("<svg/>") == "data:image/svg+xml;base64,PHN2Zy8+"
