// The home view: the whole cluster at a glance, over a range of time, with what has happened.

import { levelOf, sentenceOf, signOf } from "./events.js";
import { command, el, fill, setText } from "./dom.js";
import { count, duration, moment, name, percent, size, totalLag } from "./format.js";
import { followRange, rangeSwitch, RANGES } from "./history.js";
import { historyChart } from "./history_chart.js";
import { addressOf } from "./router.js";

const EVENTS_MAX = 100;
const BROKERS_MAX = 8;
const BUSY = "busy:";
const NARROW = matchMedia("(max-width: 46rem)");
/** On a wide screen two rows of charts and the latest events fill the window. */
const heightOf = () => (NARROW.matches ? 128 : Math.min(360, Math.max(150, (innerHeight - 380) / 2 - 60)));
const bytes = (value) => `${size(value)}/s`;
const ms = (value) => (value > 0 && value < 1 ? `${Math.round(value * 1000)} µs` : value > 0 && value < 10 ? `${value.toFixed(1)} ms` : duration(value));
const figure = (value) => (Math.abs(value) < 10 ? String(Math.round(value * 10) / 10) : count(value));

const CHARTS = [
  { title: "Throughput", note: "Bytes of record batches that clients produce and fetch", text: bytes, isBytes: true,
    lines: [{ name: "bytes_in", label: "in" }, { name: "bytes_out", label: "out" }] },
  { title: "Produce latency", note: "TotalTimeMs: from a request's arrival to its response, with the wait for replicas", text: ms,
    lines: [{ name: "produce_p50_ms", label: "p50" }, { name: "produce_p99_ms", label: "p99" }] },
  { title: "Fetch latency", note: "TotalTimeMs of consumers, with the wait for data", text: ms,
    lines: [{ name: "fetch_p50_ms", label: "p50" }, { name: "fetch_p99_ms", label: "p99" }] },
  { title: "Lag", note: "Records that all groups together have not consumed yet", text: figure, lines: [{ name: "lag", label: "records" }] },
  { title: "Throttle time", note: "Mean throttle time of the responses that had one", text: ms, lines: [{ name: "throttle_ms", label: "mean" }] },
  { title: "CPU", note: "Use of each broker's thread: at 100 % a broker serves no more", text: percent, isShare: true, lines: null },
];

/** The lines of brokers: if there are many, those that are busiest. */
function brokerLines(values) {
  const names = Object.keys(values).filter((name) => name.startsWith(BUSY));
  const sum = (name) => values[name].reduce((total, value) => total + (value ?? 0), 0);
  return names.sort((one, other) => sum(other) - sum(one)).slice(0, BROKERS_MAX)
    .map((name) => ({ name, label: `broker ${name.slice(BUSY.length)}` }))
    .sort((one, other) => one.label.localeCompare(other.label, "en", { numeric: true }));
}

/** The view; its range is an option of the address. */
export function homeView({ options, setOptions }) {
  let range = RANGES.find((each) => each.name === options.get("range")) ?? RANGES[1];
  let following = null;
  let isFrozen = false;

  const tiles = summary();
  const problem = el("p", { class: "problem", hidden: true });
  const nothing = el("div", { class: "empty", hidden: true });
  const charts = CHARTS.map((each) => ({ ...each, chart: historyChart({ ...each, height: heightOf }) }));
  const worstLink = el("a", { class: "link", hidden: true });
  charts.find((each) => each.title === "Lag").chart.root.querySelector("h3").after(worstLink);
  const grid = el("div", { class: "histories" }, charts.map(({ chart }) => chart.root));
  const events = eventList((event) => charts.forEach(({ chart }) => chart.point(event)));
  const root = el("section", { class: "home", "aria-labelledby": "home-title" },
    el("h2", { id: "home-title", class: "hidden" }, "Home"), tiles.root,
    el("div", { class: "bar" }, rangeSwitch(RANGES, range, choose), el("p", { class: "soft hint" }, "Point at a chart, or focus it and use ← →, to read its values and events.")),
    problem, nothing, grid, events.root);

  /** Below the chart of the lag of all groups, the one with the most. */
  function linkWorst(groups) {
    const worst = worstOf(groups);
    worstLink.hidden = worst === null;
    if (worst === null) return;
    worstLink.href = addressOf("groups", [worst.group]);
    setText(worstLink, `most in ${name(worst.group, 30)}`);
  }

  function choose(chosen) {
    range = chosen;
    setOptions({ range: chosen.name });
    begin();
  }

  function begin() {
    following?.close();
    root.dataset.range = "";
    following = followRange(range, draw, (text) => {
      setText(problem, text);
      problem.hidden = text === "";
    });
    following.freeze(isFrozen);
  }

  function draw(figures) {
    const isEmpty = Boolean(figures.empty);
    nothing.hidden = !isEmpty;
    grid.hidden = isEmpty;
    events.root.hidden = isEmpty;
    root.dataset.range = figures.range;
    if (isEmpty) {
      fill(nothing, el("p", {}, figures.empty), el("p", {}, command(figures.command)),
        el("p", {}, "It keeps the history on disk; 2 min to 6 h are in this dashboard's memory and need nothing."));
      return;
    }
    for (const { chart, lines } of charts) chart.update(figures, lines ?? brokerLines(figures.values));
    events.update(figures.events);
    tiles.updateEvent(figures.events.at(-1));
  }

  const resize = () => charts.forEach(({ chart }) => chart.resize());
  window.addEventListener("resize", resize);
  begin();
  return {
    root,
    update: (rows, reading) => {
      tiles.update(rows, reading);
      linkWorst(reading.groups);
    },
    freeze: (frozen) => {
      isFrozen = frozen;
      following.freeze(frozen);
    },
    close: () => {
      following.close();
      window.removeEventListener("resize", resize);
      charts.forEach(({ chart }) => chart.close());
    },
  };
}

/** The row on top. */
function summary() {
  const cells = Object.fromEntries(["State", "Brokers", "Topics", "Groups", "Throttled now", "Lag", "Last event"].map((term) => [term, el("dd", {}, "-")]));
  const root = el("dl", { class: "health glance" }, Object.entries(cells).map(([term, value]) => el("div", { "data-term": term }, el("dt", {}, term), value)));
  const linkTo = (term, view) => {
    const link = el("a", { href: addressOf(view) }, "-");
    const tell = (text) => {
      setText(link, text);
      link.setAttribute("aria-label", `${text} (${term.toLowerCase()})`);
    };
    fill(cells[term], link);
    return { link, tell };
  };
  const throttledLink = linkTo("Throttled now", "clients");
  const topicsLink = linkTo("Topics", "topics");
  const groupsLink = linkTo("Groups", "groups");
  const lagLink = linkTo("Lag", "groups");
  const pill = el("span", { class: "pill" }, "-");
  fill(cells.State, pill);
  return {
    root,
    update(rows, { health, groups, counts, groups_left_out: more }) {
      setText(pill, health.state);
      pill.dataset.state = health.state;
      setText(cells.Brokers, `${health.brokers_serving} of ${health.brokers}`);
      cells.Brokers.classList.toggle("wrong", health.brokers_serving < health.brokers);
      topicsLink.tell(count(counts.topics));
      groupsLink.tell(count(groups.length + more));
      const throttled = new Set(rows.filter((row) => row.muted_left_ms > 0 || row.delay_ms > 0).map((row) => JSON.stringify([row.user, row.client_id])));
      throttledLink.tell(throttled.size === 1 ? "1 client" : `${count(throttled.size)} clients`);
      const worst = worstOf(groups);
      lagLink.tell(totalLag(groups));
      lagLink.link.href = worst === null ? addressOf("groups") : addressOf("groups", [worst.group]);
      lagLink.link.title = worst === null ? "" : `most in group ${worst.group}: ${count(worst.lag)}`;
    },
    updateEvent(event) {
      if (event === undefined) return;
      setText(cells["Last event"], `${signOf(event.kind)} ${sentenceOf(event)}, ${ago(event.ts)}`);
    },
  };
}

/** The group that is farthest behind; null if none is. */
const worstOf = (groups) => groups.reduce((most, each) => (each.lag > (most?.lag ?? 0) ? each : most), null);

const ago = (ts) => {
  const past = Math.max(0, Date.now() - ts);
  if (past < 60_000) return `${Math.round(past / 1000)} s ago`;
  return past < 3_600_000 ? `${Math.round(past / 60_000)} min ago` : `${Math.round(past / 3_600_000)} h ago`;
};

/** The events of the range, newest first; one that is pointed at is marked in the charts. */
function eventList(onPoint) {
  const list = el("ol", { class: "events" });
  const title = el("h3", { id: "events-title" }, "Events");
  const root = el("div", { class: "card" }, title,
    el("div", { class: "events-scroll", tabindex: "0", role: "region", "aria-labelledby": "events-title" }, list));
  let shown = "";
  return {
    root,
    update(events) {
      const newest = events.slice(-EVENTS_MAX).reverse();
      const key = `${newest.length} ${newest[0]?.ts} ${newest[0]?.number} ${newest.at(-1)?.number}`;
      if (key === shown) return;
      shown = key;
      setText(title, `Events in this range: ${count(events.length)}`);
      fill(list, newest.map((each) => {
        const point = () => onPoint(each);
        const leave = () => onPoint(null);
        return el("li", { onmouseenter: point, onmouseleave: leave, "data-level": levelOf(each.kind), "data-kind": each.kind },
          el("time", {}, moment(each.ts)), el("span", { class: "sign", "aria-hidden": "true" }, signOf(each.kind)),
          el("span", {}, el("span", { class: "hidden" }, `${each.kind}: `), sentenceOf(each)));
      }), newest.length === 0 && el("li", { class: "empty" }, "None."));
    },
  };
}
