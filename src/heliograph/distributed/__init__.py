"""Reading documents on many machines: messages to workers and back, and the service that reaches the store for them."""
