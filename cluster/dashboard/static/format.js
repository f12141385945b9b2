// Numbers for people. Units as the command line shows them.

const BYTES = ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"];
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

function scaled(value, units) {
  let number = Math.abs(value);
  let at = 0;
  while (number >= 1024 && at < units.length - 1) {
    number /= 1024;
    at += 1;
  }
  const digits = number >= 100 || at === 0 ? 0 : number >= 10 ? 1 : 2;
  return `${(value < 0 ? -number : number).toFixed(digits)} ${units[at]}`;
}

export const isBytes = (quota) => quota === "produce" || quota === "fetch";

/** The unit of a quota of that kind, per second. */
export function rate(quota, value) {
  if (value === null || value === undefined) return "-";
  if (isBytes(quota)) return scaled(value, BYTES);
  if (quota === "request") return `${value.toFixed(value < 10 ? 2 : 1)} %`;
  return `${value.toFixed(value < 10 ? 2 : 1)} /s`;
}

export const size = (bytes) => (bytes === null || bytes === undefined ? "-" : scaled(bytes, SIZES));
export const count = (value) =>
  value === null || value === undefined ? "-" : Math.round(value).toLocaleString("en");
export const perSecond = (value) => (value < 10 ? value.toFixed(1) : count(value));
export const percent = (share) =>
  share === null || share === undefined ? "-" : Number.isFinite(share) ? `${Math.round(share * 100)} %` : "∞";

export function duration(ms) {
  if (ms === null || ms === undefined) return "-";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** A time of a request, to the microsecond if it is short. */
export const milliseconds = (value) => (value === null || value === undefined ? "-" : value < 1 ? `${Math.round(value * 1000)} µs` : `${value.toFixed(1)} ms`);

/** The lag of all groups together; that of some partitions may be unknown. */
export const totalLag = (groups) => `${groups.some((each) => each.partitions_unknown > 0) ? "at least " : ""}${count(groups.reduce((sum, each) => sum + each.lag, 0))}`;

/** The time of day, with the date unless it is today. */
export function moment(ms) {
  const then = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  const time = [then.getHours(), then.getMinutes(), then.getSeconds()].map(two).join(":");
  if (then.toDateString() === new Date().toDateString()) return time;
  return `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} ${time}`;
}

/** A name on one line, shortened in the middle; an empty name is shown as such. */
export function name(text, longest = 60) {
  if (text === "") return "(empty)";
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  return line.length <= longest ? line : `${line.slice(0, longest - 10)}…${line.slice(-9)}`;
}
