from __future__ import annotations

import io
import re
import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.config import Config, dump
from torchx_core.config.config import parse_file
from torchx_core.config.template import run_opts_of, section_lines
from torchx_core.errors import SchedulerError, UnknownSchedulerException
from torchx_core.specs import CfgVal, runopts

TEXT = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" ,;:='\"#%("), max_size=12) | (
    st.sampled_from(["None", "#FIXME", "%(x)s"])
)
TYPED = st.one_of(
    st.tuples(st.just(str), TEXT),
    st.tuples(st.just(int), st.integers()),
    st.tuples(st.just(float), st.floats(allow_nan=False)),
    st.tuples(st.just(bool), st.booleans()),
    st.tuples(st.just(list[str]), st.lists(TEXT, max_size=3)),
    st.tuples(st.just(dict[str, str]), st.dictionaries(TEXT, TEXT, max_size=3)),
)


def dumped(schedulers: list[str] | None = None, *, required_only: bool = False) -> str:
    """What `dump` writes."""
    out = io.StringIO()
    dump(out, schedulers, required_only=required_only)
    return out.getvalue()


def uncommented(text: str) -> str:
    """The template with every option set."""
    return re.sub(r"(?m)^#(?! )", "", text)


def read(text: str, opts: runopts) -> dict[str, CfgVal]:
    """What the text says about the scheduler slurm."""
    return Config(files=(parse_file(text, "f"),)).cfg("slurm", opts)


@given(st.lists(TYPED, max_size=4), st.text(max_size=20))
def test_a_template_reads_back_as_the_defaults(typed: list[tuple[object, CfgVal]], help_: str) -> None:
    """Whatever the types, the values and the help: nothing is set until the options are uncommented."""
    opts = runopts()
    for i, (type_, default) in enumerate(typed):
        opts.add(f"opt_{i}", type_=type_, help=help_, default=default)
    template = "\n".join(section_lines("slurm", opts, required_only=False))
    assert read(template, opts) == {}
    assert read(uncommented(template), opts) == opts.resolve({})


@pytest.mark.parametrize("default", ["a\nb", "\r", "\0", "\ud800"])
def test_what_no_file_can_hold_stays_a_comment(default: str) -> None:
    """The default is shown, and the file still reads."""
    opts = runopts()
    opts.add("text", type_=str, help="one", default=default)
    template = "\n".join(section_lines("slurm", opts, required_only=False))
    assert f"# default of text: {default!r}" in template.splitlines()
    assert read(uncommented(template), opts) == {}


def test_what_a_template_looks_like() -> None:
    """Each option with its type, its help and its default."""
    opts = runopts()
    opts.add("queue", type_=str, help="where to wait", required=True)
    opts.add("log_dir", type_=str, help="logs\n\ngo there")
    opts.add("tags", type_=list[str], help="labels", default=["a", "5%"])
    assert list(section_lines("slurm", opts, required_only=False)) == [
        "",
        "[slurm]",
        "",
        "# (str, required) where to wait",
        "#queue = #FIXME",
        "",
        "# (str) logs",
        "#",
        "# go there",
        "#log_dir = None",
        "",
        "# (list[str]) labels",
        "#tags = a,5%%",
    ]
    assert list(section_lines("slurm", opts, required_only=True))[3:] == [
        "# (str, required) where to wait",
        "#queue = #FIXME",
    ]


def test_dump_writes_the_schedulers_asked_for() -> None:
    """In that order."""
    sections = parse_file(dumped(["local_dir", "local_cwd"]), "f").sections
    assert list(sections) == ["local_dir", "local_cwd"]


def test_dump_writes_all_schedulers() -> None:
    """Every scheduler that can be loaded, with options that read back as its defaults."""
    file = parse_file(uncommented(dumped()), "f")
    assert {"local_cwd", "local_dir"} <= file.sections.keys()
    for name in file.sections:
        opts = run_opts_of(name)
        defaults = {key: option.default for key, option in opts if not option.is_required}
        assert Config(files=(file,)).cfg(name, opts) == defaults


def test_dump_refuses_an_unknown_scheduler() -> None:
    """With the closest."""
    with pytest.raises(UnknownSchedulerException, match="did you mean 'local_cwd'"):
        dumped(["local_cdw"])


def test_a_scheduler_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Becomes a comment among all, and an error when it was asked for."""
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torchx_core.schedulers]\nbroken = txc_none:create\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    invalidate_caches()
    assert "\n# scheduler 'broken' cannot be loaded from txc_none:create: No module" in dumped()
    with pytest.raises(SchedulerError, match="scheduler 'broken' cannot be loaded"):
        dumped(["broken"])
