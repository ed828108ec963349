"""The app ids of flow runs."""

from __future__ import annotations

from uuid import UUID, uuid4

from prefect_torchx.worker.dispatch import app_id, is_app, is_app_of
from torchx_core.specs import make_app_handle

RUN = UUID("00000000-0000-0000-0000-000000000007")


def test_the_id_names_flow_run_and_dispatch() -> None:
    """It can be found from a flow run's id, and tells dispatches apart."""
    assert app_id(RUN, 1) == f"flow-run-{RUN}"
    assert app_id(RUN, 2) == f"flow-run-{RUN}-2"


def test_handles_are_told_from_whatever_else_stands_in_their_place() -> None:
    """A process id of another worker type, nothing, and another flow run's app are not this flow run's."""
    first, second = (make_app_handle("local_cwd", "s", app_id(RUN, number)) for number in (1, 2))
    other = make_app_handle("local_cwd", "s", app_id(uuid4(), 1))
    assert [is_app_of(RUN, handle) for handle in (first, second, other, "host:17", "", None)] == [
        *(True, True),
        *(False, False, False, False),
    ]
    assert is_app(second, app_id(RUN, 2))
    assert not is_app(first, app_id(RUN, 2))
    assert not is_app(None, app_id(RUN, 1))
