import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;

/** BOOTSTRAP IN OUT GUARANTEE DIRECTORY: counts words until its input ends. */
final class WordCount {
    public static void main(String[] words) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", words[0]);
        config.put("application.id", words[1]);
        config.put("processing.guarantee", words[3]);
        config.put("state.dir", words[4]);
        config.put("commit.interval.ms", "100");
        config.put("statestore.cache.max.bytes", "0"); // each change is told
        config.put("replication.factor", "1");
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(words[1]);
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(words[2], Produced.with(Serdes.String(), Serdes.String()));
        try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
            streams.start();
            while (System.in.read() >= 0) continue;
        }
    }
}
