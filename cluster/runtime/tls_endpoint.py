"""TLS at one listening address: its certificates, which may change at runtime, and handshakes."""

import logging
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from cluster.model.errors import PeerError, UserError
from cluster.model.x500_names import subject_name
from cluster.runtime.acceptor import SecuredConnection
from cluster.runtime.handshake_thread import HandshakeThread, Secured, TlsIdentity
from cluster.runtime.loop import EventLoop
from cluster.runtime.tls_options import TlsOptions
from cluster.runtime.tls_transport import TlsScratch, TlsTransport

if TYPE_CHECKING:
    from cluster.runtime.tls_context import ServerContext

log = logging.getLogger(__name__)

LOOK_EVERY_MS: Final = 3_000
"""How often files of keys and certificates are looked at."""
_WARNED_BEFORE: Final = timedelta(days=30)
Stamp: TypeAlias = "tuple[int, int, int] | None"


class TlsTerminator:
    """Shared by all TLS listeners of a process. Lifecycle: any number of endpoints, `close`."""

    def __init__(self, loop: EventLoop, handshakes: HandshakeThread) -> None:
        self.loop = loop
        self.handshakes = handshakes
        self.scratch = TlsScratch()

    def close(self) -> None:
        """Abort handshakes in progress."""
        self.handshakes.close()


class TlsEndpoint:
    """Creates TLS transports for accepted connections; implements `acceptor.Securing`.

    Certificates are read at construction, and again on the handshake thread when their files have
    changed and by `change`. If the new ones are unusable, this is logged and the old ones stay in
    use. Open connections are unaffected.
    """

    def __init__(
        self,
        name: str,
        options: TlsOptions,
        terminator: TlsTerminator,
        user_of: Callable[[str], str] | None,
        *,
        may_change_subject: bool = False,
        may_drop_hosts: bool = False,
    ) -> None:
        """`user_of` maps a client's X.500 name to a user, on the handshake thread.

        Its ValueError refuses the client. None means that certificates name no users. The flags are
        Kafka's `ssl.allow.dn.changes` and `ssl.allow.san.changes` (KIP-978), for later
        certificates. Blocks. Raises UserError.
        """
        self.name = name
        self._terminator = terminator
        self._options = options
        self._user_of = user_of
        self._may_change_names = may_change_subject, may_drop_hosts
        self._stamps = _stamps(options)
        self._server = _server_context(options)
        self._identity = self._identity_of(self._server)
        _warn_of_its_time(name, self._server, datetime.now(UTC))
        terminator.handshakes.do_every(LOOK_EVERY_MS, self.look)

    def identity(self) -> TlsIdentity:
        """The identity for the next handshake."""
        return self._identity

    def begin(
        self,
        connection: socket.socket,
        host: str,
        port: int,
        done: Callable[[SecuredConnection | None], None],
    ) -> None:
        self._terminator.handshakes.begin(
            connection, host, port, self, partial(self._hand_over, done)
        )

    def _hand_over(
        self, done: Callable[[SecuredConnection | None], None], secured: Secured | None
    ) -> None:
        if secured is None:
            done(None)
            return
        terminator = self._terminator
        transport = TlsTransport(
            secured.connection,
            secured.stream,
            secured.incoming,
            secured.outgoing,
            terminator.loop,
            terminator.scratch,
        )
        done(SecuredConnection(transport, secured.principal))

    # -- certificate changes
    # -------------------------------------------------------------------------

    def change(
        self, options: TlsOptions, *, may_change_subject: bool, may_drop_hosts: bool
    ) -> None:
        """Apply changed options soon; call this on the loop's thread."""
        self._terminator.handshakes.do(
            partial(self._change, options, (may_change_subject, may_drop_hosts))
        )

    def _change(self, options: TlsOptions, may: tuple[bool, bool]) -> None:
        self._may_change_names = may
        self._load(options, _stamps(options))

    def look(self) -> None:
        """Read files that have changed, on the handshake thread."""
        stamps = _stamps(self._options)
        if stamps != self._stamps:
            self._load(self._options, stamps)

    def _load(self, options: TlsOptions, stamps: tuple[Stamp, ...]) -> None:
        self._stamps = stamps  # unusable files are read again after their next change
        try:
            server = _server_context(options)
            _check_names(self._server, server, *self._may_change_names)
        except UserError as error:
            log.error(  # noqa: TRY400  # one line is enough
                "listener %s keeps its certificate: %s", self.name, error
            )
            return
        is_new = server.certificate != self._server.certificate
        self._options, self._server = options, server
        self._identity = self._identity_of(server)
        if is_new:
            log.info(
                "listener %s has a new certificate, valid until %s",
                self.name,
                server.certificate.not_valid_after_utc,
            )
            _warn_of_its_time(self.name, server, datetime.now(UTC))

    def _identity_of(self, server: "ServerContext") -> TlsIdentity:
        return TlsIdentity(server.context, partial(_principal, self._user_of))


def _server_context(options: TlsOptions) -> "ServerContext":
    # Imported late: the certificate library loads slowly, and most clusters have no certificates.
    from cluster.runtime.tls_context import server_context

    return server_context(options)


def _warn_of_its_time(name: str, server: "ServerContext", now: datetime) -> None:
    """Log a warning if clients reject a certificate by its dates, or will soon."""
    begins, ends = server.certificate.not_valid_before_utc, server.certificate.not_valid_after_utc
    if now < begins:
        log.warning("listener %s: clients reject its certificate before %s", name, begins)
    elif ends < now:
        log.warning("listener %s: clients reject its certificate, which expired %s", name, ends)
    elif ends < now + _WARNED_BEFORE:
        log.warning("listener %s: its certificate expires %s", name, ends)


def _principal(user_of: Callable[[str], str] | None, certificate: bytes) -> str | None:
    if user_of is None:
        return None
    try:
        return user_of(subject_name(certificate))
    except ValueError as error:
        raise PeerError(f"no user for its certificate: {error}") from error


def _check_names(
    former: "ServerContext", new: "ServerContext", may_change_subject: bool, may_drop_hosts: bool
) -> None:
    """Check a new key store against the old one by Kafka's rule. Raises UserError."""
    old_subject, subject = former.certificate.subject, new.certificate.subject
    if not may_change_subject and old_subject != subject:
        raise UserError(
            f"the subject of the new certificate is {subject.rfc4514_string()},"
            f" not {old_subject.rfc4514_string()} (ssl.allow.dn.changes)"
        )
    lost = former.host_names() - new.host_names()
    if not may_drop_hosts and lost:
        raise UserError(
            f"the new certificate lacks {', '.join(sorted(lost))} (ssl.allow.san.changes)"
        )


def _stamps(options: TlsOptions) -> tuple[Stamp, ...]:
    """A value that changes with the files, computed without reading them."""
    stamps: list[Stamp] = []
    for path in options.files():
        try:
            found = path.stat()
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        except OSError:
            stamps.append(None)
    return tuple(stamps)
