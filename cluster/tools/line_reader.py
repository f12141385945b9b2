"""Reads a record from a line of text, as Kafka's console producer does. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.tools.options import is_true, known_properties

PROPERTIES: Final = {
    "parse.key": "false",
    "parse.headers": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "null.marker": "",
    "ignore.error": "false",
}
"""What `--property` may set, with the defaults."""

Header = tuple[str, bytes | None]


class UnreadableLine(Exception):
    """A line lacks a part, such as the key, that the properties require."""


class ProducedRecord(NamedTuple):
    """The key, value and headers that a line specifies."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


@dataclass(frozen=True, slots=True)
class LineReader:
    """Parses `headers<TAB>key<TAB>value`, or only the parts that the properties ask for."""

    parses_key: bool
    parses_headers: bool
    key_separator: bytes
    headers_delimiter: bytes
    headers_separator: bytes
    headers_key_separator: bytes
    null_marker: bytes | None
    ignores_errors: bool

    @classmethod
    def from_properties(cls, given: Iterable[tuple[str, str]]) -> "LineReader":
        """A reader with these properties.

        Raises ValueError for an unknown property, and for separators that must differ.
        """
        chosen = PROPERTIES | known_properties(given, PROPERTIES)
        for name in ("key.separator", "headers.delimiter", "headers.separator"):
            if not chosen[name]:
                raise ValueError(f"{name} must not be empty")
        if chosen["headers.separator"] == chosen["headers.key.separator"]:
            raise ValueError("headers.separator and headers.key.separator must differ")
        if chosen["headers.delimiter"] in (
            chosen["headers.separator"],
            chosen["headers.key.separator"],
        ):
            raise ValueError("headers.delimiter must differ from the separators of headers")
        return cls(
            parses_key=is_true(chosen["parse.key"]),
            parses_headers=is_true(chosen["parse.headers"]),
            key_separator=chosen["key.separator"].encode(),
            headers_delimiter=chosen["headers.delimiter"].encode(),
            headers_separator=chosen["headers.separator"].encode(),
            headers_key_separator=chosen["headers.key.separator"].encode(),
            null_marker=chosen["null.marker"].encode() or None,
            ignores_errors=is_true(chosen["ignore.error"]),
        )

    def read(self, line: bytes, number: int) -> ProducedRecord:
        """Parse `line` (without its newline); `number`, from 1, is for the error message.

        Raises UnreadableLine.
        """
        headers: list[Header] = []
        key = None
        rest = line
        if self.parses_headers:
            text, rest = self._split(rest, self.headers_delimiter, "headers delimiter", number)
            if text is not None:
                headers = self._headers(text, number)
        if self.parses_key:
            key, rest = self._split(rest, self.key_separator, "key separator", number)
        return ProducedRecord(self._nullable(key), self._nullable(rest), headers)

    def _split(
        self, line: bytes, separator: bytes, what: str, number: int
    ) -> tuple[bytes | None, bytes]:
        part, found, rest = line.partition(separator)
        if found:
            return part, rest
        if self.ignores_errors:
            return None, line
        raise UnreadableLine(
            f"No {what} found on line number {number}: '{line.decode('utf-8', 'replace')}'"
        )

    def _headers(self, text: bytes, number: int) -> list[Header]:
        if text == b"" or text == self.null_marker:
            return []
        headers = []
        for pair in text.split(self.headers_separator):
            name, value = self._split(
                pair, self.headers_key_separator, "header key separator", number
            )
            if name is not None:
                headers.append((name.decode("utf-8", "replace"), self._nullable(value)))
        return headers

    def _nullable(self, part: bytes | None) -> bytes | None:
        return None if part == self.null_marker else part
