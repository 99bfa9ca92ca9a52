"""Chat models behind one contract: messages in, a reply or a stream of its pieces out.

`base` builds the model of the settings with its wrappers (cache, retry, limit, meter, timeout) in order; `openai` is
the one provider. Prompts and the meaning of replies belong to ingest and query.
"""
