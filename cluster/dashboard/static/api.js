// Requests to the dashboard, and the stream of readings.

let token = tokenOf(document);

export const mayChange = token !== "";

/** The URL of a path here, without user and password: browsers do not fetch URLs that have them. */
function addressOf(path) {
  const address = new URL(path, location.href);
  address.username = address.password = "";
  return address;
}

function tokenOf(page) {
  return page.querySelector('meta[name="milena-token"]').content;
}

async function renewToken() {
  const page = await (await fetch(addressOf("./"))).text();
  token = tokenOf(new DOMParser().parseFromString(page, "text/html"));
}

/** The response to a request; throws an Error with a line for the user, and the invalid `field` if there is one.
 * If there is no response it `isUnanswered`: what was asked for may have been done.
 */
export async function get(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return answer(await reach(() => fetch(addressOf(query ? `${path}?${query}` : path))));
}

export async function post(path, body = {}) {
  const ask = () => reach(() => fetch(addressOf(path), {
    method: "POST",
    headers: { "content-type": "application/json", "x-milena-token": token },
    body: JSON.stringify(body),
  }));
  let response = await ask();
  if (response.status === 403) {
    // A dashboard that was started again has another token, which its page tells. Nothing was changed yet.
    await reach(renewToken);
    response = await ask();
  }
  return answer(response);
}

async function reach(ask) {
  try {
    return await ask();
  } catch {
    throw Object.assign(new Error("The dashboard does not answer."), { isUnanswered: true });
  }
}

async function answer(response) {
  const found = await response.json().catch(() => null);
  if (!response.ok) {
    const wrong = new Error(found?.error ?? `The dashboard answered with status ${response.status}.`);
    throw Object.assign(wrong, { field: found?.field ?? null });
  }
  return found;
}

/** Why the stream was refused; empty if it would be accepted now. */
async function refusal() {
  const ending = new AbortController();
  const response = await fetch(addressOf("api/live"), { signal: ending.signal });
  if (!response.ok) return (await response.json()).error;
  ending.abort();
  return "";
}

/** Calls back with every reading, and with the state of the connection or the reason of a refusal. */
export function follow(onReading, onReachable) {
  let stream = null;
  const begin = () => {
    stream = new EventSource("api/live");
    stream.onopen = () => onReachable(true);
    stream.onmessage = (event) => onReading(JSON.parse(event.data));
    stream.onerror = () => {
      onReachable(false);
      if (stream.readyState !== EventSource.CLOSED) return;
      refusal().then((why) => why !== "" && onReachable(false, why), () => {});
      setTimeout(begin, 2000);
    };
  };
  begin();
  // A page in the background costs nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stream.close();
    else if (stream.readyState === EventSource.CLOSED) begin();
  });
}
