"""Requests and replies of Ollama and of OpenAI's chat completions, as far as chat clients use them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from heliograph.wire.query import SPEAKERS, QueryFields

# Requests and replies of Ollama's API, as far as it is emulated; other fields of requests are ignored.


class OllamaMessage(BaseModel):
    """One message."""

    role: str = Field(max_length=64, description="`system`, `user` or `assistant`; others are left out.")
    content: str | None = Field(None, description="Messages without it are left out.")
    images: list[str] | None = Field(None, description="Ignored.")


class OllamaReplyMessage(BaseModel):
    """The message of a reply."""

    role: Literal["assistant"]
    content: str
    images: list[str] | None = Field(None, description="There are none.")


class OllamaChatRequest(BaseModel):
    """A conversation."""

    model: str = Field(max_length=256)
    messages: list[OllamaMessage] = Field(min_length=1, max_length=1024)
    stream: bool = True
    system: str | None = None


class OllamaGenerateRequest(BaseModel):
    """A prompt for the chat model itself."""

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
    context: list[int] | None = Field(None, description="On the last line: no tokens, since nothing goes on from them.")


class OllamaFailure(BaseModel):
    """A failure in Ollama's shape, with the fields of a problem beside it."""

    error: str
    detail: str = Field(description="The same, where LightRAG's clients read it.")
    type: str
    status: int
    request_id: str


class OllamaVersion(BaseModel):
    """The version of Ollama whose API is emulated."""

    version: str


class OllamaModels(BaseModel):
    """The available models: one per mode."""

    models: list[dict[str, Any]]


# Requests and replies of OpenAI's chat completions, as far as they are emulated.
#
# Sampling parameters and tools are ignored; options that would change the form of the reply and are not supported are
# refused.

_SPEAKERS = SPEAKERS | {"developer"}


class _Text(BaseModel):
    type: Literal["text"] = Field(description="Only text is read.")
    text: str


class _Refusal(BaseModel):
    type: Literal["refusal"] = Field(description="Why a model did not answer; left out.")


_Part = Annotated[_Text | _Refusal, Field(discriminator="type")]


class _Message(BaseModel):
    role: str = Field(
        min_length=1, max_length=64, description="`system`, `developer`, `user` or `assistant`; others are left out."
    )
    content: str | list[_Part] | None = None

    @model_validator(mode="before")
    @classmethod
    def _leave_out_others(cls, message: Any) -> Any:
        """Keep only the role of a message that is left out, whatever it holds."""
        role = message.get("role") if isinstance(message, dict) else None
        return {"role": role} if isinstance(role, str) and role not in _SPEAKERS else message

    @property
    def text(self) -> str:
        """The text of all parts."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if isinstance(part, _Text))
        return self.content or ""


class _StreamOptions(BaseModel):
    include_usage: bool | None = False


class _ResponseFormat(BaseModel):
    type: Literal["text"]


class CompletionRequest(BaseModel):
    """A conversation."""

    model: str = Field(max_length=256)
    messages: list[_Message] = Field(min_length=1, max_length=1024)
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    n: Literal[1] | None = Field(1, description="Only one choice is offered.")
    response_format: _ResponseFormat | None = Field(None, description="Only text is offered.")
    heliograph: QueryFields = Field(
        default_factory=lambda: QueryFields.model_validate({}),
        description="How the question is searched for and answered; send it as `extra_body`.",
    )


class ModelCard(BaseModel):
    """A model: a mode of questions."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class ChatCompletion(BaseModel):
    """A whole reply; the message's `annotations` and the field `heliograph` cite its sources."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, int]
    heliograph: dict[str, Any] = Field(description="References, citations and warnings.")


class _Failure(BaseModel):
    message: str
    type: str
    param: str | None
    code: str
    request_id: str


class CompletionFailure(BaseModel):
    """A failure in OpenAI's shape."""

    error: _Failure
