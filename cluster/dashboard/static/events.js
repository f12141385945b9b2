// The kinds of events: each has a sign of its own, so that nobody needs to tell colors apart.

const KINDS = {
  death: ["✕", "over"], failure: ["!", "over"], fault: ["⚡", "over"],
  start: ["▲", "fine"], resume: ["▶", "fine"], add: ["+", "fine"],
  stop: ["■", "near"], pause: ["‖", "near"], restart: ["↻", "near"], signal: ["~", "near"], remove: ["−", "near"],
  controller: ["◆", "high"], election: ["◇", "high"], rebalance: ["⇄", "high"], quota: ["≡", "limit"],
};

export const signOf = (kind) => KINDS[kind]?.[0] ?? "•";
export const levelOf = (kind) => KINDS[kind]?.[1] ?? "high";

/** What has happened, in a sentence. */
export const sentenceOf = (event) => `${event.subject} ${event.text}`;

/** Events closer to each other than this many milliseconds, together: their marks would overlap. */
export function clustersOf(events, width) {
  const found = [];
  for (const event of events) {
    const last = found.at(-1);
    if (last !== undefined && event.ts - last.ts < width) last.events.push(event);
    else found.push({ ts: event.ts, events: [event] });
  }
  return found;
}

const ORDER = ["over", "limit", "near", "high", "fine"];

/** The event whose sign stands for a cluster: what is worst. */
export const worstOf = (cluster) =>
  cluster.events.reduce((worst, each) => (ORDER.indexOf(levelOf(each.kind)) < ORDER.indexOf(levelOf(worst.kind)) ? each : worst));
