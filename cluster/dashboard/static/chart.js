// Charts: small ones drawn by hand, large ones by uPlot. The limit is a dashed line, not only a colour.

/* global uPlot */

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const isFinite = (value) => value !== null && Number.isFinite(value);

/** Draws the last minutes of a rate with its limit into a small canvas. */
export function sparkline(canvas, series) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 120;
  const height = canvas.clientHeight || 26;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, width, height);
  const { times, rates, limits } = series;
  if (times.length < 2) return;
  const limit = limits.at(-1);
  const top = Math.max(...rates, isFinite(limit) ? limit : 0) * 1.1 || 1;
  const end = times.at(-1);
  const x = (time) => width - ((end - time) / 120) * width;
  const y = (value) => height - 1 - (value / top) * (height - 2);
  pen.lineWidth = 1.5;
  pen.strokeStyle = style("--rate");
  pen.beginPath();
  times.forEach((time, at) => (at ? pen.lineTo(x(time), y(rates[at])) : pen.moveTo(x(time), y(rates[at]))));
  pen.stroke();
  if (isFinite(limit)) {
    pen.setLineDash([4, 3]);
    pen.strokeStyle = style("--limit");
    pen.beginPath();
    pen.moveTo(0, y(limit));
    pen.lineTo(width, y(limit));
    pen.stroke();
    pen.setLineDash([]);
  }
}

const POWERS = Array.from({ length: 60 }, (_, at) => 2 ** (at - 10));

/** A large chart in `place`: times in seconds, lines of {label, values, color, dash, text}.
 *
 * Of bytes, the steps of the axis are powers of 2: they are round in KiB and MiB.
 */
export function lineChart(place, title, times, lines, text, isBytes) {
  const axis = { stroke: style("--text"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") } };
  const chart = new uPlot({
    title,
    width: Math.max(280, place.clientWidth),
    height: 220,
    legend: { live: true },
    scales: { y: { range: (_chart, _low, high) => [0, (high || 1) * 1.1] } },
    axes: [axis, { ...axis, size: 84, values: (_chart, values) => values.map(text), ...(isBytes ? { incrs: POWERS } : {}) }],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: style(line.color),
        width: 2,
        dash: line.dash ?? [],
        points: { show: false },
        spanGaps: false,
        value: (_chart, value) => (isFinite(value) ? (line.text ?? text)(value) : "-"),
      })),
    ],
  }, [times, ...lines.map((line) => line.values)], place);
  return {
    update: (newTimes, values) => chart.setData([newTimes, ...values]),
    resize: () => chart.setSize({ width: Math.max(280, place.clientWidth), height: 220 }),
    remove: () => chart.destroy(),
  };
}
