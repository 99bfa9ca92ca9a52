"""Corrections of the graph as LightRAG's clients send them, and what they get back.

Properties come as free JSON, as LightRAG takes them; what is not valid in them is a 400, as there. `source_id` and
`file_path` are taken and left as they are: here they follow from the documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from heliograph.errors import InvalidRequestError

EntityName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2048)]

_KEPT = ("source_id", "file_path")
_ENTITY_FIELDS = ("entity_name", "entity_type", "description", *_KEPT)
_RELATION_FIELDS = ("description", "keywords", "weight", *_KEPT)


class EntityUpdateRequest(BaseModel):
    """What to change of an entity."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"entity_name": "ESP32", "updated_data": {"description": "A microcontroller."}}]
        }
    )

    entity_name: EntityName = Field(description="The entity, by any spelling or alias.")
    updated_data: dict[str, Any] = Field(
        description="`entity_name` (a new name), `entity_type` and `description`; `source_id` and `file_path` are left."
    )
    allow_rename: bool = Field(False, description="Whether the entity may get another name.")
    allow_merge: bool = Field(False, description="Whether it is merged into what has that name, if there is such.")

    def known_data(self) -> Mapping[str, Any]:
        """Return the changes.

        Raises:
            InvalidRequestError: Another property is among them.
        """
        return _only(self.updated_data, _ENTITY_FIELDS, "entity")


class RelationUpdateRequest(BaseModel):
    """What to change of a relation."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"source_id": "ESP32", "target_id": "MQTT", "updated_data": {"keywords": "speaks,over TLS"}}]
        }
    )

    source_id: EntityName = Field(description="Name of one entity.")
    target_id: EntityName = Field(description="Name of the other.")
    updated_data: dict[str, Any] = Field(
        description="`description`, `keywords` and `weight`; `source_id` and `file_path` are left as they are."
    )

    def known_data(self) -> Mapping[str, Any]:
        """Return the changes.

        Raises:
            InvalidRequestError: Another property is among them.
        """
        return _only(self.updated_data, _RELATION_FIELDS, "relation")


class EntityCreateRequest(BaseModel):
    """A new entity."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"entity_name": "ESP32", "entity_data": {"description": "A microcontroller.", "entity_type": "device"}}
            ]
        }
    )

    entity_name: EntityName
    entity_data: dict[str, Any] = Field(description="`description`, which is needed, and `entity_type`.")


class RelationCreateRequest(BaseModel):
    """A new relation between two entities that exist."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "source_entity": "ESP32",
                    "target_entity": "MQTT",
                    "relation_data": {"description": "The ESP32 speaks MQTT.", "keywords": "speaks", "weight": 1.0},
                }
            ]
        }
    )

    source_entity: EntityName
    target_entity: EntityName
    relation_data: dict[str, Any] = Field(description="`description`, which is needed, `keywords` and `weight`.")


class EntityMergeRequest(BaseModel):
    """Entities that are one."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"entities_to_change": ["ESP-32", "Esp 32"], "entity_to_change_into": "ESP32"}]}
    )

    entities_to_change: Annotated[list[EntityName], Field(min_length=1, max_length=1000)]
    entity_to_change_into: EntityName = Field(description="One of them, another entity, or a new name.")


class DeleteEntityRequest(BaseModel):
    """An entity to hide."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"entity_name": "ESP32"}]})

    entity_name: EntityName


class DeleteRelationRequest(BaseModel):
    """A relation to hide."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"source_entity": "ESP32", "target_entity": "MQTT"}]})

    source_entity: EntityName
    target_entity: EntityName


class EditResponse(BaseModel):
    """What became of a thing."""

    status: Literal["success"] = "success"
    message: str
    data: dict[str, Any] = Field(description="The thing as it is now: its names, `source_id` and `graph_data`.")
    curation_ids: list[str] = Field(description="What was recorded, to be undone by these ids.")


class OperationSummary(BaseModel):
    """What an edit of an entity came to."""

    merged: bool
    merge_status: Literal["success", "failed", "not_attempted"]
    merge_error: str | None = None
    operation_status: Literal["success", "partial_success", "failure"]
    target_entity: str | None = None
    final_entity: str
    renamed: bool


class EntityEditResponse(EditResponse):
    """What became of an entity that was edited."""

    operation_summary: OperationSummary


class DeletionResult(BaseModel):
    """What was hidden."""

    status: Literal["success"] = "success"
    doc_id: str = Field(default="", description="Always empty.")
    message: str
    status_code: int = 200
    file_path: str | None = None
    curation_ids: list[str] = Field(description="What was recorded, to be undone by this id.")


def read_text(data: Mapping[str, Any], field: str, *, is_needed: bool = False) -> str | None:
    """Return a property that is text; None if it is not given.

    Raises:
        InvalidRequestError: It is something else, or it is needed and missing or blank.
    """
    value = data.get(field)
    if value is None and not is_needed:
        return None
    if not isinstance(value, str):
        raise InvalidRequestError(f"{field} must be a text, got {type(value).__name__}: {value!r:.80}")
    if is_needed and not value.strip():
        raise InvalidRequestError(f"{field} cannot be empty; say something of it")
    return value


def read_keywords(data: Mapping[str, Any]) -> list[str] | None:
    """Return keywords given as one text, separated by commas; None if there are none given.

    Raises:
        InvalidRequestError: They are something else.
    """
    text = read_text(data, "keywords")
    return None if text is None else [word for part in re.split(r"[,，、;；]", text) if (word := part.strip())]


def read_weight(data: Mapping[str, Any]) -> float | None:
    """Return the weight, a number or one written as text; None if it is not given.

    Raises:
        InvalidRequestError: It is something else.
    """
    value = data.get("weight")
    if value is None:
        return None
    try:
        return float("bool" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidRequestError(f"weight must be a number, got {value!r:.80}") from None


def _only(data: Mapping[str, Any], fields: tuple[str, ...], kind: str) -> Mapping[str, Any]:
    unknown = sorted(data.keys() - set(fields))
    if unknown:
        raise InvalidRequestError(
            f"{unknown[0]!r:.80} is no property of this {kind} that can be changed; those are {', '.join(fields)}"
        )
    return {key: value for key, value in data.items() if key not in _KEPT}
