"""What goes over the wire: pydantic models of requests and replies, made from the domain's records."""
