import socket
import struct
import threading

from cluster.supervisor.readiness import View, agreed_view, ask_broker

ALL = frozenset({0, 1, 2})


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def answer_once(server: socket.socket, response: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        connection.recv(size, socket.MSG_WAITALL)
        connection.sendall(response)


def ask(response: bytes) -> View | None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer_once, args=(server, response))
        thread.start()
        try:
            return ask_broker("127.0.0.1", server.getsockname()[1], timeout_s=5)
        finally:
            thread.join()


def test_a_brokers_answer_is_its_view_of_the_cluster():
    body = struct.pack(">ii", 1, 2)
    body += struct.pack(">i", 4) + text("localhost") + struct.pack(">ih", 9092, -1)
    body += struct.pack(">i", 7) + text("host.example") + struct.pack(">i", 9093) + text("rack-1")
    body += text("cluster") + struct.pack(">ii", 7, 0)
    assert ask(struct.pack(">i", len(body)) + body) == View("cluster", 7, frozenset({4, 7}))


def test_a_broken_answer_is_no_view():
    assert ask(b"") is None
    assert ask(struct.pack(">i", 1 << 30)) is None
    assert ask(struct.pack(">ii", 4, 1)) is None


def test_nobody_listening_is_no_view():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert ask_broker("127.0.0.1", port, timeout_s=1) is None


def test_a_cluster_is_ready_when_all_agree_on_all_and_on_a_living_controller():
    ready = View("c", 1, ALL)
    assert agreed_view([ready, ready, ready], ALL) == ready
    assert agreed_view([ready, None, ready], ALL) is None
    assert agreed_view([ready, View("c", 2, ALL), ready], ALL) is None
    assert agreed_view([View("c", -1, ALL)] * 3, ALL) is None
    assert agreed_view([View("c", 1, frozenset({0, 1}))] * 3, ALL) is None
    assert agreed_view([], frozenset()) is None
