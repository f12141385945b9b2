"""A router and its dealers on one loop, over real ZeroMQ sockets."""

import socket
from collections.abc import Callable, Iterator

import pytest
import zmq

from cluster.model.errors import UserError
from cluster.runtime import receipt, zmq_link
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.runtime.zmq_admission import FindKeys
from cluster.runtime.zmq_link import Dealer, Router, ZmqContext
from tests.support.turning import DEADLINE_S, turn_until
from tests.support.waiting import is_readable

KEY = "00" * 32
"""Well-formed, and nobody's."""


def address_of(router: Router) -> tuple[str, int]:
    """The host and port of a router."""
    host, _, port = router.endpoint.removeprefix("tcp://").partition("#")[0].rpartition(":")
    return host, int(port)


class Link:
    """A context and a loop; records received messages."""

    def __init__(self, find_keys: FindKeys | None = None) -> None:
        self.context = ZmqContext(find_keys)
        self.loop = EventLoop(SystemClock())
        self.requests: list[tuple[bytes, list[bytes]]] = []
        self.replies: list[list[bytes]] = []

    def router(
        self, on_message: Callable[[bytes, list[bytes]], None] | None = None, port: int = 0
    ) -> Router:
        def remember(identity: bytes, frames: list[bytes]) -> None:
            self.requests.append((identity, frames))

        return Router(self.context, self.loop, "127.0.0.1", on_message or remember, port)

    def dealer(
        self, endpoint: str, on_message: Callable[[list[bytes]], None] | None = None
    ) -> Dealer:
        return Dealer(self.context, self.loop, endpoint, on_message or self.replies.append)

    def close(self) -> None:
        self.context.close()
        self.loop.close()


@pytest.fixture
def link() -> Iterator[Link]:
    """A link with keys."""
    link = Link(lambda on_found: on_found(()))
    yield link
    link.close()


def test_requests_reach_the_router_in_order_and_answers_the_asker(link):
    router: Router = link.router(lambda identity, frames: router.send(identity, [b"re", *frames]))
    dealer = link.dealer(router.endpoint)
    other: list[list[bytes]] = []
    link.dealer(router.endpoint, other.append)
    for number in range(500):
        assert dealer.send([b"%d" % number, memoryview(b"body")])
    turn_until(link.loop, lambda: len(link.replies) == 500, "500 answers")
    assert link.replies == [[b"re", b"%d" % number, b"body"] for number in range(500)]
    assert other == []


def test_messages_wait_for_a_router_that_is_not_there_yet(link):
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        port = placeholder.getsockname()[1]
    dealer = link.dealer(f"tcp://127.0.0.1:{port}#{link.context.public_key.hex()}")
    assert dealer.send([b"early"])
    link.loop.run_once(max_wait_ms=0)
    link.router(port=port)
    turn_until(link.loop, lambda: link.requests, "the early message")
    assert link.requests[0][1] == [b"early"]


def test_sending_to_a_stranger_is_refused(link):
    assert link.router().send(b"nobody", [b"x"]) is False


def test_a_message_that_a_failed_send_has_noticed_is_still_delivered(link):
    router = link.router()
    dealer = link.dealer(router.endpoint)
    dealer.send([b"first"])
    turn_until(link.loop, lambda: link.requests, "the first message")
    link.loop.run_once(max_wait_ms=0)
    dealer.send([b"second"])
    assert is_readable(router, DEADLINE_S)
    # The send notices the received message, so the descriptor does not report it again.
    assert router.send(b"nobody", [b"x"]) is False
    turn_until(link.loop, lambda: len(link.requests) == 2, "the second message")


def test_sockets_that_are_full_take_a_bounded_part_of_a_turn_and_the_rest_follows(
    link, monkeypatch
):
    monkeypatch.setattr(receipt, "BUDGET_NS", 1)  # used up by the first message
    routers = [link.router() for _ in range(3)]
    dealers = [link.dealer(router.endpoint) for router in routers]
    for dealer in dealers:
        dealer.send([b"0"])
    turn_until(link.loop, lambda: len(link.requests) == 3, "the connections")
    for number in range(1, 30):
        for dealer in dealers:
            dealer.send([b"%d" % number])
    per_turn: list[int] = []

    def one_turn() -> bool:
        before = len(link.requests)
        link.loop.run_once(max_wait_ms=20)
        per_turn.append(len(link.requests) - before)
        return len(link.requests) == 90

    turn_until(link.loop, one_turn, "90 messages")
    assert max(per_turn) <= 2  # one at once, and one of the waiting ones
    for sender in {identity for identity, _ in link.requests}:
        numbers = [frames[0] for identity, frames in link.requests if identity == sender]
        assert numbers == sorted(numbers, key=int)


def test_a_full_queue_refuses_instead_of_growing(link, monkeypatch):
    monkeypatch.setattr(zmq_link, "HIGH_WATER_MESSAGES", 5)
    dealer = link.dealer(f"tcp://127.0.0.1:1#{KEY}")
    assert [dealer.send([b"x"]) for _ in range(7)] == [True] * 5 + [False] * 2


@pytest.mark.parametrize(
    "endpoint",
    [
        *("", "garbage", "tcp://", "tcp://no port", "x://y:1", "\0"),
        *(f"{place}#{KEY}" for place in ("", "tcp://no port", "x://y:1", "\0")),
        *(f"tcp://127.0.0.1:1{key}" for key in ("", "#", "#x", "#" + "zz" * 32, f"#{KEY}00")),
    ],
)
def test_an_endpoint_that_is_none_takes_no_messages(link, endpoint):
    """A peer may register anything as its endpoint; that must not crash this broker."""
    dealer = link.dealer(endpoint)
    assert dealer.endpoint == endpoint
    assert dealer.send([b"x"]) is False
    link.loop.run_once(max_wait_ms=0)
    dealer.close()


def test_a_callback_may_close_its_own_socket(link):
    dealers: list[Dealer] = []

    def on_reply(frames: list[bytes]) -> None:
        link.replies.append(frames)
        dealers[0].close()

    router: Router = link.router(lambda identity, frames: router.send(identity, frames))
    dealers.append(link.dealer(router.endpoint, on_reply))
    for _ in range(3):
        dealers[0].send([b"x"])
    turn_until(link.loop, lambda: link.replies, "the first answer")
    link.loop.run_once(max_wait_ms=20)
    assert len(link.replies) == 1
    assert dealers[0].send([b"y"]) is False
    dealers[0].close()


def test_bind_raises_user_error_when_the_port_is_taken(link):
    router = link.router()
    _, port = address_of(router)
    with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port} for brokers"):
        link.router(port=port)


def test_a_router_without_keys_admits_every_peer():
    plain = Link()

    def answer(identity, frames):
        router.send(identity, frames)

    router = plain.router(answer)
    assert "#" not in router.endpoint
    plain.dealer(router.endpoint).send([b"hello"])
    turn_until(plain.loop, lambda: plain.replies, "the answer")
    assert plain.replies == [[b"hello"]]
    assert not plain.dealer(f"{router.endpoint}#{KEY}").is_open
    plain.close()


def test_an_unencrypted_peer_is_disconnected(link):
    """A plain ZeroMQ socket cannot exchange messages."""
    router = link.router()
    host, port = address_of(router)
    plain = zmq.Context()
    stranger = plain.socket(zmq.DEALER)
    stranger.setsockopt(zmq.LINGER, 0)
    events = stranger.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
    stranger.connect(f"tcp://{host}:{port}")
    stranger.send(b"let me in")
    turn_until(link.loop, lambda: events.poll(0), "the end of the handshake")
    stranger.disable_monitor()
    events.close()
    plain.destroy(linger=0)
    assert link.requests == []


@pytest.mark.slow
def test_only_holders_of_known_keys_connect(caplog):
    """The first handshake of a key waits for the lookup that makes the key known."""
    known: set[bytes] = set()
    server, friend, stranger = (Link(lambda on_found: on_found(set(known))) for _ in range(3))
    known.add(friend.context.public_key)
    router = server.router()
    asking = Dealer(stranger.context, server.loop, router.endpoint, print)
    asking.send([b"from a stranger"])
    turn_until(server.loop, lambda: "is not that of a registered" in caplog.text, "the refusal")
    friendly = Dealer(friend.context, server.loop, router.endpoint, print)
    friendly.send([b"from a friend"])
    turn_until(server.loop, lambda: server.requests, "the friend's message")
    assert [frames for _, frames in server.requests] == [[b"from a friend"]]
    known.add(stranger.context.public_key)  # it retries, and is registered by now
    turn_until(server.loop, lambda: len(server.requests) == 2, "the other's message")
    asking.close()
    friendly.close()
    for one in (stranger, friend, server):
        one.close()


def test_a_message_for_a_process_with_another_key_is_not_sent_to_it(link):
    """The port of a dead broker may belong to another process."""
    router = link.router()
    address, _, _ = router.endpoint.partition("#")
    changes: list[bool] = []
    dealer = link.dealer(f"{address}#{KEY}")
    dealer.watch_connection(changes.append)
    dealer.send([b"secret"])
    right = link.dealer(router.endpoint)
    right.send([b"open"])
    turn_until(link.loop, lambda: link.requests, "the message that was meant for it")
    assert [frames for _, frames in link.requests] == [[b"open"]]
    assert True not in changes


def test_a_peer_that_announces_an_oversized_frame_is_disconnected(link):
    """The connection ends before memory is allocated; the frame is written by hand after ZMTP
    3.0."""
    router = link.router()
    with socket.create_connection(address_of(router), DEADLINE_S) as stranger:
        stranger.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE" + bytes(15 + 32))
        stranger.sendall(b"\x06" + (1 << 40).to_bytes(8, "big"))
        while stranger.recv(4_096):
            pass
    dealer = link.dealer(router.endpoint)
    dealer.send([b"next"])
    turn_until(link.loop, lambda: link.requests, "the next request")
    assert [frames for _, frames in link.requests] == [[b"next"]]
