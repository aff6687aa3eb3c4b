"""Kafka's wire protocol: definitions, messages, codecs. Pure."""
