import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.state.CheckpointListener;

/** Each record as it is, slowly; at one of those that follow a checkpoint it fails, once in a JVM until it is reset. */
final class FailsOnce extends Unchanged implements CheckpointListener {
    /** How often it has failed. */
    static final AtomicInteger FAILURES = new AtomicInteger();

    private static final long serialVersionUID = 1L;
    private boolean kept;
    private int since;

    @Override
    public String map(String value) throws Exception {
        Thread.sleep(3);
        if (kept && ++since == 10 && FAILURES.compareAndSet(0, 1)) {
            throw new IllegalStateException("the failure that the check wants");
        }
        return super.map(value);
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) {
        kept = true;
    }
}
