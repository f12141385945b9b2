"""The client's bytes are what the broker's codecs read and write."""

import struct
from datetime import timedelta

import pytest

from cluster.client.exchange import decode_response, encode_request
from cluster.client.socket_client import SPOKEN
from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import ApiKey
from cluster.protocol.framing import parse_request_header
from cluster.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntity,
    QuotaAlteration,
    QuotaAlterationResult,
    QuotaOperation,
)

KEY = ApiKey.ALTER_CLIENT_QUOTAS
ENTITY = (AlteredEntity(entity_type="user", entity_name=None),)
REQUEST = AlterClientQuotasRequest(
    entries=(
        QuotaAlteration(
            entity=ENTITY, ops=(QuotaOperation(key="request_percentage", value=0.5, remove=False),)
        ),
    ),
    validate_only=True,
)
RESPONSE = AlterClientQuotasResponse(
    throttle_time=timedelta(milliseconds=5),
    entries=(
        QuotaAlterationResult(
            error_code=ErrorCode.invalid_request, error_message="no", entity=ENTITY
        ),
    ),
)


@pytest.mark.parametrize("version", range(SPOKEN[KEY][0], SPOKEN[KEY][1] + 1))
def test_client_and_broker_decode_each_others_messages(version):
    frame = encode_request(KEY, version, 7, "tool", REQUEST)
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    header = parse_request_header(frame[4:])
    assert header[:4] == (KEY, version, 7, "tool")
    assert decode_request(KEY, version, frame[4:], header.body_position) == REQUEST
    answer = encode_response(KEY, version, 7, RESPONSE)
    assert decode_response(KEY, version, 7, answer[4:]) == RESPONSE


@pytest.mark.parametrize("version", [0, 1])
def test_a_broken_answer_is_the_peers_mistake(version):
    answer = encode_response(KEY, version, 7, RESPONSE)[4:]
    with pytest.raises(PeerError, match="instead of"):
        decode_response(KEY, version, 8, answer)
    for size in range(len(answer)):
        with pytest.raises(PeerError):
            decode_response(KEY, version, 7, answer[:size])
