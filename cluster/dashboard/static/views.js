// The views and dialogs of the page, each with its address. All but the first view are loaded when they are visited.
//
// `make` gets { past, parts, options, setOptions, setTitle } and returns { root, update(rows, reading), close(),
// freeze?(isFrozen), focusFilter?() }; a dialog or a page also returns `title`, or calls `setTitle`.
// `setOptions({ name: value })` keeps what a user has chosen in the address.

import { isGuarded } from "./dom.js";
import { homeView } from "./home.js";
import { onDemand } from "./on_demand.js";

const change = () => import("./change.js");
const transactions = () => import("./transactions.js");

/** In the order of the navigation and of the keys 1 to 9; the first is shown when the address names none.
 * One that is `isUnlisted` has an address only.
 */
export const VIEWS = [
  { name: "home", title: "Home", make: homeView },
  { name: "clients", title: "Clients", make: onDemand(() => import("./clients.js"), (it) => it.clientsView) },
  { name: "topics", title: "Topics", make: onDemand(() => import("./topics.js"), (it) => it.topicsView) },
  { name: "groups", title: "Groups", make: onDemand(() => import("./groups.js"), (it) => it.groupsView) },
  { name: "transactions", title: "Transactions", make: onDemand(transactions, (it) => it.transactionsView) },
  { name: "cluster", title: "Cluster", make: onDemand(() => import("./cluster.js"), (it) => it.clusterView) },
  { name: "capacity", title: "Capacity", make: onDemand(() => import("./capacity.js"), (it) => it.capacityView) },
  { name: "change", title: "Change", make: onDemand(change, (it) => it.changeView) },
  { name: "access", title: "Access", make: onDemand(() => import("./access.js"), (it) => it.accessView), isUnlisted: !isGuarded },
];

/** `#name/part/...` with that many parts, beneath the view of that name; the last part is `last` if one is given.
 * `title` is that of the window until the page is loaded.
 */
export const PAGES = [
  { name: "groups", parts: 1, title: "Groups", make: onDemand(() => import("./group.js"), (it) => it.groupPage) },
  { name: "topics", parts: 2, last: "messages", title: "Messages", make: onDemand(() => import("./messages.js"), (it) => it.messagesPage) },
  { name: "topics", parts: 1, title: "Topics", make: onDemand(() => import("./topic.js"), (it) => it.topicPage) },
];

/** As pages; `over` is the view beneath it if no view is shown yet, with `overParts` parts the page beneath it. */
export const DIALOGS = [
  { name: "clients", parts: 2, over: "clients", make: onDemand(() => import("./detail.js"), (it) => it.clientDialog) },
  { name: "brokers", parts: 2, over: "change", make: onDemand(change, (it) => it.actionDialog) },
  { name: "remove-quota", parts: 1, over: "change", make: onDemand(change, (it) => it.removalDialog) },
  { name: "groups", parts: 2, last: "reset", over: "groups", overParts: 1, make: onDemand(() => import("./group_reset.js"), (it) => it.resetDialog) },
  { name: "topics", parts: 2, last: "produce", over: "topics", overParts: 1, make: onDemand(() => import("./produce.js"), (it) => it.produceDialog) },
  { name: "transactions", parts: 1, over: "transactions", make: onDemand(transactions, (it) => it.transactionDialog) },
  { name: "terminate", parts: 1, over: "transactions", make: onDemand(transactions, (it) => it.terminateDialog) },
  { name: "abort", parts: 3, over: "transactions", make: onDemand(transactions, (it) => it.abortDialog) },
];
