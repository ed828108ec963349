from __future__ import annotations

import json

from local_apps import app_of

from prefect_torchx.masking import make_mask, mask_status, mask_values
from torchx_core.specs import AppState, AppStatus, ReplicaStatus, RoleStatus


def test_secrets_of_the_app_are_masked() -> None:
    """The value of a variable that looks like a secret is not shown, nor a line of it; others are."""
    app = app_of(
        "true", env={"API_TOKEN": "hunter2\nsecond", "DB_PASSWORD": "hunter2-and-more", "HOME": "/root"}
    )
    mask = make_mask(app)
    assert mask("it is hunter2-and-more, second to /root") == "it is ***, *** to /root"


def test_short_values_are_no_secrets() -> None:
    """Masking "1" would make every log unreadable."""
    assert make_mask(app_of("true", env={"USE_TOKEN": "1"}))("1 of 10") == "1 of 10"


def test_secrets_in_json_are_masked() -> None:
    """However it writes them; it stays JSON."""
    secret = 'pass"wörd'  # noqa: S105
    mask = mask_values([secret])
    for text in (json.dumps([secret]), json.dumps([secret], ensure_ascii=False)):
        assert json.loads(mask(text)) == ["***"]


def test_what_a_program_has_said_in_a_status_is_masked() -> None:
    """Its error file, its result, and the scheduler's messages; names and numbers stay."""
    error = json.dumps({"message": {"message": "bad hunter2"}})
    replica = ReplicaStatus(0, AppState.FAILED, "r", "host", error, exit_code=3, msg="hunter2")
    status = AppStatus(
        AppState.FAILED, msg="hunter2", roles=[RoleStatus("r", [replica])], result={"hunter2": ["hunter2", 1]}
    )
    masked = mask_status(status, mask_values(["hunter2"]))
    assert "hunter2" not in str(masked.to_json())
    assert masked.result == {"***": ["***", 1]}
    assert json.loads(masked.roles[0].replicas[0].structured_error_msg) == {"message": {"message": "bad ***"}}
    assert masked.roles[0].replicas[0].exit_code == 3
    assert status.msg == "hunter2"
