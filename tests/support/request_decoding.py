"""Decodes a request of any API as a broker does: Produce and Fetch by the scanners of their own."""

from typing import Any

from cluster.protocol.adapter import decode_request
from cluster.protocol.api import ApiKey
from cluster.protocol.fetch_request import scan_fetch_request
from cluster.protocol.produce_codec import scan_produce_request

_SCANNERS = {ApiKey.PRODUCE: scan_produce_request, ApiKey.FETCH: scan_fetch_request}


def decode_any(api_key: int, version: int, frame: memoryview | bytes, position: int) -> Any:
    scan = _SCANNERS.get(ApiKey(api_key))
    if scan is not None:
        return scan(version, memoryview(frame), position)
    return decode_request(api_key, version, frame, position)
