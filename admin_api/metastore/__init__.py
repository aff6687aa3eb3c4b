"""The tables by name: a Hive metastore's protocol over the catalog, to be read."""
