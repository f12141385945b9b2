"""The layout of a stats file: header, metrics, quota rows, request times, topics, groups. Pure.

All numbers are little-endian. 8-byte numbers lie on 8-byte boundaries, so that a reader sees the
store of one of them entirely or not at all. Sections follow one another in this order:

    header            0  magic            8 bytes  b"MILSTAT4"
                      8  pid              int64    of the writer
                     16  sequence         int64    odd while the names change
                     24  started_wall_ms  int64
                     32  written_wall_ms  int64    the writer's last tick
                     40  written_ms       int64    the same on the machine's monotonic clock
                     48  slot_capacity    int32    then row_capacity  int32
                     56  slot_count       int64    slots in use, from 0 on without a gap
                     64  process          56 bytes, name of the writer, zero-padded
                    120  groups_capacity  int64    then request_capacity, topic_capacity: int64
                    144  nothing          16 bytes
    names           160  slot_capacity x 160 bytes: kind int8 (1 counter, 2 gauge, 3 real gauge),
                         length uint8, name in ASCII
    values               slot_capacity x int64 (kinds 1 and 2) or float64 (kind 3)
    quota rows           row_capacity x ROW_BYTES: see `_ROW`; quota 0 is a free row
    request times        request_capacity x REQUEST_BYTES: name of an API in 32 bytes of ASCII,
                         empty if free; then for each of PARTS the sum in microseconds, and BUCKETS
                         counts (`histogram`): all int64
    topics               topic_capacity x TOPIC_BYTES: sequence int64, length of the name int64 (0:
                         free), TOPIC_VALUES x int64, name in 256 bytes of ASCII
    groups               sequence int64, length int64, then groups_capacity bytes, of which
                         `length` are lines of JSON (docs/metrics.md); absent if the capacity is 0

Metric values are updated in place, one by one. A quota row is protected by a sequence number that
is incremented before and after each write, so it is odd during a write. A reader that finds it odd,
or changed after copying the row, reads again. The same goes for the rows of topics and the section
of groups. Request times are stores of single numbers, like metric values.
"""

import math
import struct
from enum import IntEnum
from itertools import chain
from typing import Final, NamedTuple, get_type_hints

from cluster.metrics.histogram import BUCKETS
from cluster.model.clocks import MonotonicMs
from cluster.model.quota_pauses import NO_PAUSES, Pauses
from cluster.model.quotas import RULES, QuotaKind

MAGIC: Final = b"MILSTAT4"
_MAGIC_OF_ANY: Final = b"MILSTAT"
HEADER_BYTES: Final = 160
NAME_BYTES: Final = 160
NAME_MAX: Final = NAME_BYTES - 2

DEFAULT_SLOTS: Final = 1024
DEFAULT_ROWS: Final = 2048
DEFAULT_REQUESTS: Final = 80
"""More than there are APIs."""
DEFAULT_TOPICS: Final = 512
DEFAULT_GROUPS_BYTES: Final = 2 << 20
"""Room for some 10,000 partitions that groups have committed."""

HEADER: Final = struct.Struct("<8s5qiiq56s3q16x")
COUNTER_64: Final = struct.Struct("<q")
SEQUENCE_AT: Final = 16
WRITTEN_AT: Final = 32
SLOT_COUNT_AT: Final = 56
TWO_TIMES: Final = struct.Struct("<qq")
PROCESS_MAX_BYTES: Final = 56
GROUPS_LENGTH_AT: Final = 8
GROUPS_TEXT_AT: Final = 16
"""Offsets within the section of groups, which begins with its sequence number."""

API_NAME_BYTES: Final = 32
PARTS: Final = 7
"""The number of `kafka_names.REQUEST_PARTS`."""
HISTOGRAM_NUMBERS: Final = 1 + BUCKETS
"""A sum and the counts."""
REQUEST_BYTES: Final = API_NAME_BYTES + 8 * PARTS * HISTOGRAM_NUMBERS

TOPIC_VALUES: Final = 14
"""The number of `kafka_names.TOPIC_METRICS`."""
TOPIC_NAME_BYTES: Final = 256
TOPIC: Final = struct.Struct(f"<q{TOPIC_VALUES}q{TOPIC_NAME_BYTES}s")
"""A topic's row without the sequence number at its beginning."""
TOPIC_BYTES: Final = 8 + TOPIC.size

USER_MAX_BYTES: Final = 128
CLIENT_ID_MAX_BYTES: Final = 192
QUOTAS: Final = ("", *QuotaKind)
"""Kinds of quota by the code that a row holds; 0 marks a free row."""

SOFTWARE_MAX_BYTES: Final = 64
SAMPLES_MAX: Final = 12
"""Only the newest are kept; Kafka's default is 11 windows, and a rate may include one more."""

ROW_AT: Final = 8
"""The offset of a row's content, after its sequence number."""

_MUTED_MAX: Final = 0x7FFF
_NO_SAMPLES: Final[tuple[float, ...]] = (0, 0.0) * SAMPLES_MAX
_NOT_SET: Final = math.nan
NO_LIMITS: Final[tuple[float | None, ...]] = (None,) * len(RULES)


class MetricKind(IntEnum):
    """How the eight bytes of a metric are read."""

    COUNTER = 1
    GAUGE = 2
    REAL = 3


class Header(NamedTuple):
    """The beginning of a stats file, as described above."""

    magic: bytes
    pid: int
    sequence: int
    started_wall_ms: int
    written_wall_ms: int
    written_ms: int
    slot_capacity: int
    row_capacity: int
    slot_count: int
    process: bytes
    groups_capacity: int = 0
    request_capacity: int = 0
    topic_capacity: int = 0

    def pack(self) -> bytes:
        return HEADER.pack(*self)

    @property
    def names_at(self) -> int:
        return HEADER_BYTES

    @property
    def values_at(self) -> int:
        return HEADER_BYTES + self.slot_capacity * NAME_BYTES

    @property
    def rows_at(self) -> int:
        return self.values_at + 8 * self.slot_capacity

    @property
    def requests_at(self) -> int:
        return self.rows_at + self.row_capacity * ROW_BYTES

    @property
    def topics_at(self) -> int:
        return self.requests_at + self.request_capacity * REQUEST_BYTES

    @property
    def groups_at(self) -> int:
        return self.topics_at + self.topic_capacity * TOPIC_BYTES

    @property
    def size_bytes(self) -> int:
        """The length of the file."""
        capacity = self.groups_capacity
        return self.groups_at + (GROUPS_TEXT_AT + capacity if capacity else 0)


class OtherLayout(ValueError):
    """The stats file was written by another version of this software."""

    def __init__(self, layout: str) -> None:
        self.layout = layout
        super().__init__(f"has layout {layout}, not {MAGIC[len(_MAGIC_OF_ANY) :].decode()}")


def read_header(buffer: bytes | memoryview) -> Header:
    """Read the header of a file. Raises ValueError if it is not a stats file of this layout."""
    if len(buffer) < HEADER_BYTES:
        raise ValueError("shorter than a header")
    header = Header(*HEADER.unpack_from(buffer))
    if header.magic != MAGIC and header.magic.startswith(_MAGIC_OF_ANY):
        raise OtherLayout(header.magic[len(_MAGIC_OF_ANY) :].decode("ascii", "replace"))
    if header.magic != MAGIC:
        raise ValueError(f"begins with {header.magic!r}")
    capacities = (
        *(header.slot_capacity, header.row_capacity, header.groups_capacity),
        *(header.request_capacity, header.topic_capacity),
    )
    if min(capacities) < 0 or header.size_bytes > len(buffer):
        raise ValueError("shorter than its header says")
    return header


class QuotaRow(NamedTuple):
    """One client's use of one quota on one broker; made with keywords.

    It is a tuple because each reading of the dashboard creates thousands. Totals count from when
    the row was first used. `rate` is the rate over the window, which the quota compares with its
    limit, in bytes/s or percent of one thread.
    """

    quota: str
    user: str
    client_id: str
    rule: str | None = None
    limit: float | None = None
    limits: tuple[float | None, ...] = NO_LIMITS
    """The limit by each of `RULES` for this client; None where that rule is not configured."""
    rate: float = 0.0
    window_seconds: float = 0.0
    delay_ms: int = 0
    """The delay that a request would have now."""
    requests: int = 0
    throttled: int = 0
    usage: float = 0.0
    throttle_ms: float = 0.0
    muted_ms: float = 0.0
    muted_until_ms: int = 0
    """On the machine's monotonic clock; in the past if nothing is muted."""
    active_ms: int = 0
    """When the client was last active, on the monotonic clock."""
    written_wall_ms: int = 0
    delay_max_ms: int = 0
    """The upper bound of a delay; 0 without a bound."""
    connections: int = 0
    throttle_ms_max: int = 0
    """The longest throttle time of one request. The average is `throttle_ms` over `requests`, or
    over `throttled`."""
    software: str = ""
    """The name and version that the client sent (KIP-511); empty if it sent none."""
    pauses: Pauses = NO_PAUSES
    """Whether the client paused while it was muted for this quota."""
    samples: tuple[tuple[int, float], ...] = ()
    """The windows of the rate, oldest first: begin (monotonic ms) and the usage in it."""
    muted_channels: int = 0
    """The open connections that are currently muted for this quota."""

    @property
    def utilization(self) -> float | None:
        """Rate over limit; None without a limit, infinite where the limit is 0."""
        if self.limit is None:
            return None
        if self.limit <= 0:
            return math.inf if self.rate > 0 else 0.0
        return self.rate / self.limit

    def muted_left_ms(self, now_ms: MonotonicMs) -> int:
        """The milliseconds until this client's connections are read again."""
        return max(0, self.muted_until_ms - now_ms)

    def pack(self) -> bytes:
        """Pack the row without its sequence number."""
        user = cut(self.user, USER_MAX_BYTES)
        client_id = cut(self.client_id, CLIENT_ID_MAX_BYTES)
        software = cut(self.software, SOFTWARE_MAX_BYTES)
        samples = self.samples[-SAMPLES_MAX:]
        return _ROW.pack(
            QUOTAS.index(self.quota),
            0 if self.rule is None else 1 + RULES.index(self.rule),
            len(user),
            len(client_id),
            _NOT_SET if self.limit is None else self.limit,
            *(_NOT_SET if limit is None else limit for limit in self.limits),
            *self[_FIRST_NUMBER:_AFTER_NUMBERS],
            *self.pauses,
            len(software),
            len(samples),
            min(self.muted_channels, _MUTED_MAX),
            0,
            software,
            *chain.from_iterable(samples),
            *_NO_SAMPLES[2 * len(samples) :],
            user,
            client_id,
        )


_FIRST_NUMBER: Final = QuotaRow._fields.index("rate")
_AFTER_NUMBERS: Final = QuotaRow._fields.index("throttle_ms_max") + 1
_CODES: Final = {int: "q", float: "d"}
_HINTS: Final = get_type_hints(QuotaRow)
_NUMBERS: Final = "".join(
    _CODES[_HINTS[name]] for name in QuotaRow._fields[_FIRST_NUMBER:_AFTER_NUMBERS]
)
"""The struct codes of the fields of `QuotaRow` that are stored as they are, in its order."""
#   8 quota, rule, length of user, length of client id: 4 x int16
#  16 limit, 8 limits by rule (NaN: not set), rate, window in seconds: 11 x float64
# 104 present delay in ms, requests, throttled requests: 3 x int64
# 128 usage, throttle ms, muted ms, each since the row began: 3 x float64
# 152 muted until (monotonic ms), last active (monotonic ms), written (wall ms): 3 x int64
# 176 the longest delay in ms (0: any), open connections, the longest throttle time in ms, mutes in
#     which nothing came, mutes in which something did, connections that were muted, those on which
#     something came, mutes in which nothing came but something waited: 8 x int64
# 240 length of software, number of samples, channels that are muted now (32,767 for more), nothing:
#     4 x int16
# 248 software (name, a space, version), zero-padded ASCII
# 312 12 samples, oldest first: begin (monotonic ms) int64, value float64
# 504 user, client id, zero-padded UTF-8, cut when longer
_ROW: Final = struct.Struct(
    f"<4h{1 + len(RULES)}d{_NUMBERS}{len(NO_PAUSES)}q4h{SOFTWARE_MAX_BYTES}s{'qd' * SAMPLES_MAX}"
    f"{USER_MAX_BYTES}s{CLIENT_ID_MAX_BYTES}s"
)
ROW_BYTES: Final = 8 + _ROW.size
_NUMBERS_AT: Final = 1 + len(RULES)
_PAUSES_AT: Final = _NUMBERS_AT + len(_NUMBERS)
"""The positions after the four numbers at the beginning."""
_LENGTHS_AT: Final = _PAUSES_AT + len(NO_PAUSES)
_SAMPLES_AT: Final = _LENGTHS_AT + 5


def unpack_row(buffer: bytes | memoryview, *, with_samples: bool = True) -> QuotaRow | None:
    """Unpack a row without its sequence number; None if it is free. Raises ValueError if invalid.

    Most of a row's objects are its samples, which not all readers need.
    """
    quota, rule, user_size, client_size, *numbers = _ROW.unpack_from(buffer)
    if quota == 0:
        return None
    if not (0 < quota < len(QUOTAS) and 0 <= rule <= len(RULES)):
        raise ValueError(f"quota {quota}, rule {rule}")
    # An unset limit is NaN, which is not equal to itself.
    limit, *limits = [each if each == each else None for each in numbers[:_NUMBERS_AT]]
    user, client_id = numbers[-2:]
    software_size, sample_count, muted_channels, _, software = numbers[_LENGTHS_AT:_SAMPLES_AT]
    pairs = iter(numbers[_SAMPLES_AT:-2][: 2 * max(0, sample_count)] if with_samples else ())
    return QuotaRow._make(
        (
            QUOTAS[quota],
            user[:user_size].decode("utf-8", "replace"),
            client_id[:client_size].decode("utf-8", "replace"),
            None if rule == 0 else RULES[rule - 1],
            limit,
            tuple(limits),
            *numbers[_NUMBERS_AT:_PAUSES_AT],
            software[:software_size].decode("utf-8", "replace"),
            Pauses(*numbers[_PAUSES_AT:_LENGTHS_AT]),
            tuple(zip(pairs, pairs, strict=True)),
            muted_channels,
        )
    )


def cut(text: str, size_bytes: int) -> bytes:
    """At most `size_bytes` bytes of UTF-8, in whole characters."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= size_bytes:
        return encoded
    return encoded[:size_bytes].decode("utf-8", "ignore").encode()


DEFAULT_SIZE_BYTES: Final = Header(
    *(MAGIC, 0, 0, 0, 0, 0, DEFAULT_SLOTS, DEFAULT_ROWS, 0, b""),
    *(DEFAULT_GROUPS_BYTES, DEFAULT_REQUESTS, DEFAULT_TOPICS),
).size_bytes
"""The length of a broker's file."""
