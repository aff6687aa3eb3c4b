import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import kafka.javaapi.producer.Producer;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/** produce BOOTSTRAP TOPIC CODEC -, by the producer that was written in Scala */
final class Producing {
    public static void main(String[] words) throws Exception {
        Properties config = new Properties();
        config.put("metadata.broker.list", words[1]);
        config.put("request.required.acks", "-1");
        config.put("message.send.max.retries", "10");
        config.put("retry.backoff.ms", "1000");
        config.put("compression.codec", words[3]);
        config.put("serializer.class", "kafka.serializer.DefaultEncoder");
        Producer<byte[], byte[]> producer = new Producer<>(new ProducerConfig(config));
        run(producer, words[2]);
        producer.close();
    }

    private static void run(Producer<byte[], byte[]> producer, String topic) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        List<KeyedMessage<byte[], byte[]>> waiting = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words.length == 3) {
                byte[] key = Lines.bytes(words[0]), value = Lines.bytes(words[1]);
                waiting.add(new KeyedMessage<>(topic, key, value));
                continue;
            }
            if (!line.equals("flush")) throw new UnsupportedOperationException(line);
            for (KeyedMessage<byte[], byte[]> one : waiting) producer.send(one);
            waiting.clear();
            Lines.say("done");
        }
    }
}
