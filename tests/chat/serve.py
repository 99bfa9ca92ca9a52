"""Serves a model by llama.cpp on loopback until standard input is closed.

Run as a process of its own, so that a hang in native code blocks nobody and its end frees everything:
`python serve.py MODEL_FILE MODEL_NAME ADDRESS_FILE`. The address is written once the server listens.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import xllamacpp

CONTEXT_TOKENS = 4096
THREADS = 2


def main() -> None:
    model, name, address = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {name}
    params.port = 0  # any free one
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.cache_ram_mib = 64
    params.warmup = False
    params.ui = False
    params.endpoint_slots = True
    params.verbosity = 1
    server = xllamacpp.Server(params)
    part = address.with_suffix(".part")
    part.write_text(server.listening_address)
    part.replace(address)  # so that nobody reads half an address
    sys.stdin.read()
    # Not the orderly way out: that would wait for a generation under way.
    os._exit(0)


if __name__ == "__main__":
    main()
