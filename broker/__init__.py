"""A Kafka broker whose topics are Delta tables."""
