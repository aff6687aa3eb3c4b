import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.protocol.Errors;

/** Transactions with records in some partitions; it dies in the middle of one. */
class Transactor {
    /** This instance may do nothing more; why is in the history. */
    static final class Over extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    static final String SOURCE = "t";
    private static final String[] STAGES = {"begun", "sent", "offered", "ending"};
    private static final int ENDLESS_MS = 900_000;

    volatile boolean stopping;
    final Map<String, String> plan;
    final History history;
    final Random chance;
    final boolean calm;
    final String name;
    final String id;
    final int partitions;
    KafkaProducer<byte[], byte[]> producer;
    String transaction = "";
    private final int diesIn;
    private final String diesAt;
    private int number;
    private int transactions;

    Transactor(Map<String, String> plan) throws Exception {
        this.plan = plan;
        name = plan.get("name");
        id = plan.get("id");
        partitions = Integer.parseInt(plan.get("partitions"));
        calm = plan.get("calm").equals("True");
        history = new History(plan.get("history"), name);
        chance = new Random((plan.get("seed") + " " + name).hashCode());
        boolean dies = !calm && chance.nextDouble() < 0.8;
        diesIn = dies ? 1 + chance.nextInt(25) : 0;
        diesAt = STAGES[chance.nextInt(STAGES.length)];
    }

    void run() {
        try {
            beginLife();
            if (plan.get("only_begins").equals("False")) live();
        } catch (Over error) {
            return;
        }
    }

    void live() {
        while (!stopping) {
            transact();
            pause(50);
        }
    }

    /** Get an epoch: whoever had one before is fenced. */
    private void beginLife() {
        Properties config = client();
        String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
        config.put("key.serializer", bytes);
        config.put("value.serializer", bytes);
        config.put("transactional.id", id);
        config.put("transaction.timeout.ms", "" + ENDLESS_MS);
        config.put("delivery.timeout.ms", "" + ENDLESS_MS);
        config.put("max.block.ms", "" + ENDLESS_MS);
        config.put("linger.ms", "" + new int[] {0, 2, 20}[chance.nextInt(3)]);
        config.put("batch.size", "" + new int[] {0, 100, 16384}[chance.nextInt(3)]);
        producer = new KafkaProducer<>(config);
        long asked = history.note("begins", "id", id);
        try {
            producer.initTransactions();
        } catch (KafkaException error) {
            understood(error, true);
        }
        history.note("initialized", "id", id, "asked", asked);
    }

    Properties client() {
        Properties config = new Properties();
        config.put("bootstrap.servers", plan.get("bootstrap"));
        config.put("request.timeout.ms", plan.get("request_ms"));
        config.put("reconnect.backoff.ms", "20");
        config.put("reconnect.backoff.max.ms", "200");
        config.put("retry.backoff.ms", "20");
        config.put("retry.backoff.max.ms", "200");
        return config;
    }

    /** What the library refused, noted. Throws Over if nothing goes on after it. */
    private void understood(KafkaException error, boolean last) {
        Throwable cause = error;
        while (Errors.forException(cause) == Errors.UNKNOWN_SERVER_ERROR && cause.getCause() != null)
            cause = cause.getCause();
        boolean over = last || cause instanceof ProducerFencedException;
        history.note("refused", "error", Errors.forException(cause).name(),
            "text", "" + error, "id", id, "is_over", over, "version", 2);
        if (over) throw new Over();
    }

    // a transaction

    void transact() {
        boolean kept;
        try {
            transaction = name + "/" + ++transactions;
            producer.beginTransaction();
            mayDie("begun");
            fill();
            kept = end(calm || chance.nextDouble() < 0.8);
        } catch (KafkaException error) {
            understood(error, false);
            kept = giveUp();
        }
        closed(kept);
    }

    void fill() {
        for (int left = 1 + chance.nextInt(6); left > 0; left--)
            send(SOURCE, chance.nextInt(partitions), "");
        mayDie("sent");
        if (chance.nextDouble() < 0.3) pause(400);
    }

    /** The transaction is over, and was committed or not. */
    void closed(boolean kept) {}

    /** A value of its own, once. */
    void send(String topic, int partition, String madeOf) {
        String value = name + "#" + ++number + "<" + madeOf;
        long asked = history.note("send", "topic", topic, "partition", partition,
            "value", value, "number", number, "transaction", transaction);
        producer.send(new ProducerRecord<>(topic, partition, null, value.getBytes()), (found, error) -> {
            if (error != null)
                history.note("failed", "topic", topic, "partition", partition, "value", value,
                    "error", Errors.forException(error).name(), "text", "" + error);
            else if (found.hasOffset()) // a repetition of long ago is acknowledged without
                history.note("acked", "topic", topic, "partition", partition, "value", value,
                    "offset", found.offset(), "asked", asked);
        });
    }

    /** End it; whether it is committed. */
    private boolean end(boolean commit) {
        long asked = history.note("ending", "transaction", transaction, "commit", commit);
        mayDie("ending");
        if (commit) producer.commitTransaction();
        else producer.abortTransaction();
        history.note("ended", "transaction", transaction, "commit", commit, "asked", asked, "id", id);
        return commit;
    }

    /** Abort what can go on no more. */
    private boolean giveUp() {
        try {
            return end(false);
        } catch (KafkaException error) {
            understood(error, true);
            throw error;
        }
    }

    /** Be gone here, as by SIGKILL from outside; while it ends, a bit later. */
    void mayDie(String stage) {
        if (transactions != diesIn || !stage.equals(diesAt)) return;
        long most = chance.nextInt(20);
        if (!stage.equals("ending")) {
            sleep(most);
            Runtime.getRuntime().halt(0);
        }
        Thread later = new Thread(() -> {
            sleep(most);
            Runtime.getRuntime().halt(0);
        });
        later.setDaemon(true);
        later.start();
    }

    void pause(int mostMs) {
        sleep(chance.nextInt(mostMs));
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
