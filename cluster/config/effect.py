"""Whether a setting has an effect, as declared in its definition and shown to users.

`tests/tidy/test_setting_effects.py` compares the declarations with what the code reads.
"""

import re
from typing import Final, NamedTuple


class Effect(NamedTuple):
    """How far a setting has its documented effect."""

    is_read: bool
    """Whether any part of a broker reads it."""
    lacking: str | None
    """Why it has no effect, or which part of it is missing; None if it is complete."""

    @property
    def remark(self) -> str | None:
        """The limitation as a clause of a sentence; None if the effect is complete."""
        if self.lacking is None:
            return None
        return f"{_IN_PART if self.is_read else _NONE}: {self.lacking}"


_NONE: Final = "accepted, without effect yet"
_IN_PART: Final = "effective in part"
_REMARK: Final = re.compile(rf" \(((?:{_NONE}|{_IN_PART}): .*)\)\Z", re.DOTALL)

EFFECTIVE: Final = Effect(is_read=True, lacking=None)


def effective_in_part(lacking: str) -> Effect:
    """The effect of a setting that lacks a part, `lacking`, of Kafka's documented effect."""
    return Effect(is_read=True, lacking=lacking)


def without_effect(why: str) -> Effect:
    """The effect of a setting that nothing reads, accepted for files written for Kafka."""
    return Effect(is_read=False, lacking=why)


def documentation(meaning: str, effect: Effect) -> str:
    """The documentation in DescribeConfigs: the meaning, and a remark about what is missing.

    `remark_of` extracts the remark again.
    """
    return meaning if effect.remark is None else f"{meaning} ({effect.remark})"


def remark_of(text: str | None) -> str | None:
    """The remark in a text made by `documentation`; None in any other text."""
    found = _REMARK.search(text or "")
    return found[1] if found else None
