// Before anything is painted: the colours that the reader chose.
(function () {
  try {
    const chosen = localStorage.getItem("recoup-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* no storage: the system's colours */ }
})();
