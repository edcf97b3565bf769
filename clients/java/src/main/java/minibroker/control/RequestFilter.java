package minibroker.control;

/** Client requests that match all fields that are set. Names can have the wildcards * and ?. */
public final class RequestFilter extends Fields<RequestFilter> {
    /** Produce, PRODUCE or *Group*. */
    public RequestFilter api(String api) {
        return set("api", api);
    }

    public RequestFilter clientId(String clientId) {
        return set("client_id", clientId);
    }

    public RequestFilter topic(String topic) {
        return set("topic", topic);
    }

    public RequestFilter group(String group) {
        return set("group", group);
    }

    /** The name or number of an error in the response. */
    public RequestFilter error(String error) {
        return set("error", error);
    }

    /** Skips the requests up to this number. Only for listRequests. */
    public RequestFilter after(long number) {
        return set("after", number);
    }

    /** The maximum number of requests, newest first. Only for listRequests. */
    public RequestFilter limit(int limit) {
        return set("limit", limit);
    }
}
