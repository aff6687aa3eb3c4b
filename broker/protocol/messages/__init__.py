"""The messages of the protocol, one module per API, generated from `definitions/`.

One class per message, with the fields of all versions: which of them travel in a
version is the codec's business. A field that a version does not carry has Kafka's
default when it is read, and is left out when it is written.
"""
