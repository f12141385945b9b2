"""What the properties files of Kafka's distribution set, without their comments."""

from collections.abc import Iterator
from typing import Final

from cluster.config.kafka_definitions import KAFKA_DEFINITIONS, Definition
from cluster.config.value_type import TypeCode

_SIZES: Final = """\
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
_SHARE: Final = """\
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""
_PROTOCOLS: Final = """\
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
  SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
"""

SERVER_4_1: Final = f"""\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-combined-logs
{_PROTOCOLS}{_SIZES}{_SHARE}"""

BROKER_4_1: Final = f"""\
process.roles=broker
node.id=2
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-broker-logs
{_PROTOCOLS}{_SIZES}{_SHARE}"""

CONTROLLER_4_1: Final = f"""\
process.roles=controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-controller-logs
{_SIZES}{_SHARE}"""

KRAFT_SERVER_3_9: Final = f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-combined-logs
{_PROTOCOLS}{_SIZES}"""

KRAFT_BROKER_3_9: Final = f"""\
process.roles=broker
node.id=2
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://localhost:9092
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-broker-logs
{_PROTOCOLS}{_SIZES}"""

ZOOKEEPER_SERVER_3_9: Final = f"""\
broker.id=0
log.dirs=/tmp/kafka-logs
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
{_SIZES}"""

_LOGIN: Final = "org.apache.kafka.common.security"
SECURE_SERVER_3_9: Final = f"""\
broker.id=0
listeners=INTERNAL://:9091,CLIENTS://:9092,CERTIFIED://:9093
advertised.listeners=INTERNAL://localhost:9091,CLIENTS://localhost:9092,CERTIFIED://localhost:9093
listener.security.protocol.map=INTERNAL:SASL_PLAINTEXT,CLIENTS:SASL_SSL,CERTIFIED:SSL
inter.broker.listener.name=INTERNAL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.internal.plain.sasl.jaas.config={_LOGIN}.plain.PlainLoginModule required \\
  username="admin" password="admin-secret" user_admin="admin-secret";
listener.name.clients.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.clients.scram-sha-512.sasl.jaas.config={_LOGIN}.scram.ScramLoginModule required;
ssl.keystore.location=/etc/kafka/server.p12
ssl.keystore.password=store-secret
ssl.key.password=store-secret
ssl.keystore.type=PKCS12
ssl.truststore.location=/etc/kafka/trust.p12
ssl.truststore.password=store-secret
ssl.truststore.type=PKCS12
ssl.endpoint.identification.algorithm=
listener.name.certified.ssl.client.auth=required
listener.name.certified.ssl.principal.mapping.rules=RULE:^CN=([^,]+),.*$/$1/L,DEFAULT
sasl.login.callback.handler.class=org.example.Handler
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
super.users=User:admin
log.dirs=/tmp/kafka-logs
zookeeper.connect=localhost:2181
{_SIZES}"""
"""Of a broker with TLS, logins and ACLs, as its documentation tells to write it."""


def every_setting(release: str) -> dict[str, str]:
    """All settings of brokers that a release of Kafka knows, at their defaults.

    Without those that Kafka itself sets from others unless they are set, and without what says
    where a broker and its registry are.
    """
    return {each.name: _text(each) for each in _with_defaults(release)}


def _with_defaults(release: str) -> Iterator[Definition]:
    for each in KAFKA_DEFINITIONS.values():
        first, _, last = each.releases.partition("-")
        if not _number(first) <= _number(release) <= _number(last):
            continue
        may_be_empty = each.type.code in (TypeCode.STRING, TypeCode.LIST, TypeCode.CLASS)
        is_place = each.name in _PLACES or each.name.startswith("zookeeper.ssl.")
        if (_text(each) or may_be_empty) and not is_place:
            yield each


_PLACES: Final = {"broker.id", "log.dir", "log.dirs", "listeners", "node.id", "zookeeper.connect"}


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _text(each: Definition) -> str:
    return "" if each.default is None else each.type.render(each.default) or ""
