"""The state machine of a login: the reaction to each request; only a proof logs in."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema

from cluster.brokers.security.exchange import LoginFailed, Proof
from cluster.brokers.security.login import (
    API_VERSIONS_MAX,
    Login,
    MechanismRules,
    Reaction,
    Session,
)
from cluster.model.clocks import WallMs
from cluster.model.errors import PeerError
from tests.support.examples import examples
from tests.support.kafka_wire import WireClient, frame_of, request

NOW = WallMs(1_000_000)
HANDSHAKE, API_VERSIONS, METADATA, AUTHENTICATE = 17, 18, 3, 36


class TwoSteps:
    """A mechanism with two tokens: any token, then `right USER` or `until TIME USER`."""

    def __init__(self) -> None:
        self._has_begun = False

    def respond(self, token: bytes, now_ms: WallMs) -> bytes | Proof:
        if not self._has_begun:
            self._has_begun = True
            return b"challenge"
        words = token.split()
        if words[:1] == [b"right"] and len(words) == 2:
            return Proof(words[1].decode(), b"welcome")
        if words[:1] == [b"until"] and len(words) == 3:
            return Proof(words[2].decode(), b"welcome", WallMs(int(words[1])))
        if words[:1] == [b"told"]:
            raise LoginFailed("for the log", "for the client")
        if words[:1] == [b"named"]:
            raise LoginFailed("for the log", user=token.decode().removeprefix("named "))
        raise LoginFailed("for the log")


def a_login(previous: Session | None = None, max_session_ms: int = 0) -> Login:
    return Login(
        {
            "TWO": MechanismRules(TwoSteps, max_session_ms),
            "OTHER": MechanismRules(TwoSteps, max_session_ms),
        },
        previous,
    )


def send(login: Login, api: int, version: int, **fields: object) -> Reaction | None:
    frame = frame_of(request(api, version, **fields), 7)[4:]
    return login.on_frame(memoryview(frame), NOW)


def handshake(login: Login, mechanism: str = "TWO", version: int = 1) -> Reaction:
    reaction = send(login, HANDSHAKE, version, mechanism=mechanism)
    assert reaction is not None
    return reaction


def authenticate(login: Login, token: bytes, version: int = 2) -> Reaction:
    reaction = send(login, AUTHENTICATE, version, auth_bytes=token)
    assert reaction is not None
    return reaction


def read(reaction: Reaction, api: int, version: int):
    assert reaction.answer is not None
    assert int.from_bytes(reaction.answer[:4]) == len(reaction.answer) - 4
    return WireClient.parse(reaction.answer[4:], load_response_schema(api, version), 7)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_login_needs_a_handshake_and_tokens(version: int) -> None:
    login = a_login(max_session_ms=5_000)
    assert (
        send(login, API_VERSIONS, 3, client_software_name="x", client_software_version="1") is None
    )
    answer = read(handshake(login), HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (0, ("TWO", "OTHER"))
    assert read(authenticate(login, b"", version), AUTHENTICATE, version).auth_bytes == b"challenge"
    reaction = authenticate(login, b"right alice", version)
    assert reaction.session == Session("alice", "TWO", has_token=False, lifetime_ms=5_000)
    answer = read(reaction, AUTHENTICATE, version)
    assert (answer.error_code, answer.auth_bytes) == (0, b"welcome")
    if version > 0:
        assert answer.session_lifetime.total_seconds() == 5


def test_tokens_after_an_old_handshake_have_no_headers() -> None:
    login = a_login()
    assert handshake(login, version=0).failure is None
    reaction = login.on_frame(memoryview(b"\0\0\0\3 looks like a request"), NOW)
    assert reaction == Reaction(b"\0\0\0\tchallenge")
    reaction = login.on_frame(memoryview(b"right alice"), NOW)
    assert reaction is not None
    assert reaction.answer == b"\0\0\0\7welcome"
    assert reaction.session == Session("alice", "TWO", has_token=False, lifetime_ms=None)


def test_a_wrong_token_after_an_old_handshake_is_not_answered() -> None:
    login = a_login()
    handshake(login, version=0)
    login.on_frame(memoryview(b""), NOW)
    reaction = login.on_frame(memoryview(b"wrong"), NOW)
    assert reaction == Reaction(None, failure="it failed to log in by TWO: for the log")


def test_unknown_mechanism_is_answered_with_the_enabled_ones() -> None:
    reaction = handshake(a_login(), "GSSAPI")
    answer = read(reaction, HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (33, ("TWO", "OTHER"))
    assert reaction.failure == ("SaslHandshake: unsupported_sasl_mechanism (enabled: TWO, OTHER)")


def test_a_second_handshake_is_refused() -> None:
    login = a_login()
    handshake(login)
    reaction = handshake(login)
    assert read(reaction, HANDSHAKE, 1).error_code == 34
    assert reaction.failure is not None


def test_failed_login_reveals_nothing_about_users() -> None:
    login = a_login()
    handshake(login)
    authenticate(login, b"")
    reaction = authenticate(login, b"wrong")
    answer = read(reaction, AUTHENTICATE, 2)
    assert (answer.error_code, answer.error_message) == (
        58,
        "Authentication failed during authentication due to invalid credentials with SASL"
        " mechanism TWO",
    )
    assert reaction.failure == "it failed to log in by TWO: for the log"


def test_a_failure_names_the_claimed_user_on_one_line_and_bounded() -> None:
    login = a_login(Session("alice", "TWO", has_token=False, lifetime_ms=1))
    handshake(login)
    authenticate(login, b"")
    reaction = authenticate(login, b"named eve\x1b[2J\nok" + b"x" * 200)
    assert reaction.failure == (
        f"it failed to log in again as eve\\x1b[2J\\nok{'x' * 90}...(110 more characters) by TWO:"
        " for the log"
    )


def test_mechanism_may_choose_the_error_message_for_the_client() -> None:
    login = a_login()
    handshake(login)
    authenticate(login, b"")
    answer = read(authenticate(login, b"told"), AUTHENTICATE, 2)
    assert answer.error_message == "for the client"


@pytest.mark.parametrize("has_handshake", [False, True])
def test_other_request_ends_the_login(has_handshake: bool) -> None:
    login = a_login()
    if has_handshake:
        handshake(login)
    with pytest.raises(PeerError, match="API key 3 version 1 before the login"):
        send(login, METADATA, 1, topics=None)


def test_token_without_a_handshake_ends_the_login() -> None:
    with pytest.raises(PeerError, match="before the login"):
        authenticate(a_login(), b"right alice")


@pytest.mark.parametrize(
    ("max_session_ms", "token", "lifetime_ms"),
    [
        (0, b"right alice", None),
        (0, b"until 1000400 alice", 400),
        (0, b"until 900000 alice", 0),
        (300, b"until 1000400 alice", 300),
        (500, b"until 1000400 alice", 400),
    ],
)
def test_session_ends_at_the_earlier_of_two_limits(
    max_session_ms: int, token: bytes, lifetime_ms: int | None
) -> None:
    login = a_login(max_session_ms=max_session_ms)
    handshake(login)
    authenticate(login, b"")
    session = authenticate(login, token).session
    assert session is not None
    assert session.lifetime_ms == lifetime_ms


ALICE = Session("alice", "TWO", has_token=False, lifetime_ms=1)


def test_reauthentication_may_change_neither_user_nor_mechanism() -> None:
    login = a_login(ALICE)
    handshake(login)
    authenticate(login, b"")
    assert authenticate(login, b"right alice").session is not None

    login = a_login(ALICE)
    handshake(login)
    authenticate(login, b"")
    reaction = authenticate(login, b"right bob")
    assert reaction.session is None
    assert read(reaction, AUTHENTICATE, 2).error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )

    login = a_login(ALICE)
    handshake(login, "OTHER")
    reaction = authenticate(login, b"")
    assert reaction.session is None
    assert read(reaction, AUTHENTICATE, 2).error_message == (
        "SASL mechanism 'OTHER' requested by client is not supported for re-authentication of"
        " mechanism 'TWO'"
    )


Event = tuple[str, object]
_events = st.lists(
    st.one_of(
        st.tuples(st.just("handshake"), st.sampled_from(["TWO", "OTHER", "NONE"])),
        st.tuples(st.just("old handshake"), st.just("TWO")),
        st.tuples(st.just("token"), st.sampled_from([b"", b"wrong", b"right alice", b"right bob"])),
        st.tuples(st.just("bytes"), st.binary(max_size=40)),
        st.tuples(st.just("bare token"), st.sampled_from([b"right alice", b"wrong"])),
        st.tuples(st.just("metadata"), st.none()),
        st.tuples(st.just("api versions"), st.none()),
    ),
    max_size=8,
)


def _carry_out(login: Login, event: Event) -> Reaction | None:
    kind, value = event
    steps: dict[str, Callable[[], Reaction | None]] = {
        "handshake": lambda: send(login, HANDSHAKE, 1, mechanism=value),
        "old handshake": lambda: send(login, HANDSHAKE, 0, mechanism=value),
        "token": lambda: send(login, AUTHENTICATE, 2, auth_bytes=value),
        "bytes": lambda: login.on_frame(memoryview(bytes(value)), NOW),  # type: ignore[call-overload]
        "bare token": lambda: login.on_frame(memoryview(bytes(value)), NOW),  # type: ignore[call-overload]
        "metadata": lambda: send(login, METADATA, 1, topics=None),
        "api versions": lambda: send(login, API_VERSIONS, 0),
    }
    return steps[kind]()


def test_repeated_api_versions_requests_end_the_login() -> None:
    login = a_login()
    for _ in range(API_VERSIONS_MAX):
        assert send(login, API_VERSIONS, 0) is None
    with pytest.raises(PeerError, match="ApiVersions before the login"):
        send(login, API_VERSIONS, 0)


@examples(300)
@given(_events, st.sampled_from([None, ALICE]))
def test_no_sequence_of_requests_logs_in_without_a_proof(
    events: list[Event], previous: Session | None
) -> None:
    login = a_login(previous)
    proofs = 0
    for event in events:
        try:
            reaction = _carry_out(login, event)
        except PeerError:
            break
        if reaction is None:
            assert event[0] in ("api versions", "bytes")
            continue
        assert reaction.session is None or reaction.failure is None
        if reaction.session is not None:
            proofs += 1
            kind, value = event
            assert kind in ("token", "bare token")
            assert value == b"right " + reaction.session.user.encode()
            assert previous is None or reaction.session.user == "alice"
            assert any(kind in ("handshake", "old handshake") for kind, _ in events)
        if reaction.session is not None or reaction.failure is not None:
            break
    assert proofs <= 1
