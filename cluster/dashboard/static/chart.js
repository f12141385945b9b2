// Charts: small ones in SVG, large ones by uPlot. The limit is a dashed line, not only a color.

/* global uPlot */

const KEPT_MS = 1000;
let colors = new Map();
let keptUntil = 0;

/** A color of the page, which may change with the theme; read once for all charts of a reading. */
export function styleOf(name) {
  if (performance.now() > keptUntil) {
    colors = new Map();
    keptUntil = performance.now() + KEPT_MS;
  }
  if (!colors.has(name)) colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colors.get(name);
}

const isFinite = (value) => value !== null && Number.isFinite(value);

/** The first index and the one after the last, of each run without a gap. */
function runs(values) {
  const found = [];
  let first = 0;
  for (let at = 0; at <= values.length; at += 1) {
    if (at < values.length && values[at] !== null) continue;
    if (at > first) found.push([first, at]);
    first = at + 1;
  }
  return found;
}

const SVG = "http://www.w3.org/2000/svg";
const SPARK_SECONDS = 120;
const SPARK_HEIGHT = 100;

/** The last two minutes of a rate with its limit, small. In SVG: hundreds of canvases would make scrolling slow. */
export function sparkline() {
  const made = (tag, attributes) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const root = made("svg", { class: "spark", role: "img", viewBox: `0 0 ${SPARK_SECONDS} ${SPARK_HEIGHT}`, preserveAspectRatio: "none" });
  const [area, line, limitLine] = ["area", "line", "limit"].map((kind) => made("path", { class: kind }));
  root.append(area, line, limitLine);
  return {
    root,
    draw({ times, rates, limits }) {
      const end = times.at(-1);
      const first = Math.max(0, times.findIndex((time) => time > end - SPARK_SECONDS) - 1);
      const seen = rates.slice(first);
      const limit = limits.at(-1);
      const top = Math.max(...seen, isFinite(limit) ? limit : 0) * 1.1 || 1;
      const x = (at) => (SPARK_SECONDS - end + times[first + at]).toFixed(1);
      const y = (value) => (SPARK_HEIGHT - 4 - (value / top) * (SPARK_HEIGHT - 8)).toFixed(1);
      const drawn = times.length < 2 ? [] : runs(seen).map(([from, after]) => ({
        from, points: seen.slice(from, after).map((value, at) => `${x(from + at)} ${y(value)}`).join("L"),
      }));
      line.setAttribute("d", drawn.map(({ points }) => `M${points}`).join(""));
      area.setAttribute("d", drawn.map(({ from, points }) => `M${x(from)} ${SPARK_HEIGHT}L${points}V${SPARK_HEIGHT}Z`).join(""));
      limitLine.setAttribute("d", drawn.length > 0 && isFinite(limit) ? `M0 ${y(limit)}H${SPARK_SECONDS}` : "");
    },
  };
}

const HEIGHT = 230;
const widthOf = (place) => Math.max(240, place.clientWidth);
/** A time on an axis of this many seconds: with seconds on a short axis, with the day on a long one. */
export function timeOf(moment, span) {
  const then = new Date(moment * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const time = `${two(then.getHours())}:${two(then.getMinutes())}`;
  if (span <= 600) return `${time}:${two(then.getSeconds())}`;
  return span <= 86_400 ? time : `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} ${time}`;
}

/** Puts a mark at each moment that the chart shows. */
function placeMarks(chart, marks) {
  for (const old of chart.over.querySelectorAll(".mark")) old.remove();
  for (const { time, text } of marks) {
    const left = chart.valToPos(time, "x");
    if (left < 0 || left > chart.over.clientWidth) continue;
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.title = text;
    mark.style.left = `${left}px`;
    chart.over.append(mark);
  }
}

export const POWERS = Array.from({ length: 60 }, (_, at) => 2 ** (at - 10));

/** A large chart in `place`: times in seconds, lines of {label, values, color, dash, text}; marks are
 * moments of {time, text}, which is shown to who points at one.
 *
 * Of bytes, the steps of the axis are powers of 2: they are round in KiB and MiB.
 */
export function lineChart(place, title, times, lines, text, isBytes, marks = []) {
  const axis = { stroke: styleOf("--text"), grid: { stroke: styleOf("--line"), width: 1 }, ticks: { stroke: styleOf("--line") } };
  const clock = (_chart, moments) => moments.map((moment) => timeOf(moment, times.at(-1) - times[0]));
  const chart = new uPlot({
    title,
    width: widthOf(place),
    height: HEIGHT,
    legend: { live: true },
    hooks: { draw: [(drawn) => placeMarks(drawn, marks)] },
    scales: { y: { range: (_chart, _low, high) => [0, (high || 1) * 1.1] } },
    axes: [{ ...axis, values: clock, space: (_chart, _axis, low, high) => (high - low > 86_400 ? 140 : 70) }, { ...axis, size: 84, values: (_chart, values) => values.map(text), ...(isBytes ? { incrs: POWERS } : {}) }],
    series: [
      { label: "Time", value: (_chart, moment) => (moment === null ? "-" : new Date(moment * 1000).toLocaleString()) },
      ...lines.map((line) => ({
        label: line.label,
        stroke: styleOf(line.color),
        width: 2,
        dash: line.dash ?? [],
        ...(line.isFilled ? { fill: `color-mix(in srgb, ${styleOf(line.color)} 15%, transparent)` } : {}),
        points: { show: false },
        spanGaps: false,
        value: (_chart, value) => (isFinite(value) ? (line.text ?? text)(value) : "-"),
      })),
    ],
  }, [times, ...lines.map((line) => line.values)], place);
  return {
    update: (newTimes, values) => chart.setData([newTimes, ...values]),
    resize: () => chart.setSize({ width: widthOf(place), height: HEIGHT }),
    remove: () => chart.destroy(),
  };
}
