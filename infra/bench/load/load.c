/* A Kafka client that can keep up with a broker: librdkafka from C.
 *
 *   load produce BROKER TOPIC PART SIZE COUNT CODEC LINGER_MS   bulk, random bytes
 *   load lines   BROKER TOPIC PART FILE COUNT CODEC LINGER_MS   bulk, a file's lines
 *   load keyed   BROKER TOPIC PART SIZE COUNT KEYS CODEC LINGER_MS  bulk, random keys
 *   load paced   BROKER TOPIC PART SIZE RATE SECONDS            acknowledgement latency
 *   load e2e     BROKER TOPIC PART SIZE RATE SECONDS            produce -> consume
 *   load consume BROKER TOPIC PART COUNT LAPS                   from the beginning
 *
 * PART -1 leaves the choice to the partitioner. Prints one line of name=value; acks=all.
 * Latencies are in milliseconds and leave out two seconds of warm-up. A consumer's time
 * runs from the first record of a lap to the last: what comes before is the client's.
 */
#define _GNU_SOURCE
#include "librdkafka.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const double WARM_UP_S = 2.0;
static const size_t POOL_BYTES = 16 << 20;

static int64_t *latency_ns;
static volatile size_t latencies, failed;
static size_t latencies_max;
static volatile int64_t last_ns, measured_from_ns;
static volatile int stopping;
static int latency_of_acks, in_order;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void note(int64_t sent_ns, int64_t done_ns) {
  if (sent_ns >= measured_from_ns && latencies < latencies_max)
    latency_ns[latencies++] = done_ns - sent_ns;
}

static void delivered(rd_kafka_t *k, const rd_kafka_message_t *m, void *o) {
  (void)k, (void)o;
  last_ns = now_ns();
  if (m->err)
    failed++;
  else if (latency_of_acks)
    note((int64_t)m->_private, last_ns);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
  char error[256];
  if (rd_kafka_conf_set(conf, name, value, error, sizeof error)) {
    fprintf(stderr, "%s\n", error);
    exit(2);
  }
}

static rd_kafka_t *client(int kind, const char *broker, const char *codec,
                          const char *linger_ms) {
  char error[256];
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "bootstrap.servers", broker);
  set(conf, "log_level", "3");
  if (kind == RD_KAFKA_PRODUCER) {
    set(conf, "acks", "-1");
    set(conf, "enable.idempotence", in_order ? "true" : "false");
    set(conf, "queue.buffering.max.messages", "1000000");
    set(conf, "compression.codec", codec);
    set(conf, "linger.ms", linger_ms);
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
  } else {
    set(conf, "fetch.message.max.bytes", "1048576");
    set(conf, "fetch.wait.max.ms", "20");
    set(conf, "group.id", "load");
  }
  rd_kafka_t *made = rd_kafka_new(kind, conf, error, sizeof error);
  if (!made) {
    fprintf(stderr, "%s\n", error);
    exit(2);
  }
  return made;
}

static char *random_bytes(size_t n) {
  char *bytes = malloc(n);
  srand(1);
  for (size_t i = 0; i < n; i++) bytes[i] = rand() >> 7;
  return bytes;
}

static double cpu_s(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
         (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void send_one(rd_kafka_t *k, rd_kafka_topic_t *t, int part, void *p, size_t n) {
  while (rd_kafka_produce(t, part, 0, p, n, NULL, 0, NULL) == -1) rd_kafka_poll(k, 5);
}

static int bulk_report(size_t count, double bytes, int64_t from) {
  double s = (last_ns - from) / 1e9;
  printf("msgs=%zu failed=%zu secs=%.3f msgs/s=%.0f MB/s=%.2f clientcpu_s=%.2f\n", count,
         (size_t)failed, s, count / s, bytes / s / 1e6, cpu_s());
  return failed != 0;
}

static int produce(char **v) {
  size_t size = atoi(v[5]), count = strtoul(v[6], 0, 10);
  int part = atoi(v[4]);
  rd_kafka_t *k = client(RD_KAFKA_PRODUCER, v[2], v[7], v[8]);
  rd_kafka_topic_t *t = rd_kafka_topic_new(k, v[3], NULL);
  char *pool = random_bytes(POOL_BYTES + size);
  int64_t from = now_ns();
  for (size_t i = 0; i < count; i++) {
    send_one(k, t, part, pool + (i * 4099) % POOL_BYTES, size);
    if (i % 1000 == 0) rd_kafka_poll(k, 0);
  }
  rd_kafka_flush(k, 300000);
  return bulk_report(count, (double)count * size, from);
}

static int lines(char **v) {
  FILE *f = fopen(v[5], "rb");
  if (!f) return 2;
  fseek(f, 0, SEEK_END);
  long n = ftell(f);
  rewind(f);
  char *b = malloc(n), *p = b;
  if (fread(b, 1, n, f) != (size_t)n) return 2;
  size_t count = strtoul(v[6], 0, 10);
  int part = atoi(v[4]);
  double bytes = 0;
  rd_kafka_t *k = client(RD_KAFKA_PRODUCER, v[2], v[7], v[8]);
  rd_kafka_topic_t *t = rd_kafka_topic_new(k, v[3], NULL);
  int64_t from = now_ns();
  for (size_t i = 0; i < count; i++) {
    char *q = p < b + n ? memchr(p, '\n', b + n - p) : NULL;
    if (!q) p = b, q = memchr(p, '\n', n);
    send_one(k, t, part, p, q - p);
    bytes += q - p;
    p = q + 1;
    if (i % 1000 == 0) rd_kafka_poll(k, 0);
  }
  rd_kafka_flush(k, 300000);
  return bulk_report(count, bytes, from);
}

/* splitmix64, so that whoever judges can make the same keys. */
static uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/* Record i has the key mixed(i) % KEYS, as 8 bytes in the machine's order; records are
 * written in order, whatever is sent again. */
static int keyed(char **v) {
  size_t size = atoi(v[5]), count = strtoul(v[6], 0, 10);
  uint64_t keys = strtoul(v[7], 0, 10);
  int part = atoi(v[4]);
  in_order = 1;
  rd_kafka_t *k = client(RD_KAFKA_PRODUCER, v[2], v[8], v[9]);
  rd_kafka_topic_t *t = rd_kafka_topic_new(k, v[3], NULL);
  char *pool = random_bytes(POOL_BYTES + size);
  int64_t from = now_ns();
  for (size_t i = 0; i < count; i++) {
    uint64_t key = mixed(i) % keys;
    char *p = pool + (i * 4099) % POOL_BYTES;
    while (rd_kafka_produce(t, part, RD_KAFKA_MSG_F_COPY, p, size, &key, 8, NULL) == -1)
      rd_kafka_poll(k, 5);
    if (i % 1000 == 0) rd_kafka_poll(k, 0);
  }
  rd_kafka_flush(k, 300000);
  return bulk_report(count, (double)count * (size + 8), from);
}

static void *poller(void *k) {
  while (!stopping) rd_kafka_poll(k, 50);
  return NULL;
}

struct reader {
  rd_kafka_topic_t *topic;
  int part;
};

static void *reader(void *given) {
  struct reader *r = given;
  while (!stopping) {
    rd_kafka_message_t *m = rd_kafka_consume(r->topic, r->part, 50);
    if (!m) continue;
    int64_t sent;
    if (!m->err && m->len >= 8) {
      memcpy(&sent, m->payload, 8);
      note(sent, now_ns());
    }
    rd_kafka_message_destroy(m);
  }
  return NULL;
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(int64_t *)a, y = *(int64_t *)b;
  return x < y ? -1 : x > y;
}

static int paced(char **v, int e2e) {
  size_t size = atoi(v[5]), sent = 0;
  int part = atoi(v[4]);
  double rate = atof(v[6]), secs = atof(v[7]);
  if (size < 8) size = 8;
  latencies_max = (size_t)(rate * (secs + 3) * 1.2) + 1000;
  latency_ns = malloc(latencies_max * 8);
  latency_of_acks = !e2e;
  rd_kafka_t *k = client(RD_KAFKA_PRODUCER, v[2], "none", "0");
  rd_kafka_topic_t *t = rd_kafka_topic_new(k, v[3], NULL);
  char *pool = random_bytes(POOL_BYTES + size);
  pthread_t polls, reads;
  struct reader r = {NULL, part};
  if (e2e) {
    rd_kafka_t *c = client(RD_KAFKA_CONSUMER, v[2], "", "");
    r.topic = rd_kafka_topic_new(c, v[3], NULL);
    rd_kafka_consume_start(r.topic, part, RD_KAFKA_OFFSET_END);
    pthread_create(&reads, 0, reader, &r);
    sleep(1);
  }
  pthread_create(&polls, 0, poller, k);
  int64_t from = now_ns(), end = from + (int64_t)((WARM_UP_S + secs) * 1e9);
  measured_from_ns = from + (int64_t)(WARM_UP_S * 1e9);
  while (now_ns() < end) {
    size_t due = (size_t)((now_ns() - from) / 1e9 * rate) + 1;
    while (sent < due) {
      char *p = pool + (sent * 4099) % POOL_BYTES;
      int64_t at = now_ns();
      if (e2e) memcpy(p, &at, 8);
      if (rd_kafka_produce(t, part, RD_KAFKA_MSG_F_COPY, p, size, NULL, 0, (void *)at))
        usleep(1000);
      else
        sent++;
    }
    int64_t wait = from + (int64_t)(sent / rate * 1e9) - now_ns();
    if (wait < 0) wait = 0;
    if (wait < 200000 && rate > 5000) wait = 500000;
    struct timespec ts = {wait / 1000000000, wait % 1000000000};
    nanosleep(&ts, 0);
  }
  rd_kafka_flush(k, 30000);
  usleep(300000);
  stopping = 1;
  size_t n = latencies;
  qsort(latency_ns, n, 8, ascending);
#define AT(q) (n ? latency_ns[(size_t)((n - 1) * (q))] / 1e6 : -1)
  printf("n=%zu failed=%zu p50=%.3f p90=%.3f p99=%.3f p999=%.3f max=%.3f\n", n,
         (size_t)failed, AT(.5), AT(.9), AT(.99), AT(.999), AT(1));
  fflush(stdout);
  _exit(failed != 0 || n == 0);
}

enum { AT_ONCE = 1000 };
static rd_kafka_message_t *found[AT_ONCE];

/* One lap; the time that it took. What the first call finds came before the clock began:
 * it is added to *seen, but not to *timed and *bytes. */
static double lap(rd_kafka_topic_t *t, int part, size_t count, size_t *seen,
                  size_t *timed, double *bytes) {
  int64_t give_up = now_ns() + 100000000000LL, from = 0;
  size_t got = 0;
  while (got < count && now_ns() < give_up) {
    ssize_t n = rd_kafka_consume_batch(t, part, 200, found, AT_ONCE);
    for (ssize_t i = 0; i < n; i++) {
      if (!found[i]->err) got++;
      if (!found[i]->err && from) ++*timed, *bytes += found[i]->len;
      rd_kafka_message_destroy(found[i]);
    }
    if (n > 0 && !from) from = now_ns();
  }
  *seen += got;
  return (now_ns() - from) / 1e9;
}

static int consume(char **v) {
  int part = atoi(v[4]), laps = atoi(v[6]);
  size_t count = strtoul(v[5], 0, 10), seen = 0, timed = 0;
  double bytes = 0, s = 0;
  rd_kafka_t *k = client(RD_KAFKA_CONSUMER, v[2], "", "");
  rd_kafka_topic_t *t = rd_kafka_topic_new(k, v[3], NULL);
  rd_kafka_consume_start(t, part, RD_KAFKA_OFFSET_BEGINNING);
  for (int i = 0; i < laps; i++) {
    if (i && rd_kafka_seek(t, part, 0, 10000)) return 2;
    s += lap(t, part, count, &seen, &timed, &bytes);
  }
  printf("msgs=%zu secs=%.3f msgs/s=%.0f MB/s=%.2f clientcpu_s=%.2f\n", timed, s, timed / s,
         bytes / s / 1e6, cpu_s());
  fflush(stdout);
  _exit(seen < count * laps);
}

int main(int c, char **v) {
  const char *mode = c > 1 ? v[1] : "";
  if (!strcmp(mode, "produce") && c == 9) return produce(v);
  if (!strcmp(mode, "lines") && c == 9) return lines(v);
  if (!strcmp(mode, "keyed") && c == 10) return keyed(v);
  if (!strcmp(mode, "paced") && c == 8) return paced(v, 0);
  if (!strcmp(mode, "e2e") && c == 8) return paced(v, 1);
  if (!strcmp(mode, "consume") && c == 7) return consume(v);
  fprintf(stderr, "see the head of load.c\n");
  return 2;
}
