from __future__ import annotations

from local_apps import app_of

from prefect_torchx.masking import make_mask


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
