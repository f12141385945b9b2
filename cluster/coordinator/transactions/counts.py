"""How many transactions the shards of a broker have ended. Pure."""


class TransactionCounts:
    """Since the start of the broker; those whose markers are all written."""

    def __init__(self) -> None:
        self.committed = 0
        self.aborted = 0

    def add(self, *, is_commit: bool) -> None:
        """A transaction is complete."""
        if is_commit:
            self.committed += 1
        else:
            self.aborted += 1
