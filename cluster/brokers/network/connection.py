"""The interfaces for answering a request: the client's connection and the parts of an answer."""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from cluster.brokers.network.purgatory import Cancellable
from cluster.runtime.loop_time import Payer


class FileRegion(Protocol):
    """A range of a file to send: from the mapping if small, by sendfile if large."""

    @property
    def position(self) -> int:
        """The start of the region in the file."""
        ...

    @property
    def size_bytes(self) -> int: ...

    def fileno(self) -> int:
        """The descriptor of the open file."""
        ...

    def view(self) -> memoryview:
        """The region in the mapping, `size_bytes` long."""
        ...


Outgoing: TypeAlias = "bytes | bytearray | memoryview | FileRegion"


class MuteReason:
    """Reasons not to read a connection: bits of an int.

    They are no enum, whose operators are calls: each request sets and clears a reason.
    """

    RESPONSE_PENDING: Final = 1
    QUOTA: Final = 2
    MEMORY: Final = 4
    CLOSING: Final = 8


class PendingLogin(Protocol):
    """A login handler, which receives the requests of a connection until it is authenticated."""

    def on_frame(self, channel: "Connection", frame: memoryview) -> bool:
        """Take a request and answer it; False if it may be processed normally. Raises PeerError."""
        ...


class PendingAnswer(Protocol):
    """The answer to a request that later ones of its connection may overtake."""

    arrived_ns: int
    """`Connection.arrived_ns` at the request."""
    note: Callable[[int, int], object] | None
    """Called as `Connection.answered` once this answer is sent."""

    def respond(self, buffers: list[Outgoing]) -> None:
        """Give the answer; it is sent after those to earlier requests."""
        ...


class Connection(Protocol):
    """The source of requests and destination of answers: a `Channel`, or a test double."""

    peer: str
    """Address and port."""
    listener_name: str
    """The listener it came in by."""
    host: str
    """The address of the peer, as text."""
    principal: str
    """Who the peer has proved to be."""
    login: PendingLogin | None
    """Takes its requests while it has to log in; None: there is nothing to prove."""
    session: Any
    """What the login has left behind; None where there was none."""
    deadline: Cancellable | None
    """A call that is cancelled at close: the end of the time for the login, or of the session."""
    max_frame_bytes: int
    """A larger request closes it."""
    is_open: bool
    """False once it is closed."""
    on_close: Callable[[], None] | None
    """Called at close: removes what waits for this connection."""
    payer: Payer
    """What the thread's work for it takes of its time, of which its requests are charged."""
    software: tuple[str, str]
    """Name and version of the client's software (KIP-511); empty until it says so."""
    routes: dict[int, Any]
    """What the request layer remembers of its requests."""
    arrived_ns: int
    """Monotonic time at which bytes last came, or were taken up again after it was muted."""
    answered: list[Callable[[int, int], object]]
    """Called once the answers given so far are sent, and then forgotten: with the monotonic times
    in ns at which that was tried first and done, or when the connection was closed before."""

    pending_count: int
    """How many answers to earlier requests are pending (`go_on`)."""

    def respond(self, buffers: list[Outgoing] | None) -> None:
        """Answer the request in progress; None if it has no answer (acks=0).

        Only the latter is possible while answers are pending; all others `go_on` before.
        """
        ...

    def go_on(self, weight: int) -> PendingAnswer:
        """Hand over the next Produce request before the one in progress is answered.

        `weight` is the number of partitions in its answer. `on_close` is called as long as the
        answer is not given.
        """
        ...

    def after_earlier(self, callback: Callable[[], None]) -> None:
        """Call `callback` once all pending answers are given, to answer the request in progress."""
        ...

    def end(self, reason: str | None) -> None:
        """Close it after the pending answers; nothing more is read."""
        ...

    def close(self, reason: str | None) -> None:
        """Close it; `reason` is logged, unless it is None."""
        ...

    def hold(self, size_bytes: int, *, is_worked_on: bool = False) -> None:
        """Count the memory of the request in progress until it is answered.

        If others wait for memory, it is closed after a while, unless its request is worked on.
        """
        ...

    def let_go(self) -> None:
        """The request in progress holds no memory any more."""
        ...

    @property
    def kept_bytes(self) -> int:
        """Received bytes of requests that are not handed over yet."""
        ...

    def arrived_bytes(self) -> int:
        """Bytes that the kernel has received and this process has not read."""
        ...

    def mute(self, reason: int) -> None:
        """Stop reading for a `MuteReason`."""
        ...

    def unmute(self, reason: int) -> None:
        """Clear one reason; reading resumes without any reason left."""
        ...
