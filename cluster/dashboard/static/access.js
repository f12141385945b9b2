// The view of users who log in by SCRAM, and of access rules. It changes nothing: it names the commands that do.

import { get } from "./api.js";
import { command, el, fill, growingTable, setText } from "./dom.js";
import { count, name } from "./format.js";
import { addressOf } from "./router.js";

const PERIOD_MS = 5000;
const TYPING_MS = 300;

/** The view; it asks a broker only while it is open. Users and rules are filtered by the dashboard. */
export function accessView({ options, setOptions }) {
  const filters = [["principal", "Filter by user"], ["resource", "Filter by resource"]].map(([key, label]) => el("input", {
    type: "search", id: `${key}-filter`, name: key, placeholder: label, "aria-label": label, value: options.get(key), maxlength: "1000", oninput: typed,
  }));
  const sentence = el("p", { class: "summary" }, "Reading …");
  const problem = el("div");
  const users = growingTable("Users who log in by SCRAM", ["User", "Mechanisms", ["Quotas", true], ["Rules", true, true], "Change"], { wide: 15 });
  const rules = growingTable("Access rules", ["User", ["Right", false, true], ["Resource", false, true], "From", "Remove"]);
  const root = el("section", { class: "with-filter access", "aria-labelledby": "access-title" },
    el("div", { class: "bar" }, el("h2", { id: "access-title" }, "Users and access rules"), filters), sentence, problem, users.root, rules.root);
  let isOpen = true;
  let isFrozen = false;
  let timer = null;
  let asked = 0;
  let drawn = "";

  const chosen = () => Object.fromEntries(filters.map((each) => [each.name, each.value.trim()]).filter(([, text]) => text !== ""));

  async function ask() {
    const number = (asked += 1);
    clearTimeout(timer);
    try {
      if (!isFrozen && !document.hidden) {
        const found = await get("api/access", chosen());
        if (number !== asked || !isOpen) return;
        draw(found);
      }
    } catch (wrong) {
      if (number !== asked) return;
      drawn = "";
      fill(problem, el("p", { class: "problem" }, wrong.message));
    }
    if (isOpen && number === asked) timer = setTimeout(ask, PERIOD_MS);
  }

  function typed() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      setOptions({ principal: "", resource: "", ...chosen() });
      ask();
    }, TYPING_MS);
  }

  function draw(found) {
    const state = JSON.stringify(found);
    if (state === drawn) return;  // keeps what is folded open
    drawn = state;
    const isFiltered = Object.keys(chosen()).length > 0;
    setText(sentence, told(found));
    fill(problem, found.problems.map((text) => el("p", { class: "problem" }, text)));
    users.draw(found.users.map(userRow), isFiltered ? "No user matches." : "No user logs in by SCRAM.",
      [left(found.users_left_out, "users", isFiltered), el("span", {}, "To add one: ", command(found.add_user))]);
    rules.root.hidden = found.authorizer === null && found.rules.length === 0;
    rules.draw(found.rules.map(ruleRow), isFiltered ? "No rule matches." : "There is no rule.",
      [left(found.rules_left_out, "rules", isFiltered), el("span", {}, "To add one: ", command(found.add_rule))]);
  }

  ask();
  return {
    root,
    update: () => {},
    freeze: (frozen) => { isFrozen = frozen; },
    focusFilter: () => filters[0].focus(),
    close: () => { isOpen = false; clearTimeout(timer); },
  };
}

const left = (number, what, isFiltered) => number > 0
  && `… and ${count(number)} more ${what}: ${isFiltered ? "narrower filters" : "the filters"} find them. `;

/** What decides whether a request is allowed. */
function told(found) {
  const those = `${count(found.user_count)} ${found.user_count === 1 ? "user logs" : "users log"} in by SCRAM`;
  if (found.problems.length > 0 && found.authorizer === null) return `${those}.`;
  if (found.authorizer === null) return `${those}. There is no authorizer: every user may do everything.`;
  const supers = found.super_users.length > 0 ? ` Super users may do everything: ${found.super_users.map((each) => name(each)).join(", ")}.` : " There is no super user.";
  return `${those}; ${count(found.rule_count)} ${found.rule_count === 1 ? "rule" : "rules"}.${supers}`
    + ` A resource without a rule is ${found.allows_without_rules ? "open to every user" : "closed to all others"}.`;
}

const userRow = (each) => [
  [el("span", { class: "entity" }, name(each.user)), each.is_super && el("small", { class: "soft" }, " super user")],
  each.mechanisms.map((one) => el("div", {}, `${one.name}, ${count(one.iterations)} iterations`)),
  each.quotas > 0 ? el("a", { class: "link", href: addressOf("change", [], { user: each.user }) }, count(each.quotas)) : "none",
  each.rules > 0 ? el("a", { class: "link", href: addressOf("access", [], { principal: `User:${each.user}` }) }, count(each.rules)) : "none",
  commands(`How to change ${name(each.user)}`, [["Another password: ", each.alter], ["Remove: ", each.delete]]),
];

const ruleRow = (each) => [
  name(each.principal),
  [el("span", { class: "pill", "data-state": each.permission === "Deny" ? "down" : "up" }, each.permission), ` ${each.operation}`],
  each.resource_type === "Cluster" ? "the cluster" : [`${each.resource_type} `, el("strong", {}, name(each.name)), each.pattern_type === "Prefixed" && " and all that begin so", each.name === "*" && each.pattern_type === "Literal" && " (all)"],
  each.host === "*" ? "every address" : name(each.host),
  each.command === null ? "-" : commands("How to remove it", [["", each.command]]),
];

/** Command lines that are there when they are wanted. */
const commands = (label, lines) => el("details", {}, el("summary", { "aria-label": label }, "Command"),
  lines.map(([text, line]) => el("div", {}, text, command(line))));
