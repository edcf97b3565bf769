import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.function.Supplier;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Asks Apache Kafka's own classes about records, many questions at a time: one JVM serves a whole test run.
 *
 * On stdin and stdout, as DataInput and DataOutput write them (big endian):
 *   request   int32 size, int8 operation, int32 count, `count` questions
 *   response  int32 size, for each question int8 1 and an answer, or int8 0 and a text: the exception
 * Bytes and texts are int32 length (-1 for null) and content. oracle.py is the other side and names every field.
 */
public final class Oracle {
    private interface Operation {
        void answer(DataInputStream question, DataOutputStream answer) throws Exception;
    }

    private static final class ToolExit extends RuntimeException {
        private final int status;

        ToolExit(int status, String message) {
            super("exit status " + status + (message == null ? "" : ": " + message));
            this.status = status;
        }
    }

    private static final Operation[] OPERATIONS = {
        Oracle::build, Oracle::read, Oracle::downConvert, Oracle::validate, Oracle::runTool
    };

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        System.setOut(System.err); // stdout belongs to the answers
        Exit.setExitProcedure((status, message) -> {
            throw new ToolExit(status, message);
        });
        while (true) {
            byte[] request;
            try {
                request = new byte[in.readInt()];
            } catch (EOFException end) {
                return;
            }
            in.readFully(request);
            byte[] response = answerAll(new DataInputStream(new java.io.ByteArrayInputStream(request)));
            out.writeInt(response.length);
            out.write(response);
            out.flush();
        }
    }

    private static byte[] answerAll(DataInputStream questions) throws IOException {
        Operation operation = OPERATIONS[questions.readByte()];
        ByteArrayOutputStream answers = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(answers);
        for (int left = questions.readInt(); left > 0; left--) {
            DataInputStream question = new DataInputStream(new java.io.ByteArrayInputStream(readBytes(questions)));
            ByteArrayOutputStream answer = new ByteArrayOutputStream();
            try {
                operation.answer(question, new DataOutputStream(answer));
                out.writeByte(1);
                answer.writeTo(out);
            } catch (Exception | Error error) {
                out.writeByte(0);
                writeText(out, describe(error));
            }
        }
        return answers.toByteArray();
    }

    /** Description -> the bytes of one batch of format v2, or of a message set. */
    private static void build(DataInputStream in, DataOutputStream out) throws IOException {
        byte magic = in.readByte();
        Compression codec = codec(in.readByte());
        TimestampType timestampType = timestampType(in.readByte());
        long baseOffset = in.readLong();
        long logAppendTime = in.readLong();
        long producerId = in.readLong();
        short producerEpoch = in.readShort();
        int baseSequence = in.readInt();
        boolean transactional = in.readBoolean();
        boolean control = in.readBoolean();
        int leaderEpoch = in.readInt();
        long deleteHorizon = in.readLong();
        ByteBufferOutputStream buffer = new ByteBufferOutputStream(512);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, magic, codec, timestampType, baseOffset,
            logAppendTime, producerId, producerEpoch, baseSequence, transactional, control, leaderEpoch, Integer.MAX_VALUE,
            deleteHorizon);
        for (int left = in.readInt(); left > 0; left--) {
            long offset = in.readLong();
            SimpleRecord record = new SimpleRecord(in.readLong(), readBytes(in), readBytes(in), readHeaders(in));
            if (control)
                builder.appendControlRecordWithOffset(offset, record);
            else
                builder.appendWithOffset(offset, record);
        }
        writeBuffer(out, builder.build().buffer());
    }

    /** Bytes -> every batch, and every record in those whose checksum is right. */
    private static void read(DataInputStream in, DataOutputStream out) throws IOException {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(readBytes(in)));
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        DataOutputStream batches = new DataOutputStream(found);
        int count = 0;
        for (MutableRecordBatch batch : records.batches()) {
            count++;
            batches.writeByte(batch.magic());
            batches.writeByte(batch.compressionType().id);
            batches.writeByte(batch.timestampType().id);
            batches.writeBoolean(batch.isValid());
            batches.writeLong(batch.checksum());
            batches.writeInt(batch.sizeInBytes());
            batches.writeLong(batch.isValid() ? batch.baseOffset() : -1); // a wrapper is opened for it
            batches.writeLong(batch.lastOffset());
            batches.writeLong(batch.maxTimestamp());
            batches.writeInt(batch.partitionLeaderEpoch());
            batches.writeLong(batch.producerId());
            batches.writeShort(batch.producerEpoch());
            batches.writeInt(batch.baseSequence());
            batches.writeBoolean(batch.isTransactional());
            batches.writeBoolean(batch.isControlBatch());
            batches.writeLong(batch.deleteHorizonMs().orElse(-1));
            try {
                ByteArrayOutputStream inside = new ByteArrayOutputStream();
                if (batch.isValid())
                    writeRecords(new DataOutputStream(inside), batch);
                else
                    new DataOutputStream(inside).writeInt(0);
                inside.writeTo(batches);
            } catch (RuntimeException | Error error) {
                batches.writeInt(-1);
                writeText(batches, describe(error));
            }
        }
        out.writeInt(count);
        found.writeTo(out);
    }

    private static void writeRecords(DataOutputStream out, MutableRecordBatch batch) throws IOException {
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        DataOutputStream records = new DataOutputStream(found);
        int count = 0;
        try (CloseableIterator<Record> iterator = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
            while (iterator.hasNext()) {
                Record record = iterator.next();
                record.ensureValid();
                count++;
                records.writeLong(record.offset());
                records.writeLong(record.timestamp());
                writeBuffer(records, record.key());
                writeBuffer(records, record.value());
                records.writeInt(record.headers().length);
                for (Header header : record.headers()) {
                    writeText(records, header.key());
                    writeBytes(records, header.value());
                }
            }
        }
        out.writeInt(count);
        found.writeTo(out);
    }

    /** Bytes -> the same records in an older format, as a fetch of an older version gets them. */
    private static void downConvert(DataInputStream in, DataOutputStream out) throws IOException {
        byte magic = in.readByte();
        long firstOffset = in.readLong();
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(readBytes(in)));
        writeBuffer(out, records.downConvert(magic, firstOffset, Time.SYSTEM).records().buffer());
    }

    /** Bytes as produced -> bytes as appended: what the leader's log makes of them. */
    private static void validate(DataInputStream in, DataOutputStream out) throws IOException {
        byte magic = in.readByte();
        byte target = in.readByte();
        TimestampType timestampType = timestampType(in.readByte());
        boolean compacted = in.readBoolean();
        long beforeMax = in.readLong();
        long afterMax = in.readLong();
        int leaderEpoch = in.readInt();
        long baseOffset = in.readLong();
        long now = in.readLong();
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(readBytes(in)));
        CompressionType source = CompressionType.NONE;
        for (MutableRecordBatch batch : records.batches())
            source = batch.isCompressed() ? batch.compressionType() : source; // as UnifiedLog: the last one that has any
        Compression codec = target < 0 ? Compression.of(source).build() : codec(target);
        LogValidator validator = new LogValidator(records, new TopicPartition("topic", 0), new StoppedClock(now), source,
            codec, compacted, magic, timestampType, beforeMax, afterMax, leaderEpoch, AppendOrigin.CLIENT,
            MetadataVersion.latestProduction());
        PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(baseOffset);
        LogValidator.ValidationResult result =
            validator.validateMessagesAndAssignOffsets(offset, new NoMetrics(), BufferSupplier.NO_CACHING);
        out.writeLong(offset.value);
        out.writeLong(result.maxTimestampMs);
        out.writeLong(result.logAppendTimeMs);
        writeBuffer(out, result.validatedRecords.buffer());
    }

    /** A class with a main method and its arguments -> what it prints on stdout, and what on stderr. */
    private static void runTool(DataInputStream in, DataOutputStream out) throws Exception {
        Class<?> tool = Class.forName(new String(readBytes(in), StandardCharsets.UTF_8));
        String[] arguments = new String[in.readInt()];
        for (int index = 0; index < arguments.length; index++)
            arguments[index] = new String(readBytes(in), StandardCharsets.UTF_8);
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        PrintStream output = System.out;
        PrintStream errors = System.err;
        System.setOut(new PrintStream(printed, true, "UTF-8"));
        System.setErr(new PrintStream(complained, true, "UTF-8"));
        try {
            scala.Console.withOut(System.out, () -> {
                try {
                    return tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
                } catch (ReflectiveOperationException error) {
                    throw new IllegalStateException(error.getCause() == null ? error : error.getCause());
                }
            });
        } catch (IllegalStateException error) {
            if (!(error.getCause() instanceof ToolExit exit && exit.status == 0))
                throw new IllegalStateException(printed + complained.toString() + describe(error.getCause()));
        } finally {
            System.setOut(output);
            System.setErr(errors);
        }
        writeBytes(out, printed.toByteArray());
        writeBytes(out, complained.toByteArray());
    }

    private static TimestampType timestampType(byte id) {
        return id < 0 ? TimestampType.NO_TIMESTAMP_TYPE : id == 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME;
    }

    private static Compression codec(byte id) {
        return Compression.of(CompressionType.forId(id)).build();
    }

    private static Header[] readHeaders(DataInputStream in) throws IOException {
        Header[] headers = new Header[in.readInt()];
        for (int index = 0; index < headers.length; index++)
            headers[index] = new RecordHeader(new String(readBytes(in), StandardCharsets.UTF_8), readBytes(in));
        return headers;
    }

    private static byte[] readBytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        return length < 0 ? null : in.readNBytes(length);
    }

    private static void writeText(DataOutputStream out, String text) throws IOException {
        writeBytes(out, text.getBytes(StandardCharsets.UTF_8));
    }

    private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null)
            out.write(bytes);
    }

    private static void writeBuffer(DataOutputStream out, ByteBuffer buffer) throws IOException {
        byte[] bytes = null;
        if (buffer != null) {
            bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
        }
        writeBytes(out, bytes);
    }

    /** The class and the message of what went wrong; of a refused produce also each record that is to blame. */
    private static String describe(Throwable error) {
        if (!(error instanceof RecordValidationException))
            return error.getClass().getSimpleName() + ": " + error.getMessage();
        RecordValidationException refused = (RecordValidationException) error;
        StringBuilder text = new StringBuilder(describe(refused.invalidException()));
        for (ProduceResponse.RecordError record : refused.recordErrors())
            text.append("\n").append(record.batchIndex).append(": ").append(record.message);
        return text.toString();
    }

    private static final class StoppedClock implements Time {
        private final long now;

        StoppedClock(long now) {
            this.now = now;
        }

        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long milliseconds) { }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    }

    private static final class NoMetrics implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }

        public void recordInvalidOffset() { }

        public void recordInvalidSequence() { }

        public void recordInvalidChecksums() { }

        public void recordNoKeyCompactedTopic() { }
    }
}
