import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/** A place in a group that reads what is committed; what it reads is written down. */
final class Place implements ConsumerRebalanceListener {
    static final Comparator<TopicPartition> ORDER = Comparator.comparingInt(TopicPartition::partition);
    private static final Duration TRY = Duration.ofSeconds(5);

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final History history;
    private final String group;
    private final Transactor who;
    /** Partition -> where it stands. */
    private final SortedMap<Integer, Long> positions = new TreeMap<>();

    Place(Properties config, Transactor who, String group) {
        this.who = who;
        this.history = who.history;
        this.group = group;
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        config.put("key.deserializer", bytes);
        config.put("value.deserializer", bytes);
        config.put("group.id", group);
        config.put("isolation.level", "read_committed");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "none");
        config.put("heartbeat.interval.ms", "300");
        consumer = new KafkaConsumer<>(config);
        consumer.subscribe(Collections.singletonList(Transactor.SOURCE), this);
    }

    /** Some records, in their order in each partition. */
    List<ConsumerRecord<byte[], byte[]>> take() {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        ConsumerRecords<byte[], byte[]> records;
        try {
            records = consumer.poll(Duration.ofMillis(300));
        } catch (OffsetOutOfRangeException error) {
            history.note("reset", "text", "" + error, "topic", Transactor.SOURCE);
            throw error;
        }
        for (TopicPartition part : records.partitions()) {
            note(part.partition(), records.records(part));
            found.addAll(records.records(part));
        }
        return found;
    }

    private void note(int partition, List<ConsumerRecord<byte[], byte[]>> records) {
        List<String> pairs = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> one : records)
            pairs.add("[" + one.offset() + ", " + History.quoted(new String(one.value())) + "]");
        long end = records.get(records.size() - 1).offset() + 1;
        history.note("read", "topic", Transactor.SOURCE, "partition", partition,
            "start", positions.get(partition), "end", end, "records", pairs, "committed", true);
        positions.put(partition, end);
    }

    ConsumerGroupMetadata metadata() {
        return consumer.groupMetadata();
    }

    /** Stand again where the group stands. */
    void goBack() {
        stand(consumer.assignment());
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> parts) {
        stand(parts);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> parts) {
        for (TopicPartition part : parts) positions.remove(part.partition());
    }

    private void stand(Collection<TopicPartition> parts) {
        if (parts.isEmpty()) return;
        SortedMap<Integer, Long> offsets = new TreeMap<>();
        long asked = 0;
        for (Map<TopicPartition, OffsetAndMetadata> found = null; found == null; ) {
            asked = History.now();
            try {
                found = consumer.committed(new HashSet<>(parts), TRY);
            } catch (TimeoutException error) {
                if (who.stopping) Runtime.getRuntime().halt(0); // who follows decides it
                continue; // nobody answers, or what was offered is not decided
            }
            for (TopicPartition part : parts) {
                OffsetAndMetadata one = found.get(part);
                offsets.put(part.partition(), one == null ? -1 : one.offset());
            }
        }
        history.note("stands", "group", group, "offsets", offsets, "asked", asked);
        Set<TopicPartition> all = new HashSet<>(parts);
        for (TopicPartition part : all) {
            long offset = Math.max(0, offsets.get(part.partition()));
            positions.put(part.partition(), offset);
            consumer.seek(part, offset);
        }
    }

    void close() {
        consumer.close();
    }
}
