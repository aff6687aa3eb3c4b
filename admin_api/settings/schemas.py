"""Settings, as ``/v1`` shows them."""

from typing import Any

from pydantic import BaseModel, Field

from broker import settings as known
from broker.settings import Settings


class SettingSchema(BaseModel):
    """What can be set."""

    key: str = Field(examples=["lake.flush_ms"])
    type: str = Field(examples=["int"])
    default: Any = Field(examples=[2000])
    description: str


class Setting(SettingSchema):
    """What is set."""

    value: Any = Field(examples=[2000])
    is_default: bool


class SettingSchemaList(BaseModel):
    data: list[SettingSchema]


class SettingList(BaseModel):
    data: list[Setting]


def schema() -> SettingSchemaList:
    """Every key, as `lakelog config schema` lists them."""
    return SettingSchemaList(data=[SettingSchema(**row) for row in known.schema()])


def describe(settings: Settings) -> SettingList:
    """Every key with its value, as `lakelog config show` lists them."""
    values = known.describe(settings)
    return SettingList(
        data=[
            Setting(
                **row,
                value=values[row["key"]],
                is_default=values[row["key"]] == row["default"],
            )
            for row in known.schema()
        ]
    )
