// One client: a sentence, its chart, what limits it and why, and its history.

import { get, mayChange, post } from "./api.js";
import { lineChart } from "./chart.js";
import { honoured, QUOTA_NAMES } from "./client_list.js";
import { command, el, fill, table } from "./dom.js";
import { count, duration, isBytes, milliseconds, name, percent, rate } from "./format.js";
import { addressOf } from "./router.js";

const EXPLAIN_MS = 3000;
const DAY_MS = 86_400_000;
const KEYS = { produce: "producer_byte_rate", fetch: "consumer_byte_rate", request: "request_percentage", mutation: "controller_mutation_rate" };

const WHOSE = { user: "this user", "default-user": "all other users (default)", client: "this client id", "default-client": "all other client ids (default)" };

/** The dialog of a client, of its quota in the option `quota`, else of the one that decides. */
export function clientDialog({ parts: [user, client_id], options, setOptions, setTitle, past }) {
  let quota = options.get("quota");
  let isOpen = true;
  let askedAt = 0;
  let found = null;
  let chart = null;
  let old = null;
  let windows = null;

  const place = (heading, content) => el("section", {}, el("h3", {}, heading), content);
  const sentence = el("p", { class: "sentence" }, "Reading …");
  const choice = el("div", { class: "bar choice", role: "group", "aria-label": "Quota" });
  const live = el("div", { class: "chart" });
  const why = el("div");
  const brokers = el("div");
  const rules = el("div");
  const allRules = el("details", { open: !matchMedia("(max-width: 46rem)").matches }, el("summary", {}, "The eight rules, the most specific first"), rules);
  const connections = el("div");
  const measured = el("div");
  const limit = el("div");
  const history = el("div", {}, el("p", {}, "Reading …"));
  const root = el("div", { class: "one-client" }, sentence, choice, live, why,
    el("div", { class: "columns" }, brokers, allRules), connections, measured, limit, place("Last day", history));

  function choose(chosen) {
    quota = chosen;
    setOptions({ quota });
    begin();
    draw();
  }

  /** Charts of another quota have another unit. */
  function begin() {
    chart?.remove();
    chart = null;
    drawChart();
    drawHistory();
    limitOf();
  }

  async function explain() {
    askedAt = Date.now();
    try {
      found = await get("api/client", { user, client_id });
      if (!isOpen) return;
      const isFirst = quota === null;
      quota ??= (deciding(found) ?? found.quotas[0]).quota;
      if (isFirst) begin();
      draw();
    } catch (problem) {
      if (isOpen) fill(sentence, el("span", { class: "problem" }, problem.message));
    }
  }

  function draw() {
    if (found === null) return;
    const told = `${found.sentence.charAt(0).toUpperCase()}${found.sentence.slice(1)}.`;
    if (sentence.textContent !== told) fill(sentence, told);
    sentence.dataset.standing = found.standing;
    drawChoice();
    const shown = found.quotas.find((each) => each.quota === quota);
    if (shown === undefined) return;
    fill(why, el("p", {}, ruleWords(shown)), shown.limit !== null && shown.brokers.map((each) => el("p", { class: "arithmetic" }, `Broker ${each.broker}: ${each.arithmetic}`)),
      shown.brokers.map((each) => each.why_long).filter(Boolean).slice(0, 1).map((told) => el("p", {}, told)));
    fill(brokers, table("By broker", ["Broker", ["Rate", true], ["Used", true], ["Delay", true], ["Muted for", true], ["Requests", true], ["Throttled", true]],
      shown.brokers.map((each) => [
        `${each.broker}${each.state === "alive" ? "" : ` (${each.state})`}`, rate(quota, each.rate), each.utilisation === null ? "" : percent(each.utilisation),
        each.delay_ms > 0 ? duration(each.delay_ms) : "", each.muted_left_ms > 0 ? duration(each.muted_left_ms) : "", count(each.requests), count(each.throttled)])));
    fill(rules, table("The eight rules, the most specific first", ["Rule", ["Limit", true], "Applies"],
      shown.rules.map((each) => [each.rule, each.limit === null ? "not set" : rate(quota, each.limit), each.matched ? "✓ this one" : ""]), "", { isCaptionHidden: true }));
    fill(connections, el("h3", {}, "Connections and software"), connectionWords(shown).map((text) => el("p", {}, text)));
  }

  function drawChoice() {
    const kinds = found.quotas.map((each) => each.quota);
    if (choice.dataset.drawn !== kinds.join()) {
      choice.dataset.drawn = kinds.join();
      fill(choice, kinds.map((kind) => el("button", { type: "button", "data-quota": kind, onclick: () => choose(kind) }, QUOTA_NAMES[kind])));
    }
    for (const button of choice.children) button.setAttribute("aria-pressed", String(button.dataset.quota === quota));
  }

  function drawChart() {
    if (quota === null) return;
    const series = past.of(JSON.stringify([user, client_id, quota]));
    if (chart !== null) {
      chart.update(series.times, [series.rates, series.limits]);
    } else if (series.times.length >= 2) {
      const shown = quota;
      fill(live);
      chart = lineChart(live, `${QUOTA_NAMES[shown]}: rate on its busiest broker, and the limit`, series.times, [
        { label: "rate", values: series.rates, color: "--rate", isFilled: true },
        { label: "limit", values: series.limits, color: "--limit", dash: [8, 5] },
      ], (value) => rate(shown, value), isBytes(shown));
    }
  }

  async function readPushed() {
    try {
      const { latencies } = await get("api/pushed");
      const own = latencies.filter((each) => each.client_id === client_id);
      if (!isOpen || own.length === 0) return;
      fill(measured, table("What the client itself measures", [["Broker", true], "Request", ["Its mean", true], ["Its max", true], ["Broker's mean", true], ["Pushed", true]],
        own.map((each) => [each.broker, each.api, milliseconds(each.avg_ms), milliseconds(each.max_ms), milliseconds(each.measured_ms), `${duration(each.age_ms)} ago`])));
    } catch {
      // no broker answers: the sentence has said so
    }
  }

  /** A way to the form, and the command line that sets what limits it now. */
  async function limitOf() {
    if (!mayChange || quota === null) return;
    const shown = quota;
    const key = KEYS[shown];
    const now = found?.quotas.find((each) => each.quota === shown)?.limit ?? (isBytes(shown) ? 1_048_576 : 50);
    const entity = client_id === "" ? { user } : { "client-id": client_id };
    const link = el("a", { class: "button", href: addressOf("change", [], { ...entity, [key]: now }) }, "Set a limit …");
    try {
      const line = (await post("api/quotas/command", { entity, changes: { [key]: now } })).command;
      if (isOpen && quota === shown) fill(limit, el("h3", {}, "Set a limit"), el("div", { class: "bar" }, link, command(line)));
    } catch (problem) {
      if (isOpen) fill(limit, el("p", { class: "problem" }, problem.message));
    }
  }

  async function readHistory() {
    try {
      windows = await get("api/history", { user, client_id, since_ms: Date.now() - DAY_MS });
      if (isOpen) drawHistory();
    } catch (problem) {
      if (isOpen) fill(history, el("p", { class: "problem" }, problem.message));
    }
  }

  function drawHistory() {
    if (windows === null || quota === null) return;
    old?.remove();
    old = null;
    const shown = quota;
    const own = (windows.windows ?? []).filter((each) => each.quota === shown);
    if (own.length === 0) {
      fill(history, el("p", { class: "empty" }, windows.empty ?? "The rollup has no window of this client and quota in the last day."),
        windows.command && el("p", {}, command(windows.command)));
      return;
    }
    fill(history);
    old = lineChart(history, `Windows of ${windows.width_s} s from the rollup`, own.map((each) => each.start_s), [
      { label: "average", values: own.map((each) => each.rate_avg), color: "--rate", isFilled: true },
      { label: "highest", values: own.map((each) => each.rate_max), color: "--high", dash: [2, 3] },
      { label: "limit", values: own.map((each) => each.limit), color: "--limit", dash: [8, 5] },
    ], (value) => rate(shown, value), isBytes(shown));
  }

  const title = (hasUsers) => name(client_id) + (hasUsers || user !== "ANONYMOUS" ? ` as ${name(user)}` : "");
  explain();
  readHistory();
  readPushed();
  drawChart();
  limitOf();
  return {
    title: title(false),
    root,
    update(_rows, reading) {
      setTitle(title(reading.has_users));
      drawChart();
      if (Date.now() - askedAt > EXPLAIN_MS) explain();
    },
    close() {
      isOpen = false;
      chart?.remove();
      old?.remove();
    },
  };
}

/** The quota that throttles, else the one with the highest share of a limit, else the first with a rate. */
function deciding({ quotas }) {
  const worst = (quota, of) => Math.max(-1, ...quota.brokers.map((each) => of(each) ?? -1));
  const best = (of) => quotas.reduce((most, each) => (worst(each, of) > (most === null ? 0 : worst(most, of)) ? each : most), null);
  return best((each) => Math.max(each.delay_ms, each.muted_left_ms)) ?? best((each) => each.utilisation) ?? best((each) => each.rate);
}

function ruleWords({ quota, rule, limit }) {
  if (limit === null) return "No limit applies: none of the eight rules below is set for this client and quota.";
  return `The limit of ${rule.split("+").map((part) => WHOSE[part]).join(" with ")} applies (rule ${rule}): ${rate(quota, limit)} on each broker.`;
}

function connectionWords({ brokers }) {
  const open = brokers.filter((each) => each.connections > 0);
  const software = brokers.find((each) => each.software !== null)?.software;
  const told = open.map((each) => `${each.connections} to broker ${each.broker}`).join(", ");
  const judged = brokers.map((each) => each.pauses).filter((each) => each.honours_throttling !== null);
  const early = (list) => list.reduce((sum, each) => sum + each.early, 0);
  const mutes = (list) => list.reduce((sum, each) => sum + each.early + each.quiet, 0);
  return [
    `${software ? `Library: ${name(software)}.` : "It does not name its library."} ${told ? `Connections: ${told}.` : "No connection is open."}`,
    judged.length > 0 && `Requests came in ${count(early(judged))} of ${count(mutes(judged))} mutes: the client${honoured(judged.every((each) => each.honours_throttling)).slice(1)}.`,
  ].filter(Boolean);
}
