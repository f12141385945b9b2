"""The walk over the heads of records: Python against C, and both against the plain reader."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import Refused
from cluster.records import walk as chosen
from cluster.records.batch import read_header
from cluster.records.builder import NewRecord, build_batch
from cluster.records.reader import Record, records_of_batch
from cluster.records.varint import write_varint
from cluster.records.walk_plain import Problem, walk
from tests.support.compiled_walk import compile_walk
from tests.support.examples import examples

BASE = 1_700_000_000_000


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compile_walk(tmp_path_factory.mktemp("walk"))


def body_of(records: list[NewRecord]) -> bytes:
    return bytes(build_batch(records)[61:])


def read(data: bytes, count: int) -> list[Record]:
    """Read with the plain reader. Raises Refused."""
    header = read_header(build_batch([NewRecord(b"v", timestamp_ms=BASE)]))
    return list(records_of_batch(header._replace(record_count=count), memoryview(bytes(61) + data)))


def check(compiled: Any, data: bytes, count: int) -> tuple[int, ...]:
    """Compare both walks with each other, and with the reader if they accept the records."""
    found = tuple(int(each) for each in walk(data, count))
    assert compiled.walk(data, count) == found
    assert walk(bytearray(data), count) == found
    problem, index, least, largest, keyless, is_numbered = found
    if problem == Problem.NONE:
        records = read(data, count)
        assert index == count == len(records)
        stamps = [record.timestamp_ms for record in records]
        assert (BASE + least, BASE + largest) == (min(stamps), max(stamps))
        keys = [record.key for record in records]
        assert keyless == (keys.index(None) if None in keys else -1)
        assert bool(is_numbered) is ([each.offset for each in records] == list(range(count)))
    return found


field = st.none() | st.binary(max_size=70) | st.binary(min_size=64, max_size=66).map(bytes)
header_lists = st.lists(st.tuples(st.text(max_size=3), field), max_size=3).map(tuple)
deltas = st.sampled_from([0, 1, 63, 64, 8191, 8192, 10**6, -1, -64, -65]) | st.integers(
    -(2**40), 2**40
)
records_of_all_kinds = st.lists(
    st.builds(
        NewRecord,
        value=field,
        key=field,
        timestamp_ms=deltas.map(lambda delta: BASE + delta),
        headers=header_lists,
    ),
    min_size=1,
    max_size=30,
)


@st.composite
def runs(draw: st.DrawFn) -> list[NewRecord]:
    """Records of the same shape side by side, as producers send them, with others in between."""
    records: list[NewRecord] = []
    for _ in range(draw(st.integers(1, 4))):
        size, key_size = draw(st.integers(0, 200)), draw(st.none() | st.integers(0, 70))
        headers = draw(header_lists)
        stamp, step = draw(deltas), draw(st.sampled_from([0, 1, 7, -1]))
        key = None if key_size is None else bytes(key_size)
        count = draw(st.sampled_from([1, 8, 9, 70, 200]))
        records += [
            NewRecord(bytes(size), key, BASE + stamp + step * number, headers)
            for number in range(count)
        ]
    return records


@examples(100)
@given(records=records_of_all_kinds | runs())
def test_sound_records_are_walked_as_the_reader_reads_them(
    compiled: Any, records: list[NewRecord]
) -> None:
    body = body_of(records)
    base_delta = records[0].timestamp_ms - BASE
    problem, index, least, largest, keyless, is_numbered = check(compiled, body, len(records))
    assert (problem, index, is_numbered) == (Problem.NONE, len(records), True)
    stamps = [record.timestamp_ms - BASE - base_delta for record in records]
    assert (least, largest) == (min(stamps), max(stamps))
    keys = [record.key for record in records]
    assert keyless == (keys.index(None) if None in keys else -1)


@examples(200)
@given(records=records_of_all_kinds | runs(), data=st.data())
def test_damaged_records_are_walked_alike(
    compiled: Any, records: list[NewRecord], data: st.DataObject
) -> None:
    body = bytearray(body_of(records))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                body[place] = data.draw(st.integers(0, 255))
            case 1:
                body[place] ^= 1 << data.draw(st.integers(0, 7))
            case 2:
                body[place:place] = data.draw(st.binary(min_size=1, max_size=3))
            case 3:
                del body[max(1, place) :]
    count = max(1, len(records) + data.draw(st.sampled_from([0, 0, 0, 1, -1])))
    problem, index, *_ = check(compiled, bytes(body), count)
    if problem == Problem.LEFT_OVER:
        assert index == count


def test_a_batch_cut_short_in_the_value_of_its_last_header_has_a_record_of_wrong_size(
    compiled: Any,
) -> None:
    body = body_of([NewRecord(None, timestamp_ms=BASE, headers=(("", b"v"),))])
    problem, index, *_ = check(compiled, body[:-1], 1)
    assert (problem, index) == (Problem.SIZE, 0)


@examples(200)
@given(garbage=st.binary(max_size=120), count=st.integers(1, 9))
def test_garbage_is_walked_alike(compiled: Any, garbage: bytes, count: int) -> None:
    check(compiled, garbage, count)


@examples(100)
@given(records=records_of_all_kinds, data=st.data())
def test_walks_accept_no_batch_that_the_reader_refuses(
    compiled: Any, records: list[NewRecord], data: st.DataObject
) -> None:
    body = bytearray(body_of(records))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    is_read = True
    try:
        read(bytes(body), len(records))
    except Refused:
        is_read = False
    problem, *_ = check(compiled, bytes(body), len(records))
    assert is_read or problem != Problem.NONE


@pytest.mark.parametrize("count", [64, 65, 8192, 8193, 20_000])
@pytest.mark.parametrize("sizes", [[10], [10, 11], [150], [10] * 40 + [11]])
def test_offsets_of_one_two_and_three_bytes(compiled: Any, count: int, sizes: list[int]) -> None:
    """A wrong offset is found alone and in a run of right ones."""
    records = [NewRecord(bytes(sizes[n % len(sizes)]), None, BASE) for n in range(count)]
    body = body_of(records)
    assert compiled.walk(body, count) == walk(body, count) == (0, count, 0, 0, 0, True)
    last = len(body) - len(body_of(records[:1])) - 1
    for place in range(last, len(body), 3):
        damaged = bytearray(body)
        damaged[place] ^= 2
        found = walk(bytes(damaged), count)
        assert compiled.walk(bytes(damaged), count) == tuple(int(each) for each in found)


def a_record(timestamp: bytes = b"\0", offset: bytes = b"\0", size: bytes = b"") -> bytes:
    fields = b"\0" + timestamp + offset + b"\1\1\0"
    framed = bytearray()
    write_varint(framed, len(fields))
    return (size or bytes(framed)) + fields


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (a_record(), Problem.NONE),
        (a_record(timestamp=b"\xff" * 9 + b"\x01"), Problem.NONE),
        (a_record(timestamp=b"\xff" * 9 + b"\x02"), Problem.NUMBER),
        (a_record(timestamp=b"\xff" * 10 + b"\x01"), Problem.NUMBER),
        (a_record(offset=b"\xff\xff\xff\xff\x0f"), Problem.NONE),
        (a_record(offset=b"\xff\xff\xff\xff\x10"), Problem.NUMBER),
        (a_record(size=b"\x8c\x80\x80\x80\x00"), Problem.NONE),
        (a_record(size=b"\x8c\x80\x80\x80\x80\x00"), Problem.NUMBER),
        (a_record(size=b"\x8c\x80\x80\x80\x10"), Problem.NUMBER),
        (b"\x80", Problem.NUMBER),
        (b"", Problem.MISSING),
    ],
)
def test_numbers_have_at_most_so_many_bits(compiled: Any, data: bytes, problem: Problem) -> None:
    assert check(compiled, data, 1)[0] == problem


def test_the_largest_numbers_of_records_do_not_overflow(compiled: Any) -> None:
    # 2^31 - 1 headers, and a value of 2^31 - 1 bytes.
    for tail in (b"\1\1\xfe\xff\xff\xff\x0f", b"\1\xfe\xff\xff\xff\x0f\0"):
        fields = b"\0\0\0" + tail
        framed = bytearray()
        write_varint(framed, len(fields))
        assert check(compiled, bytes(framed) + fields, 1)[0] != Problem.NONE
    assert check(compiled, b"\xfe\xff\xff\xff\x0f\0", 2**31 - 1)[0] == Problem.SIZE


def test_the_version_of_the_source_is_the_one_that_is_used(compiled: Any) -> None:
    assert compiled.VERSION == chosen._VERSION  # noqa: SLF001


def test_any_buffer_is_taken(compiled: Any) -> None:
    body = body_of([NewRecord(b"v", b"k", BASE)])
    for data in (body, bytearray(body), memoryview(body), memoryview(bytearray(body))):
        assert compiled.walk(data, 1) == tuple(chosen.walk(data, 1)) == (0, 1, 0, 0, -1, 1)
    for arguments in ((body,), (body, 1, 2), (body, "1"), ("text", 1)):
        with pytest.raises(TypeError):
            compiled.walk(*arguments)
