"""A client that is generated from our document, asked of a real plane and broker.

OpenAPI Generator makes it, which makes Confluent's own clients, too: a class for each
shape, and every answer has to fit into its class.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from admin_api.lake import Lake
from tests.support.patience import STUCK_S
from tests.support.tables import Writer

PACKAGE = "lakelog_client"
GENERATOR = Path(sys.executable).with_name("openapi-generator-cli")
PARTS = (
    "models,apis,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,"
    "modelDocs=false"
)


@pytest.fixture(scope="module")
def generated(plane, tmp_path_factory):
    """The package."""
    where = tmp_path_factory.mktemp("generated")
    document = where / "openapi.json"
    document.write_text(json.dumps(plane.get("/openapi.json").json()))
    words = [GENERATOR, "generate", "-g", "python", "-i", document, "-o", where]
    words += ["--package-name", PACKAGE, "--global-property", PARTS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=STUCK_S)
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(where)
        yield importlib.import_module(PACKAGE)


@pytest.fixture(scope="module")
def client(generated, address):
    """Its APIs by their names, asking the plane."""
    host, port = address
    configuration = generated.Configuration(host=f"http://{host}:{port}")
    with generated.ApiClient(configuration) as asking:
        yield SimpleNamespace(
            clusters=generated.ClusterApi(asking),
            topics=generated.TopicApi(asking),
            records=generated.RecordsApi(asking),
            configs=generated.ConfigsApi(asking),
            groups=generated.ConsumerGroupApi(asking),
            tables=generated.TablesApi(asking),
            health=generated.ClusterHealthApi(asking),
        )


@pytest.fixture(scope="module")
def cluster_id(client):
    [cluster] = client.clusters.list_clusters().data
    return cluster.cluster_id


@pytest.fixture(scope="module")
def topic(generated, client, cluster_id):
    wanted = generated.CreateTopic(topic_name="made", partitions_count=2)
    return client.topics.create_topic(cluster_id, wanted)


def test_a_topic_is_made_listed_and_configured(generated, client, cluster_id, topic):
    assert (topic.topic_name, topic.partitions_count) == ("made", 2)
    listed = client.topics.list_topics(cluster_id)
    assert "made" in [one.topic_name for one in listed.data]
    where = {"cluster_id": cluster_id, "topic_name": "made"}
    one = where | {"name": "retention.ms"}
    change = generated.UpdateConfig(value="5000")
    client.configs.update_topic_config(**one, update_config=change)
    found = client.configs.get_topic_config(**one)
    assert (found.value, found.source) == ("5000", "DYNAMIC_TOPIC_CONFIG")
    every = client.configs.list_topic_configs(**where).data
    assert found in every
    defaults = client.configs.list_default_topic_configs(**where).data
    assert [entry.name for entry in defaults] == [entry.name for entry in every]


def test_null_for_all_that_it_was_not_told_is_taken(generated, client, cluster_id):
    wanted = generated.CreateTopic(topic_name="nulls")
    said = dict.fromkeys(generated.CreateTopic.model_fields) | wanted.to_dict()
    made = client.topics.create_topic(cluster_id, generated.CreateTopic(**said))
    assert made.partitions_count == 1


def test_records_are_produced_and_read(generated, client, cluster_id, topic):
    data = generated.ProduceData(type="STRING", data="v")
    record = generated.ProduceRecord(partition_id=1, value=data)
    report = client.records.produce(cluster_id, topic.topic_name, record)
    assert (report.error_code, report.partition_id, report.offset) == (200, 1, 0)
    assert report.value.size == 1
    [found] = client.records.read_records("made").data
    assert (found.partition_id, found.offset) == (1, 0)


def test_groups_and_their_lags_are_told(generated, client, cluster_id, topic):
    reset = generated.ResetOffsets(
        to="EARLIEST",
        topics=[generated.ResetTopic(topic_name=topic.topic_name)],
        dry_run=False,
    )
    done = client.groups.reset_offsets("generated", reset)
    assert [one.new_offset for one in done.data] == [0, 0]
    groups = client.groups.list_groups(cluster_id).data
    [group] = [one for one in groups if one.consumer_group_id == "generated"]
    assert group.state == "EMPTY"
    lags = client.groups.list_lags(cluster_id, "generated").data
    assert [one.partition_id for one in lags] == [0, 1]


def test_tables_and_health_are_told(plane, client, topic):
    found = Lake(plane.data_dir).topic(topic.topic_name)
    tables = str(plane.data_dir / "tables")
    Writer(tables, topic.topic_name, found.id.hex()).add(0, 0, 3)
    table = client.tables.get_table("made")
    [listed] = [
        one for one in client.tables.list_tables().data if one.topic_name == "made"
    ]
    assert (table.rows, table.files) == (listed.rows, listed.files) == (3, 1)
    assert [one.written_by for one in client.tables.list_commits("made").data] == [
        "compactor",
        "compactor",
    ]
    assert len(client.tables.list_snippets("made").data) == 5
    health = client.health.get_health()
    assert health.broker.answers
    assert health.compactor is None


def test_what_there_is_not_is_an_error_with_its_words(generated, client, cluster_id):
    with pytest.raises(generated.exceptions.NotFoundException) as caught:
        client.topics.get_topic(cluster_id, "nobody")
    assert json.loads(caught.value.body)["error_code"] == 40403
