"""How many examples property tests take that state a number, as those run for each version do."""

from typing import Final

from hypothesis import settings

OF_FAST: Final = 0.15
"""The part of them with the profile `fast`, as of those that state no number."""


def examples(count: int) -> settings:
    """So many, and with the profile of `bin/test --fast` a part of them."""
    if settings.get_current_profile_name() == "fast":
        count = max(2, round(count * OF_FAST))
    return settings(max_examples=count, deadline=None)
