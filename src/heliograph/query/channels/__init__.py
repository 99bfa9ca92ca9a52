"""The plain ways of searching, one module each; bridges and the walk over the graph are `heliograph.query.fusion`."""
