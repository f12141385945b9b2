"""Prometheus' text format 0.0.4 and OpenMetrics 1.0, as bytes. Pure.

Both carry the same names, since Prometheus chooses between them by itself: a counter ends in
`_total` in either.
"""

import math
import zlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

LABEL_MAX: Final = 200
"""Characters of a label's value; a longer value is cut and ends in a checksum of the whole."""

_CONTROL: Final = dict.fromkeys((*range(32), 127), "\N{REPLACEMENT CHARACTER}")
_IN_LABEL: Final = {**_CONTROL, **str.maketrans({"\n": r"\n", "\\": r"\\", '"': r"\""})}
_IN_HELP: Final = str.maketrans({"\n": r"\n", "\\": r"\\"})
_IN_OPEN_HELP: Final = {**_IN_HELP, **str.maketrans({'"': r"\""})}
_OPEN_VERSIONS: Final = ("1.0.0", "0.0.1")
"""Clients name the same format by the older version, which dates from before the standard."""
_UNITS: Final = ("seconds", "ratio", "bytes")


def accepts_openmetrics(accept: str) -> bool:
    """Whether an Accept header (RFC 9110) prefers OpenMetrics 1.0 to the text format.

    Prometheus does so by its weights. A header without either, or one that is malformed, means the
    text format.
    """
    openmetrics = text = 0.0
    for one in accept.lower().split(","):
        media, *parameters = (each.strip() for each in one.split(";"))
        values = dict(each.partition("=")[::2] for each in parameters)
        try:
            weight = float(values.get("q", "1"))
        except ValueError:
            continue
        version = values.get("version", "1.0.0").strip('"')
        if media == "application/openmetrics-text" and version in _OPEN_VERSIONS:
            openmetrics = max(openmetrics, weight)
        elif media in ("text/plain", "text/*", "*/*"):
            text = max(text, weight)
    return openmetrics > 0 and openmetrics >= text


class Type(StrEnum):
    """The types of families that are used here."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


def label_text(labels: Iterable[tuple[str, str]]) -> str:
    """`name="value",name="value"`; values may be any text, names must be valid."""
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in labels])


def _escaped(value: str) -> str:
    if len(value) > LABEL_MAX:
        checksum = f"~{zlib.crc32(value.encode('utf-8', 'replace')):08x}"
        value = value[: LABEL_MAX - len(checksum)] + checksum
    is_plain = value.isprintable() and '"' not in value and "\\" not in value
    return value if is_plain else value.translate(_IN_LABEL)


class Family:
    """One name, with its samples.

    Invariant: a set of labels, given in the same order, has one sample.
    """

    __slots__ = ("_samples", "_suffix", "doc", "name", "type")

    def __init__(self, name: str, kind: Type, doc: str) -> None:
        """`name` without `_total`."""
        self.name = name
        self.type = kind
        self.doc = doc
        self._suffix = "_total" if kind is Type.COUNTER else ""
        self._samples: dict[str, float] = {}

    @property
    def sample_name(self) -> str:
        """The name in queries."""
        return self.name + self._suffix

    def add(self, labels: str, value: float, suffix: str = "") -> None:
        """Add a sample, or add to an existing one. `label_text` makes `labels`."""
        key = f"{suffix or self._suffix}{{{labels}}}" if labels else suffix or self._suffix
        self._samples[key] = self._samples.get(key, 0) + value

    def lines(self, openmetrics: bool) -> Iterator[str]:
        """The family as text; nothing without samples."""
        if not self._samples:
            return
        name = self.name if openmetrics else self.sample_name
        yield f"# HELP {name} {self.doc.translate(_IN_OPEN_HELP if openmetrics else _IN_HELP)}"
        yield f"# TYPE {name} {self.type}"
        unit = name.rpartition("_")[2]
        if openmetrics and unit in _UNITS:
            yield f"# UNIT {name} {unit}"
        for key, value in self._samples.items():
            yield f"{self.name}{key} {number_text(value)}"


def number_text(value: float) -> str:
    """The text of a sample's value, or of a label `le` or `quantile`."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


def rendered(families: Iterable[Family], *, openmetrics: bool) -> bytes:
    """The response to a scrape."""
    lines = [line for family in families for line in family.lines(openmetrics)]
    if openmetrics:
        lines.append("# EOF")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
