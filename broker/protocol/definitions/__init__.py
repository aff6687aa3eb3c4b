"""Kafka's messages, one text per API: the facts that everything else derives from.

A line of a text is one field: its name, the versions that carry it, its type and what
is special about it. Indented lines below it are the fields of its structure, written
where the structure first occurs; later uses only name it.

    name               0-12  string               versions 0 to 12
    rack               11+   string?     = null   may be null; null when not said
    topics             0+    []Topic?2+           may be null from version 2 on
    current_leader     10+   LeaderIdAndEpoch  tag 0    travels tagged, only when said

Types are int8 int16 uint16 int32 int64 float64 bool string bytes uuid records, the name
of a structure, or `[]` and one of these. A default is written where it is not the
type's zero. Names, types, versions, tags and defaults are Kafka's, as its own
definitions state them (clients/src/main/resources/common/message); versions that
Kafka 4 dropped are still described.
"""
