// What a report adds where scripts run: values under the pointer, files of charts, a filter. The page is whole without it.
"use strict";
(() => {
  document.documentElement.classList.add("script");
  const SCALE = 2; // of a picture's pixels
  const MARGIN = { left: 66, right: 76, top: 12 };
  const SVG = "http://www.w3.org/2000/svg";
  // A picture has no style sheet.
  const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin", "vector-effect", "font-family", "font-size", "font-weight", "text-anchor", "overflow", "paint-order"];
  const known = new WeakMap();
  const chosen = new WeakMap();
  const iso = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19);
  const clock = (seconds) => iso(seconds).replace("T", " ");
  const named = (text) => text.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "").slice(0, 80) || "chart";

  function dataOf(figure) {
    if (!known.has(figure)) known.set(figure, JSON.parse(figure.querySelector("script").textContent));
    return known.get(figure);
  }

  function make(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // ---- values
  function number(value) {
    const size = Math.abs(value);
    return value.toLocaleString("en", { minimumFractionDigits: size < 10 ? 2 : size < 100 ? 1 : 0, maximumFractionDigits: size < 10 ? 2 : size < 100 ? 1 : 0 });
  }

  function shown(series, value) {
    const scaled = value / series.divisor;
    if (series.unit !== "ms") return `${number(scaled)} ${series.unit}`;
    return scaled < 1000 ? `${number(scaled)} ms` : `${number(scaled / 1000)} s`;
  }

  /** Of each name with a value at that step: its line, and its values in words. */
  function valuesAt(data, at) {
    const found = new Map();
    for (const series of data.series) {
      const value = series.values[at];
      if (value === null || (series.before && value === 0)) continue;
      const entry = found.get(series.name) ?? { line: series.line, words: [] };
      entry.words.push(`${series.before ? `${series.before} ` : ""}${shown(series, value)}`);
      found.set(series.name, entry);
    }
    return found;
  }

  function eventsAt(data, at) {
    const begin = data.first + at * data.step;
    return (data.events ?? []).filter(([time]) => time >= begin && time < begin + data.step).map(([, text]) => text);
  }

  const stepsOf = (data) => data.series[0].values.length;

  // ---- the pointer and the keys
  function point(figure, at, speak) {
    const data = dataOf(figure);
    const frame = figure.querySelector(".frame");
    let tip = frame.querySelector(".values-here");
    if (!tip) {
      tip = make("div", "values-here");
      tip.ariaHidden = "true";
      frame.append(make("div", "cross"), tip);
    }
    const cross = frame.querySelector(".cross");
    const x = ((at + 0.5) / stepsOf(data)) * frame.clientWidth;
    const time = `${clock(data.first + at * data.step)} UTC`;
    const here = valuesAt(data, at);
    const events = eventsAt(data, at);
    tip.replaceChildren(make("b", "", time));
    for (const [name, { line, words }] of here) {
      const row = make("div");
      const sample = figure.querySelector(`[data-line="${line}"] svg`);
      if (sample) row.append(sample.cloneNode(true));
      row.append(make("span", "", name), make("span", "value", words.join(", ")));
      tip.append(row);
    }
    if (here.size === 0) tip.append(make("div", "", "no data"));
    for (const text of events.slice(0, 8)) tip.append(make("p", "", text));
    if (events.length > 8) tip.append(make("p", "", `${events.length - 8} more events`));
    tip.hidden = cross.hidden = false;
    cross.style.left = `${x}px`;
    const beyond = x + tip.offsetWidth + 14 > frame.clientWidth;
    tip.style.left = `${beyond ? Math.max(x - tip.offsetWidth - 14, Math.min(0, frame.clientWidth - tip.offsetWidth)) : x + 14}px`;
    chosen.set(figure, at);
    if (speak) {
      const told = [...here].map(([name, { words }]) => `${name} ${words.join(", ")}`);
      document.getElementById("said").textContent = [time, ...(told.length ? told : ["no data"]), ...events].join("; ");
    }
  }

  function unpoint(figure) {
    for (const each of figure.querySelectorAll(".cross, .values-here")) each.hidden = true;
  }

  document.addEventListener("pointermove", (event) => {
    const frame = event.target.closest?.(".plot:not(.heat) .frame");
    for (const other of document.querySelectorAll(".values-here:not([hidden])")) if (!frame?.contains(other)) unpoint(other.closest("figure"));
    if (!frame) return;
    const figure = frame.closest("figure");
    const place = frame.getBoundingClientRect();
    const count = stepsOf(dataOf(figure));
    point(figure, Math.max(0, Math.min(count - 1, Math.floor(((event.clientX - place.left) / place.width) * count))));
  });

  document.addEventListener("keydown", (event) => {
    const figure = event.target.matches?.(".plot:not(.heat) .frame") ? event.target.closest("figure") : null;
    if (!figure) return;
    const count = stepsOf(dataOf(figure));
    const at = chosen.get(figure) ?? -1;
    const to = { ArrowRight: at + 1, ArrowLeft: at < 0 ? count - 1 : at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: count - 1 }[event.key];
    if (event.key === "Escape") unpoint(figure);
    if (to === undefined) return;
    event.preventDefault();
    point(figure, Math.max(0, Math.min(count - 1, to)), true);
  });
  document.addEventListener("focusout", (event) => {
    if (event.target.matches?.(".frame")) unpoint(event.target.closest("figure"));
  });

  // ---- values as a table, and as a file
  function table(data) {
    if (data.table) return data.table;
    const rows = [];
    for (let at = 0; at < stepsOf(data); at += 1) {
      const row = [iso(data.first + at * data.step), ...data.series.map((series) => series.values[at])];
      if (data.events) row.push(eventsAt(data, at).join("; "));
      rows.push(row);
    }
    return { columns: ["time, UTC", ...data.series.map((series) => series.column), ...(data.events ? ["events"] : [])], rows };
  }

  /** A cell of a file; a text that a spreadsheet would take for a formula is quoted. */
  function cell(value) {
    let text = value === null ? "" : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r\n]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function save(blob, name) {
    const link = make("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  function toggleTable(figure, button) {
    const before = figure.querySelector(".as-table");
    button.ariaExpanded = String(!before);
    if (before) {
      before.remove();
      return;
    }
    const { columns, rows } = table(dataOf(figure));
    const place = make("div", "as-table");
    place.tabIndex = 0;
    place.role = "region";
    place.ariaLabel = `Values of ${dataOf(figure).title}`;
    const made = make("table");
    const head = made.createTHead().insertRow();
    for (const column of columns) {
      const heading = make("th", "", column);
      heading.scope = "col";
      head.append(heading);
    }
    const body = made.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      for (const value of row) line.insertCell().textContent = value === null ? "" : typeof value === "number" ? value.toLocaleString("en") : value;
    }
    place.append(made);
    figure.append(place);
  }

  // ---- pictures
  function styled(node, copy) {
    const look = getComputedStyle(node);
    if (look.display === "none") return false;
    copy.removeAttribute("class");
    for (const name of LOOKS) copy.setAttribute(name, look.getPropertyValue(name));
    if (look.vectorEffect === "non-scaling-stroke") {
      for (const name of ["stroke-width", "stroke-dasharray"]) copy.setAttribute(name, look.getPropertyValue(name).replace(/[\d.]+/g, (length) => length * SCALE));
    }
    const copies = [...copy.children];
    [...node.children].forEach((child, at) => {
      if (!styled(child, copies[at])) copies[at].remove();
    });
    return true;
  }

  function put(parent, tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  /** The chart as it is seen, with its title and legend. */
  function picture(figure) {
    const source = figure.querySelector("svg.chart");
    const { width, height } = source.getBoundingClientRect();
    const page = getComputedStyle(figure.closest(".card"));
    const font = { "font-family": page.fontFamily, fill: page.color };
    const root = document.createElementNS(SVG, "svg");
    const whole = Math.ceil(width + MARGIN.left + MARGIN.right);
    const back = put(root, "rect", { width: "100%", height: "100%", fill: page.backgroundColor });
    const heading = figure.closest(".card").querySelector("h2").innerText.replaceAll("\n", " ");
    put(root, "text", { x: 14, y: MARGIN.top + 16, "font-size": 16, "font-weight": 600, ...font }, heading);
    let x = 14;
    let y = MARGIN.top + 42;
    for (const button of figure.querySelectorAll(".legend button[aria-pressed=true]")) {
      if (x > 14 && x + button.offsetWidth > whole) [x, y] = [14, y + 22];
      const sample = button.querySelector("svg").cloneNode(true);
      styled(button.querySelector("svg"), sample);
      sample.setAttribute("x", x);
      sample.setAttribute("y", y - 11);
      root.append(sample);
      put(root, "text", { x: x + 42, y, "font-size": 13, ...font }, button.textContent);
      x += button.offsetWidth + 22;
    }
    const top = y + 14;
    const copy = source.cloneNode(true);
    styled(source, copy);
    for (const [name, value] of Object.entries({ x: MARGIN.left, y: top, width, height, overflow: "visible" })) copy.setAttribute(name, value);
    root.append(copy);
    for (const [name, value] of Object.entries({ xmlns: SVG, width: whole, height: Math.ceil(top + height + 8) })) root.setAttribute(name, value);
    back.setAttribute("height", root.getAttribute("height"));
    return root;
  }

  async function png(figure) {
    const drawn = picture(figure);
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(drawn))}`;
    await image.decode();
    const canvas = make("canvas");
    canvas.width = drawn.getAttribute("width") * SCALE;
    canvas.height = drawn.getAttribute("height") * SCALE;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, `${named(dataOf(figure).title)}.png`), "image/png");
  }

  // ---- buttons
  function showLine(button) {
    const figure = button.closest("figure");
    const on = button.ariaPressed !== "true";
    button.ariaPressed = String(on);
    for (const each of figure.querySelectorAll(`.chart .${button.dataset.line}`)) each.classList.toggle("off", !on);
  }

  const doing = {
    png,
    csv(figure) {
      const { columns, rows } = table(dataOf(figure));
      const lines = [columns, ...rows].map((row) => row.map(cell).join(","));
      save(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }), `${named(dataOf(figure).title)}.csv`);
    },
    table: toggleTable,
    all: (_, button) => unfold(button),
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.line) showLine(button);
    doing[button?.dataset.do]?.(button.closest("figure"), button);
  });

  // ---- lists that begin with a part
  const itemsOf = (list) => [...list.querySelectorAll(".chart-card, .clients tbody, .listed tbody tr")];
  const isCut = (list) => itemsOf(list).some((each) => !each.hidden && each.getClientRects().length === 0);

  function unfold(button) {
    const list = button.closest(".folded");
    const next = itemsOf(list).find((each) => each.getClientRects().length === 0);
    list.classList.remove("folded");
    list.dataset.whole = "";
    button.hidden = true;
    const heading = next?.querySelector("th, h2, td");
    if (!heading) return;
    heading.tabIndex = -1;
    heading.focus();
  }

  function listen(list) {
    const filter = document.getElementById("filter");
    const all = list.querySelector("[data-do=all]");
    const clients = itemsOf(list);
    const names = clients.map((each) => each.querySelector("th").textContent.toLowerCase());
    filter.addEventListener("input", () => {
      const asked = filter.value.trim().toLowerCase();
      clients.forEach((each, at) => {
        each.hidden = !names[at].includes(asked);
      });
      list.classList.toggle("folded", !asked && list.dataset.whole === undefined);
      all.hidden = !isCut(list);
      const count = clients.filter((each) => !each.hidden).length;
      document.getElementById("found").textContent = asked ? `${count} of ${clients.length}` : "";
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const list of document.querySelectorAll(".folded")) list.querySelector("[data-do=all]").hidden = !isCut(list);
    const list = document.getElementById("list");
    if (list) listen(list);
  });
})();
