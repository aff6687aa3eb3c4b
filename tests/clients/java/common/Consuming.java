import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** fetch BOOTSTRAP TOPIC START COUNT LEVEL, or member BOOTSTRAP TOPIC GROUP */
final class Consuming {
    public static void main(String[] words) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", words[1]);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        config.put("key.deserializer", bytes);
        config.put("value.deserializer", bytes);
        boolean member = words[0].equals("member");
        config.put("group.id", member ? words[3] : "nobody");
        if (!member) config.put("isolation.level", "read_" + words[5]);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config);
        if (member) belong(consumer, words[2]);
        else fetch(consumer, new TopicPartition(words[2], 0), words[3], Integer.parseInt(words[4]));
        consumer.close();
    }

    private static void fetch(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition part, String start, int count) {
        consumer.assign(Collections.singletonList(part));
        boolean time = start.startsWith("@");
        consumer.seek(part, time
            ? Times.offset(consumer, part, Long.parseLong(start.substring(1)))
            : Long.parseLong(start));
        for (int seen = 0; seen < count; ) seen += emit(consumer);
    }

    private static int emit(KafkaConsumer<byte[], byte[]> consumer) {
        int seen = 0;
        for (ConsumerRecord<byte[], byte[]> one : Poll.poll(consumer)) {
            Lines.emit(one.partition(), one.offset(), one.key(), one.value(), Consumed.headers(one));
            seen++;
        }
        return seen;
    }

    private static void belong(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        LinkedBlockingQueue<String> asked = new LinkedBlockingQueue<>();
        Thread ear = new Thread(() -> listen(asked));
        ear.setDaemon(true);
        ear.start();
        consumer.subscribe(Collections.singletonList(topic));
        String owned = "";
        for (String word = asked.poll(); !"end".equals(word); word = asked.poll()) {
            if (word != null) {
                consumer.commitSync();
                Lines.say("done");
            }
            emit(consumer);
            Set<String> now = new TreeSet<>();
            for (TopicPartition part : consumer.assignment()) now.add("" + part.partition());
            if (!owned.equals(String.join(",", now)))
                Lines.say("assigned " + (owned = String.join(",", now)));
        }
    }

    private static void listen(LinkedBlockingQueue<String> asked) {
        try {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line = in.readLine(); line != null; line = in.readLine()) asked.add(line);
        } catch (java.io.IOException error) {
            error.printStackTrace();
        }
        asked.add("end");
    }
}
