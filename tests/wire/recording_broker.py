"""A broker of one topic that answers just enough for a client to go on, and keeps every frame.

It is how the vectors in `vectors/` were captured; it stores nothing and knows no groups.
"""

import socket
import struct
import threading
from datetime import timedelta
from typing import Any
from uuid import UUID

from cluster.model.errors import ErrorCode
from cluster.protocol import messages as m
from cluster.protocol.adapter import encode_response
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.protocol.fetch_codec import FetchedPartition, pack_fetch_response
from cluster.protocol.framing import RequestHeader, parse_request_header
from cluster.protocol.produce_codec import ProducedPartition, pack_produce_response
from tests.support.request_decoding import decode_any

APIS = [
    Api(ApiKey.PRODUCE, 3, 13, advertised_min=0),
    Api(ApiKey.FETCH, 4, 17),
    Api(ApiKey.LIST_OFFSETS, 1, 10),
    Api(ApiKey.METADATA, 0, 13),
    Api(ApiKey.API_VERSIONS, 0, 4),
    Api(ApiKey.CREATE_TOPICS, 2, 7),
    Api(ApiKey.DELETE_TOPICS, 1, 6),
    Api(ApiKey.INIT_PRODUCER_ID, 0, 5),
    Api(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    Api(ApiKey.CREATE_PARTITIONS, 0, 3),
    Api(ApiKey.DESCRIBE_CLUSTER, 0, 2),
]
TOPIC_ID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
NO_TIME = timedelta(0)


class RecordingBroker:
    """Listens on a free loopback port; `frames` grows by each request, sizes cut off."""

    def __init__(self, apis: list[Api] = APIS) -> None:
        self.frames: list[bytes] = []
        self._answers = ApiVersionsAnswers(apis)
        self._records = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap(self) -> str:
        """The address to give to a client."""
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop listening; connections end with their clients."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", size)[0])
                self.frames.append(frame)
                connection.sendall(self.answer(frame))

    def answer(self, frame: bytes) -> bytes:
        """The response frame to one request frame, sizes on the answer only."""
        header = parse_request_header(frame)
        key, version = header.api_key, header.api_version
        if key == ApiKey.API_VERSIONS:
            return self._answers.answer(version, header.correlation_id)
        request = decode_any(key, version, memoryview(frame), header.body_position)
        if key == ApiKey.PRODUCE:
            return self._produce(header, request)
        if key == ApiKey.FETCH:
            return self._fetch(header, request)
        return encode_response(key, version, header.correlation_id, self._respond(key, request))

    def _produce(self, header: RequestHeader, request: Any) -> bytes:
        [(_, _, [(index, records)])] = request.topics
        self._records = bytes(records)
        topics = [("orders", TOPIC_ID, [ProducedPartition(index, 0, 0, -1, 0)])]
        return pack_produce_response(header.api_version, header.correlation_id, topics)

    def _fetch(self, header: RequestHeader, request: Any) -> bytes:
        wanted = [each for topic in request.topics for each in topic.partitions]
        topics = [
            (
                "orders",
                TOPIC_ID,
                [
                    FetchedPartition(
                        each.index,
                        0,
                        1,
                        1,
                        0,
                        records_size_bytes=0 if each.fetch_offset else len(self._records),
                        records=self._records,
                    )
                    for each in wanted
                ],
            )
        ]
        items = pack_fetch_response(
            header.api_version, header.correlation_id, topics if wanted else []
        )
        return b"".join(items)  # type: ignore[arg-type]  # the records given are bytes

    def _respond(self, key: int, request: Any) -> Any:
        if key == ApiKey.METADATA:
            return self._metadata()
        if key == ApiKey.INIT_PRODUCER_ID:
            return m.InitProducerIdResponse(
                throttle_time=NO_TIME, error_code=ErrorCode.none, producer_id=1, producer_epoch=0
            )
        if key == ApiKey.LIST_OFFSETS:
            return m.ListOffsetsResponse(
                throttle_time=NO_TIME,
                topics=tuple(
                    m.ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=tuple(
                            m.ListOffsetsPartitionResponse(
                                partition_index=each.partition_index,
                                error_code=ErrorCode.none,
                                offset=0,
                            )
                            for each in topic.partitions
                        ),
                    )
                    for topic in request.topics
                ),
            )
        return self._administer(key, request)

    def _metadata(self) -> m.MetadataResponse:
        partition = m.MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=0,
            leader_id=1,
            leader_epoch=3,
            replica_nodes=(1,),
            isr_nodes=(1,),
        )
        topic = m.MetadataResponseTopic(
            error_code=ErrorCode.none, name="orders", topic_id=TOPIC_ID, partitions=(partition,)
        )
        return m.MetadataResponse(
            throttle_time=NO_TIME,
            brokers=(m.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port),),
            cluster_id="recording",
            controller_id=1,
            topics=(topic,),
            error_code=ErrorCode.none,
        )

    def _administer(self, key: int, request: Any) -> Any:
        if key == ApiKey.CREATE_TOPICS:
            return m.CreateTopicsResponse(
                throttle_time=NO_TIME,
                topics=tuple(
                    m.CreatableTopicResult(
                        name=each.name,
                        topic_id=TOPIC_ID,
                        error_code=ErrorCode.none,
                        error_message=None,
                        configs=(),
                    )
                    for each in request.topics
                ),
            )
        if key == ApiKey.DELETE_TOPICS:
            return m.DeleteTopicsResponse(
                throttle_time=NO_TIME,
                responses=tuple(
                    m.DeletableTopicResult(
                        name=each.name, topic_id=each.topic_id, error_code=ErrorCode.none
                    )
                    for each in request.topics
                ),
            )
        if key == ApiKey.CREATE_PARTITIONS:
            return m.CreatePartitionsResponse(
                throttle_time=NO_TIME,
                results=tuple(
                    m.CreatePartitionsTopicResult(name=each.name, error_code=ErrorCode.none)
                    for each in request.topics
                ),
            )
        if key == ApiKey.DESCRIBE_CLUSTER:
            return m.DescribeClusterResponse(
                throttle_time=NO_TIME,
                error_code=ErrorCode.none,
                cluster_id="recording",
                controller_id=1,
                brokers=(
                    m.DescribeClusterBroker(
                        broker_id=1, host="127.0.0.1", port=self.port, is_fenced=False
                    ),
                ),
            )
        return m.DescribeConfigsResponse(
            throttle_time=NO_TIME,
            results=tuple(
                m.DescribeConfigsResult(
                    error_code=ErrorCode.none,
                    error_message=None,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=(
                        m.DescribeConfigsResourceResult(
                            name="retention.ms",
                            value="1",
                            read_only=False,
                            config_source=1,
                            is_sensitive=False,
                            synonyms=(),
                            documentation=None,
                        ),
                    ),
                )
                for each in request.resources
            ),
        )
