"""Rows that were read before, by their bytes: most clients have been idle since. Pure."""

from cluster.metrics.stats_layout import QuotaRow, unpack_row


class KnownRows:
    """The rows of the current reading and of the previous one. One reading at a time."""

    def __init__(self) -> None:
        self._before: dict[bytes, QuotaRow | None] = {}
        self._present: dict[bytes, QuotaRow | None] = {}

    def begin(self) -> None:
        """Begin a reading, and forget the rows that the last one did not contain."""
        self._before, self._present = self._present, {}

    def unpack(self, packed: bytes) -> QuotaRow | None:
        """Unpack a row without samples."""
        row = (
            self._before[packed]
            if packed in self._before
            else unpack_row(packed, with_samples=False)
        )
        self._present[packed] = row
        return row
