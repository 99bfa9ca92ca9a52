// Runs before anything is drawn, so that no page flashes in the colours that its reader did not choose.
const chosen = localStorage.getItem("heliograph-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
// LightRAG's page, where the service has it, shows the interface in a frame, and has sections of its own around it.
if (window.top !== window) document.documentElement.dataset.framed = "";
