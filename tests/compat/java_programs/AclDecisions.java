import java.net.InetAddress;
import java.util.List;
import java.util.Map;
import java.util.Scanner;

import kafka.security.authorizer.AclAuthorizer;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/**
 * Kafka's AclAuthorizer with the rules in the registry at arguments[0], and a super user `root`.
 * Reads lines from stdin: `USER HOST OPERATION RESOURCE_TYPE NAME`; of the name `<any>`, whether it
 * is allowed for any resource of the type. Prints `ALLOWED` or `DENIED` for each.
 */
public class AclDecisions {
    record Client(KafkaPrincipal principal, InetAddress clientAddress)
        implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] arguments) throws Exception {
        AclAuthorizer authorizer = new AclAuthorizer();
        authorizer.configure(Map.of(
            "zookeeper.connect", arguments[0], "super.users", "User:root",
            "allow.everyone.if.no.acl.found", arguments[1]));
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            Client client = new Client(
                new KafkaPrincipal("User", words[0]), InetAddress.getByName(words[1]));
            AclOperation operation = AclOperation.fromString(words[2]);
            ResourceType type = ResourceType.fromString(words[3]);
            if (words[4].equals("<any>")) {
                System.out.println(authorizer.authorizeByResourceType(client, operation, type));
            } else {
                ResourcePattern resource = new ResourcePattern(type, words[4], PatternType.LITERAL);
                System.out.println(authorizer.authorize(
                    client, List.of(new Action(operation, resource, 1, true, true))).get(0));
            }
        }
        authorizer.close();
        System.exit(0);
    }
}
