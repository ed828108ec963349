"""The functions of TorchX's module of the same purpose, over `Config`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from torchx_core.config.config import Config, parse_file, read_config
from torchx_core.config.template import run_opts_of
from torchx_core.specs import CfgVal

__all__ = ["apply", "get_config", "get_configs", "load", "load_sections"]


def apply(scheduler: str, cfg: dict[str, CfgVal], dirs: Sequence[str] | None = None) -> None:
    """Add to ``cfg`` what files and environment say about the scheduler; what it has already stays.

    Args:
        scheduler: Its name.
        cfg: Changed in place.
        dirs: As for `read_config`.

    Raises:
        InvalidConfigError: As `read_config` and `Config.cfg`.
        UnknownSchedulerException: No such scheduler.
    """
    cfg.update(read_config(dirs).cfg(scheduler, run_opts_of(scheduler), cfg))


def load(scheduler: str, f: TextIO, cfg: dict[str, CfgVal]) -> None:
    """Add to ``cfg`` what one open file says about the scheduler; what it has already stays.

    Raises:
        InvalidConfigError: As `read_config` and `Config.cfg`.
        UnknownSchedulerException: No such scheduler.
    """
    file = parse_file(f.read(), str(getattr(f, "name", "<text>")))
    cfg.update(Config(files=(file,)).cfg(scheduler, run_opts_of(scheduler), cfg))


def load_sections(prefix: str, dirs: Sequence[str] | None = None) -> dict[str, dict[str, str]]:
    """Return the sections ``[<prefix>:<name>]`` of the files, by name, as text.

    Raises:
        InvalidConfigError: As `read_config`.
    """
    config = read_config(dirs)
    names = dict.fromkeys(name for file in config.files for name in file.sections)
    split = ((name, name.partition(":")) for name in names)
    return {rest: _texts(config, name) for name, (kind, _, rest) in split if kind == prefix and rest}


def get_configs(prefix: str, name: str, dirs: Sequence[str] | None = None) -> dict[str, str]:
    """Return the section ``[<prefix>:<name>]`` of the files, as text; nothing when there is none.

    Raises:
        InvalidConfigError: As `read_config`.
    """
    return _texts(read_config(dirs), f"{prefix}:{name}")


def get_config(prefix: str, name: str, key: str, dirs: Sequence[str] | None = None) -> str | None:
    """Return one option of the section ``[<prefix>:<name>]``, as text, or None.

    Raises:
        InvalidConfigError: As `read_config`.
    """
    return get_configs(prefix, name, dirs).get(key)


def _texts(config: Config, section: str) -> dict[str, str]:
    return {name: setting.text for name, setting in config.settings(section).items()}
