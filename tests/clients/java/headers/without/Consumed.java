import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;

final class Consumed {
    static List<Lines.Header> headers(ConsumerRecord<byte[], byte[]> record) {
        return new ArrayList<>();
    }
}
