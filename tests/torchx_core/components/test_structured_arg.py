"""Arguments that say two things, as the installed TorchX reads them."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import pytest

from torchx_core.components import structured_arg as ours
from torchx_core.components.dist import parse_nnodes

theirs: Any = import_module("torchx.components.structured_arg")


@pytest.mark.parametrize("name", ["/", "foo/", "/bar", "foo/bar", "foo", "a/b/c", ""])
@pytest.mark.parametrize("program", [{"m": "a.b.c"}, {"script": "d/e.py"}, {}, {"m": "a", "script": "b"}])
def test_names(name: str, program: dict[str, str]) -> None:
    """Of an experiment and a run; exactly one program must be given."""
    if len(program) != 1:
        for module in (ours, theirs):
            with pytest.raises(ValueError, match="script"):
                module.StructuredNameArgument.parse_from(name, **program)
        return
    told = ours.StructuredNameArgument.parse_from(name, **program)
    expected = theirs.StructuredNameArgument.parse_from(name, **program)
    assert (told.experiment_name, told.run_name, str(told)) == (
        expected.experiment_name,
        expected.run_name,
        str(expected),
    )


@pytest.mark.parametrize("j", ["2", "2x4", "2x8", "2x2x2", "x"])
@pytest.mark.parametrize("host", ["aws_p4d.24xlarge", "aws_t3.medium"])
def test_nodes_and_processes(j: str, host: str) -> None:
    """A number alone is the nodes; another number of processes than the host has GPUs is warned of."""

    def told(module: Any) -> object:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                return str(module.StructuredJArgument.parse_from(host, j)), len(caught)
            except ValueError:
                return ValueError

    assert told(ours) == told(theirs)


@pytest.mark.parametrize("j", ["4", "2x4", "1:2x4", "2:2x4"])
def test_nnodes(j: str) -> None:
    """What TorchX's older components are written with; equal bounds are one number here."""
    *numbers, text = parse_nnodes(j)
    *expected, theirs_text = import_module("torchx.components.dist").parse_nnodes(j)
    assert numbers == expected
    assert text == ("2" if theirs_text == "2:2" else theirs_text)
