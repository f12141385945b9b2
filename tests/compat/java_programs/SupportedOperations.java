import java.util.stream.Collectors;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.security.authorizer.AclEntry;

/** Which operations Kafka's authorizer grants on resources of each type: `GROUP READ DELETE ...`. */
public class SupportedOperations {
    public static void main(String[] arguments) {
        for (ResourceType type : ResourceType.values()) {
            if (type == ResourceType.UNKNOWN || type == ResourceType.ANY) {
                continue;
            }
            System.out.println(type + AclEntry.supportedOperations(type).stream()
                .sorted().map(AclOperation::name).collect(Collectors.joining(" ", " ", "")));
        }
        System.out.println("all " + java.util.Arrays.stream(AclOperation.values())
            .map(each -> each + "=" + each.code()).collect(Collectors.joining(" ")));
    }
}
