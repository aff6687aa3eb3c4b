"""The five routes that every owner of configurations has."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path
from fastapi.routing import APIRoute

from admin_api.access.audit import OutcomeDep
from admin_api.configs import owners
from admin_api.configs.owners import Owner
from admin_api.configs.schemas import (
    Alteration,
    AlterConfigs,
    AlterOperation,
    Config,
    UpdateConfig,
)
from admin_api.dependencies import KafkaDep, Text


def config_routes(
    path: str,
    owner: Callable[..., Owner],
    model: type[Config],
    listing: type[Any],
    may_alter: Any,
    example: tuple[str, str],
) -> APIRouter:
    """Routes at ``path``; the dependency ``owner`` says whose configurations, and the
    dependency ``may_alter`` refuses whoever may not change them; ``example`` is one of
    them and a value of it, for the document.
    """
    router = APIRouter(tags=["Configs"])
    whose, (key, value) = Depends(owner), example
    named = Path(description="The name of a configuration.", examples=[key])

    @router.get(path, response_model=listing, summary="List configurations")
    async def list_configs(own: Annotated[Owner, whose], kafka: KafkaDep) -> Any:
        """All of them, sorted by name."""
        found = await owners.describe(kafka, own)
        return listing(metadata=own.listed(), data=own.render_all(model, found))

    @router.post(
        f"{path}:alter",
        dependencies=[may_alter],
        status_code=204,
        summary="Alter configurations",
    )
    async def alter_configs(
        own: Annotated[Owner, whose],
        body: Annotated[AlterConfigs, Body(examples=_alterations(key, value))],
        kafka: KafkaDep,
        outcome: OutcomeDep,
    ) -> None:
        """Set or delete several, all of them or none."""
        outcome.is_dry_run = bool(body.validate_only)
        await owners.alter(kafka, own, body.data, body.validate_only)

    @router.get(path + "/{name}", response_model=model, summary="Get a configuration")
    async def get_config(
        own: Annotated[Owner, whose], name: Annotated[Text, named], kafka: KafkaDep
    ) -> Any:
        """One of them."""
        return own.render(model, await owners.find(kafka, own, name))

    @router.put(
        path + "/{name}",
        dependencies=[may_alter],
        status_code=204,
        summary="Set a configuration",
    )
    async def update_config(
        own: Annotated[Owner, whose],
        name: Annotated[Text, named],
        body: Annotated[UpdateConfig, Body(examples=[{"value": value}])],
        kafka: KafkaDep,
    ) -> None:
        """Give one of them a value."""
        await owners.alter(kafka, own, [Alteration(name=name, value=body.value)])

    @router.delete(
        path + "/{name}",
        dependencies=[may_alter],
        status_code=204,
        summary="Reset a configuration",
    )
    async def reset_config(
        own: Annotated[Owner, whose], name: Annotated[Text, named], kafka: KafkaDep
    ) -> None:
        """Give one of them back to its default."""
        reset = Alteration(name=name, operation=AlterOperation.DELETE)
        await owners.alter(kafka, own, [reset])

    return _named(router, model.__name__.removesuffix("Config").lower())


def _alterations(key: str, value: str) -> list[Any]:
    """Bodies that alter one: give it the value, and ask whether it can go back."""
    back = {"name": key, "operation": "DELETE"}
    return [
        {"data": [{"name": key, "value": value}]},
        {"data": [back], "validate_only": True},
    ]


def _named(router: APIRouter, whose: str) -> APIRouter:
    """Each operation has a name of its own: ``list_topic_configs``, and so on."""
    for route in router.routes:
        assert isinstance(route, APIRoute)
        route.name = route.name.replace("config", f"{whose}_config")
    return router
