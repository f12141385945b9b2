"""UpdateFeatures (API key 57), versions 0-2 (KIP-584).

Answers immediately. Every feature has the one level that this release serves, so that an update to
this level changes nothing, and any other is refused with INVALID_UPDATE_VERSION.
v1 upgrade type in place of `allow_downgrade`, validate only; v2 no results of single features.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER, check
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

API: Final = Api(ApiKey.UPDATE_FEATURES, 0, 2)

_UPGRADE_TYPES: Final = (1, 2, 3)
_NO_ERROR: Final = "NONE"
"""Kafka's message beside the code of no error."""


def handle(
    request: UpdateFeaturesRequest, context: RequestContext, services: AdminServices
) -> UpdateFeaturesResponse:
    """One error refuses all updates; of several updates of one feature the last one counts."""
    updates = {update.feature: update for update in request.feature_updates}
    try:
        check(services, context, ALTER_CLUSTER)
        for update in updates.values():
            _check_update(update, services)
    except Refused as refused:
        return UpdateFeaturesResponse(
            throttle_time=timedelta(0), error_code=refused.code, error_message=refused.detail
        )
    return UpdateFeaturesResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            UpdatableFeatureResult(
                feature=feature, error_code=ErrorCode.none, error_message=_NO_ERROR
            )
            for feature in updates
        ),
    )


def _check_update(update: FeatureUpdateKey, services: AdminServices) -> None:
    reason = _reason_against(update, services)
    if reason is not None:
        raise Refused(
            ErrorCode.invalid_update_version,
            "The update failed for all features since the following feature had an error:"
            f" Invalid update version {update.max_version_level} for feature {update.feature}."
            f" {reason}",
        )


def _reason_against(update: FeatureUpdateKey, services: AdminServices) -> str | None:
    name, level = update.feature, update.max_version_level
    controller = services.metadata.controller_id
    served = services.features.get(name)
    if update.upgrade_type not in _UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if served is None:
        return (
            f"Local controller {controller} does not support this feature."
            if level
            else f"Feature {name} not found."
        )
    if level != served:
        return f"Local controller {controller} only supports versions {served}-{served}"
    return None


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(ALTER_CLUSTER,))
