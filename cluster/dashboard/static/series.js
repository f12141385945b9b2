// What the page remembers of each client: five minutes, so that charts have a past.

const SECONDS = 300;

/** Times and values of one client and quota: the highest rate of a broker, and its limit. */
class Series {
  constructor() {
    this.times = [];
    this.rates = [];
    this.limits = [];
    this.delays = [];
  }

  add(time, rate, limit, delay) {
    this.times.push(time);
    this.rates.push(rate);
    this.limits.push(limit);
    this.delays.push(delay);
    while (this.times.length > 0 && this.times[0] < time - SECONDS) {
      this.times.shift();
      this.rates.shift();
      this.limits.shift();
      this.delays.shift();
    }
  }
}

/** All series by key; a client that is gone from the readings is forgotten with its last value. */
export class Past {
  #series = new Map();

  add(time, clients) {
    for (const client of clients) {
      let series = this.#series.get(client.key);
      if (series === undefined) this.#series.set(client.key, (series = new Series()));
      series.add(time, client.rate, client.limit, client.delay_ms);
    }
    for (const [key, series] of this.#series) {
      if (series.times.at(-1) < time - SECONDS) this.#series.delete(key);
    }
  }

  of(key) {
    return this.#series.get(key) ?? new Series();
  }
}

/** One row per client and quota, from a reading: what its brokers say, put together. */
export function clientsOf(reading) {
  return reading.clients.map((client) => {
    const brokers = client.brokers.map(withInfinity);
    const live = brokers.filter((broker) => broker.state !== "dead");
    const told = live.length > 0 ? live : brokers;
    const worst = told.reduce((one, other) =>
      (other.utilisation ?? -1) > (one.utilisation ?? -1) || (one.utilisation === null && other.rate > one.rate)
        ? other : one);
    const sum = (field) => told.reduce((total, broker) => total + (broker[field] ?? 0), 0);
    const most = (field) => told.reduce((top, broker) => Math.max(top, broker[field] ?? 0), 0);
    return {
      key: JSON.stringify([client.user, client.client_id, client.quota]),
      user: client.user,
      client_id: client.client_id,
      quota: client.quota,
      is_live: live.length > 0,
      broker: worst.broker,
      rate: worst.rate,
      limit: worst.limit,
      utilisation: worst.utilisation,
      rule: worst.rule,
      delay_ms: most("delay_ms"),
      muted_left_ms: most("muted_left_ms"),
      muted_brokers: told.filter((broker) => broker.muted_left_ms > 0).length,
      connections: sum("connections"),
      throttled: sum("throttled"),
      throttle_avg_ms: sum("throttled") > 0 ? sum("throttle_ms") / sum("throttled") : 0,
      software: told.map((broker) => broker.software).find((text) => text) ?? null,
      honours: honours(told),
      brokers,
    };
  });
}

/** JSON has no infinity: the use of a limit of 0 comes as null. */
function withInfinity(broker) {
  return broker.limit === 0 && broker.rate > 0 ? { ...broker, utilisation: Infinity } : broker;
}

function honours(brokers) {
  const told = brokers.map((broker) => broker.pauses?.honours_throttling).filter((each) => each !== undefined && each !== null);
  if (told.length === 0) return null;
  return told.every(Boolean);
}
