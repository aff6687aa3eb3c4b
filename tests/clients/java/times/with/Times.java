import java.util.Collections;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

final class Times {
    static long offset(KafkaConsumer<byte[], byte[]> consumer, TopicPartition part, long time) {
        return consumer.offsetsForTimes(Collections.singletonMap(part, time)).get(part).offset();
    }
}
