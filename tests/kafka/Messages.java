import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.RequestAndSize;

/**
 * Reads and writes messages with the classes that a version of kafka-clients was generated with.
 *
 * A question is a line of words, bytes in hexadecimal digits ("-" for none); its answer is a line:
 *   request KEY VERSION BYTES        the same message, written by Kafka
 *   response KEY VERSION BYTES       the same
 *   refuse KEY VERSION ERROR BYTES   the response to this request that says nothing but the error
 * or "!" and an exception, or "?" for a version that this Kafka does not have. messages.py is the other side.
 */
public final class Messages {
    private static final HexFormat HEX = HexFormat.of();

    private Messages() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // stdout belongs to the answers
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" "));
            } catch (UnsupportedVersionException error) {
                answer = "?"; // not even an API of this number
            } catch (InvocationTargetException error) {
                answer = "!" + error.getCause();
            } catch (Exception | Error error) {
                answer = "!" + error;
            }
            out.println(answer.replace('\n', ' '));
            out.flush();
        }
    }

    private static String answer(String[] words) throws ReflectiveOperationException {
        short key = Short.parseShort(words[1]);
        short version = Short.parseShort(words[2]);
        String bytes = words[words.length - 1];
        ByteBuffer body = ByteBuffer.wrap(bytes.equals("-") ? new byte[0] : HEX.parseHex(bytes));
        if (words[0].equals("refuse")) {
            if (!ApiKeys.hasId(key) || !ApiKeys.forId(key).isVersionSupported(version)) {
                return "?";
            }
            Throwable error = Errors.forCode(Short.parseShort(words[3])).exception();
            return written(parsed(ApiKeys.forId(key), version, body).getErrorResponse(0, error).data(), version);
        }
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        ApiMessage message = words[0].equals("request") ? type.newRequest() : type.newResponse();
        if (version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) {
            return "?";
        }
        message.read(new ByteBufferAccessor(body), version);
        if (body.hasRemaining()) {
            throw new IllegalArgumentException(body.remaining() + " bytes are left of " + message);
        }
        return written(message, version);
    }

    /** Kafka 4.4 wants a reader where older ones want the buffer itself. */
    private static AbstractRequest parsed(ApiKeys api, short version, ByteBuffer body) throws ReflectiveOperationException {
        for (Method method : AbstractRequest.class.getMethods()) {
            if (method.getName().equals("parseRequest")) {
                boolean takesBuffer = method.getParameterTypes()[2] == ByteBuffer.class;
                Object source = takesBuffer ? body : new ByteBufferAccessor(body);
                return ((RequestAndSize) method.invoke(null, api, version, source)).request;
            }
        }
        throw new NoSuchMethodException("parseRequest");
    }

    private static String written(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(out), cache, version);
        return out.position() == 0 ? "-" : HEX.formatHex(out.array(), 0, out.position());
    }
}
