package minibroker.control;

/** Requests of clients that match all that is set. Names may have the wildcards * and ?. */
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

    /** The name or number of an error in the answer. */
    public RequestFilter error(String error) {
        return set("error", error);
    }

    /** For listRequests alone: leaves out the requests up to this number. */
    public RequestFilter after(long number) {
        return set("after", number);
    }

    /** For listRequests alone: the newest so many. */
    public RequestFilter limit(int limit) {
        return set("limit", limit);
    }
}
