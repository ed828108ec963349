from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cli_apps import Cli, ended, submitted

from torchx_core.testing import Exit, Hold, Print, wait_until


def test_out_writes_one_file(cli: Cli) -> None:
    """The page as it is now: with what was run and what it has printed; its place is said."""
    handle = submitted(Print("hello there"), Exit(3))
    ended(handle)
    done = cli("page", handle, "--out", "page.html")
    assert (done.code, done.out.strip()) == (0, str(Path("page.html").absolute()))
    page = Path("page.html").read_text()
    assert "hello there" in page
    assert "failed with exit code 3" in page


def test_out_writes_to_stdout(cli: Cli) -> None:
    """For pipes."""
    handle = submitted(Print("hello there"))
    ended(handle)
    assert cli("page", handle, "--out", "-").out.startswith("<!doctype html>")


def test_a_file_that_cannot_be_written_is_said(cli: Cli) -> None:
    """In a line, with its name."""
    handle = submitted(Exit(0))
    done = cli("page", handle, "--out", "no/such/folder/page.html")
    assert done.code == 2
    assert "no/such/folder/page.html" in done.err


def test_an_app_that_is_not_there_is_said(cli: Cli) -> None:
    """Before anything is served."""
    assert cli("page", "local_cwd://torchx/none").code == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_serves_until_it_is_told_to_end(number: signal.Signals) -> None:
    """It says where; the app goes on; the exit code says that all is well."""
    handle = submitted(Print("hello"), Hold())
    command = [sys.executable, "-m", "torchx_core", "page", handle, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        where = json.loads(program.stdout.readline())
        assert where["url"].startswith("http://127.0.0.1:")
        with urllib.request.urlopen(where["url"], timeout=240) as answer:  # noqa: S310  # our own
            assert handle in answer.read().decode()
        program.send_signal(number)
        assert program.wait(240) == 0
        assert program.stderr is not None
        assert program.stderr.read() == ""
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(where["url"], timeout=240)  # noqa: S310  # our own


def test_open_tells_the_browser_no_secret_that_others_can_list(tmp_path: Path) -> None:
    """Its command line names a file that is the user's alone, which leads to the address."""
    handle = submitted(Hold())
    browser = tmp_path / "browser"
    browser.write_text(
        '#!/bin/sh\necho "$1" > "$SEEN.part"\ncat "${1#file://}" >> "$SEEN.part"\nmv "$SEEN.part" "$SEEN"\n'
    )
    browser.chmod(0o700)
    seen = tmp_path / "seen"
    env = {**os.environ, "BROWSER": str(browser), "SEEN": str(seen)}
    command = [sys.executable, "-m", "torchx_core", "page", handle, "--open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        wait_until(seen.exists, 240)
        told, html = seen.read_text().split("\n", 1)
        token = url.rstrip("/").rpartition("/")[2]
        assert token not in told
        assert f'url={url}"' in html
        assert Path(told.removeprefix("file://")).parent.stat().st_mode & 0o077 == 0
        program.terminate()
        program.wait(240)
    assert not Path(told.removeprefix("file://")).exists()
