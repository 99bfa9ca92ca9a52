// Light or dark: as the system has it, unless the switch says otherwise. A script of its own, before anything is shown.
(() => {
  const KEY = "heliograph-theme", root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (localStorage.getItem(KEY) ?? (system.matches ? "dark" : "light")) === "dark";

  function show() {
    root.dataset.theme = isDark() ? "dark" : "light";
    document.getElementById("theme")?.setAttribute("aria-pressed", String(isDark()));
  }

  function change() {
    const wanted = isDark() ? "light" : "dark";
    // What the system has anyway is not kept, so that the page goes on following it.
    if ((wanted === "dark") === system.matches) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, wanted);
    show();
  }

  show();
  system.addEventListener("change", show);
  addEventListener("storage", show);
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", change);
    show();
  });
})();
