"""One file of routes per noun; each offers a `router`."""
