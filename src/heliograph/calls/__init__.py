"""How calls to models are limited, retried, shared out to runs and translated into our errors; calls run together."""
