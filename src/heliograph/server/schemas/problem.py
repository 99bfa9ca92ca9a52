"""The bodies that failures are told in (RFC 9457)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """What failed, and what to do."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:heliograph:error:NotFoundError",
                    "title": "Not found",
                    "status": 404,
                    "detail": "there is no workspace 'research'; create it first",
                    "request_id": "5f0c1c6de0a94a7f",
                }
            ]
        }
    )

    type: str = Field(description="Kind of failure: the error's class, or `about:blank`.")
    title: str = Field(description="The kind in words.")
    status: int = Field(description="HTTP status.")
    detail: str = Field(description="What failed, which, and what to do.")
    request_id: str = Field(description="Stands in the log as well, and in the header `X-Request-ID`.")


class InvalidItem(BaseModel):
    """One field of a request that is not valid."""

    loc: list[str | int] = Field(description="Where: `body` or `query`, then the path to the field.")
    msg: str = Field(description="What is wrong.")
    type: str = Field(description="Kind of problem.")


class InvalidProblem(BaseModel):
    """A request whose fields are not valid."""

    type: str = Field(description="Kind of failure: the error's class, or `about:blank`.")
    title: str = Field(description="The kind in words.")
    status: int = Field(description="HTTP status.")
    detail: list[InvalidItem] | str = Field(description="One item a field; a text where none is to blame.")
    request_id: str = Field(description="Stands in the log as well, and in the header `X-Request-ID`.")
