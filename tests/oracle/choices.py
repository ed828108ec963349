"""Every run of a program that asks what happens next, with at most so many things out of the ordinary."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Choices", "explore"]


class Choices:
    """What happens in one run: given up to some point, and nothing out of the ordinary after it."""

    def __init__(self, given: tuple[int, ...], budget: int) -> None:
        """Have asked nothing yet."""
        self._given = given
        self._budget = budget
        self.made: list[int] = []
        self.counts: list[int] = []
        self.happened: list[str] = []
        """What was chosen, for people."""

    def take(self, *options: str) -> str:
        """Return the first one, which is the ordinary one, or another."""
        place = len(self.made)
        if len(options) == 1 or (place >= len(self._given) and self._is_spent()):
            return options[0]
        made = self._given[place] if place < len(self._given) else 0
        self.made.append(made)
        self.counts.append(len(options))
        if made:
            self.happened.append(options[made])
        return options[made]

    def _is_spent(self) -> bool:
        return sum(map(bool, self._given)) >= self._budget


def explore(run: Callable[[Choices], None], budget: int) -> int:
    """Make every run with at most so many choices out of the ordinary; return how many there are."""
    todo: list[tuple[int, ...]] = [()]
    runs = 0
    while todo:
        given = todo.pop()
        choices = Choices(given, budget)
        runs += 1
        try:
            run(choices)
        except Exception as err:
            err.add_note("\n".join(["what happened:", *choices.happened]))
            raise
        made = tuple(choices.made)
        for place in range(len(given), len(made)):
            todo += [(*made[:place], other) for other in range(1, choices.counts[place])]
    return runs
