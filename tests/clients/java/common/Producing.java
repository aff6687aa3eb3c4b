import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;

/** produce BOOTSTRAP TOPIC CODEC ID */
final class Producing {
    public static void main(String[] words) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", words[1]);
        config.put("acks", "all");
        config.put("retries", "10");
        config.put("linger.ms", "20");
        config.put("compression.type", words[3]);
        String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
        config.put("key.serializer", bytes);
        config.put("value.serializer", bytes);
        boolean transactional = !words[4].equals("-");
        if (transactional) config.put("transactional.id", words[4]);
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config);
        if (transactional) Produced.init(producer);
        run(producer, words[2]);
        producer.close();
    }

    private static void run(KafkaProducer<byte[], byte[]> producer, String topic) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        List<Future<?>> sent = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words.length == 3) {
                sent.add(producer.send(Produced.record(topic, Lines.bytes(words[0]),
                    Lines.bytes(words[1]), Lines.headers(words[2]))));
                continue;
            }
            for (Future<?> one : sent) one.get();
            sent.clear();
            if (!line.equals("flush")) Produced.mark(producer, line);
            Lines.say("done");
        }
    }
}
