"""Reading documents on many machines: what is sent there, what comes back, and who answers for the store."""
