// Members of consumer groups by kafkajs, for tests/compat/member_hosts.py.
//
// Orders come as JSON, a line each, on stdin: to start a member, or to have it leave. What happens
// to a member is written as JSON, a line each. When stdin ends, all leave.

import readline from "node:readline";

import kafkajs from "kafkajs";

const { Kafka, PartitionAssigners, logLevel } = kafkajs;

const HEARTBEAT_MS = 500;

/** Its only assignor calls itself RoundRobinAssigner; other languages' members know another name. */
const roundRobin = (facts) => ({ ...PartitionAssigners.roundRobin(facts), name: "roundrobin" });

function tell(told) {
  process.stdout.write(`${JSON.stringify(told)}\n`);
}

async function start(order) {
  const { member } = order;
  const kafka = new Kafka({
    brokers: order.bootstrap,
    clientId: order.client,
    logLevel: logLevel.ERROR,
    logCreator: () => ({ log }) => console.error(log.message, log.error ?? ""),
    retry: { initialRetryTime: 50, maxRetryTime: 500 },
  });
  const consumer = kafka.consumer({
    groupId: order.group,
    sessionTimeout: order.session_ms,
    heartbeatInterval: HEARTBEAT_MS,
    maxWaitTimeInMs: 100,
    partitionAssigners: [roundRobin],
  });
  let had = "";
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const partitions = Object.entries(payload.memberAssignment)
      .flatMap(([topic, numbers]) => numbers.map((number) => [topic, number]))
      .sort(([topic, a], [other, b]) => (topic === other ? a - b : topic < other ? -1 : 1));
    if (JSON.stringify(partitions) !== had) {
      had = JSON.stringify(partitions);
      tell({ member, event: "assigned", partitions });
    }
  });
  await consumer.connect();
  await consumer.subscribe({ topics: order.topics, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      const offset = Number(message.offset);
      tell({ member, event: "record", topic, partition, offset, value: String(message.value) });
      try {
        await consumer.commitOffsets([{ topic, partition, offset: String(offset + 1) }]);
      } catch (error) {
        tell({ member, event: "commit failed", text: error.type ?? error.message });
        throw error;
      }
    },
  });
  return consumer;
}

const members = new Map();

async function leave(member) {
  const consumer = await members.get(member);
  members.delete(member);
  await consumer.disconnect();
  tell({ member, event: "closed" });
}

const stdin = readline.createInterface({ input: process.stdin });
stdin.on("line", (line) => {
  const order = JSON.parse(line);
  if (order.do === "start") {
    members.set(order.member, start(order));
  } else {
    leave(order.member);
  }
});
stdin.once("close", async () => {
  await Promise.all([...members.keys()].map(leave));
});
