import org.apache.flink.api.common.functions.MapFunction;

/** Each record as it is. */
class Unchanged implements MapFunction<String, String> {
    private static final long serialVersionUID = 1L;

    @Override
    public String map(String value) throws Exception {
        return value;
    }
}
