import java.util.List;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Before 0.11: no headers, no transactions. */
final class Produced {
    static ProducerRecord<byte[], byte[]> record(
            String topic, byte[] key, byte[] value, List<Lines.Header> headers) {
        if (!headers.isEmpty()) throw new UnsupportedOperationException("headers");
        return new ProducerRecord<>(topic, 0, key, value);
    }

    static void init(KafkaProducer<byte[], byte[]> producer) {
        throw new UnsupportedOperationException("transactions");
    }

    static void mark(KafkaProducer<byte[], byte[]> producer, String word) {
        throw new UnsupportedOperationException(word);
    }
}
