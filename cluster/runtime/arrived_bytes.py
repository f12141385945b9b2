"""How many bytes of a connection wait in the kernel: a question to it that takes none of them."""

import fcntl
import struct
import termios
from typing import Final

_INT: Final = struct.Struct("i")
_ROOM: Final = bytes(_INT.size)


def arrived_bytes(descriptor: int) -> int:
    """Bytes that a socket has received and nobody has read; 0 where that cannot be known.

    FIONREAD of ioctl(2); about a microsecond.
    """
    try:
        count: int = _INT.unpack(fcntl.ioctl(descriptor, termios.FIONREAD, _ROOM))[0]
    except OSError:
        return 0
    return count
