from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest

from torchx_core.config import find_configs, read_config
from torchx_core.config.files import read_config_text
from torchx_core.errors import InvalidConfigError


@contextmanager
def unprivileged() -> Generator[None]:
    """Be nobody for a while; root may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def config_in(folder: Path, text: str = "") -> str:
    """Write a configuration file and return its path."""
    folder.mkdir(exist_ok=True)
    (folder / ".torchxconfig").write_text(text)
    return str(folder / ".torchxconfig")


def test_home_comes_before_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in TorchX: what the user wants for all projects wins over a project's file."""
    paths = [config_in(tmp_path / "home"), config_in(tmp_path / "cwd")]
    monkeypatch.chdir(tmp_path / "cwd")
    assert find_configs(environ={"HOME": str(tmp_path / "home")}) == paths
    assert find_configs([], environ={"HOME": str(tmp_path / "home")}) == paths


def test_the_working_directory_is_that_of_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the import: a process may change its directory."""
    for name in ("one", "two"):
        path = config_in(tmp_path / name)
        monkeypatch.chdir(tmp_path / name)
        assert find_configs(environ={"HOME": "/nowhere"}) == [path]


def test_a_home_that_is_the_working_directory_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file, one entry."""
    path = config_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find_configs(environ={"HOME": str(tmp_path)}) == [path]


def test_directories_given_replace_the_usual_ones(tmp_path: Path) -> None:
    """In the order given; those without a file, or that do not exist, are passed over."""
    two, one = config_in(tmp_path / "two"), config_in(tmp_path / "one")
    (tmp_path / "empty").mkdir()
    dirs = [str(tmp_path / name) for name in ("two", "empty", "none", "nul\0", "one")]
    assert find_configs(dirs, environ={"HOME": str(tmp_path / "one")}) == [two, one]


def test_a_deleted_working_directory_has_no_file(tmp_path: Path) -> None:
    """Nothing fails for want of it."""
    gone = tmp_path / "gone"
    gone.mkdir()
    with chdir(gone):
        gone.rmdir()
        assert find_configs(environ={"HOME": "/nowhere"}) == []


def test_torchxconfig_names_the_only_file(tmp_path: Path) -> None:
    """Whatever the file is called, and also when directories are given."""
    config_in(tmp_path)
    other = tmp_path / "other.ini"
    other.write_text("")
    assert find_configs([str(tmp_path)], environ={"TORCHXCONFIG": str(other)}) == [str(other)]


def test_an_empty_torchxconfig_reads_none(tmp_path: Path) -> None:
    """An empty variable lets a run do without any file."""
    config_in(tmp_path)
    assert find_configs([str(tmp_path)], environ={"TORCHXCONFIG": ""}) == []


@pytest.mark.parametrize("named", ["none", ""])
def test_torchxconfig_must_name_a_file(tmp_path: Path, named: str) -> None:
    """A missing file and a directory are refused, not passed over."""
    path = f"{tmp_path}/{named}"
    with pytest.raises(InvalidConfigError, match=r"\$TORCHXCONFIG: no such file: .*unset it for the usual"):
        find_configs(environ={"TORCHXCONFIG": path})


def test_the_environment_of_the_process_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For who passes none."""
    path = config_in(tmp_path, "[local_cwd]")
    monkeypatch.setenv("TORCHXCONFIG", path)
    assert find_configs() == [path]
    assert [file.path for file in read_config().files] == [path]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"[a]\nx = \0", 2, r"a NUL byte; this is no text: byte 8 is b'\\x00'"),
        (b"\n\n\xff\n", 3, r"not UTF-8; save the file in that encoding: byte 2 is b'\\xff'"),
        (b"\xfe\xff\0[\0a\0]", 1, "not UTF-8"),
        (b"\x7fELF\x02\x01\x01\0", 1, "a NUL byte"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, line: int, problem: str) -> None:
    """With the line and the byte."""
    path = tmp_path / ".torchxconfig"
    path.write_bytes(content)
    with pytest.raises(InvalidConfigError, match=rf"\.torchxconfig:{line}: {problem}"):
        read_config_text(str(path))


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    """Some editors write one."""
    path = tmp_path / ".torchxconfig"
    path.write_bytes(b"\xef\xbb\xbf[local_cwd]")
    assert read_config_text(str(path)) == "[local_cwd]"


@pytest.mark.parametrize("kind", ["directory", "fifo", "dangling link", "loop"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    """At once, with the path: a FIFO without a writer is never opened."""
    path = tmp_path / ".torchxconfig"
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "dangling link":
            path.symlink_to("nothing")
        case _:
            path.symlink_to(path)
    with pytest.raises(InvalidConfigError, match=r"\.torchxconfig: (not a regular file; |cannot be read: )"):
        read_config([str(tmp_path)], {})


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    """TorchX passes it over, so that its options are missing without a word."""
    (tmp_path / ".torchxconfig").touch(mode=0)
    tmp_path.chmod(0o755)
    with chdir(tmp_path), unprivileged(), pytest.raises(InvalidConfigError, match="Permission denied"):
        read_config_text(".torchxconfig")


def test_a_folder_that_may_not_be_searched_has_no_file_for_us(tmp_path: Path) -> None:
    """A container may run as somebody else than the owner of $HOME."""
    config_in(tmp_path / "closed")
    (tmp_path / "closed").chmod(0)
    with unprivileged():
        assert find_configs([str(tmp_path / "closed")], environ={}) == []
        with pytest.raises(InvalidConfigError, match=r"\$TORCHXCONFIG: no such file"):
            find_configs(environ={"TORCHXCONFIG": str(tmp_path / "closed" / ".torchxconfig")})
    (tmp_path / "closed").chmod(0o755)
