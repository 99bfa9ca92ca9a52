"""How calls to models are limited, retried and translated into our errors; shared by chat, embedding and rerank."""
