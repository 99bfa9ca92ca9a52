"""The JSON shapes of requests and responses, one file per noun."""
