"""UpdateFeatures: a feature has one level, and an update to another one is refused."""

from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.handler_stage import HandlerStage
from tests.support.kafka_wire import request


def update_features(client: Any, *updates: tuple[str, int], version: int, kind: int = 1) -> Any:
    how = {"upgrade_type": kind} if version else {"allow_downgrade": False}
    asked = [{"feature": feature, "max_version_level": level, **how} for feature, level in updates]
    return client.call(
        request(
            ApiKey.UPDATE_FEATURES,
            version,
            timeout=1_000,
            feature_updates=asked,
            validate_only=False,
        )
    )


@pytest.mark.parametrize("version", range(3))
def test_features_stay_at_their_level(stage: HandlerStage, version: int) -> None:
    client = stage.connect()
    stage.update()
    answer = update_features(
        client, ("group.version", 1), ("transaction.version", 2), version=version
    )
    assert answer.error_code == ErrorCode.none
    if version < 2:
        assert {each.feature: each.error_message for each in answer.results} == {
            "group.version": "NONE",
            "transaction.version": "NONE",
        }
    answer = update_features(
        client, ("group.version", 1), ("transaction.version", 1), version=version
    )
    assert answer.error_code == ErrorCode.invalid_update_version
    assert answer.error_message.endswith(
        "had an error: Invalid update version 1 for feature transaction.version. Local controller 2"
        " only supports versions 2-2"
    )


@pytest.mark.parametrize(
    ("update", "kind", "reason"),
    [
        (("group.version", -1), 1, "A feature version cannot be less than 0."),
        (("group.version", 1), 0, "The controller does not support the given upgrade type."),
        (("metadata.version", 27), 1, "Local controller 2 does not support this feature."),
        (("share.version", 0), 3, "Feature share.version not found."),
    ],
)
def test_an_update_of_features_is_refused_with_the_reason(
    stage: HandlerStage, update: tuple[str, int], kind: int, reason: str
) -> None:
    stage.update()
    answer = update_features(stage.connect(), update, version=2, kind=kind)
    assert answer.error_code == ErrorCode.invalid_update_version
    assert answer.error_message.endswith(f"for feature {update[0]}. {reason}")
