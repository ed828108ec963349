from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.errors import InvalidInputError
from torchx_core.specs import AppState, AppStatus, ReplicaStatus, RoleStatus, Usage

amounts = st.none() | st.integers(0, 2**62)
figures = st.none() | st.floats(0, 1e9)
usages = st.builds(
    Usage,
    cpu_percent=figures,
    cpu_s=figures,
    wall_s=figures,
    memory_bytes=amounts,
    memory_peak_bytes=amounts,
    memory_limit_bytes=amounts,
    processes=amounts,
    read_bytes=amounts,
    write_bytes=amounts,
    gpu_percent=figures,
    gpu_memory_bytes=amounts,
)


def _status(usage: Usage) -> AppStatus:
    replica = ReplicaStatus(id=0, state=AppState.SUCCEEDED, role="r", hostname="h", usage=usage)
    return AppStatus(AppState.SUCCEEDED, roles=[RoleStatus("r", [replica])])


@given(usages)
def test_json_round_trip(usage: Usage) -> None:
    """Usage survives JSON, alone and in a status."""
    assert Usage.from_json(json.loads(json.dumps(usage.to_json()))) == usage
    status = _status(usage)
    assert AppStatus.from_json(json.loads(json.dumps(status.to_json()))) == status


@given(usages)
def test_what_is_unknown_is_left_out(usage: Usage) -> None:
    """Zero is a figure; None is none."""
    assert None not in usage.to_json().values()
    assert Usage(cpu_s=0.0).to_json() == {"cpu_s": 0.0}


def test_a_status_of_the_release_before_has_none() -> None:
    """A document without it is read, and a newer one's further figures are ignored."""
    document = _status(Usage(cpu_s=1.0)).to_json()
    roles: list[dict[str, list[dict[str, object]]]] = document["roles"]  # type: ignore[assignment]
    roles[0]["replicas"][0]["usage"] = {"cpu_s": 1.0, "joules": 7}
    assert AppStatus.from_json(document) == _status(Usage(cpu_s=1.0))
    del roles[0]["replicas"][0]["usage"]
    assert AppStatus.from_json(document) == _status(Usage())


def test_a_figure_that_is_no_number_is_named() -> None:
    """The error says where it is."""
    document = _status(Usage()).to_json()
    roles: list[dict[str, list[dict[str, object]]]] = document["roles"]  # type: ignore[assignment]
    roles[0]["replicas"][0]["usage"] = {"memory_bytes": "much"}
    with pytest.raises(InvalidInputError, match=r"roles\[0\]\.replicas\[0\]\.usage\.memory_bytes.*'much'"):
        AppStatus.from_json(document)
