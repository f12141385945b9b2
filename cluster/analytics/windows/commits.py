"""Changes of a directory of windows, each atomic whatever crashes.

New files are written where nobody reads: deltas in `_open`, drafts below `_meta`. Replacing the
manifest decides the change. Then files that it removes go, and drafts are moved into place, each
replacing one file. All of that can be repeated: the next process that opens the directory does so,
and removes what no manifest names.
"""

import secrets
from dataclasses import dataclass, field, replace

from cluster.analytics.windows.kinds import WINDOW_KINDS
from cluster.analytics.windows.layout import (
    DAYS,
    DRAFTS,
    MANIFEST,
    META,
    OPEN,
    QUARANTINE,
    day_list_path,
)
from cluster.analytics.windows.manifest import (
    Manifest,
    UnusableDirectory,
    VisibleFile,
    day_list_as_bytes,
    day_list_from_bytes,
    manifest_as_bytes,
    manifest_from_bytes,
)
from cluster.analytics.windows.parquet_files import MissingFile, in_words
from cluster.analytics.windows.store import Store


@dataclass(slots=True)
class Change:
    """A change that is being prepared."""

    manifest: Manifest
    """The future content of the directory; the fields below complete it."""
    moves: list[tuple[str, str]] = field(default_factory=list)
    """Drafts, and their destinations."""
    removals: list[str] = field(default_factory=list)
    days: dict[str, list[VisibleFile]] = field(default_factory=dict)
    """All visible files of days in which any changes."""
    contents: dict[str, bytes] = field(default_factory=dict)
    """Small files to be written."""


class Commits:
    """The state of a directory, which changes by `commit`. Raises UnusableDirectory throughout.

    Only one process may work in a directory. With a store that cannot lock, the manifest reveals
    another process: it is read again before each change, and must be what was written last.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.manifest = Manifest()
        self._writer = secrets.token_hex(8)
        self._is_sure = False
        """Whether `manifest` is stored and carried out."""

    def begin(self) -> None:
        """Take the directory over from its last writer: finish decided changes, remove others."""
        stored = read_manifest(self.store)
        if stored is None:
            self._look_for_windows()
        self.manifest = stored or Manifest()
        if not self.store.is_local:
            self._write_manifest(replace(self.manifest, writer=self._writer))
            self._check_writer()
        self._finish()
        self._clean()

    def make_sure(self) -> None:
        """Finish a change that failed midway, so that the next one starts from a known state."""
        if self._is_sure:
            return
        stored = read_manifest(self.store) or Manifest()
        if not self.store.is_local and stored.writer != self._writer:
            raise self._other_writer()
        self.manifest = stored
        self._finish()

    def files_of(self, day: str) -> list[VisibleFile]:
        """The visible files of a day."""
        return read_day_list(self.store, self.manifest, day)

    def commit(self, change: Change) -> None:
        """Make the change; after an exception it has been made completely or not at all."""
        self.make_sure()
        before = self.manifest
        number = before.change + 1
        days = {day: before.days[day] for day in before.days if day not in change.days}
        removals = list(change.removals)
        for day, files in change.days.items():
            if day in before.days:
                removals.append(day_list_path(day, before.days[day]))
            kept = {file.path for file in files}
            removals += [file.path for file in self.files_of(day) if file.path not in kept]
            if files:
                days[day] = number
                change.contents[day_list_path(day, number)] = day_list_as_bytes(files)
        for path, content in change.contents.items():
            with in_words(self.store, path):
                self.store.write_bytes(path, content)
        self._check_writer()
        self._write_manifest(
            replace(
                change.manifest,
                change=number,
                writer=self._writer,
                days=days,
                moves=tuple(change.moves),
                removals=tuple(dict.fromkeys(removals)),
            )
        )
        self._finish()

    def _write_manifest(self, manifest: Manifest) -> None:
        self._is_sure = False
        with in_words(self.store, MANIFEST):
            self.store.write_bytes(MANIFEST, manifest_as_bytes(manifest))
        self.manifest = manifest

    def _check_writer(self) -> None:
        if self.store.is_local:
            return
        stored = read_manifest(self.store)
        if stored is None or (stored.change, stored.writer) != (
            self.manifest.change,
            self._writer,
        ):
            raise self._other_writer()

    def _other_writer(self) -> UnusableDirectory:
        return UnusableDirectory(f"another rollup is at work in {self.store.shown()}")

    def _finish(self) -> None:
        """Carry out the remaining removals and moves of the manifest."""
        # Removals first: a plain reader may miss a window for a moment, but never sees one twice.
        for path in self.manifest.removals:
            with in_words(self.store, path):
                self.store.remove(path)
        for draft, final in self.manifest.moves:
            try:
                with in_words(self.store, draft):
                    self.store.move(draft, final)
            except MissingFile:
                with in_words(self.store, final):
                    if not self.store.exists(final):
                        raise FileNotFoundError from None
        self._is_sure = True

    def _look_for_windows(self) -> None:
        """Windows never exist before the manifest; if they do, the manifest was lost."""
        with in_words(self.store):
            if any(self.store.list(f"kind={kind.name}") for kind in WINDOW_KINDS):
                raise UnusableDirectory(
                    f"{self.store.shown()} has windows and no {MANIFEST}, which says what they"
                    " hold: restore it from a copy, or give another --output"
                )

    def _clean(self) -> None:
        manifest = self.manifest
        named = {
            MANIFEST,
            *(delta.path for delta in manifest.deltas),
            *(each.path for each in manifest.quarantined),
            *(day_list_path(day, change) for day, change in manifest.days.items()),
        }
        places = tuple(f"{folder}/" for folder in (OPEN, DRAFTS, DAYS, QUARANTINE))
        unfinished = "/.".join(MANIFEST.rsplit("/", 1))
        with in_words(self.store):
            for path in (*self.store.list(OPEN), *self.store.list(META)):
                if path not in named and path.startswith((*places, unfinished)):
                    self.store.remove(path)


def read_manifest(store: Store) -> Manifest | None:
    """The manifest of a directory; None if there is none. Raises UnusableDirectory."""
    try:
        with in_words(store, MANIFEST):
            content = store.read_bytes(MANIFEST)
    except MissingFile:
        return None
    return manifest_from_bytes(content, store.shown(MANIFEST))


def read_day_list(store: Store, manifest: Manifest, day: str) -> list[VisibleFile]:
    """The visible files of a day according to a manifest.

    Raises UnusableDirectory, and MissingFile (one of those) if the list is missing.
    """
    if day not in manifest.days:
        return []
    path = day_list_path(day, manifest.days[day])
    with in_words(store, path):
        content = store.read_bytes(path)
    return day_list_from_bytes(content, store.shown(path))
