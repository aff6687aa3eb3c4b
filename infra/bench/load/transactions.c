/* Transactions one after the other, of one producer or of many: librdkafka from C.
 *
 *   transactions BROKER TOPIC PARTITIONS RECORDS CLIENTS SIZE SECONDS NAME
 *
 * Each client has a transactional id of its own, NAME-<number>, and a thread. A
 * transaction is RECORDS records, each for another partition of the topic's PARTITIONS,
 * and a commit; the next begins when that is answered. Prints one line of name=value
 * (all: also those of the warm-up and the last of each client, which are not counted);
 * latencies in milliseconds, from begin to committed; two seconds of warm-up.
 */
#define _GNU_SOURCE
#include "librdkafka.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMEOUT_MS = 60000, LATENCIES_MAX = 4000000 };
static const double WARM_UP_S = 2.0;

static const char *broker, *topic, *name;
static int partitions, records;
static size_t size;
static double secs;
static pthread_barrier_t ready;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t *latency_ns;
static size_t latencies, all;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void check(const char *what, rd_kafka_error_t *error) {
  if (!error) return;
  fprintf(stderr, "%s: %s\n", what, rd_kafka_error_string(error));
  exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
  char error[256];
  if (!rd_kafka_conf_set(conf, key, value, error, sizeof error)) return;
  fprintf(stderr, "%s\n", error);
  exit(2);
}

static rd_kafka_t *producer(int number) {
  char id[256], error[256];
  snprintf(id, sizeof id, "%s-%d", name, number);
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "bootstrap.servers", broker);
  set(conf, "log_level", "3");
  set(conf, "transactional.id", id);
  set(conf, "linger.ms", "0");
  rd_kafka_t *made = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
  if (!made) fprintf(stderr, "%s\n", error), exit(2);
  return made;
}

static void transact(rd_kafka_t *k, rd_kafka_topic_t *t, int first, char *value) {
  check("begin", rd_kafka_begin_transaction(k));
  for (int i = 0; i < records; i++) {
    int part = (first + i) % partitions;
    if (rd_kafka_produce(t, part, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0, NULL))
      fprintf(stderr, "produce\n"), exit(1);
  }
  check("commit", rd_kafka_commit_transaction(k, TIMEOUT_MS));
}

static void *client(void *given) {
  int number = (int)(intptr_t)given;
  rd_kafka_t *k = producer(number);
  rd_kafka_topic_t *t = rd_kafka_topic_new(k, topic, NULL);
  char *value = malloc(size + 1);
  memset(value, 'a' + number % 26, size);
  check("init", rd_kafka_init_transactions(k, TIMEOUT_MS));
  pthread_barrier_wait(&ready);
  int64_t warm = now_ns() + (int64_t)(WARM_UP_S * 1e9);
  int64_t end = warm + (int64_t)(secs * 1e9), from, to;
  do {
    from = now_ns();
    transact(k, t, number, value);
    to = now_ns();
    pthread_mutex_lock(&lock);
    all++;
    if (from >= warm && to <= end && latencies < LATENCIES_MAX)
      latency_ns[latencies++] = to - from;
    pthread_mutex_unlock(&lock);
  } while (to < end);
  return NULL;
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(int64_t *)a, y = *(int64_t *)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char **v) {
  if (argc != 9) {
    fprintf(stderr, "see the head of transactions.c\n");
    return 2;
  }
  broker = v[1], topic = v[2], name = v[8];
  partitions = atoi(v[3]), records = atoi(v[4]), size = atoi(v[6]);
  int clients = atoi(v[5]);
  secs = atof(v[7]);
  latency_ns = malloc(LATENCIES_MAX * sizeof *latency_ns);
  pthread_barrier_init(&ready, NULL, clients);
  pthread_t threads[clients];
  for (intptr_t i = 0; i < clients; i++)
    pthread_create(&threads[i], NULL, client, (void *)i);
  for (int i = 0; i < clients; i++) pthread_join(threads[i], NULL);
  size_t n = latencies;
  qsort(latency_ns, n, sizeof *latency_ns, ascending);
#define AT(q) (n ? latency_ns[(size_t)((n - 1) * (q))] / 1e6 : -1)
  printf("txns/s=%.1f all=%zu p50=%.3f p99=%.3f max=%.3f\n", n / secs, all, AT(.5),
         AT(.99), AT(1));
  fflush(stdout);
  _Exit(n == 0);
}
