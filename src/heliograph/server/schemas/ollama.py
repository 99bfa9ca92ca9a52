"""Requests and replies of Ollama's API, as far as it is emulated; what else a client sends is ignored."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class OllamaMessage(BaseModel):
    """One message."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"role": "user", "content": "/naive What is MQTT?"}]})

    role: str = Field(max_length=64, description="`system`, `user` or `assistant`; others are left out.")
    content: str | None = Field(None, description="Messages without it are left out.")
    images: list[str] | None = Field(None, description="Ignored.")


class OllamaReplyMessage(BaseModel):
    """What is answered."""

    role: Literal["assistant"]
    content: str
    images: list[str] | None = Field(None, description="There are none.")


class OllamaChatRequest(BaseModel):
    """A conversation."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "heliograph:latest",
                    "messages": [{"role": "user", "content": "/naive What is MQTT?"}],
                    "stream": False,
                }
            ]
        }
    )

    model: str = Field(max_length=256)
    messages: list[OllamaMessage] = Field(min_length=1, max_length=1024)
    stream: bool = True
    system: str | None = None


class OllamaGenerateRequest(BaseModel):
    """A prompt for the chat model itself."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "heliograph:latest", "prompt": "Write a haiku."}]}
    )

    model: str = Field(max_length=256)
    prompt: str
    stream: bool = False
    system: str | None = None


class _Reply(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: str
    created_at: str
    done: bool
    done_reason: str | None = None
    total_duration: int | None = Field(None, description="Nanoseconds.")
    load_duration: int | None = None
    prompt_eval_count: int | None = Field(None, description="Tokens read.")
    prompt_eval_duration: int | None = None
    eval_count: int | None = Field(None, description="Tokens written.")
    eval_duration: int | None = None


class OllamaChatReply(_Reply):
    """A reply, or a line of one."""

    message: OllamaReplyMessage


class OllamaGenerateReply(_Reply):
    """A completion, or a line of one."""

    response: str


class OllamaFailure(BaseModel):
    """A failure in Ollama's shape, with the fields of a problem beside it."""

    error: str
    type: str
    status: int
    request_id: str


class OllamaVersion(BaseModel):
    """The version of Ollama whose API is emulated."""

    version: str


class OllamaModels(BaseModel):
    """The models there are: one a mode."""

    models: list[dict[str, Any]]
