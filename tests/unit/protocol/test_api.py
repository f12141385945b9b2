import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from cluster.protocol.api import Api, ApiKey, is_flexible

GONE = {4, 5, 6, 7}
"""Keys for brokers and controllers that Kafka 4 removed, and so did kio."""


def test_names_and_numbers_are_those_of_kafkas_own_schemas() -> None:
    ours = {key.value: key.name.lower() for key in ApiKey if key not in GONE}
    assert ours == dict(api_key_map)


@pytest.mark.slow
def test_flexible_versions_are_those_of_kafkas_own_schemas() -> None:
    from kio.index import load_request_schema

    for key, name in api_key_map.items():
        for version, kinds in schema_name_map[name].items():
            if EntityType.request in kinds:
                assert is_flexible(key, version) == load_request_schema(key, version).__flexible__


def test_an_api_serves_both_ends_of_its_range() -> None:
    api = Api(ApiKey.PRODUCE, 3, 12, advertised_min=0)
    assert [version for version in range(15) if api.serves(version)] == list(range(3, 13))
