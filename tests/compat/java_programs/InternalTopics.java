// Writes logs with records of __consumer_offsets and __transaction_state, of every kind and version,
// through Kafka's own message classes. Argument: a directory; a partition of each is made in it.

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogKey;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValue;

public class InternalTopics {
    private static final Uuid TOPIC_ID = new Uuid(1, 2);
    private static final byte[] NOTHING = {};

    public static void main(String[] arguments) throws Exception {
        write(Paths.get(arguments[0], "__consumer_offsets-0"), groupRecords());
        write(Paths.get(arguments[0], "__transaction_state-0"), transactionRecords());
    }

    private static List<SimpleRecord> groupRecords() {
        List<SimpleRecord> records = new ArrayList<>();
        OffsetCommitKey commit = new OffsetCommitKey().setGroup("g").setTopic("t").setPartition(3);
        for (int keyVersion = 0; keyVersion < 2; keyVersion++) {
            for (int version = 0; version < 5; version++) {
                OffsetCommitValue value = new OffsetCommitValue()
                    .setOffset(5 + version)
                    .setMetadata(version == 2 ? "" : "a \"note\", \u00e9")
                    .setCommitTimestamp(77);
                if (version == 1) value.setExpireTimestamp(99);
                if (version >= 3) value.setLeaderEpoch(4);
                records.add(record(keyVersion, commit, bytes(version, value)));
            }
        }
        records.add(record(1, commit, null));
        for (int version = 0; version < 5; version++) {
            for (String type : List.of("consumer", "connect")) {
                records.add(record(2, new GroupMetadataKey().setGroup("g"),
                    bytes(version, group(version, type))));
            }
        }
        records.add(record(3, new ConsumerGroupMetadataKey().setGroupId("g"),
            bytes(0, new ConsumerGroupMetadataValue().setEpoch(3))));
        records.add(record(4, new ConsumerGroupPartitionMetadataKey().setGroupId("g"),
            bytes(0, new ConsumerGroupPartitionMetadataValue().setTopics(List.of(
                new ConsumerGroupPartitionMetadataValue.TopicMetadata()
                    .setTopicId(TOPIC_ID).setTopicName("t").setNumPartitions(2)
                    .setPartitionMetadata(List.of(
                        new ConsumerGroupPartitionMetadataValue.PartitionMetadata()
                            .setPartition(0).setRacks(List.of("r1")))))))));
        ConsumerGroupMemberMetadataKey member =
            new ConsumerGroupMemberMetadataKey().setGroupId("g").setMemberId("m");
        ConsumerGroupMemberMetadataValue described = new ConsumerGroupMemberMetadataValue()
            .setInstanceId(null).setRackId("r").setClientId("c").setClientHost("h")
            .setSubscribedTopicNames(List.of("t")).setRebalanceTimeoutMs(4);
        records.add(record(5, member, bytes(0, described)));
        described.setClassicMemberMetadata(
            new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata().setSessionTimeoutMs(9)
                .setSupportedProtocols(List.of(
                    new ConsumerGroupMemberMetadataValue.ClassicProtocol()
                        .setName("range").setMetadata(new byte[] {1, 2}))));
        records.add(record(5, member, bytes(0, described)));
        records.add(record(6, new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("g"),
            bytes(0, new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(3))));
        records.add(record(7,
            new ConsumerGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"),
            bytes(0, new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(
                new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(TOPIC_ID).setPartitions(List.of(1, 2)))))));
        records.add(record(8,
            new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"),
            bytes(0, new ConsumerGroupCurrentMemberAssignmentValue()
                .setMemberEpoch(3).setPreviousMemberEpoch(2).setState((byte) 1))));
        records.add(new SimpleRecord(1L, new byte[] {0, 50, 1}, NOTHING));
        records.add(new SimpleRecord(1L, new byte[] {0}, NOTHING));
        records.add(record(1, commit, new byte[] {0}));
        return records;
    }

    private static GroupMetadataValue group(int version, String type) {
        byte[] subscription = array(ConsumerProtocol.serializeSubscription(
            new ConsumerPartitionAssignor.Subscription(
                List.of("t", "u"), ByteBuffer.wrap("ud".getBytes()),
                List.of(new TopicPartition("t", 0)), 4, Optional.of("rack")),
            (short) Math.min(version, 3)));
        byte[] assignment = version == 4 ? NOTHING : array(ConsumerProtocol.serializeAssignment(
            new ConsumerPartitionAssignor.Assignment(
                List.of(new TopicPartition("t", 0), new TopicPartition("t", 1)))));
        GroupMetadataValue.MemberMetadata member = new GroupMetadataValue.MemberMetadata()
            .setMemberId("m1").setClientId("c1").setClientHost("/h").setSessionTimeout(10)
            .setSubscription(subscription).setAssignment(assignment);
        if (version >= 1) member.setRebalanceTimeout(20);
        if (version == 4) member.setGroupInstanceId("inst");
        GroupMetadataValue value = new GroupMetadataValue()
            .setProtocolType(type).setGeneration(version)
            .setProtocol(version == 0 ? null : "range").setLeader("m1")
            .setMembers(List.of(member));
        if (version >= 2) value.setCurrentStateTimestamp(55);
        return value;
    }

    private static List<SimpleRecord> transactionRecords() {
        List<SimpleRecord> records = new ArrayList<>();
        TransactionLogKey key = new TransactionLogKey().setTransactionalId("tx");
        for (int version = 0; version < 2; version++) {
            for (int status = 0; status < 8; status++) {
                TransactionLogValue value = new TransactionLogValue()
                    .setProducerId(8).setProducerEpoch((short) 2).setTransactionTimeoutMs(6000)
                    .setTransactionStatus((byte) status).setTransactionLastUpdateTimestampMs(50)
                    .setTransactionStartTimestampMs(40);
                value.setTransactionPartitions(status == 0 ? null : List.of(
                    new TransactionLogValue.PartitionsSchema()
                        .setTopic("t").setPartitionIds(List.of(7))));
                records.add(record(0, key, bytes(version, value)));
            }
        }
        records.add(record(0, key, null));
        records.add(new SimpleRecord(1L, new byte[] {0, 5}, null));
        return records;
    }

    private static SimpleRecord record(int version, Message key, byte[] value) {
        return new SimpleRecord(1L, bytes(version, key), value);
    }

    private static byte[] bytes(int version, Message message) {
        return array(MessageUtil.toVersionPrefixedByteBuffer((short) version, message));
    }

    private static byte[] array(ByteBuffer buffer) {
        byte[] content = new byte[buffer.remaining()];
        buffer.get(content);
        return content;
    }

    private static void write(Path directory, List<SimpleRecord> records) throws Exception {
        Files.createDirectories(directory);
        MemoryRecords batch = MemoryRecords.withRecords(
            0L, Compression.NONE, records.toArray(new SimpleRecord[0]));
        Files.write(directory.resolve("00000000000000000000.log"), array(batch.buffer()));
    }
}
