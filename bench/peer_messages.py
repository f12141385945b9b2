"""What a message between brokers costs: `python -m bench.peer_messages`.

Each figure is printed beside msgpack's own for the same bytes; the difference is due to checks and
to the objects that are created.
"""

import timeit
from collections.abc import Callable

import msgpack

from cluster.model.errors import ErrorCode
from cluster.protocol.peer.codec import decode, encode
from cluster.protocol.peer.replication import (
    FetchAnswer,
    FetchedPartition,
    FetchPosition,
    FileSource,
    FollowerFetch,
)


def main() -> None:
    """Print one line per message and number of partitions."""
    print(f"{'':<32} {'encode':>10} {'decode':>10} {'msgpack alone':>14}")
    for count in (1, 1_000):
        for title, message in (("fetch", _fetch(count)), ("answer", _answer(count))):
            frames = [bytes(frame) for frame in encode(message)]
            packed = _best_us(lambda message=message: encode(message), count)
            read = _best_us(lambda frames=frames: decode(frames), count)
            alone = _best_us(lambda frames=frames: msgpack.unpackb(frames[0]), count)
            name = f"{title} of {count} partitions"
            print(f"{name:<32} {packed:>7.1f} us {read:>7.1f} us {alone:>11.1f} us")


def _fetch(count: int) -> FollowerFetch:
    positions = [FetchPosition("orders", number, 3, 100_000, 3, 0) for number in range(count)]
    return FollowerFetch(1, "here", 12_345, 7, positions, [], 500, 10 << 20, True)


def _answer(count: int) -> FetchAnswer:
    partitions = []
    for number in range(count):
        path = f"/var/lib/milena/broker-1/orders-{number}/00000000000000000000.log"
        source = FileSource(path, 123_456, 7_890, 4_000)
        fetched = FetchedPartition("orders", number, 3, ErrorCode.none, 9, 0, None, source)
        partitions.append(fetched)
    return FetchAnswer(12_345, 7, ErrorCode.none, partitions)


def _best_us(call: Callable[[], object], count: int) -> float:
    number = max(1, 2_000 // count)
    return min(timeit.repeat(call, number=number, repeat=200)) / number * 1e6


if __name__ == "__main__":
    main()
