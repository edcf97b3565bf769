import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.stream.Collectors;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.everit.json.schema.ValidationException;
import org.everit.json.schema.loader.SchemaLoader;
import org.json.JSONObject;
import org.json.JSONTokener;

/** Answers each line, whose fields are separated by tabs, with a line. */
class Schemas {
  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] fields = line.split("\t");
      String answer;
      try {
        answer =
            switch (fields[0]) {
              case "print" -> avro(fields[1]).toString();
              case "compare" -> compare(avro(fields[1]), avro(fields[2]));
              default -> check(fields[1], fields[2]);
            };
      } catch (RuntimeException failure) {
        answer = "refused: " + failure.getClass().getSimpleName();
      }
      out.println(answer.replace('\n', ' '));
    }
  }

  private static Schema avro(String text) {
    return new Schema.Parser(NameValidator.STRICT_VALIDATOR).parse(text);
  }

  private static String compare(Schema reader, Schema writer) {
    var result = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult();
    return result.getIncompatibilities().stream()
        .map(found -> found.getType() + " " + found.getLocation() + " " + found.getMessage())
        .collect(Collectors.joining("; "));
  }

  private static String check(String schema, String value) {
    var loaded = SchemaLoader.builder().draftV7Support().schemaJson(new JSONObject(schema)).build().load().build();
    try {
      loaded.validate(new JSONTokener(value).nextValue());
      return "valid";
    } catch (ValidationException failure) {
      return "invalid";
    }
  }
}
