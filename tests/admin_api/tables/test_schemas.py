"""Each field of a table is explained where its name does not say all."""

from admin_api.tables.schemas import Table, TablePartition

PLAIN = {"metadata", "files", "partition_id", "lag_records", "rows", "bytes",
         "protocol", "columns", "partitions"}  # fmt: skip


def test_fields_are_explained():
    for model in (Table, TablePartition):
        for name, field in model.model_fields.items():
            assert field.description or field.examples or name in PLAIN, name
