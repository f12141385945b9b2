// The views and dialogs of the page, each with its address.
//
// `make` gets { past, parts, options, setOptions } and returns { root, update(rows, reading), close(),
// freeze?(isFrozen), focusFilter?() }; a dialog or a page also returns `title`, or a dialog calls `setTitle` of what it gets.
// `setOptions({ name: value })` keeps what a user has chosen in the address.

import { accessView } from "./access.js";
import { capacityView } from "./capacity.js";
import { actionDialog, changeView, removalDialog } from "./change.js";
import { clientsView } from "./clients.js";
import { clusterView } from "./cluster.js";
import { clientDialog } from "./detail.js";
import { isGuarded } from "./dom.js";
import { groupPage } from "./group.js";
import { resetDialog } from "./group_reset.js";
import { groupsView } from "./groups.js";
import { homeView } from "./home.js";
import { messagesPage } from "./messages.js";
import { produceDialog } from "./produce.js";
import { topicPage } from "./topic.js";
import { topicsView } from "./topics.js";
import { abortDialog, terminateDialog, transactionDialog, transactionsView } from "./transactions.js";

/** In the order of the navigation and of the keys 1 to 9; the first is shown when the address names none.
 * One that is `isUnlisted` has an address only.
 */
export const VIEWS = [
  { name: "home", title: "Home", make: homeView },
  { name: "clients", title: "Clients", make: clientsView },
  { name: "topics", title: "Topics", make: topicsView },
  { name: "groups", title: "Groups", make: groupsView },
  { name: "transactions", title: "Transactions", make: transactionsView },
  { name: "cluster", title: "Cluster", make: clusterView },
  { name: "capacity", title: "Capacity", make: capacityView },
  { name: "change", title: "Change", make: changeView },
  { name: "access", title: "Access", make: accessView, isUnlisted: !isGuarded },
];

/** `#name/part/...` with that many parts, beneath the view of that name; the last part is `last` if one is given. */
export const PAGES = [
  { name: "groups", parts: 1, make: groupPage },
  { name: "topics", parts: 2, last: "messages", make: messagesPage },
  { name: "topics", parts: 1, make: topicPage },
];

/** As pages; `over` is the view beneath it if no view is shown yet, with `overParts` parts the page beneath it. */
export const DIALOGS = [
  { name: "clients", parts: 2, over: "clients", make: clientDialog },
  { name: "brokers", parts: 2, over: "change", make: actionDialog },
  { name: "remove-quota", parts: 1, over: "change", make: removalDialog },
  { name: "groups", parts: 2, last: "reset", over: "groups", overParts: 1, make: resetDialog },
  { name: "topics", parts: 2, last: "produce", over: "topics", overParts: 1, make: produceDialog },
  { name: "transactions", parts: 1, over: "transactions", make: transactionDialog },
  { name: "terminate", parts: 1, over: "transactions", make: terminateDialog },
  { name: "abort", parts: 3, over: "transactions", make: abortDialog },
];
