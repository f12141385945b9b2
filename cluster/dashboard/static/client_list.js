// Rows of readings as clients: one per user and client id, those that matter first.

const QUOTAS = ["produce", "fetch", "request", "mutation"];
export const QUOTA_NAMES = { produce: "Produce", fetch: "Fetch", request: "Request time", mutation: "Partition changes", connection: "New connections" };
/** As `NEAR_FROM` of client_verdict.py. */
export const NEAR = 0.9;

/** The clients of these rows. */
export function grouped(rows) {
  const clients = new Map();
  for (const row of rows) {
    const key = JSON.stringify([row.user, row.client_id]);
    let client = clients.get(key);
    if (client === undefined) clients.set(key, (client = { key, user: row.user, client_id: row.client_id, hidden: row.hidden, rows: [] }));
    client.rows.push(row);
  }
  return [...clients.values()].map(summed);
}

function summed(client) {
  const { rows } = client;
  rows.sort((one, other) => QUOTAS.indexOf(one.quota) - QUOTAS.indexOf(other.quota));
  const live = rows.filter((row) => row.is_live);
  const throttled = live.filter((row) => row.muted_left_ms > 0 || row.delay_ms > 0);
  const judged = (throttled.length > 0 ? throttled : live).map((row) => row.honours).filter((each) => each !== null);
  const total = (...quotas) => live.reduce((sum, row) => sum + (quotas.includes(row.quota) ? row.total : 0), 0);
  return {
    ...client,
    isLive: live.length > 0,
    throttled,
    delay_ms: Math.max(0, ...throttled.map((row) => Math.max(row.delay_ms, row.muted_left_ms))),
    muted: live.reduce((sum, row) => sum + row.muted, 0),
    used: Math.max(-1, ...live.map((row) => row.utilisation ?? -1)),
    bytes: total("produce", "fetch"),
    requestTime: total("request"),
    // Each quota has the connections of the client.
    connections: Math.max(0, ...live.map((row) => row.connections)),
    software: rows.find((row) => row.software !== null)?.software ?? null,
    honours: judged.length > 0 ? judged.every(Boolean) : null,
    /** Those that it uses or that limit it. */
    quotas: rows.filter((row) => row.is_live && (row.total > 0 || row.limit !== null || row.muted_left_ms > 0)),
  };
}

/** How urgent a client is: the lower, the more. */
export function rankOf(client) {
  return client.throttled.length > 0 ? 0 : client.used >= NEAR ? 1 : 2;
}

const texts = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
const urgency = (one, other) => rankOf(one) - rankOf(other)
  || (rankOf(one) < 2 ? other.used - one.used : other.bytes - one.bytes) || other.requestTime - one.requestTime;

/** Orders in their natural direction: names from the first, amounts from the largest. */
export const ORDERS = {
  urgency: { text: "what matters", compare: urgency },
  name: { text: "client", compare: (one, other) => texts(one.client_id, other.client_id) },
  delay: { text: "throttle time", compare: (one, other) => other.delay_ms - one.delay_ms },
  rate: { text: "rate", compare: (one, other) => other.bytes - one.bytes },
  request: { text: "request time", compare: (one, other) => other.requestTime - one.requestTime },
  used: { text: "used share", compare: (one, other) => other.used - one.used },
};

export function sorted(clients, order, isReversed) {
  const sign = isReversed ? -1 : 1;
  return [...clients].sort((one, other) => sign * ORDERS[order].compare(one, other) || texts(one.key, other.key));
}

/** What happens to a client, in a few words; empty for one within its limits. */
export function stateOf(client, duration) {
  if (!client.isLive) return { word: "gone", text: "only a dead broker knows it" };
  if (client.throttled.length > 0) {
    const quotas = client.throttled.map((row) => QUOTA_NAMES[row.quota].toLowerCase()).join(" and ");
    const muted = client.muted > 0 ? `, ${client.muted} connection${client.muted > 1 ? "s" : ""} muted` : "";
    return { word: "throttled", text: `${quotas} by up to ${duration(client.delay_ms)}${muted}${honoured(client.honours)}` };
  }
  if (client.hidden === "idle") return { word: "idle", text: "no request for a minute" };
  if (client.used >= NEAR) return { word: "near its limit", text: client.honours === null ? "" : honoured(client.honours).slice(2) };
  return { word: "", text: "" };
}

export function honoured(honours) {
  return honours === null ? "" : honours ? "; honors throttle time" : "; ignores throttle time";
}

/** `9 of Milena's own tools, 5 without a request for a minute`. */
export function hiddenWords(clients) {
  const number = (reason) => clients.filter((client) => client.hidden === reason).length;
  return [[number("own"), "of Milena's own tools"], [number("idle"), "without a request for a minute"]]
    .filter(([count]) => count > 0).map(([count, why]) => `${count} ${why}`).join(", ");
}
