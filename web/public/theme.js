// Runs before anything is drawn, so that no page flashes in the colours that its reader did not choose.
const chosen = localStorage.getItem("heliograph-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
