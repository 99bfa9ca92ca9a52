"""The HTTP service: parses requests, calls the engine, renders what it returns."""
