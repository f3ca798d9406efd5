// Before anything is painted: the theme that was chosen here last, so that nothing
// flashes. A plain script, because modules run after the page was parsed.
(() => {
  try {
    const theme = localStorage.getItem("gander.theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch {
    // No storage: the system's theme it is.
  }
})();
