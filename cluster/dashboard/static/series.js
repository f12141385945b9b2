// The last five minutes of each client, so that charts have a past.

const SECONDS = 300;
const GAP_SECONDS = 5;

/** Times and values of one client and quota: the highest rate of a broker, and its limit. */
class Series {
  constructor() {
    this.times = [];
    this.rates = [];
    this.limits = [];
  }

  /** After a long time without a reading, null makes a gap in the line. */
  add(time, rate, limit) {
    const last = this.times.at(-1);
    if (last !== undefined && time - last > GAP_SECONDS) this.#push((last + time) / 2, null, null);
    this.#push(time, rate, limit);
    while (this.times.length > 0 && this.times[0] < time - SECONDS) {
      this.times.shift();
      this.rates.shift();
      this.limits.shift();
    }
  }

  #push(time, rate, limit) {
    this.times.push(time);
    this.rates.push(rate);
    this.limits.push(limit);
  }
}

/** All series by key; a client that leaves the readings is forgotten after its last value. */
export class Past {
  #series = new Map();

  add(time, clients) {
    for (const client of clients) {
      let series = this.#series.get(client.key);
      if (series === undefined) this.#series.set(client.key, (series = new Series()));
      series.add(time, client.rate, client.limit);
    }
    for (const [key, series] of this.#series) {
      if (series.times.at(-1) < time - SECONDS) this.#series.delete(key);
    }
  }

  /** Takes samples of the dashboard (`api/series/clients`) that precede the readings. */
  load({ ts, series }) {
    for (const [user, client_id, quota, rates, limits] of series) {
      const key = JSON.stringify([user, client_id, quota]);
      const own = this.#series.get(key) ?? new Series();
      const first = own.times[0] ?? Infinity;
      const earlier = ts.map((time) => time / 1000).filter((time) => time < first);
      own.times.unshift(...earlier);
      own.rates.unshift(...rates.slice(0, earlier.length));
      own.limits.unshift(...limits.slice(0, earlier.length));
      if (own.times.length > 0) this.#series.set(key, own);
    }
  }

  of(key) {
    return this.#series.get(key) ?? new Series();
  }
}

/** The rows of the readings: a reading has new rows, changed cells and removed rows, or, if it has columns, all rows. */
export class Clients {
  #columns = [];
  #rows = new Map();

  /** The rows after a reading; a changed row is a new object, so that a frozen view keeps its own. */
  take(reading) {
    if (reading.columns !== undefined) {
      this.#columns = reading.columns;
      this.#rows.clear();
    }
    for (const [number, user, client_id, quota, ...cells] of reading.new) {
      const row = { key: JSON.stringify([user, client_id, quota]), user, client_id, quota };
      cells.forEach((value, column) => { row[this.#columns[column]] = value; });
      this.#rows.set(number, withInfinity(row));
    }
    for (const [number, ...changes] of reading.changed ?? []) {
      const row = { ...this.#rows.get(number) };
      for (let at = 0; at < changes.length; at += 2) row[this.#columns[changes[at]]] = changes[at + 1];
      this.#rows.set(number, withInfinity(row));
    }
    for (const number of reading.gone ?? []) this.#rows.delete(number);
    return [...this.#rows.values()];
  }
}

/** JSON has no infinity: an exceeded limit of 0 arrives as null. */
function withInfinity(row) {
  if (row.limit === 0 && row.utilisation === null) row.utilisation = Infinity;
  return row;
}
