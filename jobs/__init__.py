"""PySpark programs: compaction and table maintenance."""
