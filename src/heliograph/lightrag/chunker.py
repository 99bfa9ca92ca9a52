"""Splits a text into windows of tokens, with the signature of LightRAG's chunking functions."""

from __future__ import annotations

from typing import Any

from heliograph.lightrag.exceptions import ChunkTokenLimitExceededError
from heliograph.lightrag.utils import TokenizerInterface


def chunking_by_token_size(
    tokenizer: TokenizerInterface,
    content: str,
    split_by_character: str | None = None,
    split_by_character_only: bool = False,
    chunk_overlap_token_size: int = 100,
    chunk_token_size: int = 1200,
) -> list[dict[str, Any]]:
    """Return the chunks of a text: `tokens`, `content` without white space around it, `chunk_order_index`.

    A text is split at `split_by_character` first; pieces that are too long are cut into windows, or left as they are.

    Raises:
        ChunkTokenLimitExceededError: A piece is too long and may not be cut.
        ValueError: The sizes contradict each other.
    """
    if not 0 <= chunk_overlap_token_size < chunk_token_size:
        raise ValueError(
            f"chunk_overlap_token_size is {chunk_overlap_token_size}; it must be from 0 to less than "
            f"chunk_token_size ({chunk_token_size})"
        )
    step = chunk_token_size - chunk_overlap_token_size
    found: list[tuple[int, str]] = []
    for piece in content.split(split_by_character) if split_by_character else (content,):
        tokens = tokenizer.encode(piece)
        if split_by_character and len(tokens) <= chunk_token_size:
            found.append((len(tokens), piece))
        elif split_by_character and split_by_character_only:
            raise ChunkTokenLimitExceededError(len(tokens), chunk_token_size, piece)
        else:
            for start in range(0, len(tokens), step):
                window = tokens[start : start + chunk_token_size]
                found.append((len(window), tokenizer.decode(window)))
    return [
        {"tokens": count, "content": text.strip(), "chunk_order_index": index}
        for index, (count, text) in enumerate(found)
    ]
