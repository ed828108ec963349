from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from local_apps import app_of
from prefect.blocks.core import Block
from prefect.testing.standard_test_suites.blocks import BlockStandardTestSuite
from pydantic import ValidationError
from typing_extensions import override

from prefect_torchx import TorchXJob
from torchx_core.specs import AppDef, AppDryRunInfo, Role

SECRET = "open sesame"  # noqa: S105


class TestStandard(BlockStandardTestSuite):
    """What Prefect demands of every block: descriptions, an example, a logo."""

    @pytest.fixture
    @override
    def block(self) -> type[Block]:
        return TorchXJob

    @override
    def test_has_a_valid_image(self, block: type[Block]) -> None:
        """There is one; what it shows Prefect's pages fetch from the internet, which tests do not."""
        assert str(block._logo_url).startswith("https://")  # noqa: SLF001  (Prefect's name for it)


def test_the_description_and_the_example_are_the_docstrings() -> None:
    """What the Blocks page shows is prose without markup, and code that begins where code begins."""
    assert str(TorchXJob.get_description()).startswith("Run an app on a scheduler")
    assert "``" not in str(TorchXJob.get_description())
    assert "    from prefect_torchx import TorchXJob\n" in str(TorchXJob.get_code_example())


@pytest.mark.parametrize(
    "app",
    [
        app_of("echo", "hello"),
        app_of("echo", "hello").to_dict(),
        app_of("echo", "hello").to_yaml(),
        "name: app\nroles: [{name: r, image: '', entrypoint: echo, args: [hello]}]",
    ],
    ids=["AppDef", "map", "whole YAML", "YAML"],
)
def test_an_app_is_kept_as_a_document(app: Any) -> None:
    """However it is given, what is saved is a map that the Blocks page can show."""
    job = TorchXJob(app=app)
    assert isinstance(job.app, dict)
    assert AppDef.from_dict(job.app) == app_of("echo", "hello")


def test_the_given_app_may_change_afterwards() -> None:
    """The job has its own copy."""
    app = app_of("echo", "hello")
    job = TorchXJob(app=app)
    app.roles[0].args.append("world")
    assert AppDef.from_dict(job.app) == app_of("echo", "hello")  # type: ignore[arg-type]  # a map, once it is in


GOOD: dict[str, Any] = {"component": "utils.echo"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give either app or component, and not both"),
        (GOOD | {"app": app_of("true")}, "give either app or component, and not both"),
        ({"app": {"name": "x"}}, "roles: an app needs at least one role"),
        ({"app": "name: [x"}, "app: not YAML: line 1, column 9$"),
        ({"app": "name"}, "app: must be a map, not str$"),
        ({"app": 5}, "app: must be an AppDef with a list of roles: 5"),
        ({"component": "utils.ecco"}, "unknown component 'utils.ecco'"),
        (GOOD | {"component_args": {"msgg": "x"}}, "component 'utils.echo': argument 'msgg' is unknown"),
        (GOOD | {"component_args": ["--msgg", "x"]}, "component 'utils.echo': argument '--msgg' is unknown"),
        (GOOD | {"scheduler": "dokcer"}, "unknown scheduler 'dokcer'"),
        (GOOD | {"cfg": {"grace_ss": 1}}, "unknown run option 'grace_ss'"),
        (GOOD | {"cfg": "grace_s=soon"}, "run option grace_s must be float"),
        (
            GOOD | {"workspace": ".", "cfg": {"unsupported": "refuse"}},
            "local_cwd cannot build a workspace: '.'; leave it out",
        ),
        (GOOD | {"session": "a/b"}, "malformed app handle 'local_cwd://a/b/any'"),
        (
            GOOD | {"sesion": "mine"},
            "unknown field 'sesion'; known: app, .*; did you mean 'session'?",
        ),
        (GOOD | {"secrets": "x"}, "secrets must be a map of names to values, not str"),
        (GOOD | {"component_args": {"msg": {"$secret": "X"}}}, "unknown secret 'X'; known: none"),
        (GOOD | {"lease_s": 0}, "Input should be greater than 0"),
        (GOOD | {"timeout_s": -1}, "Input should be greater than 0"),
        (GOOD | {"log_limit_mb": 0}, "Input should be greater than 0"),
        (GOOD | {"idempotency_key": ""}, "String should have at least 1 character"),
        (GOOD | {"on_worker_shutdown": "stop"}, "Input should be 'detach' or 'cancel'"),
    ],
)
def test_what_is_wrong_is_refused_when_the_job_is_made(fields: dict[str, Any], message: str) -> None:
    """The error leads with what is wrong, in words of this project where it is this project's matter."""
    with pytest.raises(ValidationError) as caught:
        TorchXJob(**fields)
    [error] = caught.value.errors()
    assert re.match(message, error["msg"]), error["msg"]


def test_a_role_with_code_is_refused() -> None:
    """What a document cannot hold would be lost without a word."""

    class Own(Role):
        @override
        def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[Any]) -> AppDryRunInfo[Any]:
            return dryrun_info

    with pytest.raises(ValidationError, match=r"roles\[0\].pre_proc: is code, which a block cannot save"):
        TorchXJob(app=AppDef("app", [Own("r", image="", entrypoint="true")]))


def test_a_job_does_not_change() -> None:
    """What was checked, and whose secrets were hidden, stays so."""
    with pytest.raises(ValidationError, match="frozen"):
        TorchXJob(**GOOD).scheduler = "local_dir"


WITH_SECRETS: list[dict[str, Any]] = [
    {"app": app_of("true", env={"HF_TOKEN": SECRET})},
    {"component": "utils.sh", "component_args": {"args": ["true"], "env": {"HF_TOKEN": SECRET}}},
    {"component": "utils.sh", "component_args": ["--env", f"HF_TOKEN={SECRET}", "true"]},
    {"component": "utils.echo", "component_args": {"msg": {"$secret": "mine"}}, "secrets": {"mine": SECRET}},
    {"app": app_of("echo", f"--api-key={SECRET}")},
    {"app": app_of("echo", "--api-key", SECRET)},
    {"component": "utils.python", "component_args": ["--c", "0", "--", "--hf_token", SECRET]},
]
SECRETS_IN = ["app", "arguments", "words", "by hand", "app's word", "app's words", "program's words"]


@pytest.mark.parametrize("fields", WITH_SECRETS, ids=SECRETS_IN)
def test_secrets_are_not_shown(fields: dict[str, Any]) -> None:
    """The job and the plain form that Prefect shows hide them; what is run has them."""
    job = TorchXJob(**fields)
    shown = f"{job} {job!r} {job.model_dump(mode='json')} {job.model_dump_json()}"
    assert SECRET not in shown
    assert SECRET in str(job._order().app)  # noqa: SLF001  (what `run` works with)


@pytest.mark.parametrize("fields", WITH_SECRETS, ids=SECRETS_IN)
def test_secrets_are_saved_as_such(fields: dict[str, Any]) -> None:
    """In the form that Prefect saves they lie in the one field whose values it encrypts and never shows."""
    job = TorchXJob(**fields)
    saved = job.model_dump(mode="json", context={"include_secrets": True})
    assert SECRET in str(saved.pop("secrets"))
    assert SECRET not in str(saved)
    assert "secrets.*" in TorchXJob.model_json_schema()["secret_fields"]


@pytest.mark.parametrize(
    "fields",
    [
        GOOD | {"cfg": {"HF_TOKEN": SECRET}},
        GOOD | {"cfg": f"api_token={SECRET}"},
        GOOD | {"component_args": {"image": [SECRET], "secret": [SECRET]}},
        {"component": "utils.sh", "component_args": {"args": ["true"], "env": {"API_KEYS": [SECRET]}}},
        {"app": AppDef("a", [Role("r", image="", entrypoint="true", env={"HF_TOKEN": [SECRET]})])},  # type: ignore[dict-item]
        {"app": f"name: a\nroles:\n- name: r\n  env: {{HF_TOKEN: [{SECRET}]}}"},
        {"app": f"name: a\nroles:\n- name: r\n  env: {{HF_TOKEN: {SECRET}"},
        {"app": f"HF_TOKEN={SECRET}"},
        {"app": [{"env": {"HF_TOKEN": SECRET}}]},
    ],
)
def test_an_error_does_not_show_secrets(fields: dict[str, Any]) -> None:
    """An error hides the secret that is wrong itself, or that stands in the same map or line."""
    with pytest.raises(ValidationError) as caught:
        TorchXJob(**fields)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("fields", WITH_SECRETS, ids=SECRETS_IN)
def test_a_job_travels(fields: dict[str, Any]) -> None:
    """Pickled, as for a task in another process, it is the same job with the same secrets."""
    job = TorchXJob(**fields)
    copy = pickle.loads(pickle.dumps(job))
    assert copy == job
    assert copy._order() == job._order()  # noqa: SLF001


def test_a_component_of_a_file_is_found(tmp_path: Path) -> None:
    """By the file's path and the function's name, as on the command line."""
    source = tmp_path / "parts.py"
    source.write_text(
        "from torchx_core import AppDef, Role\n\n"
        "def hello(name: str) -> AppDef:\n"
        '    """Greet."""\n'
        '    return AppDef("hello", [Role("r", image="", entrypoint="echo", args=[name])])\n'
    )
    job = TorchXJob(component=f"{source}:hello", component_args={"name": "world"})
    assert job._order().app.roles[0].args == ["world"]  # noqa: SLF001
