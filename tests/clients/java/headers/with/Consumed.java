import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;

final class Consumed {
    static List<Lines.Header> headers(ConsumerRecord<byte[], byte[]> record) {
        List<Lines.Header> found = new ArrayList<>();
        for (Header one : record.headers()) found.add(new Lines.Header(one.key(), one.value()));
        return found;
    }
}
