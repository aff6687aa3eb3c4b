"""Where settings come from, and the names that they have in Kafka."""
