import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * RE2/J, which Kafka asks about the regular expressions of clients, line by line: an expression and texts in, what
 * becomes of them out.
 *
 * A line has an expression and texts, in base64, with tabs between them. The answer is "!" where that is no expression,
 * else "=" and for each text 1 where all of it matches, or 0.
 */
public class ExpressionOracle {
    static String text(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    static String answer(String[] fields) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(text(fields[0]));
        } catch (PatternSyntaxException refused) {
            return "!";
        }
        StringBuilder found = new StringBuilder("=");
        for (int i = 1; i < fields.length; i++) {
            found.append(pattern.matcher(text(fields[i])).matches() ? '1' : '0');
        }
        return found.toString();
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split("\t", -1)));
            System.out.flush();
        }
    }
}
