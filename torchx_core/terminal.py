"""Makes text of programs and other people safe to show on a terminal."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["harmless"]

_SUSPECT: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Strings (titles, the clipboard, device control) end with BEL or ST. One without an end would swallow all
# that follows, so then only its beginning is taken away.
_CONTROLS: Final = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\n\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_UNFINISHED: Final = re.compile(r"\x1b\[(?!0*m)[0-9;:]*m[^\x1b\n]*(?=\n|\Z)")
_RESET: Final = "\x1b[0m"


def harmless(text: str, *, colours: bool = True) -> str:
    r"""Return the text without what would drive a terminal; its colours stay, to the end of their line.

    Gone are titles, the clipboard, cursor movements, answers that a terminal would type, other character
    sets, and every control character but newline and tab. A sequence that is torn in two has no effect
    either: what is left of it is shown as text.

    Args:
        text: Any text.
        colours: Whether "select graphic rendition" sequences stay.

    Example:
        >>> harmless("\x1b]0;title\x07\x1b[31mred\x1b[2J")
        '\x1b[31mred\x1b[0m'
    """
    if _SUSPECT.search(text) is None:
        return text
    cleaned = _CONTROLS.sub(lambda found: (colours and found["colour"]) or "", text)
    return _UNFINISHED.sub(lambda found: found[0] + _RESET, cleaned) if "\x1b" in cleaned else cleaned
