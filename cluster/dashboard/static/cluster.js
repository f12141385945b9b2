// The view of the cluster: brokers, health, APIs, events.

import { get } from "./api.js";
import { el, foldable, growingTable, program, refill, setText } from "./dom.js";
import { count, duration, milliseconds as ms, moment, name, percent, perSecond, size } from "./format.js";
import { addressOf } from "./router.js";

const PERIOD_MS = 3000;
const ROWS = 100;

/** The view; it asks brokers only while it is open. */
export function clusterView() {
  const health = el("dl", { class: "health" });
  const who = el("p", { class: "soft who" });
  const brokers = growingTable("Brokers", ["Broker", ["State", false, true], ["Process", true], "Address", ["Leads", true], ["Replicas", true], ["Disk", true],
    ["Requests/s", true], ["In", true], ["Out", true], ["Idle", true], "Note"], { phone: 10 });
  const pushed = part("Latency as clients see it",
    ["Client", "Software", ["Broker", true, true], ["API", false, true], ["Client's mean", true, true], ["Client's max", true], ["Broker's mean", true], ["All clients' p50", true], ["All clients' p99", true], ["Pushed", true]]);
  const apis = part("Requests by API", ["Broker", ["API", false, true], ["Requests/s", true], ["p50", true], ["p95", true], ["p99", true, true], ["Local p50", true], ["Local p99", true]]);
  const events = part("Events", ["Time", "Process", ["Event", false, true]]);
  const problem = el("p", { class: "problem", hidden: true });
  const root = el("section", { "aria-labelledby": "cluster-title" },
    el("h2", { id: "cluster-title" }, "Cluster"), problem, health, who, brokers.root, pushed.root, apis.root, events.root);
  let reading = null;
  let isOpen = true;
  let isFrozen = false;

  async function ask() {
    if (!isOpen) return;
    try {
      if (!isFrozen && !document.hidden) draw(await get("api/cluster"));
      problem.hidden = true;
    } catch (wrong) {
      setText(problem, wrong.message);
      problem.hidden = false;
      if (reading !== null) draw({});
    }
    if (isOpen) setTimeout(ask, PERIOD_MS);
  }

  async function askPushed() {
    if (!isOpen) return;
    try {
      if (!isFrozen && !document.hidden) drawPushed(await get("api/pushed"));
    } catch {
      // no broker answers: `ask` has said so
    }
    if (isOpen) setTimeout(askPushed, PERIOD_MS);
  }

  function drawPushed(found) {
    pushed.root.hidden = found.latencies.length === 0;
    pushed.draw(found.latencies.map((each) => [name(each.client_id), each.software || "-", each.broker, el("span", { class: "nowrap" }, each.api),
      ms(each.avg_ms), ms(each.max_ms), ms(each.measured_ms), ms(each.p50_ms), ms(each.p99_ms), el("span", { class: "nowrap" }, `${duration(each.age_ms)} ago`)]), "",
    [`Clients push it (${program} client-metrics); the broker's mean is that of its latest requests by this client id,`
      + " those of all clients are of the last seconds. All contain the wait for replicas or, in a fetch, for data.",
    found.left_out > 0 && ` … and ${count(found.left_out)} more: ${program} client-metrics --show`],
    `${count(found.latencies.length + found.left_out)} measured by clients`);
  }

  function draw(found) {
    const told = new Map((found.brokers ?? []).map((each) => [each.id, each]));
    if (found.health) {
      refill(health, Object.entries({
        "Controller": found.controller === null ? "none" : `broker ${found.controller}`,
        "Brokers serving": reading ? `${reading.health.brokers_serving} of ${reading.health.brokers}` : "-",
        "Under-replicated": mark(found.health.under_replicated),
        "Below min ISR": mark(found.health.under_min_isr),
        "Offline": mark(found.health.offline),
        "Topics": figureLink("topics", count(found.health.topics), "topics"),
        "Groups": figureLink("groups", reading ? count(reading.groups.length + reading.groups_left_out) : "-", "groups"),
        "Partitions": count(found.health.partitions),
        "Open transactions": openTransactions(found.health),
        "Held back partitions": heldBack(found.health),
      }).map(([term, text]) => el("div", {}, el("dt", {}, term), el("dd", {}, text))));
    }
    const cluster = reading?.cluster;
    setText(who, cluster ? `Cluster ${cluster.cluster_id ?? "-"}, bootstrap.servers=${cluster.bootstrap}` : "");
    const known = reading?.cluster?.brokers ?? [];
    const rows = known.map((broker) => {
      const stats = reading.brokers.find((each) => each.broker === broker.id);
      const facts = told.get(broker.id) ?? {};
      return [
        el("span", { class: "nowrap" }, `${broker.id}${found.controller === broker.id ? " (controller)" : ""}${broker.rack ? `, rack ${name(broker.rack)}` : ""}`),
        el("span", { class: "pill", "data-state": broker.state }, broker.state), broker.pid ?? "-", el("span", { class: "nowrap" }, `${broker.host}:${broker.port}`),
        count(facts.leaders), count(facts.replicas), size(facts.disk_bytes),
        ...(stats?.rates ? [perSecond(stats.rates.RequestsPerSec), `${size(stats.rates.BytesInPerSec)}/s`,
          `${size(stats.rates.BytesOutPerSec)}/s`, percent(stats.idle)] : ["-", "-", "-", "-"]),
        stats && stats.state !== "alive" ? `${stats.state}, last wrote ${duration(stats.age_ms)} ago` : "",
      ];
    });
    brokers.draw(rows, "No brokers.");
    if (found.apis) {
      const busiest = found.apis.reduce((most, each) => (each.requests_per_s > most.requests_per_s ? each : most), { requests_per_s: 0 });
      apis.draw(found.apis.map((each) => [each.broker, each.api, perSecond(each.requests_per_s), ms(each.p50_ms), ms(each.p95_ms), ms(each.p99_ms), ms(each.local_p50_ms), ms(each.local_p99_ms)]),
        "No requests in the last seconds.",
        found.apis.length > 0 && "Time from a request's arrival to its response (TotalTimeMs), including waiting for replicas or, in a fetch, for data; local: time of the broker's thread (LocalTimeMs).",
        busiest.api ? `most ${busiest.api}, ${perSecond(busiest.requests_per_s)}/s on broker ${busiest.broker}` : "");
    }
    drawEvents();
  }

  function drawEvents() {
    const found = reading?.events ?? [];
    const last = found.at(-1);
    events.draw(found.slice(-ROWS).reverse().map((each) => [moment(each.ts), each.process, each.text]), "No events.", null, last ? `last ${moment(last.ts)}: ${last.process} ${last.text}` : "none");
  }

  ask();
  askPushed();
  return {
    root,
    update: (_rows, newReading) => { reading = newReading; },
    freeze: (frozen) => { isFrozen = frozen; },
    close: () => { isOpen = false; },
  };
}

/** A table in a part that can be folded; `draw` also takes what to tell when it is. */
function part(title, columns) {
  const rows = growingTable(title, columns, { isCaptionHidden: true });
  const { root, tell } = foldable(title, rows.root);
  return {
    root,
    draw(cells, empty, note, told) {
      rows.draw(cells, empty, note);
      tell(told);
    },
  };
}

/** A number that leads to a view; a screen reader that lists links reads what is counted, too. */
const figureLink = (view, number, counted) => el("a", { href: addressOf(view), "aria-label": `${number} ${counted}` }, number);

/** How many transactions are open, and for how long the oldest has been. */
function openTransactions(health) {
  const link = figureLink("transactions", count(health.open_transactions), "open transactions");
  return health.open_transactions ? withDetail(link, `the oldest for ${duration(health.oldest_transaction_ms)}`) : link;
}

/** Partitions in which a transaction keeps records from read_committed consumers. */
function heldBack(health) {
  if (!health.held_back) return count(health.held_back);
  const link = figureLink("transactions", count(health.held_back), "partitions held back by transactions");
  return withDetail(link, `up to ${count(health.held_back_records)} records`);
}

/** A figure, and below it in small type what it means. */
function withDetail(figure, detail) {
  return el("span", {}, figure, el("small", { class: "soft" }, detail));
}

/** A number that should be 0, marked if it is not. */
function mark(number) {
  if (number === null || number === undefined) return "-";
  return number > 0 ? el("strong", { class: "wrong" }, `▲ ${count(number)}`) : "0";
}
