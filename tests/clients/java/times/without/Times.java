import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Before 0.10.1 nobody asks for an offset by its time. */
final class Times {
    static long offset(KafkaConsumer<byte[], byte[]> consumer, TopicPartition part, long time) {
        throw new UnsupportedOperationException("times");
    }
}
