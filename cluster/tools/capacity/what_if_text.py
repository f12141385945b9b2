"""The result of a scenario as text. Pure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cluster.analytics.capacity.what_if_tables import first_text, supposed_text, what_if_tables
from cluster.tools.capacity.report_text import period_line, section

if TYPE_CHECKING:
    from cluster.analytics.capacity.what_if import WhatIf


def what_if_text(found: "WhatIf", source: str, top: int, *, explain: bool) -> Iterator[str]:
    """The lines of the result; `explain` adds how each figure was computed."""
    yield period_line(found.period, source)
    yield f"If there had been {supposed_text(found)}:"
    for table in what_if_tables(found, top):
        yield from section(table, explain=explain)
    if first := first_text(found):
        yield f"\n{first}"
    for note in found.notes:
        yield f"Note: {note}."
    if not explain:
        yield "How each figure was reached: --explain"
