"""The programs of the built-in components, as the Python of any image runs them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from torchx_core.components.programs import booth, copy_file


def test_a_file_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a directory that is made."""
    (tmp_path / "from").write_bytes(b"\0bytes")
    monkeypatch.setattr(
        sys, "argv", ["-c", "--src", f"{tmp_path}/from", "--dst", f"file://{tmp_path}/made/to"]
    )
    copy_file.main()
    assert (tmp_path / "made" / "to").read_bytes() == b"\0bytes"


def test_a_url_needs_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says so, and where to install it."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setattr(sys, "argv", ["-c", "--src", "s3://bucket/key", "--dst", str(tmp_path / "to")])
    with pytest.raises(SystemExit, match="s3://bucket/key needs fsspec; install it where this runs"):
        copy_file.main()


@pytest.mark.parametrize("scheme", ["", "local://"])
def test_a_value_is_written_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """The report only where somebody takes one."""
    words = ["-c", "--x1", "1", "--x2", "3", "--trial_idx", "0", "--tracker_base", f"{scheme}{tmp_path}/base"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.delenv("TORCHX_REPORT_FILE", raising=False)
    booth.main()
    assert json.loads((tmp_path / "base" / "0").read_text()) == {"booth_eval": 0.0}
    monkeypatch.setenv("TORCHX_REPORT_FILE", str(tmp_path / "report"))
    booth.main()
    report = json.loads((tmp_path / "report").read_text())
    assert report.pop("time") <= time.time()
    assert report == {"type": "result", "value": {"booth_eval": 0.0}}
