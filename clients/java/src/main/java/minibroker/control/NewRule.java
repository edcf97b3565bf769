package minibroker.control;

import java.util.List;

/** A rule to create. It allows or denies operations to a principal on the resources that are set. */
public final class NewRule extends Fields<NewRule> {
    private NewRule(String permission, String principal, String... operations) {
        set("permission", permission).set("principal", principal).set("operations", List.of(operations));
    }

    /** The principal is User:alice or just the name. Operations are read, write, describe ..., or all. */
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

    /** Applies the rule to all names with this prefix. */
    public NewRule prefixed() {
        return set("prefixed", true);
    }

    /** Applies the rule only to requests from this address. */
    public NewRule host(String host) {
        return set("host", host);
    }
}
