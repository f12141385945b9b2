"""PLAIN and SCRAM: accepted and refused messages, which never reveal the existing users."""

import base64
import re
import sys
from collections import Counter
from typing import Any

import pytest

from cluster.brokers.security.exchange import LoginFailed, Proof
from cluster.brokers.security.plain_login import PlainExchange
from cluster.brokers.security.scram_login import ScramExchange, ScramNames
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import KnownToken
from cluster.model.scram import ScramClient, credential_of, forms_in_use
from cluster.model.security import SaslMechanism

NOW = WallMs(1_000)
SHA_256 = SaslMechanism.SCRAM_SHA_256


def plain(message: bytes) -> Proof:
    return PlainExchange({"alice": "secret", "émile": "clé"}).respond(message, NOW)


@pytest.mark.parametrize(
    ("message", "user"),
    [
        (b"\0alice\0secret", "alice"),
        (b"alice\0alice\0secret", "alice"),
        ("\0émile\0clé".encode(), "émile"),
    ],
)
def test_plain_accepts_the_password_of_a_user(message: bytes, user: str) -> None:
    assert plain(message) == Proof(user, b"")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0bob\0secret", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from"
            " username",
        ),
        (b"\0alice\0", None),
        (b"\0\0secret", None),
        (b"alice", None),
        (b"\0alice\0secret\0more", None),
        (b"\0\xff\0secret", None),
        (b"", None),
    ],
)
def test_plain_refuses_everything_else(message: bytes, told: str | None) -> None:
    with pytest.raises(LoginFailed) as failed:
        plain(message)
    assert failed.value.told == told
    assert "secret" not in failed.value.reason
    assert failed.value.user == (None if told is None else message.split(b"\0")[1].decode())


CREDENTIAL = credential_of(SHA_256, "secret", b"salt of alice")
WEAK = credential_of(SHA_256, "secret", b"salt of weak", 4095)
TOKEN = KnownToken("carol", WallMs(2_000), credential_of(SHA_256, "hmac", b"salt of a token"))
OLD_TOKEN = TOKEN._replace(expires_at=WallMs(999))
FORMS = forms_in_use([CREDENTIAL])
NAMES = ScramNames(
    lambda mechanism, name: (
        {"alice": CREDENTIAL, "weak": WEAK}.get(name) if mechanism == SHA_256 else None
    ),
    lambda _mechanism, name: {"token-1": TOKEN, "token-0": OLD_TOKEN}.get(name),
    lambda _mechanism: FORMS,
)


def a_scram_exchange(mechanism: SaslMechanism = SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, NAMES, b"made up with this", lambda: "nonce-of-server")


def scram(name: str, password: str, extensions: dict[str, str] | None = None) -> Proof:
    """The proof, after the client has verified the server too."""
    exchange = a_scram_exchange()
    client = ScramClient(SHA_256, name, password, "nonce-of-client", extensions)
    server_first = exchange.respond(client.first_message(), NOW)
    assert isinstance(server_first, bytes)
    proof = exchange.respond(client.final_message(server_first), NOW)
    assert isinstance(proof, Proof)
    client.check_server_final(proof.answer)
    return proof._replace(answer=b"")


def test_scram_accepts_the_password_of_a_user() -> None:
    assert scram("alice", "secret") == Proof("alice", b"")


def test_scram_accepts_a_delegation_token() -> None:
    proof = scram("token-1", "hmac", {"tokenauth": "true"})
    assert proof == Proof("carol", b"", WallMs(2_000), has_token=True)


@pytest.mark.parametrize(
    ("name", "password", "extensions"),
    [
        ("alice", "wrong", None),
        ("bob", "secret", None),
        ("alice", "secret", {"tokenauth": "true"}),
        ("token-1", "hmac", None),
        ("token-1", "wrong", {"tokenauth": "true"}),
        ("token-0", "hmac", {"tokenauth": "true"}),
    ],
)
def test_scram_failure_reveals_no_reason(
    name: str, password: str, extensions: dict[str, str] | None
) -> None:
    with pytest.raises(LoginFailed, match="invalid client credentials") as failed:
        scram(name, password, extensions)
    assert failed.value.told is None
    assert failed.value.user == (f"delegation token {name}" if extensions else name)


def test_credential_with_too_few_iterations_is_refused() -> None:
    exchange = a_scram_exchange()
    first = exchange.respond(b"n,,n=weak,r=abc", NOW)
    assert isinstance(first, bytes)
    assert first.endswith(b",i=4096")


def test_unknown_user_gets_the_same_challenge_as_a_known_one() -> None:
    answers = [
        a_scram_exchange().respond(f"n,,n={name},r=abc".encode(), NOW)
        for name in ("alice", "bob", "bob", "carol")
    ]
    alice, bob, bob_again, carol = [str(answer).split(",") for answer in answers]
    assert [len(each) for each in (alice, bob, carol)] == [3, 3, 3]
    assert bob == bob_again
    assert bob[1] != carol[1]
    assert {each[2] for each in (alice, bob, carol)} == {"i=4096'"}


def test_unknown_user_gets_the_credential_form_of_known_users() -> None:
    theirs = credential_of(SHA_256, "secret", bytes(64), 10_000)
    kafkas = credential_of(SHA_256, "secret", b"1dh1l5gwxnbx1zkbb3o8gv7ubv", 8192)
    users = {"theirs": theirs, "kafkas": kafkas, "weak": WEAK}
    names = NAMES._replace(
        user=lambda _mechanism, name: users.get(name),
        forms=lambda _mechanism: forms_in_use(users.values()),
    )

    def asked(name: str) -> tuple[bytes, int]:
        exchange = ScramExchange(SHA_256, names, b"made up with this", lambda: "nonce-of-server")
        answer = exchange.respond(f"n,,n={name},r=abc".encode(), NOW)
        assert isinstance(answer, bytes)
        _, salt, iterations = answer.decode().split(",")
        return base64.b64decode(salt[2:]), int(iterations[2:])

    answers = {name: asked(name) for name in ("weak", *(f"nobody-{n}" for n in range(100)))}
    assert {iterations for _, iterations in answers.values()} == {10_000, 8192}
    for name, (salt, iterations) in answers.items():
        assert asked(name) == (salt, iterations)
        if iterations == 10_000:
            assert len(salt) == 64
        else:
            assert re.fullmatch(rb"[1-9a-z][0-9a-z]{20,25}", salt)


def refusing_hashes(name: str, extensions: dict[str, str] | None) -> Counter[str]:
    """The OpenSSL calls made while a wrong password is refused."""
    client = ScramClient(SHA_256, name, "wrong", "nonce-of-client", extensions)
    exchange = a_scram_exchange()
    first = client.first_message()
    server_first = exchange.respond(first, NOW)
    assert isinstance(server_first, bytes)
    final = client.final_message(server_first)
    called: Counter[str] = Counter()

    def on_event(_frame: object, event: str, function: Any) -> None:
        owner = getattr(function, "__self__", None)
        if event == "c_call" and "_hashlib" in f"{owner!r} {type(owner).__module__}":
            called[function.__name__] += 1

    exchange = a_scram_exchange()
    sys.setprofile(on_event)
    try:
        exchange.respond(first, NOW)
        with pytest.raises(LoginFailed):
            exchange.respond(final, NOW)
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize(
    ("name", "extensions"),
    [
        ("bob", None),
        ("token-1", {"tokenauth": "true"}),
        ("token-0", {"tokenauth": "true"}),
        ("token-2", {"tokenauth": "true"}),
    ],
)
def test_every_refusal_takes_as_long_as_a_wrong_password(
    name: str, extensions: dict[str, str] | None
) -> None:
    expected = refusing_hashes("alice", None)
    assert expected["hmac_digest"] == 4
    assert refusing_hashes(name, extensions) == expected


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(LoginFailed) as failed:
        a_scram_exchange().respond(b"n,a=bob,n=alice,r=abc", NOW)
    assert failed.value.user == "alice"
    assert "authorization id" in str(failed.value.told)


def test_replayed_messages_are_refused() -> None:
    nonces = iter(["first", "second"])
    recorded: list[bytes] = []
    for _ in range(2):
        exchange = ScramExchange(SHA_256, NAMES, b"", lambda: next(nonces))
        if not recorded:
            client = ScramClient(SHA_256, "alice", "secret", "abc")
            recorded.append(client.first_message())
            server_first = exchange.respond(recorded[0], NOW)
            assert isinstance(server_first, bytes)
            recorded.append(client.final_message(server_first))
            assert isinstance(exchange.respond(recorded[1], NOW), Proof)
        else:
            exchange.respond(recorded[0], NOW)
            with pytest.raises(LoginFailed, match="nonce"):
                exchange.respond(recorded[1], NOW)


def test_finished_exchange_refuses_further_tokens() -> None:
    exchange = a_scram_exchange()
    client = ScramClient(SHA_256, "bob", "secret", "abc")
    server_first = exchange.respond(client.first_message(), NOW)
    assert isinstance(server_first, bytes)
    with pytest.raises(LoginFailed):
        exchange.respond(client.final_message(server_first), NOW)
    with pytest.raises(LoginFailed):
        exchange.respond(client.first_message(), NOW)
