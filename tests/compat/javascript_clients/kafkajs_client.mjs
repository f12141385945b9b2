// Drives kafkajs for tests/compat/test_javascript_clients.py and test_listeners_of_clients.py.
//
// Requests come as JSON, a line each, on stdin; answers leave as JSON, a line each, on stdout.
//
// It has gzip of its own and takes the other codecs from outside. These need no compiler.

import readline from "node:readline";
import { inspect } from "node:util";

import kafkajs from "kafkajs";
import snappy from "kafkajs-snappy";
import lz4 from "lz4js";
import zstd from "zstd-codec";

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs;

CompressionCodecs[CompressionTypes.Snappy] = snappy;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async ({ buffer }) => Buffer.from(lz4.compress(buffer)),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async ({ buffer }) => Buffer.from((await zstdStreams).compress(buffer)),
  decompress: async (buffer) => Buffer.from((await zstdStreams).decompress(buffer)),
});
const zstdStreams = new Promise((resolve) => {
  zstd.ZstdCodec.run((codec) => resolve(new codec.Streaming()));
});

const COMPRESSIONS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};
const ACKS = { 0: 0, 1: 1, all: -1 };
const TOPICS = ConfigResourceTypes.TOPIC;

// -- connections ------------------------------------------------------------------------------

/** A client, and the longest throttle time that brokers told it. */
function client(request) {
  const told = { throttleMs: 0 };
  const logCreator = () => ({ level, log }) => {
    const [, waits] = /throttling in effect for (\d+)ms/.exec(log.message) ?? [];
    told.throttleMs = Math.max(told.throttleMs, Number(waits ?? 0));
    if (level <= logLevel.ERROR) {
      console.error(log.message, log.error ?? "");
    }
  };
  const kafka = new Kafka({
    brokers: request.bootstrap,
    clientId: request.client_id ?? "kafkajs",
    ...protection(request.security ?? {}),
    logCreator,
    logLevel: logLevel.DEBUG, // throttle times are told in no other way
  });
  return [kafka, told];
}

/** How it protects its connections and says who it is: `Security` in ../go_clients/security.go. */
function protection({ ca, certificate, mechanism, user, password, token }) {
  return {
    ssl: ca ? { ca, cert: certificate, key: certificate } : undefined,
    sasl: mechanism && {
      mechanism: mechanism.toLowerCase(),
      username: user,
      password,
      oauthBearerProvider: async () => ({ value: token }),
    },
  };
}

async function connected(one, use) {
  await one.connect();
  try {
    return await use(one);
  } finally {
    await one.disconnect();
  }
}

const asAdmin = (request, use) => connected(client(request)[0].admin(), use);

function producerOf(kafka, request) {
  return kafka.producer({
    idempotent: request.idempotent,
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
    // An idempotent producer tries for ever; the first attempts should follow quickly.
    retry: { initialRetryTime: 50, maxRetryTime: 500 },
  });
}

// -- actions ----------------------------------------------------------------------------------

const ACTIONS = {
  "create-topic": (request) =>
    asAdmin(request, async (admin) => {
      const configEntries = entriesOf(request.configs);
      await admin.createTopics({
        topics: [
          {
            topic: request.topic,
            numPartitions: request.partitions,
            replicationFactor: request.replicas,
            configEntries,
          },
        ],
      });
    }),

  "add-partitions": (request) =>
    asAdmin(request, (admin) =>
      admin.createPartitions({
        topicPartitions: [{ topic: request.topic, count: request.partitions }],
      }),
    ),

  "delete-topic": (request) =>
    asAdmin(request, (admin) => admin.deleteTopics({ topics: [request.topic] })),

  describe: (request) =>
    asAdmin(request, async (admin) => {
      const { brokers, controller } = await admin.describeCluster();
      const { topics } = await admin.fetchTopicMetadata({ topics: [request.topic] });
      return {
        controller,
        brokers: Object.fromEntries(brokers.map((b) => [b.nodeId, `${b.host}:${b.port}`])),
        partitions: Object.fromEntries(
          topics[0].partitions.map((p) => [
            p.partitionId,
            { leader: p.leader, replicas: p.replicas, isr: p.isr },
          ]),
        ),
      };
    }),

  async produce(request) {
    const [kafka, told] = client(request);
    return connected(producerOf(kafka, request), async (producer) => {
      const began = Date.now();
      const sent = [];
      const all = request.records;
      for (const records of request.one_by_one ? all.map((record) => [record]) : [all]) {
        const results = await producer.send({
          topic: request.topic,
          acks: ACKS[request.acks],
          compression: COMPRESSIONS[request.compression],
          messages: records.map(messageOf),
        });
        // One batch for each partition, of which it tells the first offset.
        const next = new Map(results.map((r) => [r.partition, Number(r.baseOffset)]));
        for (const record of records) {
          const offset = next.get(record.partition) ?? -1;
          next.set(record.partition, offset + 1);
          sent.push({ ...record, offset });
        }
      }
      return { records: sent, elapsed_ms: Date.now() - began, throttle_ms: told.throttleMs };
    });
  },

  /** Every partition from its beginning to its present end, as the one member of a group. */
  async consume(request) {
    const bounds = Object.values(await ACTIONS.offsets({ ...request, timestamp_ms: 0 }));
    let left = bounds.reduce((sum, { earliest, latest }) => sum + latest - earliest, 0);
    const [kafka, told] = client(request);
    const read = [];
    const began = Date.now();
    await connected(kafka.consumer({ groupId: request.topic }), async (consumer) => {
      await consumer.subscribe({ topic: request.topic, fromBeginning: true });
      await new Promise((resolve, reject) => {
        consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
        const eachMessage = async ({ partition, message }) => {
          read.push(recordOf(partition, message));
          if (--left === 0) resolve();
        };
        consumer.run({ eachMessage }).catch(reject);
      });
    });
    return { records: read, elapsed_ms: Date.now() - began, throttle_ms: told.throttleMs };
  },

  offsets: (request) =>
    asAdmin(request, async (admin) => {
      const bounds = await admin.fetchTopicOffsets(request.topic);
      const then = await admin.fetchTopicOffsetsByTimestamp(request.topic, request.timestamp_ms);
      const at = new Map(then.map((p) => [p.partition, Number(p.offset)]));
      return Object.fromEntries(
        bounds.map((p) => [
          p.partition,
          { earliest: Number(p.low), latest: Number(p.high), at_timestamp: at.get(p.partition) },
        ]),
      );
    }),

  configs: (request) =>
    asAdmin(request, async (admin) => {
      const { resources } = await admin.describeConfigs({
        includeSynonyms: true,
        resources: [{ type: TOPICS, name: request.topic }],
      });
      const [{ configEntries }] = resources;
      return Object.fromEntries(configEntries.map((c) => [c.configName, c.configValue]));
    }),

  "alter-configs": (request) =>
    asAdmin(request, async (admin) => {
      const configEntries = entriesOf(request.configs);
      await admin.alterConfigs({
        validateOnly: false,
        resources: [{ type: TOPICS, name: request.topic, configEntries }],
      });
    }),

  /** Numbered records, in turn to each partition, until stdin ends. */
  async stream(request, stdinEnded) {
    const [kafka] = client(request);
    await connected(producerOf(kafka, request), async (producer) => {
      let number = 0;
      let ended = false;
      stdinEnded.then(() => (ended = true));
      // One at a time in each partition: its sequence numbers are only right so.
      const sendAll = async (partition) => {
        while (!ended) {
          const value = Buffer.from(String(number++));
          const messages = [{ partition, value }];
          const [result] = await producer.send({ topic: request.topic, acks: -1, messages });
          const told = { partition, offset: Number(result.baseOffset), value: encoded(value) };
          process.stdout.write(`${JSON.stringify(told)}\n`);
        }
      };
      await Promise.all([...Array(request.partitions).keys()].map(sendAll));
    });
  },
};

// -- records and configs as JSON ----------------------------------------------------------------

const encoded = (value) => value?.toString("base64") ?? null;
const decoded = (value) => (value === null ? null : Buffer.from(value, "base64"));
const entriesOf = (configs) =>
  Object.entries(configs ?? {}).map(([name, value]) => ({ name, value }));

function messageOf(record) {
  const headers = {};
  for (const { key, value } of record.headers) {
    (headers[key] ??= []).push(decoded(value));
  }
  return {
    partition: record.partition,
    key: decoded(record.key),
    value: decoded(record.value),
    headers,
    timestamp: String(record.timestamp_ms),
  };
}

function recordOf(partition, { key, value, headers, timestamp, offset }) {
  return {
    partition,
    key: encoded(key),
    value: encoded(value),
    headers: Object.entries(headers).flatMap(([name, values]) =>
      [values].flat().map((each) => ({ key: name, value: encoded(each) })),
    ),
    timestamp_ms: Number(timestamp),
    offset: Number(offset),
  };
}

// -- the program --------------------------------------------------------------------------------

const stdin = readline.createInterface({ input: process.stdin });
const stdinEnded = new Promise((resolve) => stdin.once("close", resolve));
stdin.on("line", async (line) => {
  const write = (told) => process.stdout.write(`${JSON.stringify(told)}\n`);
  try {
    const request = JSON.parse(line);
    const answer = await ACTIONS[request.action](request, stdinEnded);
    if (request.action !== "stream") {
      write({ answer: answer ?? null });
    }
  } catch (error) {
    write({ error: inspect(error) });
  }
});
