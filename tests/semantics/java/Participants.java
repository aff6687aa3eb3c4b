import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/** kind=KIND name=NAME ...: one participant, until SIGTERM or its end; or the clock. */
final class Participants {
    public static void main(String[] words) throws Exception {
        Map<String, String> plan = new HashMap<>();
        for (String word : words) {
            int at = word.indexOf('=');
            plan.put(word.substring(0, at), word.substring(at + 1));
        }
        if (plan.get("kind").equals("clock")) {
            System.out.println(History.now());
            return;
        }
        Transactor participant = plan.get("kind").equals("processor")
            ? new Processor(plan) : new Transactor(plan);
        CountDownLatch done = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(participant, done)));
        int code = 0;
        try {
            participant.run();
        } catch (Throwable error) {
            error.printStackTrace();
            code = 1;
        }
        Runtime.getRuntime().halt(code);
    }

    /** SIGTERM: what it does is done to its end, which halts the process. */
    private static void stop(Transactor participant, CountDownLatch never) {
        participant.stopping = true;
        try {
            never.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
