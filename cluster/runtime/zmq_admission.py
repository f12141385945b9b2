"""Decides which peers may connect by ZeroMQ: holders of a known key (CurveZMQ, RFC 26).

ZeroMQ asks for each handshake over an internal socket of the process (ZAP, RFC 27). The answer may
wait until the known keys are looked up. No sockets here.
"""

import logging
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeAlias

from cluster.runtime.logs import of_peer
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

ZAP_ENDPOINT: Final = "inproc://zeromq.zap.01"
ZAP_DOMAIN: Final = b"brokers"
_VERSION: Final = b"1.0"
_MECHANISM: Final = b"CURVE"
_FIELDS: Final = 9
_ASKED_MAX: Final = 1_000
"""The most handshakes that wait for a look-up; more are refused and retried."""
_PAUSE_MS: Final = 100
"""Between two look-ups: strangers may knock as often as they like."""
_LOOK_UPS: Final = 5
"""Before a key is refused: a server of a ZooKeeper ensemble may be a little behind."""
HANDSHAKE_TIMEOUT_MS: Final = 3_000
"""Must be longer than all look-ups. Whoever is refused is not told, and tries again after it."""

FindKeys: TypeAlias = Callable[[Callable[[Collection[bytes] | None], None]], None]
"""Looks up all keys that may connect now, and calls back once with them, or with None if it cannot.

A key: 32 bytes, public.
"""


class _Asked(NamedTuple):
    envelope: list[bytes]
    request_id: bytes
    host: str
    key: bytes
    look_ups: int = 0


class Admission:
    """Answers ZeroMQ's requests for admission. Owned by the loop's thread.

    Invariant: each request is answered once: yes if its key is known, no only after lookups that
    began after the request.
    """

    def __init__(
        self,
        loop: EventLoop,
        own_key: bytes,
        find_keys: FindKeys,
        send: Callable[[list[bytes]], object],
    ) -> None:
        """`send` takes the frames of an answer; `own_key` may always connect."""
        self._loop = loop
        self._own_key = own_key
        self._find_keys = find_keys
        self._send = send
        self._known: frozenset[bytes] = frozenset({own_key})
        self._asked: list[_Asked] = []
        self._is_looking_up = False

    def on_question(self, frames: list[bytes]) -> None:
        """Handle a ZAP request: two routing frames, version, id, domain, address, identity,
        mechanism, key."""
        if len(frames) != _FIELDS or frames[2] != _VERSION or frames[7] != _MECHANISM:
            if len(frames) > 3:
                self._answer(_Asked(frames[:2], frames[3], "", b""), is_known=False)
            return
        asked = _Asked(frames[:2], frames[3], frames[5].decode("ascii", "replace"), frames[8])
        if asked.key in self._known:
            self._answer(asked, is_known=True)
        elif len(self._asked) >= _ASKED_MAX:
            self._answer(asked, is_known=False)
        else:
            self._asked.append(asked)
            self._look_up()

    def _look_up(self) -> None:
        if self._is_looking_up or not self._asked:
            return
        self._is_looking_up = True
        waiting, self._asked = self._asked, []

        def on_found(keys: Collection[bytes] | None) -> None:
            if keys is not None:
                self._known = frozenset({self._own_key, *keys})
            for asked in waiting:
                is_known = asked.key in self._known
                if is_known or asked.look_ups + 1 == _LOOK_UPS:
                    self._answer(asked, is_known=is_known)
                else:
                    self._asked.append(asked._replace(look_ups=asked.look_ups + 1))
            self._loop.call_after(_PAUSE_MS, again)

        def again() -> None:
            self._is_looking_up = False
            self._look_up()

        self._find_keys(on_found)

    def _answer(self, asked: _Asked, *, is_known: bool) -> None:
        if not is_known:
            log.warning(
                "refused a connection from %s to the inter-broker endpoints: its key is not that of"
                " a registered broker",
                asked.host,
                extra=of_peer(asked.host),
            )
        # 400 would end a broker's attempts for good, although it may be registered a moment later.
        status = b"200" if is_known else b"300"
        self._send([*asked.envelope, _VERSION, asked.request_id, status, b"", b"", b""])
