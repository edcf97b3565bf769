import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.formats.avro.registry.confluent.ConfluentSchemaRegistryCoder;

/** Uses the registry whose URL is the argument with Confluent's client, as Flink brings it, and prints what it sees. */
public final class ConfluentClient {
  private static final String V1 = record("{\"name\":\"id\",\"type\":\"long\"}");
  private static final String V2 =
      record("{\"name\":\"id\",\"type\":\"long\"},{\"name\":\"note\",\"type\":\"string\",\"default\":\"\"}");

  private static String record(String fields) {
    return "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[" + fields + "]}";
  }

  private static SchemaRegistryClient connect(String url) {
    return new CachedSchemaRegistryClient(List.of(url), 10, List.of(new AvroSchemaProvider()), Map.of());
  }

  private static void print(String name, Object value) {
    System.out.println(name + "=" + value);
  }

  public static void main(String[] arguments) throws Exception {
    SchemaRegistryClient client = connect(arguments[0]);
    int first = client.register("orders-value", new AvroSchema(V1));
    int second = client.register("orders-value", new AvroSchema(V2));
    print("versions", client.getAllVersions("orders-value"));
    print("isStable", client.register("orders-value", new AvroSchema(V1)) == first && second == first + 1);
    print("latest", client.getLatestSchemaMetadata("orders-value").getVersion());
    print("version", client.getVersion("orders-value", new AvroSchema(V2)));
    print("compatible", client.testCompatibility("orders-value", new AvroSchema("\"int\"")));
    try {
      client.register("orders-value", new AvroSchema("\"int\""));
    } catch (RestClientException refused) {
      print("refused", refused.getStatus());
    }
    print("level", client.updateCompatibility("orders-value", "FULL") + client.getCompatibility("orders-value"));
    print("mode", client.setMode("READONLY", "orders-value") + client.getMode("orders-value"));

    List<SchemaReference> references = List.of(new SchemaReference("Order", "orders-value", 1));
    String text = "{\"type\":\"record\",\"name\":\"Basket\",\"fields\":[{\"name\":\"order\",\"type\":\"Order\"}]}";
    AvroSchema basket = new AvroSchema(text, references, Map.of("Order", V1), null);
    int id = client.register("baskets-value", basket);
    AvroSchema read = (AvroSchema) connect(arguments[0]).getSchemaById(id);
    print("reference", read.rawSchema().getField("order").schema().getField("id").schema().getType());

    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    new ConfluentSchemaRegistryCoder("flink-value", client).writeSchema(new Schema.Parser().parse(V1), bytes);
    ByteArrayInputStream input = new ByteArrayInputStream(bytes.toByteArray());
    print("flink", new ConfluentSchemaRegistryCoder(connect(arguments[0])).readSchema(input).getName());
    print("subjects", client.getAllSubjects());
    print("deleted", client.deleteSubject("baskets-value") + "" + client.deleteSubject(Map.of(), "baskets-value", true));
  }
}
