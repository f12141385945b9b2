"""Settings of brokers compared with the releases of Kafka themselves."""

import pytest

from cluster.config.broker import BROKER_SETTINGS
from cluster.config.kafka_definitions import KAFKA_DEFINITIONS
from tests.compat.kafka_definitions import defined_in
from tests.compat.kafka_jvm import NEWEST, VERSION

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]


@pytest.mark.parametrize("release", [VERSION, NEWEST])
def test_every_setting_that_a_release_defines_is_known_here(release: str) -> None:
    defined = defined_in(release)
    assert len(defined) > 300
    missing = defined.keys() - KAFKA_DEFINITIONS.keys()
    assert not missing, "python -m tests.compat.kafka_definitions"
    assert not [name for name in defined if name not in BROKER_SETTINGS]
    for name, of_kafka in defined.items():
        here = KAFKA_DEFINITIONS[name]
        if here.releases.endswith(f"-{release.rpartition('.')[0]}"):
            assert here.type.code.name == of_kafka.type, name
            shown = "" if here.default is None else f'"{here.type.render(here.default)}"'
            assert shown == of_kafka.default, name
