import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Prints the settings of brokers that this version of Kafka defines, one in a line, sorted by name.
 *
 * <p>Fields are separated by tabs: name, type, default in quotation marks (empty for null),
 * importance, how it is updated, "internal" or nothing, the text of its validator. A setting that
 * has a value only while a broker runs is updated "dynamic-only". By reflection, since Kafka has
 * moved its definitions from release to release.
 */
public final class BrokerDefinitions {
  private static final List<String> OF_FILES =
      List.of("org.apache.kafka.server.config.AbstractKafkaConfig", "kafka.server.KafkaConfig$",
          "kafka.server.KafkaConfig");
  private static final List<String> OF_RUNNING_BROKERS =
      List.of("kafka.server.DynamicConfig$Broker$");

  public static void main(String[] arguments) throws Exception {
    Map<String, String> updated = updateModes();
    Map<String, String> lines = new TreeMap<>();
    for (ConfigDef.ConfigKey key : running().configKeys().values()) {
      lines.put(key.name, line(key, updated.getOrDefault(key.name, "dynamic-only")));
    }
    for (ConfigDef.ConfigKey key : held(OF_FILES).configKeys().values()) {
      lines.put(key.name, line(key, updated.getOrDefault(key.name, "read-only")));
    }
    lines.values().forEach(System.out::println);
  }

  private static ConfigDef running() throws Exception {
    try {
      return (ConfigDef) Class.forName("org.apache.kafka.server.config.QuotaConfig")
          .getMethod("brokerQuotaConfigs").invoke(null);
    } catch (ClassNotFoundException | NoSuchMethodException before40) {
      return held(OF_RUNNING_BROKERS);
    }
  }

  /** The largest definition in a field of the first of these classes that there is. */
  private static ConfigDef held(List<String> classes) throws Exception {
    for (String name : classes) {
      Class<?> found;
      try {
        found = Class.forName(name);
      } catch (ClassNotFoundException absent) {
        continue;
      }
      ConfigDef largest = null;
      for (Field field : found.getDeclaredFields()) {
        if (ConfigDef.class.isAssignableFrom(field.getType())) {
          field.setAccessible(true);
          boolean isStatic = Modifier.isStatic(field.getModifiers());
          Object owner = isStatic ? null : found.getField("MODULE$").get(null);
          ConfigDef each = (ConfigDef) field.get(owner);
          if (largest == null || each.configKeys().size() > largest.configKeys().size()) {
            largest = each;
          }
        }
      }
      if (largest != null) {
        return largest;
      }
    }
    throw new IllegalStateException("no definition in " + classes);
  }

  @SuppressWarnings("unchecked")
  private static Map<String, String> updateModes() throws Exception {
    Class<?> found = Class.forName("kafka.server.DynamicBrokerConfig$");
    Object module = found.getField("MODULE$").get(null);
    return (Map<String, String>) found.getMethod("dynamicConfigUpdateModes").invoke(module);
  }

  private static String line(ConfigDef.ConfigKey key, String update) {
    boolean isNull = !key.hasDefault() || key.defaultValue == null;
    String value = isNull ? "" : "\"" + ConfigDef.convertToString(key.defaultValue, key.type) + "\"";
    String validator = key.validator == null ? "" : key.validator.toString();
    return String.join("\t", key.name, key.type.name(), oneLine(value), key.importance.name(),
        update, key.internalConfig ? "internal" : "", oneLine(validator));
  }

  private static String oneLine(String text) {
    return text.replaceAll("\\s+", " ");
  }
}
