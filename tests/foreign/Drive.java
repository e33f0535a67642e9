import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Drives a host with the HTTP client of the JDK: Connect in JSON. For HTTP/2 without TLS, this
 * client offers an upgrade from HTTP/1.1 in its first request, and stays with HTTP/1.1 when the
 * server declines.
 *
 * <p>Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... java Drive.java HTTP_1_1|HTTP_2
 */
public final class Drive {
    private static final Duration TIMEOUT = Duration.ofSeconds(60);
    private static final String URL = System.getenv("URL") + "/sandbar.v1.SandboxService/";
    private static final String SESSION = System.getenv("SESSION");

    private final HttpClient client;
    private final String token;

    private Drive(HttpClient client, String token) {
        this.client = client;
        this.token = token;
    }

    public static void main(String[] arguments) throws Exception {
        HttpClient.Version version = HttpClient.Version.valueOf(arguments[0]);
        HttpClient client = HttpClient.newBuilder().version(version).connectTimeout(TIMEOUT).build();
        new Drive(client, System.getenv("TOKEN")).run();
    }

    private void run() throws Exception {
        String made = call("CreateSession", "{'baseSnapshot': 'host', 'sessionId': '%s'}".formatted(SESSION));
        expect(text(made, "state").equals("SESSION_STATE_ACTIVE"), made);
        did("create", text(made, "state"));

        tool("write_file", "write", "{'path': 'note.txt', 'content': 'first'}");
        String read = tool("read_file", "read", "{'path': 'note.txt'}");
        expect(text(read, "content").contains("first"), read);
        did("tool", text(read, "content").strip());

        String snapshot = call("CreateSnapshot", "{'sessionId': '%s', 'name': 'clean'}".formatted(SESSION));
        did("snapshot", text(snapshot, "name"));

        tool("bash", "change", "{'cmd': 'echo second > note.txt; echo more > extra.txt'}");
        List<String> batches = stream("Diff", "{'sessionId': '%s', 'from': 'clean'}".formatted(SESSION));
        String changes = String.join("\n", batches);
        expect(changes.contains("/workspace/extra.txt") && changes.contains("CHANGE_KIND_MODIFIED"), changes);
        did("stream", changes.length() + " characters of changes");

        call("RollbackSession", "{'sessionId': '%s', 'snapshot': 'clean'}".formatted(SESSION));
        read = tool("read_file", "read again", "{'path': 'note.txt'}");
        expect(text(read, "content").contains("first"), read);
        did("rollback", text(read, "content").strip());

        HttpResponse<String> refused =
                send("RollbackSession", "{'sessionId': '%s', 'snapshot': 'never-taken'}".formatted(SESSION));
        String error = refused.body();
        expect(refused.statusCode() == 404 && text(error, "code").equals("not_found"), error);
        expect(error.contains("\"SnapshotNotFound\""), error);
        HttpResponse<String> unauthenticated = new Drive(client, "wrong").send("ListSessions", "{}");
        expect(unauthenticated.statusCode() == 401, unauthenticated.body());
        did("error", text(error, "message") + " (" + refused.version() + ")");

        List<String> events = stream("Exec",
                "{'start': {'sessionId': '%s', 'argv': ['cat'], 'stdin': true}}".formatted(SESSION),
                "{'stdin': 'cGluZwo='}",
                "{'closeStdin': {}}");
        expect(events.stream().anyMatch(event -> event.contains("cGluZwo=")), events.toString());
        expect(events.get(events.size() - 1).contains("\"exited\""), events.toString());
        did("exec", "ping came back");

        call("DestroySession", "{'sessionId': '%s'}".formatted(SESSION));
        int gone = send("GetSession", "{'sessionId': '%s'}".formatted(SESSION)).statusCode();
        expect(gone == 404, "status " + gone);
        did("destroy", "gone");
    }

    /** Single quotes stand for double ones, which Java would have us escape. */
    private static String json(String almost) {
        return almost.replace('\'', '"');
    }

    private HttpRequest.Builder request(String method, String type) {
        return HttpRequest.newBuilder(URI.create(URL + method))
                .timeout(TIMEOUT)
                .header("authorization", "Bearer " + token)
                .header("content-type", type);
    }

    private HttpResponse<String> send(String method, String message) throws IOException, InterruptedException {
        HttpRequest request =
                request(method, "application/json").POST(BodyPublishers.ofString(json(message))).build();
        return client.send(request, BodyHandlers.ofString());
    }

    private String call(String method, String message) throws IOException, InterruptedException {
        HttpResponse<String> response = send(method, message);
        expect(response.statusCode() == 200, response.body());
        return response.body();
    }

    private String tool(String name, String callId, String params) throws IOException, InterruptedException {
        String answer = call("ExecuteTool", "{'sessionId': '%s', 'toolName': '%s', 'toolCallId': '%s', 'params': %s}"
                .formatted(SESSION, name, callId, params));
        expect(!answer.contains("\"isError\":true"), answer);
        return answer;
    }

    /** A streaming call: all messages, then all answers. The body is sent in pieces of no length known before. */
    private List<String> stream(String method, String... messages) throws IOException, InterruptedException {
        List<byte[]> frames = new ArrayList<>();
        for (String message : messages) {
            byte[] data = json(message).getBytes(StandardCharsets.UTF_8);
            ByteArrayOutputStream frame = new ByteArrayOutputStream();
            DataOutputStream writer = new DataOutputStream(frame);
            writer.writeByte(0);
            writer.writeInt(data.length);
            writer.write(data);
            frames.add(frame.toByteArray());
        }
        HttpRequest request =
                request(method, "application/connect+json").POST(BodyPublishers.ofByteArrays(frames)).build();
        HttpResponse<java.io.InputStream> response = client.send(request, BodyHandlers.ofInputStream());
        expect(response.statusCode() == 200, "status " + response.statusCode());
        List<String> answers = new ArrayList<>();
        try (DataInputStream reader = new DataInputStream(response.body())) {
            while (true) {
                int flags = reader.readUnsignedByte();
                String answer = new String(reader.readNBytes(reader.readInt()), StandardCharsets.UTF_8);
                if ((flags & 2) != 0) {
                    expect(!answer.contains("\"error\""), answer);
                    expect(reader.read() == -1, "something came after the end");
                    return answers;
                }
                answers.add(answer);
            }
        }
    }

    /** The first text under a name. The JDK has no JSON reader, and our answers need no more than this. */
    private static String text(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\":\"((?:[^\"\\\\]|\\\\.)*)\"").matcher(json);
        expect(found.find(), name + " is not in " + json);
        return found.group(1).replace("\\t", "\t").replace("\\n", "\n");
    }

    private static void expect(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    private static void did(String step, String saw) {
        System.out.println(step + ": " + saw);
    }
}
