"""Whether a setting does anything yet, as its statement says and as a person is told.

`tests/tidy/test_setting_effects.py` compares the statements with what the code reads.
"""

import re
from typing import Final, NamedTuple


class Effect(NamedTuple):
    """What happens when the setting is changed."""

    is_read: bool
    """Whether any part of a broker reads it."""
    lacking: str | None
    """Why it does nothing, or what part of its meaning does not happen; None: all of it does."""

    @property
    def remark(self) -> str | None:
        """The same as a clause of a sentence; None when there is nothing to say."""
        if self.lacking is None:
            return None
        return f"{_IN_PART if self.is_read else _NONE}: {self.lacking}"


_NONE: Final = "accepted, without effect yet"
_IN_PART: Final = "effective in part"
_REMARK: Final = re.compile(rf" \(((?:{_NONE}|{_IN_PART}): .*)\)\Z", re.DOTALL)

EFFECTIVE: Final = Effect(is_read=True, lacking=None)


def effective_in_part(lacking: str) -> Effect:
    """Read, but not all of what Kafka documents happens; `lacking` says what does not."""
    return Effect(is_read=True, lacking=lacking)


def without_effect(why: str) -> Effect:
    """Accepted so that files and tools written for Kafka work; nothing reads it."""
    return Effect(is_read=False, lacking=why)


def documentation(meaning: str, effect: Effect) -> str:
    """The text of DescribeConfigs: what the setting means, and a remark where that is not all so.

    `remark_of` finds the remark again.
    """
    return meaning if effect.remark is None else f"{meaning} ({effect.remark})"


def remark_of(text: str | None) -> str | None:
    """The remark in a text that `documentation` made; None in any other text."""
    found = _REMARK.search(text or "")
    return found[1] if found else None
