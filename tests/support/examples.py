"""How much of a test that can go on forever is run: by `bin/test --fast`, by `bin/test`, by CI.

A test states what `bin/test --ci` runs; the other kinds of runs take a part of it. Each kind is a
profile of Hypothesis, which `tests/conftest.py` registers.
"""

from typing import Any, Final

from hypothesis import settings

FAST: Final = "fast"
USUAL: Final = "usual"
LONG: Final = "long"

DEFAULT_EXAMPLES: Final = {FAST: 15, USUAL: 40, LONG: 100}
"""The examples of a property test that states no number."""

_SHARES: Final = {FAST: 0.15, USUAL: 0.4, LONG: 1.0}


def share_of(count: int) -> int:
    """The part of so many histories or examples that this kind of run takes, at least 2."""
    return max(2, round(count * _SHARES[settings.get_current_profile_name()]))


def examples(count: int, **options: Any) -> settings:
    """The settings of a property test with a stated number of examples."""
    return settings(max_examples=share_of(count), deadline=None, **options)


def stride() -> int:
    """1 in a run that interrupts something at each of many places, 3 where every third must do."""
    return 1 if settings.get_current_profile_name() == LONG else 3
