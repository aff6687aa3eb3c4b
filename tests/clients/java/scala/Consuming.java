import java.nio.ByteBuffer;
import java.util.ArrayList;
import kafka.api.FetchRequestBuilder;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;

/** fetch BOOTSTRAP TOPIC START COUNT LEVEL, by SimpleConsumer */
final class Consuming {
    private static final int SIZE = 1 << 21;

    public static void main(String[] words) throws Exception {
        String[] place = words[1].split(":");
        SimpleConsumer consumer =
            new SimpleConsumer(place[0], Integer.parseInt(place[1]), 30_000, 1 << 16, "simple");
        fetch(consumer, words[2], Long.parseLong(words[3]), Integer.parseInt(words[4]));
        consumer.close();
    }

    private static void fetch(SimpleConsumer consumer, String topic, long next, int count) {
        for (int seen = 0; seen < count; ) {
            FetchResponse answer = consumer.fetch(new FetchRequestBuilder()
                .clientId("simple").maxWait(500).minBytes(1).addFetch(topic, 0, next, SIZE).build());
            if (answer.hasError())
                throw new IllegalStateException("error " + answer.errorCode(topic, 0));
            for (MessageAndOffset one : answer.messageSet(topic, 0)) {
                if (one.offset() < next) continue; // of a compressed set that began before
                Lines.emit(0, one.offset(), bytes(one.message().key()),
                    bytes(one.message().payload()), new ArrayList<>());
                next = one.nextOffset();
                seen++;
            }
        }
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] found = new byte[buffer.remaining()];
        buffer.duplicate().get(found);
        return found;
    }
}
