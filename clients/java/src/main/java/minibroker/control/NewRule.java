package minibroker.control;

import java.util.List;

/** A rule to be made: operations that a principal may do, or may not, on the resources that are set. */
public final class NewRule extends Fields<NewRule> {
    private NewRule(String permission, String principal, String... operations) {
        set("permission", permission).set("principal", principal).set("operations", List.of(operations));
    }

    /** The principal is User:alice, or just the name; operations are read, write, describe ..., or all. */
    public static NewRule allow(String principal, String... operations) {
        return new NewRule("allow", principal, operations);
    }

    public static NewRule deny(String principal, String... operations) {
        return new NewRule("deny", principal, operations);
    }

    public NewRule topic(String name) {
        return set("topic", name);
    }

    public NewRule group(String id) {
        return set("group", id);
    }

    public NewRule transactionalId(String id) {
        return set("transactional_id", id);
    }

    public NewRule cluster() {
        return set("cluster", true);
    }

    /** For all names that begin so. */
    public NewRule prefixed() {
        return set("prefixed", true);
    }

    /** From this address only. */
    public NewRule host(String host) {
        return set("host", host);
    }
}
