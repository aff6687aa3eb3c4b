"""What can be set, and what is."""

from fastapi import APIRouter

from admin_api.dependencies import SettingsDep
from admin_api.settings.schemas import (
    SettingList,
    SettingSchemaList,
    describe,
    schema,
)

router = APIRouter(prefix="/v1", tags=["Settings"])


@router.get("/config", summary="List settings")
async def list_settings(settings: SettingsDep) -> SettingList:
    """The settings that the admin plane was started with.

    `lakelog up` starts all parts with the same ones; a broker that was started alone
    shows its own under `/v3`, by their Kafka names.
    """
    return describe(settings)


@router.get("/config/schema", summary="Get the schema of settings")
async def get_schema() -> SettingSchemaList:
    """Every setting with its type, default and meaning."""
    return schema()
