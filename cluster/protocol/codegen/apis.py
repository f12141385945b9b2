"""The messages that are generated, and the names of their parts."""

from typing import Final

from cluster.protocol.api import ApiKey

APIS: Final[dict[ApiKey, tuple[int, int]]] = {
    ApiKey.LIST_OFFSETS: (1, 10),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
}
"""The first and last version of the classes. Produce and Fetch have their own codecs."""

CALLED: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.OFFSET_DELETE,
        ApiKey.FIND_COORDINATOR,
        ApiKey.LIST_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ELECT_LEADERS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    }
)
"""Messages of `cluster/client/`: for these, requests are also written and responses read."""

RENAMED: Final[dict[tuple[ApiKey, str], str]] = {
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "AlterConfigsResource"): "IncrementalAlterConfigsResource",
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "AlterableConfig"): "IncrementalAlterableConfig",
    (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "AlterConfigsResourceResponse",
    ): "IncrementalAlterConfigsResourceResponse",
    (ApiKey.ALTER_CLIENT_QUOTAS, "EntityData"): "AlteredEntity",
    (ApiKey.ALTER_CLIENT_QUOTAS, "request EntryData"): "QuotaAlteration",
    (ApiKey.ALTER_CLIENT_QUOTAS, "response EntryData"): "QuotaAlterationResult",
    (ApiKey.ALTER_CLIENT_QUOTAS, "OpData"): "QuotaOperation",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "EntityData"): "DescribedEntity",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "EntryData"): "DescribedEntry",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "ValueData"): "DescribedQuota",
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "CredentialInfo"): "ScramCredential",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "ComponentData"): "QuotaFilterComponent",
    (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "request TopicPartitions",
    ): "ConsumerGroupHeartbeatOwnedTopic",
    (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "response TopicPartitions",
    ): "ConsumerGroupHeartbeatTopic",
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "Assignment"): "ConsumerGroupHeartbeatAssignment",
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "TopicPartitions"): "ConsumerGroupDescribeTopic",
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "Assignment"): "ConsumerGroupDescribeAssignment",
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "Member"): "ConsumerGroupDescribeMember",
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "DescribedGroup"): "DescribedConsumerGroup",
}
"""New names of nested messages whose name in Kafka has different meanings in two APIs, or in the
request and the response of one."""

ENCODED_AHEAD: Final = frozenset(
    {
        (ApiKey.METADATA, "MetadataResponsePartition"),
        (ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirsPartition"),
        (ApiKey.DESCRIBE_ACLS, "DescribeAclsResource"),
        (ApiKey.DESCRIBE_ACLS, "AclDescription"),
        (ApiKey.DESCRIBE_CONFIGS, "DescribeConfigsResourceResult"),
    }
)
"""Arrays that may be so long that they are encoded in steps: the field also takes `EncodedItems`,
and the module has a public function for one item."""
