"""What Python prints when a program fails, read from the program's last lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

__all__ = ["CRASH", "Raised", "find_raised", "find_stacks"]

_HEADER: Final = re.compile(r"(\s*(?:[|+] )?)(Exception Group )?Traceback \(most recent call last\):\s*$")
_LOGGED_HEADER: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'  File "(.+)", line (\d+)(?:,? in (.+))?$')
"""Of a traceback; faulthandler writes no comma before ``in``."""
_BOX: Final = re.compile(r"[╭+][─-]+ Traceback \(most recent call last\) [─-]+[╮+]\s*$")
"""How rich begins a traceback, by whose hook typer and others print theirs."""
_BOXED: Final = re.compile(r"[│|](.*)[│|]\s*$")
_PLACE: Final = re.compile(r"(.+):(\d+)(?: in (.+))?$")
_NAME: Final = re.compile(r"((?:[^\W\d][\w<>]*\.)*)([^\W\d]\w*)(?::(?: .*)?)?$")
_INSIDE: Final = re.compile(r" {4,}[|] (.*)$")
_GROUP: Final = re.compile(r"\(\d+ sub-exceptions?\)\s*$")
_PASSED_ON: Final = ("During handling of the above exception,", "The above exception was the direct cause")
_IGNORED: Final = "Exception ignored "
_IN_THREAD: Final = "Exception in thread "
CRASH: Final = "Fatal Python error: "
"""What faulthandler begins with when native code crashes."""
_THREAD: Final = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):\s*$")
_LAST_ERROR: Final = "Last error:"
"""In the message of PyTorch for an error of NCCL: the line after it says what was wrong."""
_DEADLINE: Final = re.compile(r"Timeout \([\d:.]+\)!\s*$")
"""What faulthandler writes before the stacks that it was told to print at some time."""
_FOREIGN: Final = re.compile(r"<frozen |[/\\](?:site-packages|dist-packages|python\d(?:\.\d+)?)[/\\]")
"""In the path of a file that is not the program's own."""
_PACKAGES: Final = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
MAX_TEXT_LINES: Final = 80
MAX_MESSAGE_LINES: Final = 10
"""How many lines after an exception's first may be its message: nothing says where one ends."""
MAX_BETWEEN: Final = 20
"""How many lines of other threads or streams may have come into a traceback."""
MAX_LATER_LINES: Final = 40
"""How many lines may follow: an exception that was printed long before the end did not cause it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An exception as it was printed."""

    exception: str
    """Its type and the first line of its message: ``ValueError: no data``; of NCCL also its last error."""
    place: str
    """Where the program's own code was: ``train.py:12, in load``; empty where that is not to be seen."""
    text: str
    """The traceback, of a long one the end, after those of the exceptions that it came from."""


def find_raised(lines: Sequence[str]) -> Raised | None:
    """Return the exception that ended the program, or None when none is to be seen; never raises.

    It is the one that was printed last: of those that led to each other the one that nobody caught, of a
    group the group. The beginning of its traceback may be missing.

    Args:
        lines: The last lines of one process.

    Example:
        >>> found = find_raised(
        ...     ["Traceback (most recent call last):", '  File "a.py", line 3', "KeyError: 1"]
        ... )
        >>> found.exception, found.place
        ('KeyError: 1', 'a.py:3')
    """
    last: _Traceback | None = None
    for found in _tracebacks(lines):
        says_less = found.in_thread or (found.exception.startswith(CRASH) and not found.frames)
        if last is None or last.in_thread or not says_less:
            last = found
    if last is None or sum(not line.isspace() for line in lines[last.end :] if line) > MAX_LATER_LINES:
        return None
    text = [line.rstrip() for line in lines[last.start : last.end]]
    if len(text) > MAX_TEXT_LINES:
        text = ["...", *text[-MAX_TEXT_LINES:]]
    return Raised(exception=last.exception, place=_place(last.frames), text="\n".join(text))


def find_stacks(lines: Sequence[str]) -> str:
    """Return where the main thread was when faulthandler printed all stacks at the deadline; else nothing.

    Example:
        >>> find_stacks(
        ...     ["Timeout (0:00:18)!", "Thread 0x7f (most recent call first):", '  File "a.py", line 3 in f']
        ... )
        'a.py:3, in f'
    """
    frames: list[_Frame] = []
    begun = False
    for line in lines:
        if _DEADLINE.search(line):
            begun, frames = True, []
        elif begun and _THREAD.match(line):
            frames = []  # the main thread comes last
        elif begun and (frame := _frame(line)):
            frames.append(frame)
    inner, own = (str(frames[0]), _place(frames[::-1])) if frames else ("", "")
    return own if own == inner else f"{_PACKAGES.sub('', inner)}, called from {own}"


class _Frame(NamedTuple):
    file: str
    line: str
    function: str | None

    def __str__(self) -> str:
        inside = "" if self.function in (None, "<module>") else f", in {self.function}"
        return f"{self.file}:{self.line}{inside}"


@dataclass(slots=True)
class _Traceback:
    """One traceback among the lines, from its header (or that of its cause) to the end of the message."""

    start: int
    end: int
    in_thread: bool = False
    exception: str = ""
    frames: list[_Frame] = field(default_factory=list[_Frame])
    """The innermost is last."""


def _tracebacks(lines: Sequence[str]) -> Iterator[_Traceback]:
    """Yield the tracebacks that have an exception at their end."""
    at, cause = 0, -1
    while at < len(lines):
        found = _begun(lines, at)
        if found is None:
            at += 1
            continue
        before = lines[at - 1] if at else ""
        found.in_thread = before.startswith(_IN_THREAD)
        if cause >= 0:
            found.start = cause
        if found.exception and not before.startswith(_IGNORED):
            yield found
        at = found.end
        cause = found.start if _is_passed_on(lines, at) else -1


def _begun(lines: Sequence[str], at: int) -> _Traceback | None:
    """Return the traceback that begins there, if one does."""
    line = lines[at]
    if line.startswith(CRASH):
        return _crash(lines, at)
    if _BOX.match(line) or (line.startswith(("│ /", "| /")) and _BOXED.match(line)):
        return _boxed(lines, at)
    if header := _HEADER.match(line):
        found = _read(lines, _Traceback(at, at + 1), header[1].replace("+", "|"))
        return _with_group(lines, found) if header[2] else found
    if line.rstrip().endswith(_LOGGED_HEADER):
        return _read(lines, _Traceback(at, at + 1), "")
    return _read(lines, _Traceback(at, at), "") if _FRAME.match(line) else None


def _read(lines: Sequence[str], found: _Traceback, gutter: str) -> _Traceback:
    """Read on to the exception and the end of its message; every line of it begins with the gutter."""
    between = 0
    while found.end < len(lines) and between <= MAX_BETWEEN:
        line = lines[found.end]
        if _HEADER.match(line) or not line.startswith(gutter.rstrip()):
            return found
        found.end += 1
        body = line[len(gutter) :]
        if frame := _frame(body):
            found.frames.append(frame)
        elif _is_exception(body):
            found.exception = body.rstrip()
            begin = found.end
            _skip_message(lines, found, gutter)
            found.exception += _told_later([line[len(gutter) :].strip() for line in lines[begin : found.end]])
            return found
        elif not body.startswith("  "):
            between += 1
    return found


def _boxed(lines: Sequence[str], at: int) -> _Traceback:
    """Read the box in which rich shows a traceback, and the exception below it."""
    found = _Traceback(at, at)
    place = ""
    while found.end < len(lines) and lines[found.end].startswith(("╭", "│", "╰", "+", "|")):
        boxed = _BOXED.match(lines[found.end])
        found.end += 1
        text = boxed[1] if boxed else ""
        if text.startswith(" ") and text[1:2].strip() and text[1] not in "╭│╰+|":
            place += text[1:-1] if text[-2:-1].strip() else f"{text.strip()} "  # it goes on in the next line
        elif place:
            found.frames += [_Frame(*each.groups()) for each in [_PLACE.match(place.strip())] if each]
            place = ""
    if found.end < len(lines) and _is_exception(lines[found.end]):
        found.exception = lines[found.end].rstrip()
        found.end += 1
        _skip_message(lines, found, "")
    return found


def _skip_message(lines: Sequence[str], found: _Traceback, gutter: str) -> None:
    last = min(len(lines), found.end + MAX_MESSAGE_LINES)
    while found.end < last:
        line = lines[found.end]
        ends = _HEADER.match(line) or _FRAME.match(line) or line.startswith((_IGNORED, _IN_THREAD, CRASH))
        if ends or not line.startswith(gutter) or not line[len(gutter) :].strip():
            return
        found.end += 1


def _told_later(message: Sequence[str]) -> str:
    """Return what an exception's first line leaves to a later one of its message."""
    at = message.index(_LAST_ERROR) + 1 if _LAST_ERROR in message else len(message)
    return f"; {message[at]}" if at < len(message) else ""


def _with_group(lines: Sequence[str], found: _Traceback) -> _Traceback:
    """Go on to the end of a group of exceptions, and name the first of them."""
    leaf = ""
    frames: list[_Frame] = []
    while found.end < len(lines) and lines[found.end].lstrip(" ")[:1] in ("|", "+"):
        inner = _INSIDE.match(lines[found.end])
        found.end += 1
        if leaf or not inner:
            continue
        if frame := _frame(inner[1]):
            frames.append(frame)
        elif _is_exception(inner[1]) and not _GROUP.search(inner[1]):
            leaf, found.frames = inner[1].rstrip(), frames or found.frames
        elif not inner[1].startswith("  "):
            frames = []
    if leaf:
        found.exception = f"{found.exception}, the first: {leaf}"
    return found


def _crash(lines: Sequence[str], at: int) -> _Traceback:
    """Read what faulthandler prints when native code crashes, up to the stack of the thread that did."""
    found = _Traceback(at, at + 1, exception=lines[at].rstrip())
    while found.end < len(lines) and (not found.frames or _frame(lines[found.end])):
        line = lines[found.end]
        if _HEADER.match(line) or (line.strip() and not _THREAD.match(line) and not line.startswith("  ")):
            break
        found.end += 1
        if frame := _frame(line):
            found.frames.append(frame)
    found.frames.reverse()
    return found


def _is_passed_on(lines: Sequence[str], at: int) -> bool:
    """Return whether the next traceback is of an exception that came from the one before."""
    following = (line.lstrip(" |") for line in lines[at : at + 2])
    return any(line.startswith(_PASSED_ON) for line in following)


def _frame(line: str) -> _Frame | None:
    found = _FRAME.match(line.rstrip())
    return _Frame(*found.groups()) if found else None


def _is_exception(line: str) -> bool:
    """Return whether that can be an exception's first line: its class has a capital, or lies in a module."""
    found = _NAME.match(line.rstrip()) if not line.startswith(" ") else None
    return found is not None and (found[2][0].isupper() or bool(found[1]))


def _place(frames: Sequence[_Frame]) -> str:
    """Return the innermost frame of the program's own code, or of any where none is."""
    own = [frame for frame in frames if not _FOREIGN.search(frame.file)]
    return str((own or frames)[-1]) if frames else ""
