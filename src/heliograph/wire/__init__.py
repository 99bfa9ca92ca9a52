"""The wire format: pydantic models of requests and replies, made from the domain's records."""
