"""Parses what a page asks for. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

LIMITS: Final = (20, 50, 100, 200)
"""How many messages a page may have."""
MATCHES: Final = ("any", "key", "value", "headers")
FILTER_MAX_CHARACTERS: Final = 500
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_is_number: Final = re.compile("[0-9]{1,19}").fullmatch
_is_cursor: Final = re.compile(r"[0-9]{1,10}\.[0-9]{1,19}(,[0-9]{1,10}\.[0-9]{1,19})*").fullmatch
_CURSOR_MAX_CHARACTERS: Final = 40_000

Cursor = Mapping[int, int]


class InvalidQuestion(Exception):
    """The text says what is wrong with the parameter `field`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


class Start(NamedTuple):
    """Where to begin: `newest`, `beginning`, `offset` or `time`, the last two with a number."""

    kind: str
    value: int = 0


class Question(NamedTuple):
    """The page of messages that is asked for."""

    topic: str
    partition: int | None
    """None: all of them."""
    start: Start
    needle: str
    """The text that messages must contain; empty for all messages."""
    match: str
    """The part that must contain it, one of MATCHES."""
    is_committed_only: bool
    limit: int
    before: Cursor | None
    """The page ends here, exclusive: the former page."""
    after: Cursor | None
    """The page begins here: the next page."""

    @property
    def is_backward(self) -> bool:
        """Whether the page is read from its end."""
        return self.before is not None or (self.after is None and self.start.kind == "newest")


def question(given: Mapping[str, str]) -> Question:
    """The question in a query. Raises InvalidQuestion."""
    topic = given.get("topic", "")
    if not topic:
        raise InvalidQuestion("topic", "topic is missing")
    partition = partition_of(given.get("partition", ""))
    start = start_of(given.get("from", "") or "newest")
    if start.kind == "offset" and partition is None:
        raise InvalidQuestion("partition", "An offset belongs to one partition: choose one")
    needle = given.get("filter", "")
    if len(needle) > FILTER_MAX_CHARACTERS:
        raise InvalidQuestion(
            "filter", f"A filter has at most {FILTER_MAX_CHARACTERS} characters, not {len(needle)}"
        )
    return Question(
        topic,
        partition,
        start,
        needle,
        _one_of(given, "match", MATCHES),
        _one_of(given, "isolation", ("read_uncommitted", "read_committed")) == "read_committed",
        int(_one_of(given, "limit", ("50", *(str(each) for each in LIMITS)))),
        _cursor(given, "before"),
        _cursor(given, "after"),
    )


def place(given: Mapping[str, str]) -> tuple[str, int, int]:
    """Topic, partition and offset of one record. Raises InvalidQuestion."""
    topic, partition = given.get("topic", ""), partition_of(given.get("partition", ""))
    offset = given.get("offset", "")
    if not topic or partition is None or not _is_number(offset) or int(offset) > _INT64_MAX:
        raise InvalidQuestion("offset", "a record has a topic, a partition and an offset")
    return topic, partition, int(offset)


def partition_of(text: str) -> int | None:
    """The number of a partition; None for all of them. Raises InvalidQuestion."""
    if text.strip() in ("", "all"):
        return None
    if not _is_number(text.strip()) or int(text) > _INT32_MAX:
        raise InvalidQuestion("partition", f"Not the number of a partition: {text[:40]}")
    return int(text)


def start_of(text: str) -> Start:
    """The start that a text names. Raises InvalidQuestion."""
    text = text.strip()
    if text in ("newest", "beginning"):
        return Start(text)
    if _is_number(text):
        if int(text) > _INT64_MAX:
            raise InvalidQuestion("from", f"Not an offset: {text}; the largest is {_INT64_MAX}")
        return Start("offset", int(text))
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        # To a broker, a negative time is the name of an offset: the first, or the end.
        return Start("time", max(0, round(time.timestamp() * 1000)))
    except (ValueError, OverflowError):
        raise InvalidQuestion(
            "from",
            f"Not a start: {text[:40]}; it is newest, beginning, an offset, or a time such as"
            " 2026-01-31T18:00Z",
        ) from None


def cursor_text(cursor: Cursor) -> str:
    """A cursor as it stands in an address."""
    return ",".join(f"{partition}.{offset}" for partition, offset in sorted(cursor.items()))


def _cursor(given: Mapping[str, str], name: str) -> Cursor | None:
    text = given.get(name, "")
    if not text:
        return None
    if len(text) > _CURSOR_MAX_CHARACTERS or not _is_cursor(text):
        raise InvalidQuestion(name, f"Not the place of a page: {text[:40]}")
    pairs = (each.split(".") for each in text.split(","))
    return {int(partition): min(int(offset), _INT64_MAX) for partition, offset in pairs}


def _one_of(given: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    """The value of a parameter, the first one unless it is given."""
    value = given.get(name, "") or known[0]
    if value not in known:
        raise InvalidQuestion(
            name, f"{name} is one of {', '.join(dict.fromkeys(known))}, not {value[:40]}"
        )
    return value
