/* The few declarations of librdkafka's public C interface that the load generator
 * uses. The library itself is the one inside the confluent-kafka wheel. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_message_s {
  int err;
  rd_kafka_topic_t *rkt;
  int32_t partition;
  void *payload;
  size_t len;
  void *key;
  size_t key_len;
  int64_t offset;
  void *_private;
} rd_kafka_message_t;

enum { RD_KAFKA_PRODUCER = 0, RD_KAFKA_CONSUMER = 1 };
enum { RD_KAFKA_MSG_F_COPY = 2 };
#define RD_KAFKA_OFFSET_BEGINNING (-2)
#define RD_KAFKA_OFFSET_END (-1)

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(
    rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *,
                     size_t, void *);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_flush(rd_kafka_t *, int);
int rd_kafka_seek(rd_kafka_topic_t *, int32_t partition, int64_t offset, int timeout_ms);
int rd_kafka_consume_start(rd_kafka_topic_t *, int32_t, int64_t);
ssize_t rd_kafka_consume_batch(rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t **,
                               size_t);
rd_kafka_message_t *rd_kafka_consume(rd_kafka_topic_t *, int32_t, int);
void rd_kafka_message_destroy(rd_kafka_message_t *);

typedef struct rd_kafka_error_s rd_kafka_error_t;
rd_kafka_error_t *rd_kafka_init_transactions(rd_kafka_t *, int timeout_ms);
rd_kafka_error_t *rd_kafka_begin_transaction(rd_kafka_t *);
rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *, int timeout_ms);
const char *rd_kafka_error_string(const rd_kafka_error_t *);
