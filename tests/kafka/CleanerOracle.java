import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

import kafka.log.Cleaner;
import kafka.log.CleanerStats;
import kafka.log.LogCleanerManager$;
import kafka.log.LogToClean;
import kafka.log.OffsetsToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Apache Kafka's own log cleaner, on directories that it is told of on stdin, one line each, its fields split by tabs:
 * directory, first dirty offset (-1: none), now in ms, size of the map in bytes, whether to clean although it is not
 * due, then topic configurations as name=value.
 *
 * Answers with a line: first dirty offset, first uncleanable offset, clean bytes, cleanable bytes, whether it must be
 * cleaned now, next dirty offset (-1: not cleaned), the active producers, each as "id:last offset:epoch,"; or "!" and
 * the exception. cleaner_oracle.py is the other side.
 */
public final class CleanerOracle {
    private static final Scheduler SCHEDULER = new NoScheduler();

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = System.out;
        System.setOut(System.err);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String answer;
            try {
                answer = clean(line.split("\t"));
            } catch (Throwable error) {
                StringWriter text = new StringWriter();
                error.printStackTrace(new PrintWriter(text));
                answer = "!" + text.toString().replace("\n", " | ");
            }
            answers.println(answer);
            answers.flush();
        }
    }

    private static String clean(String[] fields) throws Exception {
        File directory = new File(fields[0]);
        long firstDirtyOffset = Long.parseLong(fields[1]);
        long now = Long.parseLong(fields[2]);
        int mapBytes = Integer.parseInt(fields[3]);
        boolean force = Boolean.parseBoolean(fields[4]);
        Properties configs = new Properties();
        for (int i = 5; i < fields.length; i++) {
            int equals = fields[i].indexOf('=');
            configs.setProperty(fields[i].substring(0, equals), fields[i].substring(equals + 1));
        }
        Time time = new FixedTime(now);
        UnifiedLog log = UnifiedLog.apply(directory, new LogConfig(configs), 0L, 0L, SCHEDULER,
            new BrokerTopicStats(false), time, 900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000,
            new LogDirFailureChannel(1), false, Option.empty(), true, new ConcurrentHashMap<>(),
            false, UnifiedLog.apply$default$17());
        log.updateHighWatermark(log.logEndOffset());
        try {
            Option<Object> checkpoint = firstDirtyOffset < 0 ? Option.empty() : Option.apply((Object) firstDirtyOffset);
            LogCleanerManager$ manager = LogCleanerManager$.MODULE$;
            OffsetsToClean offsets = manager.cleanableOffsets(log, checkpoint, now);
            boolean must = manager.kafka$log$LogCleanerManager$$maxCompactionDelay(log, offsets.firstDirtyOffset(), now) > 0;
            LogToClean toClean = new LogToClean(log.topicPartition(), log, offsets.firstDirtyOffset(),
                offsets.firstUncleanableDirtyOffset(), must);
            boolean due = toClean.totalBytes() > 0 && ((must && toClean.cleanableBytes() > 0)
                || toClean.cleanableRatio() > log.config().minCleanableRatio);
            long next = -1;
            StringBuilder producers = new StringBuilder();
            CollectionConverters.asJava(log.lastRecordsOfActiveProducers()).forEach((id, last) ->
                producers.append(id).append(':').append(last.lastDataOffset.orElse(-1)).append(':')
                    .append(last.producerEpoch).append(','));
            if (due || (force && toClean.cleanableBytes() > 0)) {
                Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(mapBytes, "MD5"), 65536, 1 << 20, 0.9,
                    new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "throttler", "entries", time), time, partition -> null);
                Tuple2<Object, CleanerStats> done = cleaner.doClean(toClean, now);
                next = (Long) done._1();
            }
            return String.join("\t", String.valueOf(toClean.firstDirtyOffset()),
                String.valueOf(toClean.firstUncleanableOffset()), String.valueOf(toClean.cleanBytes()),
                String.valueOf(toClean.cleanableBytes()), String.valueOf(must), String.valueOf(next), producers);
        } finally {
            log.close();
        }
    }

    private static final class FixedTime implements Time {
        private final long now;

        FixedTime(long now) {
            this.now = now;
        }

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }
    }

    /** Runs at once what is to run once, such as the removal of replaced files, and never what is to run again. */
    private static final class NoScheduler implements Scheduler {
        private final ScheduledExecutorService executor = Executors.newSingleThreadScheduledExecutor(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });

        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (periodMs < 0) {
                task.run();
            }
            return executor.schedule(() -> { }, 1, TimeUnit.DAYS);
        }

        @Override
        public void resizeThreadPool(int size) {
        }
    }
}
