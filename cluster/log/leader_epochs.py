"""The start offset of each leader epoch; the `leader-epoch-checkpoint` file (KIP-101)."""

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final

from cluster.log.checkpoints import (
    LEADER_EPOCHS,
    DamagedCheckpoint,
    decode_rows,
    encode_rows,
    replace_file,
)
from cluster.log.files import files_of
from cluster.model.ids import NO_EPOCH, LeaderEpoch, Offset

UNKNOWN_END_OFFSET: Final = Offset(-1)


class LeaderEpochs:
    """Start offsets by epoch, written before the first record of the newest epoch.

    Invariant: epochs and start offsets both grow strictly from entry to entry. Invariant: the file
    holds all entries while `latest` is `written`. The file is not synced here: every batch carries
    its epoch, so recovery can rebuild it.
    """

    __slots__ = ("_epochs", "_start_offsets", "latest", "path", "written")

    def __init__(self, directory: Path) -> None:
        self.path = directory / LEADER_EPOCHS
        self._epochs: list[LeaderEpoch] = []
        self._start_offsets: list[Offset] = []
        self.latest = NO_EPOCH
        self.written: LeaderEpoch | None = None
        """The newest epoch of the file; None while the file is absent or behind."""

    @classmethod
    def load(cls, directory: Path) -> "LeaderEpochs":
        """Read the file; a missing file means no epochs. Raises DamagedCheckpoint."""
        epochs = cls(directory)
        try:
            rows = decode_rows(files_of(directory).read_file(epochs.path))
            for epoch, start_offset in rows:
                epochs._add(LeaderEpoch(int(epoch)), Offset(int(start_offset)))
            epochs.written = epochs.latest
        except FileNotFoundError:
            pass
        except ValueError as error:
            raise DamagedCheckpoint(f"{epochs.path}: {error}") from error
        return epochs

    @property
    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def begin(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Start an epoch at an offset and remove entries that contradict it.

        Call this before appending the first record of the epoch. Raises StorageFailed.
        """
        if self._add(epoch, start_offset) or self.written != self.latest:
            self.write()

    def follow(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Begin the epoch of a replicated batch, unless the log has it. Raises StorageFailed."""
        # An announced epoch is not in the file before its first record.
        if epoch > self.latest or (epoch == self.latest and epoch != self.written):
            self.begin(epoch, start_offset)

    def announce(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Begin an epoch in memory only: a crash may lose an epoch that has no records.

        Becoming leader therefore writes no file, even for many partitions at once.
        """
        self._add(epoch, start_offset)

    def note(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Record a batch's epoch during recovery, which writes the file at its end."""
        if epoch > self.latest:
            self._add(epoch, start_offset)

    def _add(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        if epoch < 0 or (epoch == self.latest and start_offset >= self._start_offsets[-1]):
            return False
        while self._epochs and (
            self._epochs[-1] >= epoch or self._start_offsets[-1] >= start_offset
        ):
            self._epochs.pop()
            self._start_offsets.pop()
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.latest = epoch
        self.written = None
        return True

    def end_offset(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """The largest epoch not above `epoch`, and its exclusive end offset.

        Returns (-1, -1) if the epoch is undefined or newer than all known epochs. If it is older
        than all, returns it with the start of the first known epoch, as Kafka does.
        """
        if epoch == NO_EPOCH:
            return NO_EPOCH, UNKNOWN_END_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._epochs, epoch)
        if slot == len(self._epochs):
            return NO_EPOCH, UNKNOWN_END_OFFSET
        return (self._epochs[slot - 1] if slot else epoch), self._start_offsets[slot]

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch of the record at an offset; -1 if unknown."""
        slot = bisect_right(self._start_offsets, offset)
        return self._epochs[slot - 1] if slot else NO_EPOCH

    def relocated(self, directory: Path) -> "LeaderEpochs":
        """The same epochs for a copy of the log in another directory, without a file yet."""
        copy = LeaderEpochs(directory)
        for epoch, start_offset in self.entries:
            copy._add(epoch, start_offset)
        return copy

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Forget epochs that begin at or after the new log end."""
        if self.forget_from(end_offset):
            self.write()

    def forget_from(self, offset: Offset) -> bool:
        """Forget epochs that begin at or after an offset, in memory; True when there were any."""
        kept = bisect_left(self._start_offsets, offset)
        if kept == len(self._epochs):
            return False
        del self._epochs[kept:], self._start_offsets[kept:]
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.written = None
        return True

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Forget epochs that end before the new log start; the epoch at the start begins there."""
        gone = bisect_right(self._start_offsets, start_offset) - 1
        if gone < 0 or (gone == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:gone], self._start_offsets[:gone]
        self._start_offsets[0] = start_offset
        self.write()

    def clear(self) -> None:
        """Forget all epochs of an emptied log."""
        self._epochs.clear()
        self._start_offsets.clear()
        self.latest = NO_EPOCH
        self.write()

    def write(self) -> None:
        """Replace the file. Raises StorageFailed."""
        replace_file(self.path, encode_rows(self.entries), sync=False)
        self.written = self.latest

    def write_if_behind(self) -> None:
        """Write the file if it is missing or lacks an entry. Raises StorageFailed."""
        if self.written != self.latest:
            self.write()
