import java.util.ArrayList;
import java.util.List;

/** Records as words: "-" is null, "x" and hexadecimal digits are bytes. */
final class Lines {
    static final class Header {
        final String name;
        final byte[] value;

        Header(String name, byte[] value) {
            this.name = name;
            this.value = value;
        }
    }

    static byte[] bytes(String word) {
        if (word.equals("-")) return null;
        byte[] value = new byte[word.length() / 2];
        for (int i = 0; i < value.length; i++)
            value[i] = (byte) Integer.parseInt(word.substring(2 * i + 1, 2 * i + 3), 16);
        return value;
    }

    static String word(byte[] value) {
        if (value == null) return "-";
        StringBuilder word = new StringBuilder("x");
        for (byte one : value)
            word.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
        return word.toString();
    }

    static List<Header> headers(String word) {
        List<Header> found = new ArrayList<>();
        if (word.equals("-")) return found;
        for (String pair : word.split(",")) {
            int at = pair.indexOf('=');
            found.add(new Header(pair.substring(0, at), bytes(pair.substring(at + 1))));
        }
        return found;
    }

    static void emit(int partition, long offset, byte[] key, byte[] value, List<Header> headers) {
        StringBuilder all = new StringBuilder();
        for (Header one : headers)
            all.append(all.length() == 0 ? "" : ",").append(one.name).append("=").append(word(one.value));
        String last = all.length() == 0 ? "-" : all.toString();
        say("record " + partition + " " + offset + " " + word(key) + " " + word(value) + " " + last);
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
