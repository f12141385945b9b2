"""Mutated requests and tokens at logins of every mechanism: nobody gets in without the secret."""

import base64
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from cluster.brokers.security.login import Login, MechanismRules, Reaction
from cluster.brokers.security.oauth_login import OAuthExchange
from cluster.brokers.security.plain_login import PlainExchange
from cluster.brokers.security.scram_login import ScramExchange, ScramNames
from cluster.brokers.security.signed_tokens import SignedTokens
from cluster.brokers.security.token_claims import ClaimRules
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import KnownToken
from cluster.model.errors import PeerError
from cluster.model.scram import (
    ScramClient,
    ScramCredential,
    ScramError,
    credential_of,
    forms_in_use,
)
from cluster.model.security import SaslMechanism
from cluster.protocol.api import ApiKey
from tests.fuzz.fuzzing import Fuzzer, mutated
from tests.support.kafka_wire import frame_of, request

NOW = WallMs(1_700_000_000_000)
PASSWORD = "the right one"
SHA_256 = SaslMechanism.SCRAM_SHA_256
CREDENTIAL: ScramCredential = credential_of(SHA_256, PASSWORD, b"salt")
NAMES = ScramNames(
    lambda _mechanism, user: CREDENTIAL if user == "alice" else None,
    lambda _mechanism, _token: KnownToken("alice", NOW, CREDENTIAL),
    lambda _mechanism: forms_in_use([CREDENTIAL]),
)
MECHANISMS = {
    "PLAIN": MechanismRules(lambda: PlainExchange({"alice": PASSWORD}), 0),
    "SCRAM-SHA-256": MechanismRules(
        lambda: ScramExchange(SHA_256, NAMES, b"secret", lambda: "servernonce"), 0
    ),
    "OAUTHBEARER": MechanismRules(
        lambda: OAuthExchange(SignedTokens(lambda _key_id: None, ClaimRules(), (), None)), 0
    ),
}
SALTED = ScramClient(SHA_256, "alice", "a wrong one", "client")
"""A client derives its keys for milliseconds: its final messages are made once."""


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _final_messages() -> list[bytes]:
    made = []
    for password in ("a wrong one", "", "another"):
        client = ScramClient(SHA_256, "alice", password, "client")
        first = f"r=clientservernonce,s={base64.b64encode(b'salt').decode()},i=4096"
        made.append(client.final_message(first.encode()))
    return made


TOKEN = f"{_part({'alg': 'RS256', 'kid': 'x'})}.{_part({'sub': 'alice', 'exp': NOW})}.c2lnbmF0dXJl"
UNSECURED = f"{_part({'alg': 'none'})}.{_part({'sub': 'alice', 'exp': NOW})}."
ODD = [
    f"{_part(header)}.{_part(claims)}.c2lnbmF0dXJl"
    for header, claims in (
        ({"alg": ["RS256"]}, {}),
        ({"alg": "RS256", "kid": {"x": 1}}, {}),
        ([], []),
        ({"alg": {}, "crit": "x"}, "claims"),
    )
]
"""Tokens of JSON that is of other types than it should be."""
TOKENS = {
    "PLAIN": [b"\0alice\0wrong", b"alice\0alice\0", b"\0bob\0" + PASSWORD.encode()],
    "SCRAM-SHA-256": [
        b"n,,n=alice,r=client",
        b"n,a=alice,n=alice,r=client,tokenauth=true",
        b"n,,n=bob,r=client",
        *_final_messages(),
    ],
    "OAUTHBEARER": [
        b"n,,\x01auth=Bearer " + TOKEN.encode() + b"\x01\x01",
        b"n,,\x01auth=Bearer " + UNSECURED.encode() + b"\x01\x01",
        *(b"n,,\x01auth=Bearer " + each.encode() + b"\x01\x01" for each in ODD),
        b"\x01",
    ],
}


def _frames(random: Random) -> Iterator[bytes]:
    """What one connection sends; much of it is well formed, none of it proves anything."""
    mechanism = random.choice(list(MECHANISMS))
    version = random.choice((0, 1, 1, 1))
    yield frame_of(request(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism), 1)[4:]
    while True:
        token = random.choice(TOKENS[mechanism])
        if random.random() < 0.5:
            token = mutated(random, token)
        if version == 0:
            yield token
        else:
            message = request(ApiKey.SASL_AUTHENTICATE, random.randrange(3), auth_bytes=token)
            yield frame_of(message, 2)[4:]


def test_no_mutated_login_gets_in(fuzzer: Fuzzer) -> None:
    seen: Counter[str] = Counter()

    def note(reaction: Reaction | None) -> bool:
        """Whether the login is over."""
        assert reaction is None or reaction.session is None
        kind = "passed" if reaction is None else "answered"
        if reaction is not None and reaction.failure is not None:
            kind = "refused"
        seen[kind] += 1
        return kind == "refused"

    def send(random: Random) -> None:
        login = Login(MECHANISMS)
        for frame in itertools.islice(_frames(random), 6):
            sent = mutated(random, frame) if random.random() < 0.3 else frame
            try:
                if note(login.on_frame(memoryview(sent), NOW)):
                    break
            except PeerError:
                seen["closed"] += 1
                break

    fuzzer.run(send, lambda: None)
    assert min(seen[kind] for kind in ("answered", "refused", "closed")) > 0


def test_no_mutated_answer_convinces_a_client(fuzzer: Fuzzer) -> None:
    genuine = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

    def send(random: Random) -> None:
        with pytest.raises(ScramError):
            SALTED.check_server_final(mutated(random, genuine))

    fuzzer.run(send, lambda: None, share=0.2)
