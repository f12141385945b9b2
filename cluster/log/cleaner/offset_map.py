"""Maps each key to its newest offset, with 24 bytes of bounded memory for each. Pure.

A row is two 64-bit hashes of the key and its offset, so two keys collide only if 128 bits agree
(Kafka's SkimpyOffsetMap keeps 16 bytes of MD5). The hashes are the interpreter's own keyed ones,
which an outsider cannot predict; they are valid in one process only.
"""

import mmap
import sys
from collections.abc import Callable
from hashlib import blake2b
from struct import Struct
from typing import Final

ROW_BYTES: Final = 24
NOT_FOUND: Final = -1
_PRIME_GAP: Final = 512
"""More than there is between any two primes that matter here."""
_SALT: Final = b"\xa5second"
_TWO_WORDS: Final = Struct("=qq")
_HASHES_ARE_KEYED: Final = sys.hash_info.algorithm.startswith("siphash")


def _digest_word(key: bytes) -> int:
    """A slow hash, used if the interpreter's own is weak."""
    word: int = _TWO_WORDS.unpack(blake2b(key, digest_size=16).digest())[0]
    return word


_hash: Final[Callable[[bytes], int]] = hash if _HASHES_ARE_KEYED else _digest_word


class OffsetMap:
    """A map from keys to offsets; keys can be added but not removed.

    Invariant: `size <= capacity`, and the memory never exceeds `memory_bytes`.
    """

    __slots__ = (
        "_rows",
        "_slots",
        "_words",
        "capacity",
        "latest_offset",
        "memory_bytes",
        "size",
    )

    def __init__(self, memory_bytes: int, load_factor: float, keys_max: int) -> None:
        """Allocate room for the keys that fit into `memory_bytes` filled to `load_factor`.

        Less is allocated if there are at most `keys_max` keys.
        """
        affordable = memory_bytes // ROW_BYTES
        wanted = int(keys_max / load_factor) + _PRIME_GAP
        self._slots = _largest_prime(max(3, min(affordable, wanted)))
        self._words = 3 * self._slots
        self.capacity = max(1, int(self._slots * load_factor))
        self.memory_bytes = self._slots * ROW_BYTES
        # Zeroed pages take no memory until they are written.
        self._rows = memoryview(mmap.mmap(-1, self.memory_bytes)).cast("q")
        self.size = 0
        self.latest_offset = NOT_FOUND
        """The largest offset up to which records were looked at."""

    def put(self, key: bytes, offset: int) -> bool:
        """Set the newest offset of a key; False, without a change, if the map is full."""
        rows = self._rows
        first = _hash(key) or 1  # 0 marks a free row
        second = _hash(key + _SALT)
        word = first % self._slots * 3
        found = rows[word]
        if found:
            if found == first and rows[word + 1] == second:
                rows[word + 2] = offset
                return True
            step, words = self._step(second), self._words
            while True:
                word = (word + step) % words
                found = rows[word]
                if not found:
                    break
                if found == first and rows[word + 1] == second:
                    rows[word + 2] = offset
                    return True
        if self.size >= self.capacity:
            return False
        rows[word] = first
        rows[word + 1] = second
        rows[word + 2] = offset
        self.size += 1
        return True

    def get(self, key: bytes) -> int:
        """The newest offset of a key; -1 if the key is absent."""
        rows = self._rows
        first = _hash(key) or 1
        second = _hash(key + _SALT)
        word = first % self._slots * 3
        found = rows[word]
        if found:
            if found == first and rows[word + 1] == second:
                return rows[word + 2]
            step, words = self._step(second), self._words
            while True:
                word = (word + step) % words
                found = rows[word]
                if not found:
                    break
                if found == first and rows[word + 1] == second:
                    return rows[word + 2]
        return NOT_FOUND

    def _step(self, second: int) -> int:
        """Words to the next row to probe: never a multiple of the size, which is a prime of
        rows."""
        return (second % (self._slots - 1) + 1) * 3

    def note_seen(self, offset: int) -> None:
        """Record that every offset up to this one was processed."""
        self.latest_offset = max(self.latest_offset, offset)


def _largest_prime(limit: int) -> int:
    """The largest prime number not above a limit of at least 3."""
    number = limit
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
