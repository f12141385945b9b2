"""What the layers above the network know of a connection's client. Pure."""

from typing import Any

from cluster.brokers.network.connection import PendingLogin
from cluster.brokers.network.purgatory import Cancellable
from cluster.model.security import ANONYMOUS


class ClientFacts:
    """The base of a channel; the layers above change all but the addresses."""

    __slots__ = (
        "deadline",
        "host",
        "listener_name",
        "login",
        "max_frame_bytes",
        "peer",
        "principal",
        "routes",
        "session",
        "software",
    )

    def __init__(self, peer: str, listener_name: str, max_frame_bytes: int) -> None:
        self.peer = peer
        self.host = peer.rpartition(":")[0]
        """The address of the peer, as text."""
        self.listener_name = listener_name
        self.principal = ANONYMOUS
        """Who the peer has proved to be."""
        self.login: PendingLogin | None = None
        """Takes the requests while the peer has to log in; None: there is nothing to prove."""
        self.session: Any = None
        """What the login has left behind."""
        self.deadline: Cancellable | None = None
        """A call that is cancelled at close."""
        self.max_frame_bytes = max_frame_bytes
        """A larger request closes the channel; fewer bytes before the login."""
        self.software = ("", "")
        """Name and version of the client's software, once it has said so."""
        self.routes: dict[int, Any] = {}
        """What the request layer remembers of this connection's requests."""
