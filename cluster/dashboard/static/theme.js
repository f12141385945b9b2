// Before the first paint, so that a page in the other colors does not flash up.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // storage may be forbidden
}
