import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.SortedMap;

/** The lines of one participant, as history.py writes them: one write each. */
final class History {
    private final FileOutputStream file;
    private final String who;

    History(String path, String who) throws IOException {
        this.file = new FileOutputStream(path, true);
        this.who = who;
    }

    /** The clock of time.monotonic_ns: on Linux both are CLOCK_MONOTONIC. */
    static long now() {
        return System.nanoTime();
    }

    /** Write down what happened just now, names and values in turn; when that was. */
    synchronized long note(String what, Object... facts) {
        long t = now();
        StringBuilder line = new StringBuilder("{\"t\": " + t);
        field(line, "what", what);
        field(line, "who", who);
        for (int i = 0; i < facts.length; i += 2) field(line, (String) facts[i], facts[i + 1]);
        try {
            file.write(line.append("}\n").toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        return t;
    }

    private static void field(StringBuilder line, String name, Object value) {
        line.append(", ").append(quoted(name)).append(": ").append(json(value));
    }

    private static String json(Object value) {
        if (value instanceof String) return quoted((String) value);
        if (!(value instanceof SortedMap)) return String.valueOf(value); // a list is "[...]"
        StringBuilder all = new StringBuilder();
        for (Map.Entry<?, ?> one : ((SortedMap<?, ?>) value).entrySet())
            all.append(all.length() == 0 ? "" : ", ")
                .append(quoted("" + one.getKey())).append(": ").append(one.getValue());
        return "{" + all + "}";
    }

    static String quoted(String text) {
        StringBuilder found = new StringBuilder("\"");
        for (char one : text.toCharArray())
            if (one == '"' || one == '\\') found.append('\\').append(one);
            else if (one < ' ') found.append(' ');
            else found.append(one);
        return found.append('"').toString();
    }
}
