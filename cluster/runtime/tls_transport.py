"""Transports the bytes of one TLS connection after its handshake (RFC 5246, RFC 8446).

OpenSSL encrypts between two buffers in memory, and this module moves their contents to and from the
socket, so that one system call takes many of the small records that librdkafka writes. Every call
does a bounded amount of work, so no connection can block the others, whatever it sends, reads or
requests of TLS itself (renegotiation is refused, a flood of key updates is cut off).
"""

import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from typing import Final

from cluster.model.errors import PeerError
from cluster.runtime.loop import EventLoop, HasFileno
from cluster.runtime.transport import Buffer

RECORD_BYTES: Final = 16 * 1024
"""The most plain text of one record; its encrypted form is at most 256 bytes longer."""
_PIECE_BYTES: Final = 4 * RECORD_BYTES
"""Given to the socket at once: as much may be held, encrypted, until the socket takes it."""
_TURN_BYTES: Final = 4 * _PIECE_BYTES
"""Encrypted or decrypted in one call: 0.1 to 0.2 ms of one core."""
CAUTIOUS_BYTES: Final = RECORD_BYTES
"""Read in one call while what comes may be no data."""
BARREN_PER_TURN: Final = 32
"""Records without data in one call; what comes behind them waits for the next turn. A key update
costs 20 microseconds, and 10,000 of them could be in one call."""
_RECORDS_OF_PIECE: Final = 32
_HEADER_BYTES: Final = 5
_SIZE_IN_HEADER: Final = struct.Struct(">3xH")
_FRUITLESS_MAX_BYTES: Final = 4 * RECORD_BYTES
"""What may come without any data: one record that has not come whole, and some key updates."""
_WAKE_MIN_BYTES: Final = 4 * 1024
"""For less of a request it is not worth telling the socket."""
_WAKE_MAX_BYTES: Final = 32 * 1024
"""Waited for at once. More would save little, and leave less room in the socket's buffer."""
_MORE: Final = getattr(socket, "MSG_MORE", 0)


class TlsScratch:
    """Memory for the duration of one call of a transport; shared by all transports of a thread."""

    __slots__ = ("file", "received")

    def __init__(self) -> None:
        self.received = memoryview(bytearray(_TURN_BYTES))
        """Encrypted bytes on their way from a socket."""
        self.file = memoryview(bytearray(_PIECE_BYTES))
        """A part of a file on its way to a client."""


class _Framing:
    """Finds the record boundaries of a TLS stream: each record has a header of 5 bytes."""

    __slots__ = ("_header", "left_bytes")

    def __init__(self) -> None:
        self._header = b""
        """The beginning of a header that has not come whole."""
        self.left_bytes = 0
        """How many bytes of a record are still to come."""

    def piece(self, data: memoryview, begin: int) -> tuple[int, int]:
        """Find the end of a piece, and the number of records that end in it.

        A piece has 16 KiB plus the rest of a record; less at the end of the data, or because of the
        limit of records.
        """
        end = len(data)
        position, count = begin, 0
        if self._header:
            position += _HEADER_BYTES - len(self._header)
            header = self._header + data[begin:position]
            if len(header) < _HEADER_BYTES:
                self._header = header
                return end, 0
            self._header = b""
            self.left_bytes = header[3] << 8 | header[4]
            count = 1
        elif self.left_bytes:
            count = 1
        position += self.left_bytes
        enough = begin + RECORD_BYTES
        last_header = min(end - _HEADER_BYTES, enough - 1)
        size_at = _SIZE_IN_HEADER.unpack_from  # once for each record, so with little Python code
        while position <= last_header and count < _RECORDS_OF_PIECE:
            position += _HEADER_BYTES + size_at(data, position)[0]
            count += 1
        if position > end:
            self.left_bytes = position - end
            return end, count - 1
        self.left_bytes = 0
        if position + _HEADER_BYTES <= end:
            return position, count
        self._header = bytes(data[position:])
        return end, count


class TlsTransport:
    """A non-blocking TCP socket with TLS; implements `Transport`. For its loop's thread only.

    Invariant: bytes count as sent only when the socket has taken all of their encrypted form. The
    owner offers the others again when the socket is writable.
    """

    __slots__ = (
        "_encrypted",
        "_expected_bytes",
        "_framing",
        "_fruitless_bytes",
        "_has_ended",
        "_incoming",
        "_is_holding",
        "_kept",
        "_loop",
        "_outgoing",
        "_read_count",
        "_receive_bytes",
        "_scratch",
        "_socket",
        "_stream",
        "_taken_ahead_bytes",
        "_wake_bytes",
    )

    def __init__(
        self,
        connection: socket.socket,
        stream: ssl.SSLObject,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        loop: EventLoop,
        scratch: TlsScratch,
    ) -> None:
        """`incoming` and `outgoing` are the buffers of `stream`, whose handshake is done."""
        self._socket = connection
        self._stream = stream
        self._incoming = incoming
        self._outgoing = outgoing
        self._loop = loop
        self._scratch = scratch
        self._encrypted: memoryview | None = None
        """What the socket has not taken of what was encrypted last."""
        self._taken_ahead_bytes = 0
        """How many bytes of the owner that was."""
        self._fruitless_bytes = 0
        self._read_count = 0
        """Records with data in the piece that is being decrypted."""
        self._receive_bytes = CAUTIOUS_BYTES
        self._expected_bytes = 0
        """How much of a request has not been received yet."""
        self._wake_bytes = 1
        """The socket is ready as soon as it has so many encrypted bytes."""
        self._has_ended = False
        self._framing = _Framing()
        self._kept = incoming.read()
        """Encrypted bytes that are for the next turn; at first, what came with the handshake."""
        self._is_holding = False
        self._hold(bool(self._kept))

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._encrypted is None else len(self._encrypted)

    def fileno(self) -> int:
        return self._socket.fileno()

    # -- receiving -------------------------------------------------------------------------------

    def receive_into(self, buffer: memoryview) -> int:
        """Raises PeerError for records that are damaged or carry nothing."""
        try:
            filled = 0
            if self._is_holding:
                filled = self._decrypt(buffer, 0, 0)
            if self._kept:
                if filled < len(buffer):
                    kept, self._kept = self._kept, b""
                    filled = self._feed(memoryview(kept), buffer, filled)
            elif filled == 0 and not self._has_ended:
                filled = self._receive(buffer)
        except ssl.SSLError as error:
            self._send_alert()
            raise PeerError(f"TLS: {reason_of(error)}") from error
        self._hold(bool(self._kept) or (filled == len(buffer) and self._has_more_inside()))
        if self._expected_bytes or self._wake_bytes > 1:
            self.expect(max(0, self._expected_bytes - filled))
        if filled == 0 and not self._has_ended:
            raise BlockingIOError
        return filled

    def expect(self, size_bytes: int) -> None:
        """librdkafka gives the socket each of its small records by itself, so each
        would be a wake-up, which takes more time than its decryption.
        """
        self._expected_bytes = size_bytes
        if self._is_holding:
            return  # the loop reads anyway
        # At least as many encrypted bytes will come, except for those of an incomplete record that
        # is already inside.
        left_bytes = self._framing.left_bytes
        if left_bytes:
            size_bytes = left_bytes + max(0, size_bytes - RECORD_BYTES)
        wake_bytes = min(size_bytes, _WAKE_MAX_BYTES) if size_bytes >= _WAKE_MIN_BYTES else 1
        if wake_bytes != self._wake_bytes:
            self._wake_bytes = wake_bytes
            with contextlib.suppress(OSError):  # receiving reports a lost connection
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_bytes)

    def _receive(self, buffer: memoryview) -> int:
        """Receive and decrypt; bytes that do not fit stay inside for the next call."""
        limit = min(self._receive_bytes, max(len(buffer), RECORD_BYTES))
        received = self._scratch.received
        size = self._socket.recv_into(received, limit)
        if size == 0:
            self._has_ended = True
            return 0
        return self._feed(received[:size], buffer, 0)

    def _feed(self, data: memoryview, buffer: memoryview, filled: int) -> int:
        """Pass encrypted bytes to OpenSSL and append its output to the `filled` bytes of a
        buffer."""
        before, barren, position = filled, 0, 0
        while (
            position < len(data)
            and filled < len(buffer)
            and barren < BARREN_PER_TURN
            and not self._has_ended
        ):
            # In pieces, because OpenSSL's buffer never shrinks.
            end, records = self._framing.piece(data, position)
            self._incoming.write(data[position:end])
            position = end
            self._read_count = 0
            filled = self._decrypt(buffer, filled, records)
            barren += max(0, records - self._read_count)  # each has its own read
        self._kept = bytes(data[position:])
        self._judge(position, filled - before)
        return filled

    def _decrypt(self, buffer: memoryview, filled: int, records: int) -> int:
        """Append OpenSSL's output to the `filled` bytes of a buffer; returns their new number.

        `records` is the number of complete records, if known.
        """
        # Runs once for each record, and librdkafka's are small, so it has little Python code.
        stream, incoming = self._stream, self._incoming
        # With a buffer it returns a size (typeshed only knows the other form).
        read: Callable[[int, memoryview], int] = stream.read  # type: ignore[assignment]
        end, count = len(buffer), 0
        try:
            while filled < end:
                size = read(RECORD_BYTES, buffer[filled:])
                if size == 0:
                    self._has_ended = True
                    break
                filled += size
                count += 1
                if count >= records and not incoming.pending and not stream.pending():
                    break  # avoids the exception that ends the loop
        except ssl.SSLWantReadError:
            pass
        self._read_count += count
        return filled

    def _has_more_inside(self) -> bool:
        return self._incoming.pending > 0 or self._stream.pending() > 0

    def _hold(self, is_holding: bool) -> None:
        if is_holding is not self._is_holding:
            self._is_holding = is_holding
            self._loop.mark_readable(self._socket.fileno(), is_holding)

    def _judge(self, taken: int, filled: int) -> None:
        """Bound the work for a client that sends no data."""
        self._receive_bytes = _TURN_BYTES if filled else CAUTIOUS_BYTES
        self._fruitless_bytes = 0 if filled else self._fruitless_bytes + taken
        if self._fruitless_bytes > _FRUITLESS_MAX_BYTES:
            raise PeerError("TLS: too many records that carry no data")
        if self._outgoing.pending > RECORD_BYTES:
            raise PeerError("TLS: too many protocol messages that require an answer")

    # -- sending ---------------------------------------------------------------------------------

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        taken = self._finish_last()
        data = _joined(buffers, taken)
        position = 0
        while position < len(data):
            piece = data[position : position + _PIECE_BYTES]
            if not self._send(piece, more=more or position + len(piece) < len(data)):
                break
            position += len(piece)
        return self._reported(taken + position)

    def send_file(self, source: HasFileno, position: int, size_bytes: int) -> int:
        taken = self._finish_last()
        end = min(size_bytes, taken + _TURN_BYTES)
        while taken < end:
            piece = self._scratch.file[: size_bytes - taken]
            count = os.preadv(source.fileno(), [piece], position + taken)
            if count == 0:
                return taken
            if not self._send(piece[:count], more=taken + count < size_bytes):
                break
            taken += count
        return self._reported(taken)

    def _finish_last(self) -> int:
        """Send the rest of the previous piece; returns how many of the owner's bytes that
        completes.

        Raises BlockingIOError if the socket does not take all of it.
        """
        if self._encrypted is not None:
            sent = self._socket.send(self._encrypted)
            if sent < len(self._encrypted):
                self._encrypted = self._encrypted[sent:]
                raise BlockingIOError
            self._encrypted = None
        taken, self._taken_ahead_bytes = self._taken_ahead_bytes, 0
        return taken

    def _reported(self, taken: int) -> int:
        if taken == 0 and self._encrypted is not None:
            raise BlockingIOError
        return taken

    def _send(self, piece: memoryview, *, more: bool) -> bool:
        """Encrypt and send; False if the socket does not take all of it now."""
        records: list[bytes] = []
        try:
            for first in range(0, len(piece), RECORD_BYTES):
                record = piece[first : first + RECORD_BYTES]
                while record:
                    written = self._stream.write(record)  # mypyc would call it twice inside of []
                    record = record[written:]
                records.append(self._outgoing.read())  # one record at a time: see `_receive`
        except ssl.SSLError as error:
            raise PeerError(f"TLS: {reason_of(error)}") from error
        try:
            sent = self._socket.sendmsg(records, (), _MORE if more else 0)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent == sum(map(len, records)):
            return True
        self._encrypted = memoryview(b"".join(records))[sent:]
        self._taken_ahead_bytes = len(piece)
        return False

    # -- close
    # ---------------------------------------------------------------------------------------

    def _send_alert(self) -> None:
        if self._encrypted is None and self._outgoing.pending:
            with contextlib.suppress(OSError):
                self._socket.send(self._outgoing.read())

    def close(self) -> None:
        """Says to the peer that nothing follows (close_notify), if it can."""
        self._hold(False)
        if self._encrypted is None:
            with contextlib.suppress(OSError):
                self._stream.unwrap()  # does not wait: it raises if the peer has not closed
            self._send_alert()
        self._socket.close()


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason in plain words, such as `certificate expired`."""
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_message:
        return f"certificate verify failed: {error.verify_message}"
    return (error.reason or error.strerror or "unknown").lower().replace("_", " ")


def _joined(buffers: Sequence[Buffer], skip: int) -> memoryview:
    """At most `_TURN_BYTES` bytes of these buffers, after the first `skip` bytes."""
    if len(buffers) == 1:
        return memoryview(buffers[0])[skip : skip + _TURN_BYTES]
    parts: list[Buffer] = []
    room = _TURN_BYTES
    for buffer in buffers:
        if skip >= len(buffer):
            skip -= len(buffer)
            continue
        part = memoryview(buffer)[skip : skip + room]
        skip = 0
        room -= len(part)
        parts.append(part)
        if room == 0:
            break
    return memoryview(b"".join(parts))
