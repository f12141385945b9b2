from cluster.protocol.endpoints import NodeEndpoint, pack_endpoints_tag


def test_the_tag_tells_its_number_and_size() -> None:
    endpoints = [NodeEndpoint(1, "h", 9092), NodeEndpoint(2, "i", 9093, "rack")]
    value = bytes.fromhex("03 00000001 0268 00002384 00 00 00000002 0269 00002385 057261636b 00")
    assert pack_endpoints_tag(endpoints) == bytes([0, len(value)]) + value
