"""Writing a workspace out, one module a format; `heliograph.maintenance.export.registry` lists them."""
