import java.util.List;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Since 0.11: headers and transactions. */
final class Produced {
    static ProducerRecord<byte[], byte[]> record(
            String topic, byte[] key, byte[] value, List<Lines.Header> headers) {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, key, value);
        for (Lines.Header one : headers) record.headers().add(one.name, one.value);
        return record;
    }

    static void init(KafkaProducer<byte[], byte[]> producer) {
        producer.initTransactions();
    }

    static void mark(KafkaProducer<byte[], byte[]> producer, String word) {
        if (word.equals("begin")) producer.beginTransaction();
        if (word.equals("commit")) producer.commitTransaction();
        if (word.equals("abort")) producer.abortTransaction();
    }
}
