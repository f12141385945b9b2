// Writes segments with messages of formats v0 and v1, with every codec, through Kafka's own builder.
// Argument: a directory; in it old0-0 and old1-0 are made. Offsets have gaps between the sets.

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;

public class OldFormats {
    private static final long NOW_MS = 1_700_000_000_000L;
    private static final CompressionType[] CODECS = {
        CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4
    };

    public static void main(String[] arguments) throws Exception {
        write(Paths.get(arguments[0], "old0-0"), (byte) 0, TimestampType.CREATE_TIME);
        write(
            Paths.get(arguments[0], "old1-0"),
            (byte) 1, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME);
    }

    private static void write(Path directory, byte magic, TimestampType... types) throws Exception {
        ByteBuffer segment = ByteBuffer.allocate(1 << 20);
        long offset = 100;
        for (CompressionType codec : CODECS) {
            for (TimestampType type : types) {
                MemoryRecordsBuilder set = MemoryRecords.builder(
                    ByteBuffer.allocate(1 << 16), magic, Compression.of(codec).build(), type,
                    offset, NOW_MS + 500);
                for (int index = 0; index < 3; index++, offset++) {
                    byte[] key = index == 0 ? null : ("key" + offset).getBytes();
                    byte[] value = index == 1 ? null : ("value " + offset).repeat(20).getBytes();
                    set.append(magic == 0 ? -1 : NOW_MS + offset, key, value);
                }
                segment.put(set.build().buffer());
                offset += 2;
            }
        }
        segment.flip();
        byte[] content = new byte[segment.remaining()];
        segment.get(content);
        Files.createDirectories(directory);
        Files.write(directory.resolve("00000000000000000100.log"), content);
    }
}
