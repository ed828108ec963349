"""What a user sees of an app's page: looked at with a real browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from browser import Page, browse, missing
from local_apps import app_of

from torchx_core import AppDef, Role, Runner
from torchx_core.page import AppPage, PageServer
from torchx_core.testing import wait_until

pytestmark = [
    pytest.mark.deployment,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {missing()}"),
]

PICTURES = Path(os.environ.get("TORCHX_TEST_PICTURES", "build/pictures")).resolve()
"""Screenshots are kept there, for people to look at."""

HOSTILE = (
    "<img src=x onerror=\"document.title='pwned'\"></script><script>document.title='pwned'</script>__proto__"
)
HEAD = """
import json, os, sys, time
folder, replica = sys.argv[1], int(sys.argv[2])
reports = open(os.environ["TORCHX_REPORT_FILE"], "a", buffering=1)
def report(**fields): reports.write(json.dumps(fields) + "\\n")
def metric(name, value, step): report(type="metric", name=name, value=value, step=step)
def until(name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.01)
"""
TRAIN = """
import math
for step in range(300):
    metric("loss", 2.5 * math.exp(-step / 60) + replica / 20, step)
    metric("accuracy", 1 - math.exp(-step / 70), step)
    print(f"INFO step {step} of 300", flush=True)
    if step % 40 == 7:
        print(f"WARNING the gradient's norm is large: {step}", flush=True)
report(type="progress", fraction=0.6, message="epoch 6 of 10")
until("go")
if replica == 1:
    print("no such file: data/7.bin", flush=True)
    sys.exit(3)
time.sleep(600)
"""
LONG = """
for i in range(0, 100_000, 1000):
    print("\\n".join(f"line {n} of many, with some words in it" for n in range(i, i + 1000)), flush=True)
print("ERROR the very last line", flush=True)
for step in range(100_000):
    metric("loss", 99.0 if step == 54321 else step % 10, step)
"""
NASTY = f"""
hostile = {HOSTILE!r}
print(hostile, flush=True)
print("ERROR " + hostile, flush=True)
metric(hostile, 1.0, 1)
metric("__proto__", 2.0, 10**30)
metric("constructor", float("1e308"), 1)
metric("nan", float("nan"), 2)
report(type="progress", fraction=0.5, message=hostile)
report(type="result", value={{hostile: hostile}})
print(chr(0x202E) + "turned around" + chr(0), flush=True)
sys.exit(9)
"""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """Return a browser, and see to it that it has nothing to say against the page."""
    with browse(tmp_path / "chromium") as page:
        page.resize(1280)
        yield page
        assert page.complaints() == []


def _run(runner: Runner, program: str, folder: Path, replicas: int = 1) -> str:
    words = ("-c", HEAD + program, str(folder), "${replica_id}")
    app = AppDef("digits", app_of(sys.executable, *words, num_replicas=replicas).roles)
    app.roles[0].env = {"HF_TOKEN": "hf_secret", "EPOCHS": "10"}
    return runner.run(app, "local_cwd")


def _file(runner: Runner, handle: str, folder: Path) -> str:
    """Return the address of the page as one file, once the app has ended."""
    runner.wait(handle, timeout_s=240)
    file = folder / "page.html"
    file.write_text(AppPage(runner, handle).html())
    return file.as_uri()


def _type(page: Page, field: str, text: str) -> None:
    page.run(
        "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('input'));",
        field,
        text,
    )


def _choose(page: Page, field: str, text: str) -> None:
    page.run(
        "const field = document.getElementById(arguments[0]);"
        "field.value = [...field.options].find((each) => each.text === arguments[1]).value;"
        "field.dispatchEvent(new Event('change'));",
        field,
        text,
    )


def _count(page: Page) -> str:
    return str(page.run("return document.getElementById('log-count').textContent"))


def _picture(page: Page, name: str) -> None:
    """Take pictures of all of the page: wide and narrow, light and dark."""
    for width in (1280, 420):
        for dark in (False, True):
            page.resize(width, dark=dark)
            height = page.run("return document.documentElement.scrollHeight")
            page.resize(width, min(4000, height), dark=dark)
            wait_until(lambda: page.run("return !document.hidden"), 60)
            assert page.run("return document.documentElement.scrollWidth") <= width
            page.picture(PICTURES / f"page-{name}-{width}-{'dark' if dark else 'light'}.png")
    page.resize(1280)


def test_it_lives_while_the_app_runs(runner: Runner, page: Page, tmp_path: Path) -> None:
    """Lines, curves and states come by themselves; a reload has each line once; a failure leads the page."""
    handle = _run(runner, TRAIN, tmp_path, replicas=2)
    with PageServer(AppPage(runner, handle)) as server:
        page.open(server.url)
        page.wait_for("RUNNING", "live", "60 %", "loss", "accuracy", "step 299")
        assert "hf_secret" not in page.driver.page_source
        wait_until(lambda: _count(page) == "616 lines", 240)
        _picture(page, "live")
        page.driver.refresh()
        wait_until(lambda: _count(page) == "616 lines", 240)
        (tmp_path / "go").touch()
        shown = page.wait_for("Replica r/1 failed with exit code 3", "no such file: data/7.bin")
        wait_until(lambda: _count(page) == "617 lines", 240)
        assert shown.index("failed with exit code 3") < shown.index("Metrics")
        assert page.driver.title.startswith("FAILED")
        _picture(page, "failed")
    page.wait_for("Last lines of r/1")
    assert page.run("return document.getElementById('live').hidden")


def test_a_hidden_page_lets_go_and_goes_on(runner: Runner, page: Page, tmp_path: Path) -> None:
    """It has no stream while nobody sees it: browsers have six for one server. What it missed comes then."""
    handle = _run(runner, "until('go')\nprint('after', flush=True)\nuntil('end')", tmp_path)
    with PageServer(AppPage(runner, handle)) as server:
        page.open(server.url)
        page.wait_for("live")
        first = page.driver.current_window_handle
        page.driver.switch_to.new_window("tab")
        (tmp_path / "go").touch()
        page.driver.switch_to.window(first)
        page.wait_for("after")
        assert _count(page) == "1 line"
        (tmp_path / "end").touch()
        page.wait_for("SUCCEEDED")


def test_a_hundred_thousand_lines_and_points(runner: Runner, page: Page, tmp_path: Path) -> None:
    """They open at once, few are elements, each can be reached, found and filtered; a lone peak is drawn."""
    address = _file(runner, _run(runner, LONG, tmp_path), tmp_path)
    begun = monotonic()
    page.open(address)
    page.wait_for("the very last line")
    assert monotonic() - begun < 60  # a second on an idle host
    assert _count(page) == "100,001 lines"
    assert page.run("return document.querySelectorAll('.line').length") < 200
    page.run("document.getElementById('log-list').scrollTop = 0")
    page.wait_for("line 0 of many")
    _type(page, "log-search", "LINE 4242")
    wait_until(lambda: "11 with a match" in _count(page), 60)
    page.wait_for("line 4242 of many")
    page.run("document.getElementById('log-only').click()")
    assert _count(page) == "11 of 100,001 lines · 11 with a match"
    _type(page, "log-search", "")
    _choose(page, "log-level", "Errors")
    wait_until(lambda: _count(page) == "1 of 100,001 lines", 60)
    assert page.run("return Math.max(...lookAt('loss').series()[0].y)") == 99
    _picture(page, "long")


def test_lines_of_one_replica_and_a_line_in_full(runner: Runner, page: Page, tmp_path: Path) -> None:
    """By a choice, or by a click on its name; a click on a line shows all of it, and where it is from."""
    program = "print(f'I am {replica} ' + 'x' * 500, flush=True)\nprint('oops', file=sys.stderr, flush=True)"
    page.open(_file(runner, _run(runner, program, tmp_path, replicas=3), tmp_path))
    page.wait_for("I am 0", "I am 1", "I am 2")
    _choose(page, "log-replica", "r/1")
    wait_until(lambda: _count(page) == "2 of 6 lines", 60)
    page.click("r/2")
    assert "I am 2" in page.run("return document.getElementById('log-list').textContent")
    assert "I am 1" not in page.run("return document.getElementById('log-list').textContent")
    page.run(
        "[...document.querySelectorAll('.line')].find((each) => each.textContent.includes('oops')).click()"
    )
    page.wait_for("r/2 · attempt 1 · stderr")


def test_hovering_and_the_arrow_keys_tell_values(runner: Runner, page: Page, tmp_path: Path) -> None:
    """With the pointer or without one; in a legend that can be read aloud."""
    program = "for step in range(11): metric('loss', step * step, step)"
    page.open(_file(runner, _run(runner, program, tmp_path, replicas=2), tmp_path))
    page.wait_for("loss")
    page.run("lookAt('loss').look(lookAt('loss').valueAt(lookAt('loss').placeX(3)))")
    page.wait_for("step 3")
    assert "r/0 9" in page.run("return lookAt('loss').canvas.getAttribute('aria-label')")
    page.run(
        "const { canvas } = lookAt('loss'); canvas.focus();"
        "canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }))"
    )
    page.wait_for("step 4")
    page.run("document.getElementById('metrics-log').click()")
    page.picture(PICTURES / "page-hover.png")


def test_nothing_that_an_app_says_is_html(runner: Runner, page: Page, tmp_path: Path) -> None:
    """Lines, metrics, messages, results, names: they are shown as they were written, and run nothing."""
    handle = _run(runner, NASTY, tmp_path)
    address = _file(runner, handle, tmp_path)
    page.open(address)
    page.wait_for("failed with exit code 9", "<img src=x onerror=", "__proto__")
    _check_harmless(page)
    _picture(page, "hostile")
    with PageServer(AppPage(runner, handle)) as server:
        page.open(server.url)
        page.wait_for("failed with exit code 9", "<img src=x onerror=", "turned around")
        _check_harmless(page)


def test_an_app_whose_description_is_hostile(runner: Runner, page: Page, tmp_path: Path) -> None:
    """Its name, its words, its variables, its metadata."""
    role = Role(
        "r",
        image="",
        entrypoint="true",
        args=[HOSTILE],
        env={"X": HOSTILE},
        metadata={HOSTILE: HOSTILE},
    )
    app = AppDef("app", [role], {HOSTILE: HOSTILE})
    page.open(_file(runner, runner.run(app, "local_cwd"), tmp_path))
    page.wait_for("SUCCEEDED", "<img src=x")
    _check_harmless(page)


def _check_harmless(page: Page) -> None:
    assert "pwned" not in page.driver.title
    assert page.run("return document.images.length") == 0
    assert page.run("return document.scripts.length") == 8
    assert page.run("return ({}).polluted === undefined && typeof {}.toString === 'function'")
