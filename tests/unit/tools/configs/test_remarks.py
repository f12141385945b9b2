from datetime import timedelta

from cluster.client.config_requests import shortfalls
from cluster.config.describe import describe
from cluster.config.settings import broker_settings, topic_settings
from cluster.model.errors import ErrorCode, UserError
from cluster.protocol.messages import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from cluster.tools.configs.listing import ListedSynonym
from cluster.tools.configs.remarks import (
    entries_of,
    warn_of_configs,
)


class Brokers:
    """Describe every topic as a broker does, or as Kafka does, without our remarks."""

    def __init__(self, *, documentation: bool = True, code: ErrorCode = ErrorCode.none) -> None:
        self.documentation = documentation
        self.code = code

    def call(self, api_key, request):
        (resource,) = request.resources
        return DescribeConfigsResponse(
            throttle_time=timedelta(0),
            results=(
                DescribeConfigsResult(
                    error_code=self.code,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=tuple(
                        map(self._entry, describe(topic_settings(broker_settings({}), {})))
                    ),
                ),
            ),
        )

    def _entry(self, entry):
        return DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            is_sensitive=entry.sensitive,
            config_source=int(entry.source),
            synonyms=tuple(
                DescribeConfigsSynonym(name=each.name, value=each.value, source=int(each.source))
                for each in entry.synonyms
            ),
            documentation=entry.documentation if self.documentation else None,
        )


class Gone:
    def call(self, api_key, request):
        raise UserError("lost")


GIVEN = {
    "local.retention.ms": "1",
    "local.retention.bytes": "-2",
    "segment.bytes": "5",
    "message.downconversion.enable": "false",
}


def test_names_and_reasons_come_from_the_cluster(capsys):
    warn_of_configs(Brokers(), "topics", "orders", GIVEN)
    out, error = capsys.readouterr()
    assert out == ""
    first, *_ = error.splitlines()
    assert first == (
        "WARNING: local.retention.ms (accepted, without effect yet: there is no remote tier)."
    )
    assert "local.retention.bytes" not in error
    assert "segment.bytes" not in error


def test_there_is_no_warning_where_the_cluster_has_no_remarks_or_is_gone(capsys):
    warn_of_configs(Brokers(documentation=False), "topics", "orders", GIVEN)
    warn_of_configs(Brokers(code=ErrorCode.unknown_topic_or_partition), "topics", "orders", GIVEN)
    warn_of_configs(Gone(), "topics", "orders", GIVEN)
    assert capsys.readouterr() == ("", "")


def test_shortfalls_name_the_default():
    assert shortfalls(Brokers(), "topics", "orders")["local.retention.ms"].default == "-2"


def test_the_values_for_all_brokers_come_with_their_source():
    entries = {entry.name: entry for entry in entries_of(Brokers(), "brokers", "")}
    policy = entries["cleanup.policy"]
    assert policy.source == "DEFAULT_CONFIG"
    assert policy.synonyms == (ListedSynonym("DEFAULT_CONFIG", "log.cleanup.policy", "delete"),)
    assert policy.remark is None
    assert entries["remote.storage.enable"].remark is not None
