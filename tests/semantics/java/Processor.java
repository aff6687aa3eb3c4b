import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Reads what is committed and makes one record of each, once. */
final class Processor extends Transactor {
    private static final String SINK = "out";
    private static final String GROUP = "processors";

    private Place place;
    private List<ConsumerRecord<byte[], byte[]>> read = Collections.emptyList();

    Processor(Map<String, String> plan) throws Exception {
        super(plan);
    }

    @Override
    void live() {
        Properties config = client();
        config.put("max.poll.records", "" + (calm ? 500 : 1 + chance.nextInt(60)));
        config.put("session.timeout.ms", plan.get("session_ms"));
        place = new Place(config, this, GROUP);
        while (!stopping) {
            read = place.take();
            if (!read.isEmpty()) transact();
        }
        place.close();
    }

    @Override
    void fill() {
        for (ConsumerRecord<byte[], byte[]> one : read)
            send(SINK, one.partition(), one.partition() + ":" + one.offset());
        mayDie("sent");
        offer();
        mayDie("offered");
    }

    /** What was not kept is read again. */
    @Override
    void closed(boolean kept) {
        if (!kept) place.goBack();
    }

    /** Where it stands is to be committed with the records. */
    private void offer() {
        SortedMap<Integer, Long> offsets = new TreeMap<>();
        for (ConsumerRecord<byte[], byte[]> one : read)
            offsets.put(one.partition(), one.offset() + 1);
        history.note("offering", "transaction", transaction, "group", GROUP, "offsets", offsets);
        Map<TopicPartition, OffsetAndMetadata> at = new TreeMap<>(Place.ORDER);
        offsets.forEach((part, offset) ->
            at.put(new TopicPartition(SOURCE, part), new OffsetAndMetadata(offset)));
        producer.sendOffsetsToTransaction(at, place.metadata());
    }
}
