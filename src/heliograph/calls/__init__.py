"""How calls to models are limited, retried and translated into our errors; calls run together."""
