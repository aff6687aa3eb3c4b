/* Small produce requests, one in flight per connection: epoll, one thread, a canned
 * Produce v7 request with acks=all and one record.
 *
 *   requests HOST PORT TOPIC PARTITIONS CONNECTIONS SIZE SECONDS
 *
 * Prints one line of name=value; latencies in milliseconds; one second of warm-up.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 64, ANSWER_MAX = 512 };

struct connection {
  int fd, got;
  uint8_t *request;
  size_t bytes;
  int64_t sent_ns;
  uint8_t answer[ANSWER_MAX];
};

static uint8_t *at;

static int64_t now_ns(int clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void put(uint64_t x, int bytes) {
  for (int i = bytes - 1; i >= 0; i--) *at++ = x >> (8 * i);
}

static void put_string(const char *s) {
  put(strlen(s), 2);
  memcpy(at, s, strlen(s));
  at += strlen(s);
}

static void put_varint(int64_t x) {
  uint64_t u = ((uint64_t)x << 1) ^ (x >> 63);
  for (; u > 127; u >>= 7) *at++ = u | 128;
  *at++ = u;
}

static int varint_bytes(int64_t x) {
  uint64_t u = ((uint64_t)x << 1) ^ (x >> 63);
  int n = 1;
  for (; u > 127; u >>= 7) n++;
  return n;
}

static uint32_t crc32c(const uint8_t *p, const uint8_t *end) {
  uint32_t c = ~0u;
  for (; p < end; p++) {
    c ^= *p;
    for (int i = 0; i < 8; i++) c = c & 1 ? c >> 1 ^ 0x82F63B78 : c >> 1;
  }
  return ~c;
}

static void put_batch(int size) {
  int body = 5 + varint_bytes(size) + size; /* attributes, deltas, key, headers: 5 */
  int64_t ms = now_ns(CLOCK_REALTIME) / 1000000;
  put(0, 8);
  put(49 + varint_bytes(body) + body, 4);
  put(-1, 4);
  put(2, 1);
  uint8_t *crc = at;
  put(0, 4), put(0, 2), put(0, 4), put(ms, 8), put(ms, 8);
  put(-1, 8), put(-1, 2), put(-1, 4), put(1, 4);
  put_varint(body);
  put(0, 1), put_varint(0), put_varint(0), put_varint(-1), put_varint(size);
  for (int i = 0; i < size; i++) put(rand() >> 7, 1);
  put_varint(0);
  uint8_t *end = at;
  at = crc;
  put(crc32c(crc + 4, end), 4);
  at = end;
}

static size_t build(uint8_t *b, const char *topic, int partition, int size) {
  at = b + 4;
  put(0, 2), put(7, 2), put(1, 4);
  put_string("requests");
  put(-1, 2), put(-1, 2), put(30000, 4), put(1, 4);
  put_string(topic);
  put(1, 4), put(partition, 4);
  uint8_t *length = at;
  put(0, 4);
  put_batch(size);
  uint8_t *end = at;
  at = length, put(end - length - 4, 4);
  at = b, put(end - b - 4, 4);
  return end - b;
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(int64_t *)a, y = *(int64_t *)b;
  return x < y ? -1 : x > y;
}

static void open_one(struct connection *c, char **v, int i, int poll_fd) {
  struct sockaddr_in a = {AF_INET, htons(atoi(v[2])), {0}, {0}};
  int one = 1, size = atoi(v[6]);
  inet_pton(AF_INET, v[1], &a.sin_addr);
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(c->fd, (void *)&a, sizeof a)) perror("connect"), exit(1);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  c->request = malloc(size + 512);
  c->bytes = build(c->request, v[3], i % atoi(v[4]), size);
  struct epoll_event e = {EPOLLIN, {.ptr = c}};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &e);
}

static void ask(struct connection *c) {
  c->got = 0;
  c->sent_ns = now_ns(CLOCK_MONOTONIC);
  if (write(c->fd, c->request, c->bytes) < 0) perror("write"), exit(1);
}

/* 1 when a whole answer is there. */
static int hear(struct connection *c) {
  int r = read(c->fd, c->answer + c->got, sizeof c->answer - c->got);
  if (r <= 0) fprintf(stderr, "closed\n"), exit(1);
  c->got += r;
  uint32_t length;
  memcpy(&length, c->answer, 4);
  return c->got >= 4 && (size_t)c->got >= 4 + (size_t)ntohl(length);
}

int main(int argc, char **v) {
  if (argc < 8) return 2;
  int connections = atoi(v[5]), poll_fd = epoll_create1(0);
  size_t n = 0, max = 20000000, failed = 0;
  size_t code_at = 4 + 4 + 4 + 2 + strlen(v[3]) + 4 + 4;
  double secs = atof(v[7]);
  int64_t *latency = malloc(max * 8);
  struct connection *all = calloc(connections, sizeof *all);
  for (int i = 0; i < connections; i++) open_one(&all[i], v, i, poll_fd);
  int64_t warm = now_ns(CLOCK_MONOTONIC) + 1000000000LL;
  int64_t end = warm + (int64_t)(secs * 1e9), t;
  for (int i = 0; i < connections; i++) ask(&all[i]);
  struct epoll_event events[EVENTS];
  while (now_ns(CLOCK_MONOTONIC) < end) {
    int ready = epoll_wait(poll_fd, events, EVENTS, 1000);
    for (int i = 0; i < ready; i++) {
      struct connection *c = events[i].data.ptr;
      if (!hear(c)) continue;
      t = now_ns(CLOCK_MONOTONIC);
      failed += c->answer[code_at] || c->answer[code_at + 1];
      if (c->sent_ns >= warm && n < max) latency[n++] = t - c->sent_ns;
      ask(c);
    }
  }
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  qsort(latency, n, 8, ascending);
#define AT(q) (n ? latency[(size_t)((n - 1) * (q))] / 1e6 : -1)
  printf("req/s=%.0f failed=%zu p50=%.3f p99=%.3f p999=%.3f max=%.3f\n", n / secs,
         failed, AT(.5), AT(.99), AT(.999), AT(1));
  return failed != 0 || n == 0;
}
