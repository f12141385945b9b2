"""One module per API; dispatch and ApiVersions come from `HANDLERS`, the only list of them."""

from typing import Final

from cluster.brokers.handlers import (
    alter_client_quotas,
    alter_configs,
    alter_replica_log_dirs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_user_scram_credentials,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from cluster.brokers.handlers.request import Handler
from cluster.brokers.services import Services

HANDLERS: Final[tuple[Handler[Services], ...]] = (
    produce.HANDLER,
    fetch.HANDLER,
    list_offsets.HANDLER,
    metadata.HANDLER,
    api_versions.HANDLER,
    create_topics.HANDLER,
    delete_topics.HANDLER,
    delete_records.HANDLER,
    init_producer_id.HANDLER,
    offset_for_leader_epoch.HANDLER,
    describe_configs.HANDLER,
    alter_replica_log_dirs.HANDLER,
    describe_log_dirs.HANDLER,
    create_partitions.HANDLER,
    describe_cluster.HANDLER,
    describe_client_quotas.HANDLER,
    alter_client_quotas.HANDLER,
    alter_configs.HANDLER,
    incremental_alter_configs.HANDLER,
    describe_user_scram_credentials.HANDLER,
)
