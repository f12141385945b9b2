"""DIGEST-MD5: the example of RFC 2831, pure-sasl as the other end, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from puresasl.client import SASLClient

from cluster.coordinator.registry.wire.digest_md5 import (
    Digest,
    DigestExchange,
    LoginRefused,
    client_response,
    parse_directives,
    server_proof,
)
from tests.support.examples import examples

NONCE = "0A4bc1"
PASSWORDS = {"alice": "secret", "Zoë": "pässword", "李": "密码", 'q"\\': "x"}
TOKEN = client_response(DigestExchange(NONCE).challenge, "alice", "secret", "c1")


def test_the_example_of_rfc_2831() -> None:
    digest = Digest(
        "chris",
        "secret",
        nonce=b"OA6MG9tEQGm2hh",
        cnonce=b"OA6MHXh6VqTrRk",
        is_utf8=True,
        realm="elwood.innosoft.com",
        digest_uri="imap/elwood.innosoft.com",
    )
    assert digest.proof("AUTHENTICATE") == b"d388dad90d4bbd760a152321f2143af7"
    assert digest.proof("") == b"ea40f60335c427b5527b84dbabcdfffd"


@pytest.mark.parametrize("user", PASSWORDS)
def test_both_sides_prove_that_they_know_the_password(user: str) -> None:
    exchange = DigestExchange(NONCE)
    response = client_response(exchange.challenge, user, PASSWORDS[user], "c1")
    proved = exchange.check(response, PASSWORDS)
    assert proved.user == user
    assert proved.answer == server_proof(exchange.challenge, user, PASSWORDS[user], "c1")
    assert proved.answer != server_proof(exchange.challenge, user, "another", "c1")


def test_the_library_that_kazoo_uses_logs_in() -> None:
    client = SASLClient(
        "zk-sasl-md5", "zookeeper", "DIGEST-MD5", username="alice", password="secret"
    )
    exchange = DigestExchange(NONCE)
    proved = exchange.check(client.process(exchange.challenge), PASSWORDS)
    client.process(proved.answer)
    assert client.complete


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b'username="alice"', b'username="bob"'),
        (b"response=", b"response=0"),
        (b'nonce="' + NONCE.encode(), b'nonce="another'),
        (b"nc=00000001", b"nc=00000002"),
        (b'realm="zk-sasl-md5"', b'realm="elsewhere"'),
        (b"zookeeper/zk-sasl-md5", b"kafka/zk-sasl-md5"),
        (b"qop=auth", b"qop=auth-conf"),
        (b'cnonce="c1"', b'cnonce=""'),
        (b"qop=auth", b'qop=auth,authzid="bob"'),
        (b"qop=auth", b'qop=auth,username="bob"'),
        (b"qop=auth", b'qop="auth'),
        (b"qop=auth", b'qop="auth"x'),
        (b"qop=auth", b"qop"),
        (b"qop=auth", b"x=" + b"y" * 5_000),
    ],
)
def test_a_response_that_was_changed_is_refused(was: bytes, becomes: bytes) -> None:
    assert was in TOKEN
    with pytest.raises(LoginRefused) as refused:
        DigestExchange(NONCE).check(TOKEN.replace(was, becomes, 1), PASSWORDS)
    assert "secret" not in str(refused.value)


def test_a_recorded_response_is_of_no_use_in_another_exchange() -> None:
    assert DigestExchange(NONCE).check(TOKEN, PASSWORDS).user == "alice"
    with pytest.raises(LoginRefused):
        DigestExchange("another").check(TOKEN, PASSWORDS)


def test_an_unknown_user_and_a_wrong_password_are_told_the_same() -> None:
    exchange = DigestExchange(NONCE)
    reasons = set()
    for user in ("alice", "nobody"):
        with pytest.raises(LoginRefused) as refused:
            exchange.check(client_response(exchange.challenge, user, "wrong", "c1"), PASSWORDS)
        reasons.add(str(refused.value))
    assert len(reasons) == 1


def test_directives_with_spaces_quotes_and_empty_places() -> None:
    read = parse_directives(b' Realm="a\\"b\\\\" , nonce = "x" ,, nc=1\t,qop=auth ')
    assert read == {"realm": b'a"b\\', "nonce": b"x", "nc": b"1", "qop": b"auth"}


@examples(200)
@given(st.binary(max_size=60) | st.text('=",\\ ab', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(token: bytes) -> None:
    try:
        fields = parse_directives(token)
    except LoginRefused:
        return
    assert all(len(value) <= len(token) for value in fields.values())
