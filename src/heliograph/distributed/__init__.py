"""Reading documents on many machines: messages to workers and back, and the workers' access to the store."""
