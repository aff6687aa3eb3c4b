// KafkaJS: VERB BOOTSTRAP TOPIC WORDS..., as the other languages' programs.
import { createInterface } from "node:readline";
import kafkajs from "kafkajs";
import snappy from "kafkajs-snappy";

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs;
CompressionCodecs[CompressionTypes.Snappy] = snappy;
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };

const [verb, bootstrap, topic, ...words] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR, logCreator: () => console.error });
const lines = () => createInterface({ input: process.stdin });

const bytes = (word) => (word === "-" ? null : Buffer.from(word.slice(1), "hex"));
const word = (value) => (value == null ? "-" : "x" + Buffer.from(value).toString("hex"));

function headers(text) {
  const found = {};
  if (text === "-") return found;
  for (const pair of text.split(",")) {
    const [name, value] = pair.split("=");
    const one = bytes(value);
    found[name] = name in found ? [found[name], one].flat() : one;
  }
  return found;
}

function emit(partition, { offset, key, value, headers }) {
  const pairs = Object.entries(headers ?? {}).flatMap(([name, values]) =>
    [values].flat().map((one) => `${name}=${word(one)}`));
  console.log(`record ${partition} ${offset} ${word(key)} ${word(value)} ${pairs.join(",") || "-"}`);
}

async function produce(codec, id) {
  const transactional = id === "-" ? {} : { transactionalId: id, idempotent: true, maxInFlightRequests: 1 };
  const producer = kafka.producer(transactional);
  await producer.connect();
  let transaction = null;
  let messages = [];
  const flush = async () => {
    if (messages.length > 0)
      await (transaction ?? producer).send({ topic, messages, compression: CODECS[codec] });
    messages = [];
  };
  for await (const line of lines()) {
    const parts = line.split(" ");
    if (parts.length === 3) {
      messages.push({ partition: 0, key: bytes(parts[0]), value: bytes(parts[1]), headers: headers(parts[2]) });
      continue;
    }
    await flush();
    if (line === "begin") transaction = await producer.transaction();
    if (line === "commit" || line === "abort") await transaction[line]();
    console.log("done");
  }
  await producer.disconnect();
}

async function offsetAt(time) {
  const admin = kafka.admin();
  await admin.connect();
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, time);
  await admin.disconnect();
  return found.find(({ partition }) => partition === 0).offset;
}

async function fetch(start, count, level) {
  const offset = start.startsWith("@") ? await offsetAt(Number(start.slice(1))) : start;
  const groupId = `${topic}-${process.pid}-${start}`; // this library reads in groups alone
  const consumer = kafka.consumer({ groupId, readUncommitted: level === "uncommitted" });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let left = Number(count);
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (left > 0) emit(partition, message);
        if (--left === 0) resolve();
      },
    });
    consumer.seek({ topic, partition: 0, offset });
  });
  await consumer.disconnect();
}

async function member(groupId) {
  const consumer = kafka.consumer({ groupId });
  const next = {};
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    console.log(`assigned ${(payload.memberAssignment[topic] ?? []).sort().join(",")}`));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      emit(partition, message);
      next[partition] = String(BigInt(message.offset) + 1n);
    },
  });
  for await (const _ of lines()) {
    await consumer.commitOffsets(
      Object.entries(next).map(([partition, offset]) => ({ topic, partition: Number(partition), offset })));
    console.log("done");
  }
  await consumer.disconnect();
}

await { produce, fetch, member }[verb](...words);
// A connection to a seed that it made again is one that it never closes; what was said
// goes out before, since the end of a process cuts a pipe that its reader has not emptied.
process.stdout.write("", () => process.exit(0));
