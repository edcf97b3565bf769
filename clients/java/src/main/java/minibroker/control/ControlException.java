package minibroker.control;

/** The broker's answer to a request that was not done; the message has its words. */
public final class ControlException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int status;
    private final String code;
    private final transient Object answer;

    ControlException(String request, int status, String code, String reason, Object answer) {
        super("minibroker: " + request + ": " + reason + " (" + status + " " + code + ")");
        this.status = status;
        this.code = code;
        this.answer = answer;
    }

    /** The status of HTTP, from 400 on. */
    public int status() {
        return status;
    }

    /** A word for programs: bad_request, not_found, conflict, timeout, unexpected ... */
    public String code() {
        return code;
    }

    Object answer() {
        return answer;
    }
}
