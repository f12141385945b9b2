import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;
import java.util.Scanner;

import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Reads lines from stdin: `name BASE64-OF-A-CERTIFICATE`, or `map BASE64-OF-RULES BASE64-OF-A-NAME`.
 * Prints the base64 of the principal's name that Java gives the certificate, or that Kafka's rules
 * give the name; `refused` where Kafka raises an exception.
 */
public class CertificateNames {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            byte[] first = Base64.getDecoder().decode(words[1]);
            String answer;
            if (words[0].equals("name")) {
                X509Certificate certificate = (X509Certificate) CertificateFactory
                    .getInstance("X.509").generateCertificate(new ByteArrayInputStream(first));
                answer = certificate.getSubjectX500Principal().getName();
            } else {
                String name = new String(Base64.getDecoder().decode(words[2]), StandardCharsets.UTF_8);
                try {
                    answer = SslPrincipalMapper
                        .fromRules(new String(first, StandardCharsets.UTF_8)).getName(name);
                } catch (Exception error) {
                    answer = null;
                }
            }
            System.out.println(answer == null ? "refused"
                : "=" + Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8)));
        }
    }
}
