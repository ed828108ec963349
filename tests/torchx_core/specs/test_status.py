from __future__ import annotations

import json
import pickle
from dataclasses import fields
from importlib import import_module

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.errors import InvalidInputError
from torchx_core.specs import NONE, AppState, AppStatus, AppStatusError, ReplicaStatus, RoleStatus

texts = st.text(max_size=10)
times = st.none() | st.floats(allow_nan=False, allow_infinity=False)
states = st.sampled_from(AppState)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda x: st.lists(x) | st.dictionaries(texts, x)
)
replicas = st.builds(
    ReplicaStatus,
    id=st.integers(0, 99),
    state=states,
    role=texts,
    hostname=texts,
    structured_error_msg=texts,
    hostaddr=texts,
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.just("SIGKILL"),
    attempt=st.integers(0, 9),
    started_at=times,
    ended_at=times,
    msg=texts,
    log_dir=texts,
)
statuses = st.builds(
    AppStatus,
    state=states,
    num_restarts=st.integers(-1, 9),
    msg=texts,
    structured_error_msg=texts,
    ui_url=st.none() | texts,
    roles=st.lists(st.builds(RoleStatus, texts, st.lists(replicas, max_size=2)), max_size=2),
    result=plain,
)


@given(statuses)
def test_json_round_trip(status: AppStatus) -> None:
    """A status survives JSON whole."""
    assert AppStatus.from_json(json.loads(json.dumps(status.to_json()))) == status


@given(statuses)
def test_every_status_can_be_shown(status: AppStatus) -> None:
    """Formatting, the summary and repr never fail, whatever the texts hold."""
    assert status.format().startswith(f"AppStatus:\n    State: {status.state}\n")
    assert bool(status.failure_summary()) == (status.state is not AppState.SUCCEEDED)
    assert yaml.safe_load(repr(status))["AppStatus"]["msg"] == status.msg


def test_fields() -> None:
    """TorchX's fields come first and in its order, so that positional arguments mean the same."""
    assert [f.name for f in fields(AppStatus)][:6] == [
        "state",
        "num_restarts",
        "msg",
        "structured_error_msg",
        "ui_url",
        "roles",
    ]
    assert [f.name for f in fields(ReplicaStatus)][:6] == [
        "id",
        "state",
        "role",
        "hostname",
        "structured_error_msg",
        "hostaddr",
    ]


def test_hostaddr_defaults_to_the_hostname() -> None:
    """Where nobody says otherwise, the name is the address."""
    assert ReplicaStatus(0, AppState.RUNNING, "r", "h").hostaddr == "h"
    assert ReplicaStatus(0, AppState.RUNNING, "r", "h", hostaddr="10.0.0.1").hostaddr == "10.0.0.1"


def test_to_json_of_some_roles() -> None:
    """A filter leaves out the other roles."""
    status = AppStatus(AppState.RUNNING, roles=[RoleStatus("a", []), RoleStatus("b", [])])
    assert status.to_json(filter_roles=["b"])["roles"] == [{"role": "b", "replicas": []}]


def test_from_json_of_an_older_or_newer_version() -> None:
    """Missing fields have their defaults, unknown ones are ignored."""
    data = {
        "state": "FAILED",
        "new": 1,
        "roles": [{"role": "r", "replicas": [{"id": 0, "role": "r", "state": "FAILED"}]}],
    }
    replica = ReplicaStatus(0, AppState.FAILED, "r", "")
    assert AppStatus.from_json(data) == AppStatus(AppState.FAILED, roles=[RoleStatus("r", [replica])])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"msg": "x"}, "not an app status: state: must be one of UNSUBMITTED, .*: None"),
        ({"state": 5}, "state: must be one of"),
        ({"state": "DONE"}, r"state: must be one of .*: 'DONE' \(str\)"),
        ({"state": "FAILED", "num_restarts": "1"}, "num_restarts: must be an integer"),
        ({"state": "FAILED", "ui_url": 1}, "ui_url: must be a string"),
        ({"state": "FAILED", "roles": "r"}, "roles: must be a list"),
        ({"state": "FAILED", "roles": [{"name": "r"}]}, r"roles\[0\].role: must be a string: None"),
        (
            {"state": "FAILED", "roles": [{"role": "r", "replicas": [{"id": 0, "role": "r", "state": "x"}]}]},
            r"roles\[0\].replicas\[0\].state: must be one of",
        ),
        (
            {
                "state": "FAILED",
                "roles": [
                    {"role": "r", "replicas": [{"id": 0, "role": "r", "state": "FAILED", "ended_at": "x"}]}
                ],
            },
            r"roles\[0\].replicas\[0\].ended_at: must be a number",
        ),
    ],
)
def test_from_json_refuses(data: dict[str, object], message: str) -> None:
    """What is no status is refused with the path of what is wrong."""
    with pytest.raises(InvalidInputError, match=message):
        AppStatus.from_json(data)


def test_raise_for_status_of_success() -> None:
    """A succeeded app raises nothing and has nothing to explain."""
    status = AppStatus(AppState.SUCCEEDED)
    status.raise_for_status()
    assert status.is_terminal()
    assert status.failure_summary() == ""


def test_raise_for_status_carries_the_status() -> None:
    """The error has the summary as its message and the whole status, also after pickling."""
    status = AppStatus(AppState.CANCELLED, msg="cancelled by user action", structured_error_msg=NONE)
    with pytest.raises(AppStatusError) as caught:
        status.raise_for_status()
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.status == status
    assert str(error) == "job did not succeed: app is CANCELLED\n  message: cancelled by user action"


def test_json_has_the_keys_of_torchx() -> None:
    """Each with the same value, where TorchX has one; TorchX's document is read as well."""
    theirs = import_module("torchx.specs")
    status = AppStatus(AppState.FAILED, 2, "gone", ui_url="http://here", roles=[RoleStatus("a", [])])
    document = theirs.AppStatus(
        theirs.AppState.FAILED, 2, "gone", ui_url="http://here", roles=[theirs.RoleStatus("a", [])]
    ).to_json()
    assert {name: status.to_json()[name] for name in document} == document
    assert status.roles[0].to_json() == theirs.RoleStatus("a", []).to_json()
    assert AppStatus.from_json(document) == status
    assert status.to_json(filter_roles=[]) == status.to_json()
