package minibroker.control;

/** The broker's response to a failed request. The message has the broker's sentence. */
public final class ControlException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int status;
    private final String code;
    private final transient Object answer;

    ControlException(String request, int status, String code, String reason, Object answer) {
        super("minibroker: " + request + ": " + status + " " + code + ": " + reason);
        this.status = status;
        this.code = code;
        this.answer = answer;
    }

    /** The HTTP status, 400 or higher. */
    public int status() {
        return status;
    }

    /** A code for programs: bad_request, not_found, conflict, timeout, unexpected ... */
    public String code() {
        return code;
    }

    Object answer() {
        return answer;
    }
}
