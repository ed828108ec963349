"""Copy one file between paths and URLs."""

import argparse
import importlib
import shutil
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, cast


def open_url(url: str, mode: str) -> AbstractContextManager[BinaryIO]:
    """Open a path or a file URL; any other URL with fsspec."""
    path = Path(url.removeprefix("file://"))
    if "://" in url.removeprefix("file://"):
        try:
            fsspec = importlib.import_module("fsspec")
        except ImportError:
            sys.exit(f"{url} needs fsspec; install it where this runs, in the image")
        return cast(AbstractContextManager[BinaryIO], fsspec.open(url, mode, auto_mkdir=True))
    if "w" in mode:
        path.parent.mkdir(parents=True, exist_ok=True)
    return cast(AbstractContextManager[BinaryIO], path.open(mode))


def main() -> None:
    """Read the arguments and copy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--src", required=True)
    parser.add_argument("--dst", required=True)
    given = parser.parse_args()
    with open_url(given.src, "rb") as source, open_url(given.dst, "wb") as target:
        shutil.copyfileobj(source, target)


if __name__ == "__main__":
    main()
