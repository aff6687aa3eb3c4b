"""``make bench``: Lakelog beside Apache Kafka, same machine, same client, one run."""
