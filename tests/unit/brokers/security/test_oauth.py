"""Bearer tokens: which are valid, and the answer to an invalid one."""

import base64
import json
import logging
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.security.exchange import LoginFailed, Proof
from cluster.brokers.security.key_sets import ASKED_FOR_AGAIN_MS, KeySet, KeySetRules
from cluster.brokers.security.oauth_login import OAuthExchange, TokenRefused, ValidToken
from cluster.brokers.security.signed_tokens import SignedTokens
from cluster.brokers.security.token_claims import ClaimRules
from cluster.brokers.security.unsecured_tokens import UnsecuredTokens, rules_of
from cluster.model.clocks import WallMs
from cluster.runtime.loop import EventLoop
from tests.support.fake_clock import FakeClock

NOW = WallMs(1_700_000_000_000)
NOW_S = NOW // 1_000
CLAIMS: dict[str, Any] = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60}
VALID = ValidToken("alice", WallMs(NOW + 60_000))


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsecured(claims: Any = None, header: Any = None) -> str:
    return f"{part(header or {'alg': 'none'})}.{part(CLAIMS if claims is None else claims)}."


def message(token: str, identity: str = "", more: str = "") -> bytes:
    return f"n,{identity},\x01auth=Bearer {token}\x01{more}\x01".encode()


def exchange(options: dict[str, str] | None = None) -> OAuthExchange:
    return OAuthExchange(UnsecuredTokens(rules_of(options or {})))


# -- the exchange ----------------------------------------------------------------------------------


def test_valid_token_authenticates_its_bearer() -> None:
    proof = Proof("alice", b"", VALID.expires_at)
    assert exchange().respond(message(unsecured()), NOW) == proof
    assert exchange().respond(message(unsecured(), "a=alice"), NOW) == proof
    assert exchange().respond(message(unsecured(), more="traceId=123\x01"), NOW) == proof


def test_a_refused_token_is_answered_in_json_before_the_login_fails() -> None:
    login = exchange()
    told = login.respond(message(unsecured({})), NOW)
    assert told == b'{"status":"invalid_token"}'
    with pytest.raises(LoginFailed) as failed:
        login.respond(b"\x01", NOW)
    assert failed.value.told == '{"status":"invalid_token"}'
    assert failed.value.reason == "the token has no expiry time (exp)"


@pytest.mark.parametrize(
    ("claims", "identity", "user"),
    [
        ({"sub": "eve"}, "", "eve"),
        ({"sub": "eve"}, "a=bob", "bob"),
        ({"sub": ["eve"]}, "", None),
        ([], "", None),
    ],
)
def test_a_refused_token_names_the_user_that_it_claims(
    claims: Any, identity: str, user: str | None
) -> None:
    login = exchange()
    login.respond(message(unsecured(claims), identity), NOW)
    with pytest.raises(LoginFailed) as failed:
        login.respond(b"\x01", NOW)
    assert failed.value.user == user


def test_second_token_is_not_evaluated() -> None:
    login = exchange()
    login.respond(message(unsecured({})), NOW)
    with pytest.raises(LoginFailed):
        login.respond(message(unsecured()), NOW)


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(LoginFailed) as failed:
        exchange().respond(message(unsecured(), "a=bob"), NOW)
    assert "authorization id" in str(failed.value.told)


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,auth=Bearer abc",
        b"\xff\xfe",
    ],
)
def test_other_messages_are_refused(wrong: bytes) -> None:
    with pytest.raises(LoginFailed):
        exchange().respond(wrong, NOW)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_arbitrary_bytes_only_fail_the_login(first: bytes, token: bytes) -> None:
    for each in (first, b"n,,\x01auth=Bearer " + token + b"\x01\x01"):
        try:
            answer = exchange().respond(each, NOW)
        except LoginFailed:
            continue
        assert answer == b'{"status":"invalid_token"}'


# -- unsecured tokens, and claims ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "options"),
    [
        (CLAIMS, {}),
        (CLAIMS | {"exp": NOW_S + 60.0, "iat": NOW_S - 0.5}, {}),
        ({"sub": "alice", "exp": NOW_S + 60}, {}),
        ({"name": "alice", "exp": NOW_S + 60}, {"unsecuredValidatorPrincipalClaimName": "name"}),
        (CLAIMS | {"scope": "read write"}, {"unsecuredValidatorRequiredScope": "write"}),
        (
            CLAIMS | {"scp": ["read", "write"]},
            {
                "unsecuredValidatorRequiredScope": "write read",
                "unsecuredValidatorScopeClaimName": "scp",
            },
        ),
    ],
)
def test_valid_claims_are_accepted(claims: dict[str, Any], options: dict[str, str]) -> None:
    assert UnsecuredTokens(rules_of(options))(unsecured(claims), NOW) == VALID


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (unsecured(CLAIMS | {"exp": NOW_S - 1}), "expired"),
        (unsecured({"sub": "alice"}), "no expiry time"),
        (unsecured(CLAIMS | {"exp": "soon"}), "not a number"),
        (unsecured(CLAIMS | {"exp": True}), "not a number"),
        (unsecured(CLAIMS | {"exp": float("inf")}), "not a number"),
        (unsecured(CLAIMS | {"iat": NOW_S + 61}), "before it was issued"),
        (unsecured(CLAIMS | {"nbf": NOW_S + 1}), "is not valid yet"),
        (unsecured(CLAIMS | {"sub": ""}), "names no user"),
        (unsecured(CLAIMS | {"sub": 7}), "names no user"),
        (unsecured(CLAIMS | {"scope": 7}), "not strings"),
        (unsecured(["sub"]), "not a JSON object"),
        (unsecured(CLAIMS, {"alg": "RS256"}), "algorithm none"),
        (unsecured() + "signature", "no signature"),
        ("a.b", "two parts"),
        ("!.!.", "not JSON"),
    ],
)
def test_invalid_claims_are_refused(token: str, words: str) -> None:
    with pytest.raises(TokenRefused, match=words):
        UnsecuredTokens(rules_of({}))(token, NOW)


def test_missing_scope_is_reported_to_the_client() -> None:
    login = exchange({"unsecuredValidatorRequiredScope": "write"})
    answer = login.respond(message(unsecured(CLAIMS | {"scope": "read"})), NOW)
    assert answer == b'{"status":"insufficient_scope","scope":"write"}'


def test_clock_skew_is_allowed() -> None:
    tokens = UnsecuredTokens(rules_of({"unsecuredValidatorAllowableClockSkewMs": "2000"}))
    assert tokens(unsecured(CLAIMS | {"exp": NOW_S - 1, "iat": NOW_S - 9}), NOW).user == "alice"
    with pytest.raises(ValueError, match="invalid literal"):
        rules_of({"unsecuredValidatorAllowableClockSkewMs": "x"})


# -- signed tokens ---------------------------------------------------------------------------------

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any, key_id: str) -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if key is not EC_KEY else jwt.algorithms.ECAlgorithm
    found: dict[str, Any] = algorithm.to_jwk(key.public_key(), as_dict=True)
    return found | {"kid": key_id}


KEYS = {"rsa": jwt.PyJWK(jwk(RSA_KEY, "rsa")), "ec": jwt.PyJWK(jwk(EC_KEY, "ec"))}


def signed(
    key: Any = RSA_KEY, algorithm: str = "RS256", key_id: str | None = "rsa", **changes: Any
) -> str:
    claims = {name: value for name, value in (CLAIMS | changes).items() if value is not None}
    headers = None if key_id is None else {"kid": key_id}
    return jwt.encode(claims, key, algorithm, headers)


def checked(token: str, issuer: str | None = None, audiences: tuple[str, ...] = ()) -> ValidToken:
    rules = ClaimRules(clock_skew_ms=30_000, needs_issue_time=True)
    return SignedTokens(lambda name: KEYS.get(name or "rsa"), rules, audiences, issuer)(token, NOW)


def test_a_token_signed_by_a_key_of_the_set_is_valid() -> None:
    assert checked(signed()) == VALID
    assert checked(signed(key_id=None)) == VALID
    assert checked(signed(algorithm="PS512")) == VALID
    assert checked(signed(EC_KEY, "ES256", "ec")) == VALID
    assert checked(signed(exp=1e30)).expires_at < 1e15, "a time that clients can be told"
    assert checked(signed(exp=NOW_S - 29, iat=NOW_S - 40)).user == "alice"
    assert checked(signed(iss="us", aud=["x", "y"]), "us", ("y", "z")) == VALID


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (signed(OTHER_KEY), "signature is invalid"),
        (signed(key_id="unknown"), "not in the key set"),
        (signed(key_id="ec"), "another algorithm"),
        (signed(EC_KEY, "ES256", "rsa"), "another algorithm"),
        (unsecured(), "not signed"),
        (jwt.encode(CLAIMS, "x" * 32, "HS256", {"kid": "rsa"}), "not signed"),
        (signed(exp=NOW_S - 31), "expired"),
        (signed(iat=None), "when it was issued"),
        (signed(sub=None), "names no user"),
        (signed(aud="x"), "another audience"),
        *(
            (f"{part({'alg': alg})}.{part(CLAIMS)}.c2ln", "not signed")
            for alg in ([], {}, ["RS256"], 5, None, True)
        ),
        (f"{part({'alg': 'RS256', 'kid': []})}.{part(CLAIMS)}.c2ln", "not a JSON Web Token"),
        (signed(sub="\ud800"), "names no user"),
        ("nonsense", "not a JSON Web Token"),
        (signed()[:-4] + "AAAA", "signature is invalid"),
    ],
)
def test_invalid_signed_tokens_are_refused(token: str, words: str) -> None:
    with pytest.raises(TokenRefused, match=words):
        checked(token)


def test_issuer_and_audience_must_match() -> None:
    for claims in ({}, {"iss": "others"}):
        with pytest.raises(TokenRefused, match="it has another issuer"):
            checked(signed(**claims), issuer="us")
    for claims in ({}, {"aud": "others"}):
        with pytest.raises(TokenRefused, match="another audience"):
            checked(signed(**claims), audiences=("us",))


# -- key sets --------------------------------------------------------------------------------------


class Url:
    """The URL of the keys; answers when the test lets it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.document: bytes | Exception = json.dumps({"keys": [jwk(RSA_KEY, "rsa")]}).encode()
        self.waiting: list[Callable[[], None]] = []
        self.keys = KeySet(
            KeySetRules("http://here/keys", 60_000, 100, 400),
            self.loop,
            self.waiting.append,
            self.fetch,
        )

    def fetch(self, url: str) -> bytes:
        assert url == "http://here/keys"
        if isinstance(self.document, Exception):
            raise self.document
        return self.document

    def answer(self) -> int:
        """Answer the waiting fetches; returns their number."""
        count = len(self.waiting)
        while self.waiting:
            self.waiting.pop()()
        self.loop.run_once(0)
        return count

    def pass_time(self, duration_ms: int) -> None:
        self.clock.pass_time(duration_ms)
        self.loop.run_once(0)


@pytest.fixture
def url() -> Any:
    made = Url()
    yield made
    made.loop.close()


def test_keys_are_fetched_periodically(url: Url) -> None:
    url.keys.begin()
    assert url.keys.find("rsa") is None
    assert url.answer() == 1
    assert url.keys.find("rsa") is not None
    assert url.keys.find(None) is not None
    url.pass_time(59_999)
    assert url.waiting == []
    url.pass_time(1)
    url.document = json.dumps({"keys": [jwk(EC_KEY, "ec"), jwk(RSA_KEY, "new")]}).encode()
    url.answer()
    assert url.keys.find("rsa") is None
    assert url.keys.find("ec") is not None
    assert url.keys.find(None) is None, "there are two"


def test_unknown_key_triggers_a_fetch_at_a_limited_rate(url: Url) -> None:
    url.keys.begin()
    url.answer()
    for _ in range(3):
        assert url.keys.find("new") is None
    assert url.answer() == 0
    url.pass_time(ASKED_FOR_AGAIN_MS)
    for _ in range(3):
        assert url.keys.find("new") is None
    url.document = json.dumps({"keys": [jwk(RSA_KEY, "new")]}).encode()
    assert url.answer() == 1
    assert url.keys.find("new") is not None


@pytest.mark.parametrize(
    "failure",
    [
        *(OSError("no route"), b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "x"}]}'),
        *(b'{"keys": [null, 5]}', b"[" * 100_000, b"\xff"),
        *(b'{"keys": [{"kty": "RSA", "n": 5, "e": []}]}', b'{"keys": [{"kty": "RSA", "alg": []}]}'),
    ],
)
def test_keys_are_kept_and_one_line_logged_while_fetches_fail(
    url: Url, failure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    url.keys.begin()
    url.answer()
    right = url.document
    caplog.clear()
    url.document = failure
    url.pass_time(60_000)
    url.answer()
    for pause_ms in (100, 200, 400, 400):
        assert url.keys.find("rsa") is not None
        url.pass_time(pause_ms - 1)
        assert url.waiting == []
        url.pass_time(1)
        assert url.answer() == 1
    (line,) = caplog.messages
    assert line.startswith("cannot fetch the keys for tokens from http://here/keys: ")
    assert "\n" not in line
    caplog.clear()
    url.document = OSError("another reason")
    url.pass_time(400)
    url.answer()
    url.document = right
    url.pass_time(400)
    url.answer()
    assert caplog.messages == [
        "cannot fetch the keys for tokens from http://here/keys: another reason",
        "fetched 1 keys for tokens from http://here/keys",
    ]


def test_unusable_key_does_not_affect_the_others(url: Url) -> None:
    broken = [
        {"kty": "RSA", "n": 5},
        {"kty": "EC", "crv": []},
        jwk(RSA_KEY, "x") | {"alg": ["RS256"]},
    ]
    url.document = json.dumps({"keys": [*broken, jwk(EC_KEY, "ec")]}).encode()
    url.keys.begin()
    url.answer()
    assert url.keys.find("ec") is not None
    assert url.keys.find("x") is None


def test_ended_key_set_fetches_nothing(url: Url) -> None:
    url.keys.begin()
    url.keys.end()
    url.answer()
    url.pass_time(1_000_000)
    assert url.keys.find("other") is None
    assert url.waiting == []
