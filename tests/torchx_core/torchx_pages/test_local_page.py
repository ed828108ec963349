"""TorchX's page of the local scheduler: what it says beside what `test_same_answers` asks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from local_apps import app_of
from torchx_sides import MISSING, accepts, ours, theirs, told

from torchx_core.schedulers import Stream
from torchx_core.schedulers.local_scheduler import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
    LocalScheduler,
    LogIterator,
    PopenRequest,
    ReplicaParam,
    create_cwd_scheduler,
    create_scheduler,
)
from torchx_core.specs import AppDef, AppState, CfgVal, Resource, Role

SIDES = pytest.mark.parametrize("side", [ours, theirs], ids=["ours", "theirs"])


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Any]:
    """Return what makes a local scheduler; it is closed after the test."""
    with ExitStack() as stack:

        def make(*args: Any, **kwargs: Any) -> LocalScheduler:
            scheduler = LocalScheduler("session", *args, state_dir=str(tmp_path / "state"), **kwargs)
            return stack.enter_context(closing(scheduler))

        yield make


def lines(scheduler: LocalScheduler, given: AppDef, cfg: Mapping[str, CfgVal] | None = None) -> list[str]:
    """Run the app to its end."""
    return list(scheduler.log_iter(scheduler.submit(given, cfg or {}), "r", should_tail=True))


MADE = [
    ("session_name", MISSING),
    ("image_provider_class", MISSING),
    ("cache_size", 100),
    ("extra_paths", None),
]


@pytest.mark.parametrize("position", range(len(MADE)), ids=[name for name, _ in MADE])
def test_the_scheduler_is_made_so(position: int) -> None:
    """By position or by name; here the image provider may be left out."""
    taken: list[tuple[str, Any]] = [*MADE]
    taken[1] = ("image_provider_class", CWDImageProvider)
    assert accepts(LocalScheduler.__init__, taken[: position + 1])
    assert accepts(theirs("schedulers.local_scheduler.LocalScheduler.__init__"), MADE[: position + 1])


@pytest.mark.parametrize("make", [create_cwd_scheduler, create_scheduler], ids=["cwd", "any"])
def test_it_is_made_by_a_factory(make: Any) -> None:
    """With a session, and any parameters besides."""
    with closing(make("session", cache_size=7, anything="else")) as scheduler:
        assert isinstance(scheduler, LocalScheduler)
        assert scheduler.session_name == "session"


@pytest.mark.parametrize("size", [0, -1])
def test_a_cache_has_a_size(size: int) -> None:
    """None of it, or less, is a ValueError there and here."""
    with pytest.raises(ValueError, match="cache"):
        LocalScheduler("session", CWDImageProvider, size)


def test_replicas_are_processes_of_this_host(local: Any) -> None:
    """All of them, whatever the app asks for."""
    names: set[str] = {*lines(local(), app_of("uname", "-n", num_replicas=2))}
    assert names == {f"{os.uname().nodename}\n"}


def test_a_provider_sees_the_options(local: Any, tmp_path: Path) -> None:
    """It is made anew for each app, with its options."""
    seen: list[Mapping[str, CfgVal]] = []

    def provider(cfg: Mapping[str, CfgVal]) -> ImageProvider:
        seen.append(cfg)
        return CWDImageProvider(cfg)

    lines(local(provider), app_of("true"), {"log_dir": str(tmp_path / "logs")})
    assert {str(each["log_dir"]) for each in seen} == {str(tmp_path / "logs")}


class Noting(ImageProvider):
    """Has the working directory for every image, and notes what it is asked."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: list[str] = []

    def fetch(self, image: str) -> str:
        self.asked.append(f"fetch {image}")
        return str(Path.cwd())

    def get_entrypoint(self, img_root: str, role: Role) -> str:  # noqa: ARG002
        return role.entrypoint

    def get_replica_param(self, img_root: str, role: Role, *files: Any) -> ReplicaParam:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.asked.append(f"param {Path(img_root).name} {role.args[0]}")
        return super().get_replica_param(img_root, role, *files)


def test_an_image_is_fetched_once_per_role(
    local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each replica's parameters are asked for, with what was fetched."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    provider = Noting()

    def make(_cfg: Mapping[str, CfgVal]) -> ImageProvider:
        return provider

    local(make).submit_dryrun(app_of("echo", "${replica_id}", image="img", num_replicas=2), {})
    assert provider.asked == ["fetch img", "param here 0", "param here 1"]


@SIDES
def test_fetching_a_role_is_fetching_its_image(side: Any) -> None:
    """By default."""
    provider = side("schedulers.local_scheduler.CWDImageProvider")({})
    role = side("specs.Role")("r", "img")
    assert provider.fetch_role(role) == provider.fetch("img") == str(Path.cwd())


def test_a_provider_may_change_the_role(local: Any) -> None:
    """When it fetches its image: an environment variable that the image needs."""

    class Setting(CWDImageProvider):
        def fetch_role(self, role: Role) -> str:
            role.env["FROM_PROVIDER"] = "set"
            return super().fetch_role(role)

    assert lines(local(Setting), app_of("sh", "-c", "echo $$FROM_PROVIDER")) == ["set\n"]


def test_a_provider_says_how_a_replica_is_started(local: Any) -> None:
    """Its program, arguments, variables and directory are what is run."""

    class Wrapping(CWDImageProvider):
        def get_replica_param(self, img_root: str, role: Role, *files: Any) -> ReplicaParam:  # pyright: ignore[reportIncompatibleMethodOverride]
            param = super().get_replica_param(img_root, role, *files)
            param.args = ["env", "WRAPPED=yes", *param.args]
            param.cwd = "/"
            return param

    assert lines(local(Wrapping), app_of("sh", "-c", "echo $$WRAPPED; pwd")) == ["yes\n", "/\n"]


PARAM = [("img_root", MISSING), ("role", MISSING), ("stdout", None), ("stderr", None), ("combined", None)]


def test_a_replicas_parameters_are_asked_for_so() -> None:
    """By position or by name."""
    assert accepts(ImageProvider.get_replica_param, PARAM)
    assert accepts(theirs("schedulers.local_scheduler.ImageProvider.get_replica_param"), PARAM)


@SIDES
@pytest.mark.parametrize("name", ["CWDImageProvider", "LocalDirectoryImageProvider"])
def test_a_replicas_parameters(side: Any, name: str, tmp_path: Path) -> None:
    """Entrypoint and arguments, variables, files and directory."""
    (tmp_path / "prog").touch()
    provider = side(f"schedulers.local_scheduler.{name}")({})
    role = side("specs.Role")(
        "r", str(tmp_path), entrypoint=str(tmp_path / "prog"), args=["a"], env={"K": "v"}
    )
    param = provider.get_replica_param(provider.fetch(role.image), role, "/out", "/err", "/both")
    assert (param.args, param.env) == ([str(tmp_path / "prog"), "a"], {"K": "v"})
    assert (param.stdout, param.stderr, param.combined) == ("/out", "/err", "/both")
    assert param.cwd == (str(Path.cwd()) if name.startswith("CWD") else str(tmp_path))


@SIDES
@pytest.mark.parametrize("image", ["/tmp/foobar", "foobar:latest", ""])
def test_the_working_directory_is_every_image(side: Any, image: str) -> None:
    """Whatever its name."""
    assert side("schedulers.local_scheduler.CWDImageProvider")({}).fetch(image) == str(Path.cwd())


@SIDES
@pytest.mark.parametrize("entrypoint", ["prog", "./prog", "/bin/prog"])
def test_there_the_entrypoint_is_as_it_is(side: Any, entrypoint: str) -> None:
    """A name, or a path."""
    role = side("specs.Role")("r", "img", entrypoint=entrypoint)
    assert side("schedulers.local_scheduler.CWDImageProvider")({}).get_entrypoint("/root", role) == entrypoint


@pytest.mark.parametrize(
    ("image", "answer"),
    [
        ("PLACE", "PLACE"),
        ("relative", "raises ValueError"),
        ("PLACE/nothing", "raises ValueError"),
        ("PLACE/file", "raises ValueError"),
    ],
)
def test_a_directory_is_an_image(image: str, answer: str, tmp_path: Path) -> None:
    """If it is an absolute path, is there, and is one."""
    (tmp_path / "file").touch()
    image, answer = (text.replace("PLACE", str(tmp_path)) for text in (image, answer))
    for side in (ours, theirs):
        provider = side("schedulers.local_scheduler.LocalDirectoryImageProvider")({})
        assert told(provider.fetch, image) == answer


@pytest.mark.parametrize(
    ("entrypoint", "path"),
    [("prog", "PLACE/prog"), ("bin/prog", "PLACE/bin/prog"), ("/bin/echo", "/bin/echo")],
)
def test_there_a_relative_entrypoint_lies_in_the_image(entrypoint: str, path: str, tmp_path: Path) -> None:
    """An absolute one is as it is."""
    (tmp_path / "prog").touch()
    role = Role("r", str(tmp_path), entrypoint=entrypoint)
    found = LocalDirectoryImageProvider({}).get_entrypoint(str(tmp_path), role)
    assert found == path.replace("PLACE", str(tmp_path))


def test_there_the_image_is_the_working_directory(local: Any, tmp_path: Path) -> None:
    """Of each replica; a name that is no file of the image is one for PATH."""
    assert lines(local(LocalDirectoryImageProvider), app_of("pwd", image=str(tmp_path))) == [f"{tmp_path}\n"]


@pytest.mark.parametrize(
    ("replicas", "gpus", "shown"),
    [(2, 1, ["0\n", "1\n"]), (1, 2, ["0,1\n"]), (2, 2, ["none\n", "none\n"]), (1, 0, ["none\n"])],
)
def test_each_replica_has_gpus_of_its_own(local: Any, replicas: int, gpus: int, shown: list[str]) -> None:
    """Where the option asks for it; nothing is set where the host has too few for all."""
    given = app_of(
        "sh", "-c", "echo $${CUDA_VISIBLE_DEVICES:-none}", num_replicas=replicas,
        resource=Resource(cpu=1, gpu=gpus, memMB=64),
    )  # fmt: skip
    scheduler = local(gpus=("0", "1", "2"))
    app_id = scheduler.submit(given, {"auto_set_cuda_visible_devices": True, "limits": "off"})
    told_by = [list(scheduler.log_iter(app_id, "r", k, should_tail=True)) for k in range(replicas)]
    assert sorted(line for each in told_by for line in each) == shown


def test_gpus_are_not_set_unless_asked(local: Any) -> None:
    """By default the submitter's setting counts."""
    given = app_of(
        "sh", "-c", "echo $${CUDA_VISIBLE_DEVICES:-none}", resource=Resource(cpu=1, gpu=1, memMB=64)
    )
    assert lines(local(gpus=("0",)), given, {"limits": "off"}) == ["none\n"]


def test_closing_is_allowed_more_than_once(local: Any) -> None:
    """And ends nothing: here apps outlive those who submit them."""
    scheduler = local()
    app_id = scheduler.submit(app_of("true"))
    scheduler.close()
    scheduler.close()
    assert list(scheduler.log_iter(app_id, "r", should_tail=True)) == []


@pytest.mark.parametrize(
    ("streams", "shown"),
    [
        (None, ["err\n", "out\n"]),
        (Stream.COMBINED, ["err\n", "out\n"]),
        (Stream.STDOUT, ["out\n"]),
        (Stream.STDERR, ["err\n"]),
    ],
)
def test_a_stream_may_be_chosen(local: Any, streams: Stream | None, shown: list[str]) -> None:
    """Both, if none is."""
    scheduler = local()
    app_id = scheduler.submit(app_of("sh", "-c", "echo out; echo err >&2"))
    assert sorted(scheduler.log_iter(app_id, "r", should_tail=True, streams=streams)) == shown


def test_a_log_is_read_anew_each_time(local: Any) -> None:
    """Two iterators know nothing of each other."""
    scheduler = local()
    app_id = scheduler.submit(app_of("printf", "a\\nb\\n"))
    first = scheduler.log_iter(app_id, "r", should_tail=True)
    assert next(first) == "a\n"
    assert list(scheduler.log_iter(app_id, "r", should_tail=True)) == ["a\n", "b\n"]
    assert list(first) == ["b\n"]


def test_a_log_that_was_removed_raises(local: Any) -> None:
    """What is deleted is no longer shown."""
    scheduler = local()
    app_id = scheduler.submit(app_of("echo", "a"))
    list(scheduler.log_iter(app_id, "r", should_tail=True))
    scheduler.delete(app_id)
    with pytest.raises(LookupError):
        scheduler.log_iter(app_id, "r")


@pytest.mark.parametrize("verb", ["submit", "schedule"])
def test_to_submit_is_to_schedule_a_dry_run(local: Any, verb: str) -> None:
    """Both return the app's id, and the app is there."""
    scheduler = local()
    given = app_of("true")
    app_id = (
        scheduler.submit(given, {})
        if verb == "submit"
        else scheduler.schedule(scheduler.submit_dryrun(given, {}))
    )
    assert scheduler.exists(app_id)
    list(scheduler.log_iter(app_id, "r", should_tail=True))
    assert scheduler.describe(app_id).state == AppState.SUCCEEDED


def test_an_unknown_app_has_no_description(local: Any) -> None:
    """None stands for it, and it does not exist."""
    assert (local().describe("nothing"), local().exists("nothing")) == (None, False)


REQUEST = ["app_id", "log_dir", "role_params", "role_log_dirs"]


@pytest.mark.parametrize("name", REQUEST)
def test_a_request_has_a_field(local: Any, name: str) -> None:
    """Of the request's class, and of each request: one can be made by its fields, too."""
    request = local().submit_dryrun(app_of("echo", "a", num_replicas=2), {}).request
    assert isinstance(request, PopenRequest)
    assert getattr(PopenRequest(**{field: getattr(request, field) for field in REQUEST}), name) == getattr(
        request, name
    )
    assert name in theirs("schedulers.local_scheduler.PopenRequest").__dataclass_fields__


def test_a_request_has_parameters_and_a_directory_for_each_replica(local: Any) -> None:
    """By role and number, all below the app's directory."""
    request = local().submit_dryrun(app_of("echo", "${replica_id}", num_replicas=2), {}).request
    assert [param.args for param in request.role_params["r"]] == [["echo", "0"], ["echo", "1"]]
    assert [Path(each).is_relative_to(request.log_dir) for each in request.role_log_dirs["r"]] == [True, True]


@pytest.mark.parametrize("should_tail", [True, False])
def test_a_log_file_can_be_followed_by_its_path(local: Any, should_tail: bool) -> None:
    """Until the app has ended, or up to what is there now.

    The page has a parameter ``regex``, which the installed TorchX has dropped.
    """
    scheduler = local()
    app_id = scheduler.submit(app_of("sh", "-c", "echo a; sleep 0.3; echo b"))
    file = (
        Path(scheduler.submit_dryrun(app_of("true"), {}, app_id=app_id).request.role_log_dirs["r"][0])
        / "0"
        / "stdout.log"
    )
    if not should_tail:
        list(scheduler.log_iter(app_id, "r", should_tail=True))
    assert "".join(LogIterator(app_id, str(file), scheduler, should_tail)) == "a\nb\n"
    with pytest.raises(FileNotFoundError):
        list(LogIterator(app_id, f"{file}.not", scheduler))
