"""The Parquet files of a directory of windows: written, and read with clear errors."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.analytics.windows.kinds import SCHEMA_VERSION, SUMS_SCHEMA, TIMESTAMP, WINDOW_SCHEMA
from cluster.analytics.windows.manifest import UnusableDirectory
from cluster.analytics.windows.store import Store
from cluster.analytics.windows.window_sums import wide

GROUP_ROWS: Final = 250_000
"""The maximum of rows in a row group: this bounds the memory of readers."""
_START: Final = "window_start"
_MILLION: Final = 1_000_000
# Columns of other kinds are null throughout. With dictionaries for texts only, and statistics for
# keys only, 1,000 windows of quotas have 134 kB, not 127, and are written in 2.4 ms, not 1.3.
DICTIONARIES: Final = [
    field.name
    for field in pa.unify_schemas([SUMS_SCHEMA, WINDOW_SCHEMA])
    if pa.types.is_string(field.type)
]
"""The columns of texts, which are written with a dictionary."""
_STATISTICS: Final = [
    *("kind", "window_start", "broker", "user", "client_id", "quota"),
    *("group", "topic", "partition", "api", "event", "subject"),
]


class FileWriter:
    """Writes one file of windows or sums. Equal rows give equal bytes, in whatever parts."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        """`written_file` creates and closes it."""
        self.rows = 0
        self._schema = schema
        self._writer = writer
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0

    def write(self, table: pa.Table, **constants: str) -> None:
        """Add rows; missing columns are null, or one of `constants` throughout."""
        self.rows += table.num_rows
        for begin in range(0, table.num_rows, GROUP_ROWS):  # null columns need memory, too
            part = wide(table.slice(begin, GROUP_ROWS), self._schema, **constants)
            self._waiting.append(part)
            self._waiting_rows += part.num_rows
            while self._waiting_rows >= GROUP_ROWS:
                self._write_group(GROUP_ROWS)

    def finish(self) -> None:
        """Write the remaining rows."""
        if self._waiting_rows:
            self._write_group(self._waiting_rows)

    def _write_group(self, rows: int) -> None:
        # The content of a group must not depend on the parts in which rows came, nor may its
        # chunks.
        table = pa.concat_tables(self._waiting)
        self._writer.write_table(table.slice(0, rows).combine_chunks(), row_group_size=rows)
        self._waiting = [table.slice(rows)] if table.num_rows > rows else []
        self._waiting_rows -= rows


@contextlib.contextmanager
def written_file(
    store: Store, path: str, schema: pa.Schema, notes: Mapping[str, Any]
) -> Iterator[tuple[FileWriter, "FileSize"]]:
    """A file that exists at the end of the block, with notes in its footer.

    The size is known after the block. Raises UnusableDirectory.
    """
    size = FileSize()
    with in_words(store, path), store.open_output(path) as file:
        with pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=[name for name in DICTIONARIES if name in schema.names],
            write_statistics=[name for name in _STATISTICS if name in schema.names],
            store_schema=False,
        ) as parquet:
            writer = FileWriter(parquet, schema)
            yield writer, size
            writer.finish()
            parquet.add_key_value_metadata(
                {
                    "milena.schema": str(SCHEMA_VERSION),
                    **{f"milena.{name}": _note(value) for name, value in notes.items()},
                }
            )
        size.bytes = file.tell()


class FileSize:
    """The size of a written file."""

    bytes = 0


class ParquetInput:
    """One open file of windows or sums."""

    def __init__(self, file: Any, shown: str, with_dictionaries: bool = False) -> None:
        self._shown = shown
        self._in_parallel = with_dictionaries
        self._parquet = pq.ParquetFile(file)
        if with_dictionaries:
            known = self._parquet.schema_arrow.names
            self._parquet = pq.ParquetFile(
                file,
                metadata=self._parquet.metadata,
                read_dictionary=[name for name in DICTIONARIES if name in known],
            )
        self._schema = self._parquet.schema_arrow

    def read(self, names: Sequence[str], begin_s: int | None, end_s: int | None) -> pa.Table:
        """The rows of windows that begin in [begin_s, end_s).

        Raises UnusableDirectory for a file without these columns, and pa.ArrowException.
        """
        expected = [WINDOW_FIELDS[name] for name in names]
        fields = {field.name: _value_type(field.type) for field in self._schema}
        for field in expected:
            if fields.get(field.name) != field.type:
                raise UnusableDirectory(
                    f"{self._shown} was not written by the rollup: it has no {field.name}"
                    f" of {field.type}"
                )
        groups = [
            number
            for number in range(self._parquet.num_row_groups)
            if self._may_hold(number, begin_s, end_s)
        ]
        wanted = list(names) if _START in names else [*names, _START]
        table = self._parquet.read_row_groups(groups, columns=wanted, use_threads=self._in_parallel)
        return between(table, begin_s, end_s).select(names)

    def _may_hold(self, group: int, begin_s: int | None, end_s: int | None) -> bool:
        row_group = self._parquet.metadata.row_group(group)
        column = row_group.column(self._schema.get_field_index(_START))
        known = column.statistics if column.path_in_schema == _START else None
        if known is None or not known.has_min_max:
            return True
        first, last = known.min.timestamp(), known.max.timestamp()
        return (begin_s is None or last >= begin_s) and (end_s is None or first < end_s)


WINDOW_FIELDS: Final = {
    field.name: field for schema in (SUMS_SCHEMA, WINDOW_SCHEMA) for field in schema
}


@contextlib.contextmanager
def opened(store: Store, path: str, *, with_dictionaries: bool = False) -> Iterator[ParquetInput]:
    """Open a file for reading, with plain texts, or with dictionaries and columns in parallel.

    Raises MissingFile, and UnusableDirectory also for errors within the block.
    """
    with in_words(store, path), store.open_input(path) as file:
        yield ParquetInput(file, store.shown(path), with_dictionaries)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def between(table: pa.Table, begin_s: int | None, end_s: int | None) -> pa.Table:
    """The rows of windows that begin in [begin_s, end_s); None for no bound."""
    if not table.num_rows:
        return table
    starts = table[_START]
    span = pc.min_max(pc.cast(starts, pa.int64())).as_py()
    if begin_s is not None and span["min"] < begin_s * _MILLION:
        table = table.filter(pc.greater_equal(table[_START], _time(begin_s)))
    if end_s is not None and span["max"] >= end_s * _MILLION:
        table = table.filter(pc.less(table[_START], _time(end_s)))
    return table


class MissingFile(UnusableDirectory):
    """A file that the manifest names is missing."""


@contextlib.contextmanager
def in_words(store: Store, path: str = "") -> Iterator[None]:
    """Raise UnusableDirectory, with the path, for errors of a file in the block."""
    shown = store.shown(path)
    try:
        yield
    except FileNotFoundError:
        raise MissingFile(
            f"{shown} is missing: restore it from a copy, or begin another directory"
        ) from None
    except pa.ArrowException as problem:
        line = str(problem).partition("\n")[0]
        raise UnusableDirectory(f"{shown} is damaged: {line}") from None
    except OSError as problem:
        # PyArrow reports damage as an OSError without a number.
        line = problem.strerror or str(problem).partition("\n")[0]
        raise UnusableDirectory(f"cannot use {shown}: {line}") from None


def _time(seconds: int) -> pa.Scalar:
    return pa.scalar(seconds * _MILLION, pa.int64()).cast(TIMESTAMP)


def _note(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
