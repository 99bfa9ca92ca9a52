"""From a retrieval to an answer: written by a chat model or quoted, cited to the character, streamed."""
