import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.UnresolvedReferenceException;

/**
 * The kernel of Java: runs cells one after another in one JShell, whose code runs in a process of its own. Started with
 * the numbers of two descriptors.
 *
 * <p>A request is a line with its number and the count of its texts, then each text as a line with its length in bytes
 * and the bytes: the code, then names and values of variables. One with no texts interrupts the cell that runs. Events
 * are lines of JSON.
 */
public final class Main {
    private static final String[] IMPORTS = {
        "java.io", "java.math", "java.net", "java.nio.file", "java.util", "java.util.concurrent", "java.util.function",
        "java.util.regex", "java.util.stream",
    };

    /** How long text may wait for more, and how much of it. */
    private static final long MOMENT_MILLISECONDS = 10;
    private static final int MUCH = 32 * 1024;

    private final DataInputStream requests;
    private final OutputStream events;
    private final JShell shell;
    private final BlockingQueue<Request> waiting = new LinkedBlockingQueue<>();
    /** The number of the request that is worked on, and of the one whose code runs. */
    private volatile int current;
    private volatile int running;
    private volatile boolean interrupted;
    // Text that waits for more.
    private final StringBuilder held = new StringBuilder();
    private String heldStream = "stdout";

    private static final class Request {
        final int number;
        final List<String> texts = new ArrayList<>();

        Request(int number) {
            this.number = number;
        }
    }

    private Main(String requests, String events) throws IOException {
        this.requests = new DataInputStream(new java.io.BufferedInputStream(new FileInputStream("/proc/self/fd/" + requests)));
        this.events = new FileOutputStream("/proc/self/fd/" + events);
        shell = JShell.builder()
            .out(new PrintStream(new Output("stdout"), true, StandardCharsets.UTF_8))
            .err(new PrintStream(new Output("stderr"), true, StandardCharsets.UTF_8))
            .remoteVMOptions("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8")
            .build();
        shell.onShutdown(ended -> {
            System.err.println("the Java program of the cells has exited");
            Runtime.getRuntime().halt(1);
        });
    }

    public static void main(String[] arguments) throws Exception {
        Main kernel = new Main(arguments[0], arguments[1]);
        for (Runnable task : List.<Runnable>of(kernel::readRequests, kernel::sendHeldText)) {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            thread.start();
        }
        for (String name : IMPORTS) {
            kernel.shell.eval("import " + name + ".*;");
        }
        // Code reads variables of the environment as properties, which can be changed, as in E2B.
        kernel.shell.eval("{ System.getenv().forEach((name, value) -> System.getProperties().putIfAbsent(name, value)); }");
        while (true) {
            kernel.execute(kernel.waiting.take());
        }
    }

    private void readRequests() {
        try {
            while (true) {
                String[] head = readLine().split(" ");
                Request request = new Request(Integer.parseInt(head[0]));
                for (int index = 0; index < Integer.parseInt(head[1]); index++) {
                    byte[] text = new byte[Integer.parseInt(readLine())];
                    requests.readFully(text);
                    request.texts.add(new String(text, StandardCharsets.UTF_8));
                }
                if (!request.texts.isEmpty()) {
                    waiting.add(request);
                } else if (request.number == current) {
                    interrupted = true;
                    new Thread(() -> stop(request.number)).start();
                }
            }
        } catch (IOException error) {
            // The server is gone.
            Runtime.getRuntime().halt(0);
        }
    }

    /** Stops code until the cell has ended: while a statement is compiled, there is nothing to stop yet. */
    private void stop(int number) {
        try {
            while (running == number) {
                shell.stop();
                Thread.sleep(MOMENT_MILLISECONDS);
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private String readLine() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int read = requests.read(); read != '\n'; read = requests.read()) {
            if (read < 0) {
                throw new EOFException();
            }
            line.append((char) read);
        }
        return line.toString();
    }

    private void execute(Request request) {
        interrupted = false;
        current = request.number;
        Map<String, String> variables = new LinkedHashMap<>();
        for (int index = 1; index + 1 < request.texts.size(); index += 2) {
            variables.put(request.texts.get(index), request.texts.get(index + 1));
        }
        try {
            variables.forEach((name, value) -> shell.eval("{ System.setProperty(" + literal(name) + ", " + literal(value) + "); }"));
            running = request.number;
            run(request.texts.get(0));
        } catch (IllegalStateException error) {
            // The shell is closed, and says why.
        } catch (RuntimeException error) {
            fail(error.getClass().getName(), String.valueOf(error.getMessage()), error.toString());
        } finally {
            running = 0;
            variables.keySet().forEach(name -> shell.eval(restoring(name)));
            shell.variables().filter(variable -> variable.name().startsWith("$")).skip(100).forEach(shell::drop);
            tell("done", Map.of());
            current = 0;
        }
    }

    private static String restoring(String name) {
        String before = System.getenv(name);
        return before == null
            ? "{ System.clearProperty(" + literal(name) + "); }"
            : "{ System.setProperty(" + literal(name) + ", " + literal(before) + "); }";
    }

    /** Runs a cell statement by statement, until one fails; the value of the last is the result. */
    private void run(String code) {
        SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
        String rest = code;
        while (!rest.isBlank()) {
            if (interrupted) {
                fail("Interrupted", "The execution was interrupted", "");
                return;
            }
            CompletionInfo part = analysis.analyzeCompletion(rest);
            // What is incomplete is a mistake here, and the compiler says which.
            String source = part.completeness().isComplete() ? part.source() : rest;
            rest = part.completeness().isComplete() ? part.remaining() : "";
            if (source == null || source.isBlank()) {
                return;
            }
            for (SnippetEvent event : shell.eval(source)) {
                if (event.causeSnippet() == null && !succeeded(event, rest.isBlank())) {
                    return;
                }
            }
        }
    }

    private boolean succeeded(SnippetEvent event, boolean isLast) {
        if (interrupted) {
            fail("Interrupted", "The execution was interrupted", "");
            return false;
        }
        if (event.status() == Snippet.Status.REJECTED) {
            String problems = shell.diagnostics(event.snippet()).filter(Diag::isError)
                .map(problem -> problem.getMessage(Locale.ENGLISH) + near(event.snippet().source(), problem))
                .collect(Collectors.joining("\n"));
            fail("CompilationException", problems, problems);
            return false;
        }
        if (event.exception() != null) {
            fail(event.exception());
            return false;
        }
        Snippet.SubKind kind = event.snippet().subKind();
        boolean isValue = kind == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND || event.snippet().kind() == Snippet.Kind.EXPRESSION;
        String value = event.value();
        if (isLast && isValue && value != null && !value.isEmpty() && !value.equals("null")) {
            tell("result", Map.of("data", "{\"text/plain\":" + quoted(shown(value)) + "}", "main", "true"));
        }
        return true;
    }

    /** The text of a value: strings and characters come as literals. */
    private String shown(String value) {
        boolean isLiteral = value.length() > 1 && (value.startsWith("\"") && value.endsWith("\"") || value.startsWith("'") && value.endsWith("'"));
        if (!isLiteral) {
            return value;
        }
        String inside = value.substring(1, value.length() - 1);
        return inside.contains("\\") && escapes() ? unescaped(inside) : inside;
    }

    /** Whether this version of JShell escapes what is in a string: only newer ones do. */
    private boolean escapes() {
        SnippetEvent tried = shell.eval("\"\\\\\"").get(0);
        shell.drop(tried.snippet());
        return "\"\\\\\"".equals(tried.value());
    }

    private static String unescaped(String text) {
        StringBuilder made = new StringBuilder();
        for (int at = 0; at < text.length(); at++) {
            char each = text.charAt(at);
            if (each != '\\' || at + 1 == text.length()) {
                made.append(each);
                continue;
            }
            char kind = text.charAt(++at);
            int known = "btnfr".indexOf(kind);
            if (known >= 0) {
                made.append("\b\t\n\f\r".charAt(known));
            } else if (kind >= '0' && kind <= '7') {
                int end = at + 1;
                while (end < text.length() && end < at + 3 && text.charAt(end) >= '0' && text.charAt(end) <= '7') {
                    end++;
                }
                made.append((char) Integer.parseInt(text.substring(at, end), 8));
                at = end - 1;
            } else if (kind == 'u' && at + 4 < text.length()) {
                made.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                at += 4;
            } else {
                made.append(kind);
            }
        }
        return made.toString();
    }

    private static String near(String source, Diag problem) {
        int at = (int) Math.max(0, Math.min(problem.getPosition(), source.length()));
        int start = source.lastIndexOf('\n', at - 1) + 1;
        int end = source.indexOf('\n', at);
        return "\n    " + source.substring(start, end < 0 ? source.length() : end) + "\n    " + " ".repeat(at - start) + "^";
    }

    private void fail(JShellException error) {
        String name = error instanceof EvalException ? ((EvalException) error).getExceptionClassName() : error.getClass().getName();
        String message = error.getMessage();
        if (error instanceof UnresolvedReferenceException) {
            message = "the code refers to something that is not defined: " + ((UnresolvedReferenceException) error).getSnippet().source();
        }
        StringBuilder text = new StringBuilder(name + (message == null ? "" : ": " + message));
        append(text, error);
        for (Throwable cause = error.getCause(); cause instanceof EvalException; cause = cause.getCause()) {
            text.append("\nCaused by: ").append(((EvalException) cause).getExceptionClassName());
            text.append(cause.getMessage() == null ? "" : ": " + cause.getMessage());
            append(text, cause);
        }
        fail(name, message == null ? "" : message, text.toString());
    }

    private static void append(StringBuilder text, Throwable error) {
        for (StackTraceElement frame : error.getStackTrace()) {
            text.append("\n\tat ").append(frame);
        }
    }

    private void fail(String name, String value, String traceback) {
        tell("error", Map.of("name", quoted(name), "value", quoted(value), "traceback", quoted(traceback)));
    }

    private synchronized void tell(String type, Map<String, String> fields) {
        flush();
        write(type, fields);
    }

    private void write(String type, Map<String, String> fields) {
        StringBuilder line = new StringBuilder("{\"type\":\"" + type + "\",\"id\":" + current);
        fields.forEach((name, value) -> line.append(",\"").append(name).append("\":").append(value));
        try {
            events.write(line.append("}\n").toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            Runtime.getRuntime().halt(0);
        }
    }

    private static String quoted(String text) {
        StringBuilder made = new StringBuilder("\"");
        text.chars().forEach(each -> {
            if (each == '"' || each == '\\') {
                made.append('\\').append((char) each);
            } else if (each < ' ' || Character.isSurrogate((char) each)) {
                made.append(String.format("\\u%04x", each));
            } else {
                made.append((char) each);
            }
        });
        return made.append('"').toString();
    }

    /** A literal of Java; every character that may mean something is written as a number. */
    private static String literal(String text) {
        StringBuilder made = new StringBuilder("\"");
        text.chars().forEach(each -> {
            if (each == '"' || each == '\\' || each == '\n' || each == '\r') {
                made.append(String.format("\\%03o", each));
            } else if (each < ' ' || each > '~') {
                made.append(String.format("\\u%04x", each));
            } else {
                made.append((char) each);
            }
        });
        return made.append('"').toString();
    }

    /**
     * What code prints, as events. It comes in pieces of a hundred bytes, which wait a moment for more. A line and its end
     * are told apart, as E2B's kernel does it.
     */
    private final class Output extends OutputStream {
        private final String stream;
        private final CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder()
            .onMalformedInput(CodingErrorAction.REPLACE).onUnmappableCharacter(CodingErrorAction.REPLACE);
        private ByteBuffer undecoded = ByteBuffer.allocate(0);

        Output(String stream) {
            this.stream = stream;
        }

        @Override
        public void write(int value) {
            write(new byte[] {(byte) value}, 0, 1);
        }

        @Override
        public synchronized void write(byte[] data, int offset, int length) {
            ByteBuffer bytes = ByteBuffer.allocate(undecoded.remaining() + length).put(undecoded).put(data, offset, length);
            bytes.flip();
            CharBuffer text = CharBuffer.allocate(bytes.remaining() + 1);
            decoder.decode(bytes, text, false);
            undecoded = bytes;
            text.flip();
            hold(stream, text.toString());
        }
    }

    private synchronized void hold(String stream, String text) {
        if (!stream.equals(heldStream)) {
            flush();
        }
        heldStream = stream;
        held.append(text);
        if (held.length() >= MUCH) {
            flush();
        } else {
            notifyAll();
        }
    }

    private synchronized void flush() {
        String text = held.toString();
        held.setLength(0);
        if (text.length() > 1 && text.endsWith("\n")) {
            write(heldStream, Map.of("text", quoted(text.substring(0, text.length() - 1))));
            text = "\n";
        }
        if (!text.isEmpty()) {
            write(heldStream, Map.of("text", quoted(text)));
        }
    }

    private void sendHeldText() {
        try {
            while (true) {
                synchronized (this) {
                    while (held.length() == 0) {
                        wait();
                    }
                }
                Thread.sleep(MOMENT_MILLISECONDS);
                flush();
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
