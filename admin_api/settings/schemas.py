"""Settings, as ``/v1`` shows them."""

from typing import Any

from pydantic import BaseModel, Field

from broker import settings as known
from broker.settings import Settings


class SettingSchema(BaseModel):
    """What can be set."""

    key: str = Field(
        description="Its key, as in the file and after `-X`.",
        examples=["lake.flush_ms"],
    )
    type: str = Field(description="What its values are.", examples=["int"])
    default: Any = Field(description="Its value if nobody sets it.", examples=[2000])
    description: str = Field(
        description="What it does.", examples=["How long records wait for their table."]
    )


class Setting(SettingSchema):
    """What is set."""

    value: Any = Field(description="Its value here.", examples=[2000])
    is_default: bool = Field(description="Whether that is its default.")


class SettingSchemaList(BaseModel):
    """All that can be set."""

    data: list[SettingSchema] = Field(description="Sorted by key.")


class SettingList(BaseModel):
    """What is set."""

    data: list[Setting] = Field(description="Sorted by key; secrets are not shown.")


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
