import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The driver of Kafka's own client; its argument is the group protocol, and drivers.py says what it reads. */
public final class GroupWaits {
    private static final long STALL_MS = 5_000;
    private static final long REASSIGNED_MS = 10_000;

    private static String protocol;

    private GroupWaits() {}

    /** A consumer that polls on a thread of its own until it has to leave. */
    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final Map<String, Object> request;
        private final CountDownLatch subscribed;
        private final CountDownLatch seen;
        private volatile boolean leaving;
        private final AtomicInteger count = new AtomicInteger();
        private volatile long seenAt;
        private volatile long closeBegan;
        private volatile long closedAt;
        private volatile String error = "";

        Member(Map<String, Object> request, CountDownLatch subscribed, CountDownLatch seen) {
            this.request = request;
            this.subscribed = subscribed;
            this.seen = seen;
            setDaemon(true);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            count.addAndGet(partitions.size());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            count.addAndGet(-partitions.size());
        }

        @Override
        public void run() {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", request.get("bootstrap"));
            properties.put("group.id", request.get("group"));
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            if (protocol.equals("consumer")) {
                properties.put("group.protocol", protocol);
            }
            Duration timeout = Duration.ofMillis((Long) request.get("poll_ms"));
            List<String> topics = new ArrayList<>();
            for (Object topic : (List<?>) request.get("topics")) {
                topics.add((String) topic);
            }
            try {
                StringDeserializer values = new StringDeserializer();
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, values, values);
                consumer.subscribe(topics, this);
                subscribed.countDown();
                while (!leaving) {
                    if (!consumer.poll(timeout).isEmpty()) {
                        seenAt = seenAt == 0 ? System.nanoTime() : seenAt;
                        consumer.commitSync();
                        seen.countDown();
                    }
                }
                closeBegan = System.nanoTime();
                consumer.close();
                closedAt = System.nanoTime();
            } catch (RuntimeException failure) {
                error = failure.toString();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        protocol = arguments[0];
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, Object> request = Json.parseObject(line);
            Map<String, Object> results = new HashMap<>();
            results.put("first", phase(request, ((Long) request.get("members")).intValue()));
            results.put("second", phase(request, 1));
            System.out.println(Json.write(results));
        }
    }

    private static Map<String, Object> phase(Map<String, Object> request, int members) throws InterruptedException {
        CountDownLatch subscribed = new CountDownLatch(members);
        CountDownLatch seen = new CountDownLatch(1);
        List<Member> group = new ArrayList<>();
        final long began = System.nanoTime();
        for (int i = 0; i < members; i++) {
            group.add(new Member(request, subscribed, seen));
            group.get(i).start();
        }
        subscribed.await(REASSIGNED_MS, TimeUnit.MILLISECONDS);
        System.out.println("{\"subscribed\": true}");
        seen.await(STALL_MS, TimeUnit.MILLISECONDS);
        long partitions = ((List<?>) request.get("topics")).size() * (Long) request.get("partitions");
        boolean isSettled = true;
        Double leave = null;
        if (members > 1) {
            isSettled = settle(group, partitions);
            Member left = group.get(members - 1);
            left.leaving = true;
            if (isSettled && settle(group.subList(0, members - 1), partitions)) {
                leave = (System.nanoTime() - left.closeBegan) / 1e6;
            }
        }
        Double record = null;
        List<Double> closes = new ArrayList<>();
        StringBuilder errors = new StringBuilder();
        for (Member member : group) {
            member.leaving = true;
        }
        for (Member member : group) {
            member.join(REASSIGNED_MS);
            if (member.seenAt != 0) {
                double took = (member.seenAt - began) / 1e6;
                record = record == null ? took : Math.min(record, took);
            }
            if (member.closedAt != 0) {
                closes.add((member.closedAt - member.closeBegan) / 1e6);
            }
            errors.append(member.error);
        }
        Map<String, Object> result = new HashMap<>();
        result.put("record_ms", record);
        result.put("leave_ms", leave);
        result.put("is_settled", isSettled);
        result.put("closes_ms", closes);
        result.put("error", errors.toString());
        return result;
    }

    /** Waits until all of these members have partitions, and all partitions a member; says whether that is so. */
    private static boolean settle(List<Member> group, long partitions) throws InterruptedException {
        long deadline = System.nanoTime() + REASSIGNED_MS * 1_000_000;
        while (System.nanoTime() < deadline) {
            if (group.stream().allMatch(member -> member.count.get() > 0)
                    && group.stream().mapToLong(member -> member.count.get()).sum() == partitions) {
                return true;
            }
            Thread.sleep(1);
        }
        return false;
    }
}
