"""Paths in the registry, as Kafka has them in ZooKeeper mode (`kafka.zk.ZkData`)."""

from typing import Final
from urllib.parse import quote, unquote

from cluster.model.acls import PatternType, ResourcePattern, ResourceType
from cluster.model.ids import BrokerId, TopicPartition

BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE_ID: Final = "/brokers/seqid"
"""Each setData increments its version, which is the next generated broker id."""
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
LOGIN_SECRET: Final = "/cluster/login_secret"
"""Not one of Kafka's paths; see decision 030."""
CONFIG: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
DELETE_TOPICS: Final = "/admin/delete_topics"
"""Its children are the names of topics to delete."""
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
LOG_DIRECTORIES: Final = "/milena/log_directories"
"""Not one of Kafka's paths: the log directories that each broker had in use (decision 050)."""
TOKENS: Final = "/delegation_token/tokens"
TOKEN_CHANGES: Final = "/delegation_token/token_changes"
TOKEN_CHANGE_PREFIX: Final = "/delegation_token/token_changes/token_change_"
LATEST_PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

ACLS: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
"""Parents of resource types, which are parents of resource names, which hold the rules."""
ACL_CHANGES: Final = {
    PatternType.LITERAL: "/kafka-acl-changes",
    PatternType.PREFIXED: "/kafka-acl-extended-changes",
}
ACL_CHANGE_NAME: Final = "acl_changes_"

TOPIC_CONFIGS: Final = "topics"
CLIENT_CONFIGS: Final = "clients"
USER_CONFIGS: Final = "users"
BROKER_CONFIGS: Final = "brokers"
IP_CONFIGS: Final = "ips"
GROUP_CONFIGS: Final = "groups"
CLIENT_METRICS_CONFIGS: Final = "client-metrics"
DEFAULT_ENTITY: Final = "<default>"
"""Stands for every user, client, broker or address without a node of its own."""

PERSISTENT_PATHS: Final = (
    BROKER_IDS,
    BROKER_SEQUENCE_ID,
    TOPICS,
    CONFIG_CHANGES,
    *(
        f"{CONFIG}/{kind}"
        for kind in (
            TOPIC_CONFIGS,
            CLIENT_CONFIGS,
            USER_CONFIGS,
            BROKER_CONFIGS,
            IP_CONFIGS,
            GROUP_CONFIGS,
            CLIENT_METRICS_CONFIGS,
        )
    ),
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
)
"""The nodes that a broker creates, empty, before it registers, if they are missing.

The block of producer ids is not among them: Kafka's controller takes an empty one for a damaged
one.
"""


def log_directories(broker_id: BrokerId) -> str:
    """The log directories that a broker had in use at its last registration."""
    return f"{LOG_DIRECTORIES}/{broker_id}"


def broker(broker_id: BrokerId) -> str:
    """A broker's registration; ephemeral, so it exists as long as the broker's session."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """The replica assignment of a topic."""
    return f"{TOPICS}/{name}"


def partitions(topic_name: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{topic_name}/partitions"


def partition(partition_name: TopicPartition) -> str:
    """The parent of a partition's state."""
    return f"{partitions(partition_name.topic)}/{partition_name.partition}"


def partition_state(partition_name: TopicPartition) -> str:
    """The leader, ISR and epochs of a partition."""
    return f"{partition(partition_name)}/state"


def entity_config(kind: str, name: str) -> str:
    """The config of a topic, client, user, broker, address or group; `kind` is one of the
    `_CONFIGS`.
    """
    return f"{CONFIG}/{entity_path(kind, name)}"


def entity_path(kind: str, name: str) -> str:
    """The name of an entity in a config change notification: `topics/orders`, `users/<default>`."""
    return f"{kind}/{name if kind == TOPIC_CONFIGS else sanitized(name)}"


def acls_of_type(pattern_type: PatternType, resource_type: ResourceType) -> str:
    """The parent of the rules for a resource type (`Topic`, `TransactionalId`)."""
    return f"{ACLS[pattern_type]}/{resource_type.label}"


def acls(pattern: ResourcePattern) -> str:
    """The rules for a pattern. Its name is an unescaped part of the path; see `is_node_name`."""
    return f"{acls_of_type(pattern.pattern_type, pattern.resource_type)}/{pattern.name}"


def is_node_name(name: str) -> bool:
    """Whether a name can be used unescaped as the name of a node (ZooKeeper:
    `PathUtils.validatePath`).
    """
    return (
        name not in ("", ".", "..")
        and "/" not in name
        and not any(
            letter <= "\x1f"
            or "\x7f" <= letter <= "\x9f"
            or "\ud800" <= letter <= "\uf8ff"
            or "\ufff0" <= letter <= "\uffff"
            for letter in name
        )
    )


def delete_topic(name: str) -> str:
    """Exists while a deletion of the topic is requested."""
    return f"{DELETE_TOPICS}/{name}"


def escaped(name: str) -> str:
    """A name escaped for a path (Kafka: `Sanitizer`): percent-encoded UTF-8 except for letters,
    digits, `.`, `_` and `-`. `.` and `..` are escaped, since they have a meaning in paths.
    """
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return quote(name, safe="").replace("~", "%7E")


def sanitized(name: str) -> str:
    """The escaped name of an entity; the default entity keeps its name."""
    return name if name == DEFAULT_ENTITY else escaped(name)


def desanitized(name: str) -> str:
    """The inverse of `sanitized`."""
    return name if name == DEFAULT_ENTITY else unquote(name)
