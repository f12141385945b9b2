"""Runs a scenario on one server and writes a transcript, which must be the same for two servers.

What must differ is masked: times; ids of sessions, which become their order of appearance; zxids,
which are counted from the beginning of the scenario.
"""

from typing import Any

from tests.compat.zookeeper_wire import (
    CREATE,
    SYNC,
    Closed,
    Event,
    Reply,
    Stat,
    WireClient,
    create,
    text,
)

_FIRST_SPECIAL_OWNER = 0xFF << 56


class Stage:
    """One run of one scenario; `root` is a znode of its own.

    `timeout_ms` is what the main client asks for; a server grants up to 20 of its ticks.
    """

    def __init__(self, port: int, name: str, *, timeout_ms: int = 4_000) -> None:
        self.port = port
        self._timeout_ms = timeout_ms
        self.root = f"/{name}"
        self.transcript: list[str] = []
        self._clients: list[WireClient] = []
        self._sessions: dict[int, str] = {}
        self._base_zxid = 0
        self._main = self.client(timeout_ms=timeout_ms)
        self._main.call(CREATE, create(self.root))
        self._base_zxid = self._main.call(SYNC, text("/")).zxid

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.end()

    @property
    def main(self) -> WireClient:
        """The only client that most scenarios need."""
        return self._main

    def client(self, **options: Any) -> WireClient:
        """A connected client; the options are those of `connect`."""
        client = self.bare_client()
        client.connect(**options)
        self.know(client)
        return client

    def come_back(self) -> None:
        """Reconnect the main client to its session over a new connection."""
        before, self._main = self._main, self.bare_client()
        self._main.connect(
            timeout_ms=self._timeout_ms, session_id=before.session_id, password=before.password
        )
        self.note("back as", self.know(self._main), self._main.granted_timeout_ms)

    def bare_client(self) -> WireClient:
        """A client that has not connected yet."""
        client = WireClient(self.port)
        self._clients.append(client)
        return client

    def know(self, client: WireClient) -> str:
        """The name of a client's session in the transcript."""
        if client.session_id == 0:
            return "none"
        return self._sessions.setdefault(client.session_id, f"session {len(self._sessions)}")

    def note(self, *facts: object) -> None:
        """A line of the transcript."""
        self.transcript.append(" ".join(map(str, facts)))

    def do(
        self, label: str, operation: int, record: bytes = b"", by: WireClient | None = None
    ) -> Reply | None:
        """A request; its whole answer, and the events before it, go into the transcript."""
        client = by or self._main
        try:
            reply = client.call(operation, record)
        except Closed:
            self._note_events(client)
            self.note(label, "-> closed")
            return None
        self._note_events(client)
        self.note(
            label,
            f"-> error {reply.error}, zxid {self._zxid(reply.zxid)},",
            # ZooKeeper sends a half-made record along with one error; clients read none.
            *(() if reply.error else (self._masked(reply.fields), reply.rest)),
        )
        return reply

    def expect_events(self, count: int, by: WireClient | None = None) -> None:
        """Wait for so many events and note them."""
        client = by or self._main
        for _ in range(count):
            self._note_event(client.receive_event())

    def _note_events(self, client: WireClient) -> None:
        for event in client.events:
            self._note_event(event)
        client.events.clear()

    def _note_event(self, event: Event) -> None:
        self.note("  event", event.type, event.state, event.path)

    def _zxid(self, zxid: int) -> str:
        if zxid <= 0:
            return str(zxid)
        return f"+{zxid - self._base_zxid}" if zxid > self._base_zxid else "before"

    def _masked(self, value: Any) -> Any:
        if isinstance(value, Stat):
            owner = value.ephemeral_owner
            is_session = owner != 0 and owner & _FIRST_SPECIAL_OWNER < 0x80 << 56 and owner > 0
            shown: dict[str, Any] = {  # words for some of the numbers
                "czxid": self._zxid(value.czxid),
                "mzxid": self._zxid(value.mzxid),
                "pzxid": self._zxid(value.pzxid),
                "ctime": 0,
                "mtime": 0,
                "ephemeral_owner": self._sessions.get(owner, "unknown") if is_session else owner,
            }
            return value._replace(**shown)
        if isinstance(value, tuple | list):
            return type(value)(map(self._masked, value))
        return value
