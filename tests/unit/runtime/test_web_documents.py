"""Documents from URLs, and servers with invalid answers."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.runtime.web_documents import fetch_document


class Server:
    """Answers each connection with the same bytes, whatever the request."""

    def __init__(self) -> None:
        self.answer = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/keys"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with connection:
                if not connection.recv(65_536):
                    return
                with contextlib.suppress(ConnectionError):  # the client has closed
                    connection.sendall(self.answer)

    def close(self) -> None:
        socket.create_connection(self._listening.getsockname()).close()
        self._thread.join()
        self._listening.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def test_a_document_is_fetched_from_a_server_and_from_a_file(
    server: Server, tmp_path: Path
) -> None:
    server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    assert fetch_document(server.url) == b"{}"
    (tmp_path / "keys").write_bytes(b"[]")
    assert fetch_document((tmp_path / "keys").as_uri()) == b"[]"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 500 No\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    ],
)
def test_an_invalid_answer_raises_os_error(server: Server, answer: bytes) -> None:
    server.answer = answer
    with pytest.raises(OSError) as failed:  # noqa: PT011 - the words are those of the system
        fetch_document(server.url)
    assert "\n" not in str(failed.value)


def test_a_document_that_is_too_large_is_refused(server: Server) -> None:
    server.answer = b"HTTP/1.0 200 OK\r\n\r\n" + bytes((1 << 20) + 1)
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        fetch_document(server.url)
    with pytest.raises(ValueError, match="is not an http, https or file URL"):
        fetch_document("ftp://here/keys")
