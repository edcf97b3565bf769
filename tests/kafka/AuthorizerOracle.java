import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Apache Kafka's StandardAuthorizer. Each line of stdin is a word and its arguments, with tabs between them; enums
 * are numbers, and \N is null. test_authorizer.py writes them and says what they are.
 *
 *   new SUPER_USERS ALLOW_EVERYONE      another authorizer
 *   add ACL                             a rule: type, name, pattern, principal, host, operation, permission
 *   may PRINCIPAL HOST OPERATION TYPE NAME      prints true or false
 *   somewhere PRINCIPAL HOST OPERATION TYPE     prints true or false
 *   find FILTER                         prints the rules that the filter finds, sorted, with | between them
 */
public final class AuthorizerOracle {
    private static StandardAuthorizer authorizer;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new" -> begin(words[1], words[2]);
                case "add" -> authorizer.addAcl(Uuid.randomUuid(), StandardAcl.fromAclBinding(rule(words)));
                case "may" -> out.println(may(words));
                case "somewhere" -> out.println(somewhere(words));
                case "find" -> out.println(find(words));
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static void begin(String superUsers, String allowEveryone) {
        authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", allowEveryone));
        authorizer.completeInitialLoad();
    }

    private static AclBinding rule(String[] words) {
        return new AclBinding(
            new ResourcePattern(type(words[1]), words[2], pattern(words[3])),
            new AccessControlEntry(words[4], words[5], operation(words[6]), permission(words[7])));
    }

    private static boolean may(String[] words) throws Exception {
        ResourcePattern resource = new ResourcePattern(type(words[4]), words[5], PatternType.LITERAL);
        Action action = new Action(operation(words[3]), resource, 1, false, false);
        return authorizer.authorize(new Asked(words[1], words[2]), List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }

    private static boolean somewhere(String[] words) throws Exception {
        Asked asked = new Asked(words[1], words[2]);
        return authorizer.authorizeByResourceType(asked, operation(words[3]), type(words[4])) == AuthorizationResult.ALLOWED;
    }

    private static String find(String[] words) {
        AclBindingFilter filter = new AclBindingFilter(
            new ResourcePatternFilter(type(words[1]), orNull(words[2]), pattern(words[3])),
            new AccessControlEntryFilter(orNull(words[4]), orNull(words[5]), operation(words[6]), permission(words[7])));
        TreeSet<String> found = new TreeSet<>();
        for (AclBinding each : authorizer.acls(filter))
            found.add(String.join(" ",
                String.valueOf(each.pattern().resourceType().code()), each.pattern().name(),
                String.valueOf(each.pattern().patternType().code()), each.entry().principal(), each.entry().host(),
                String.valueOf(each.entry().operation().code()), String.valueOf(each.entry().permissionType().code())));
        return String.join("|", found);
    }

    private static String orNull(String word) {
        return word.equals("\\N") ? null : word;
    }

    private static ResourceType type(String code) {
        return ResourceType.fromCode(Byte.parseByte(code));
    }

    private static PatternType pattern(String code) {
        return PatternType.fromCode(Byte.parseByte(code));
    }

    private static AclOperation operation(String code) {
        return AclOperation.fromCode(Byte.parseByte(code));
    }

    private static AclPermissionType permission(String code) {
        return AclPermissionType.fromCode(Byte.parseByte(code));
    }

    private record Asked(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        Asked(String principal, String host) throws Exception {
            this(SecurityUtils.parseKafkaPrincipal(principal), InetAddress.getByName(host));
        }

        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "";
        }

        public int correlationId() {
            return 0;
        }
    }
}
