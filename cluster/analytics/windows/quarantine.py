"""Lines about records that were put quarantined: files of bounded size, each part of a change."""

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cluster.analytics.windows.commits import Change
from cluster.analytics.windows.layout import quarantine_path
from cluster.analytics.windows.manifest import QuarantineFile
from cluster.analytics.windows.parquet_files import MissingFile, in_words
from cluster.analytics.windows.store import Store

QUARANTINE_BYTES: Final = 64 << 20
"""The bound for all files together; the oldest are removed."""
_SMALL_BYTES: Final = 256 << 10


def quarantine_lines(
    store: Store,
    change: Change,
    number: int,
    lines: Sequence[str],
    day: str,
    most: int = QUARANTINE_BYTES,
    small: int = _SMALL_BYTES,
) -> None:
    """Let the change of this number write lines to a file, as many as fit in `most`.

    A file of the same day with at most `small` bytes is merged into the new one, since a following
    rollup may quarantine records every second. Raises UnusableDirectory.
    """
    if not lines:
        return
    written = [f"{line}\n".encode() for line in lines]
    ends = list(itertools.accumulate(map(len, written)))
    content = b"".join(written[: bisect.bisect_right(ends, most)])
    files = list(change.manifest.quarantined)
    if files and files[-1].day == day and files[-1].bytes <= min(small, most - len(content)):
        last = files.pop()
        change.removals.append(last.path)
        content = _content(store, last.path) + content
    path = quarantine_path(number)
    change.contents[path] = content
    kept = [QuarantineFile(path, len(content), day)]
    held = len(content)
    for file in reversed(files):
        held += file.bytes
        if held > most:
            change.removals.append(file.path)
        else:
            kept.append(file)
    change.manifest = replace(change.manifest, quarantined=tuple(reversed(kept)))


def _content(store: Store, path: str) -> bytes:
    """The content of a file; empty if somebody has removed it, since nothing depends on it."""
    try:
        with in_words(store, path):
            return store.read_bytes(path)
    except MissingFile:
        return b""
