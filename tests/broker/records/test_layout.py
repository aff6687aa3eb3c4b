"""The layout of a batch's header, held against that of another implementation."""

from kafka.record.default_records import DefaultRecordBase

from broker.records import layout
from broker.records.batch import BatchHeader


def test_the_fields_are_where_others_look_for_them():
    kafka = DefaultRecordBase.HEADER_STRUCT
    assert kafka.format == layout.HEADER.format
    assert kafka.size == layout.HEADER_BYTES
    assert DefaultRecordBase.ATTRIBUTES_OFFSET == layout.ATTRIBUTES_AT
    assert DefaultRecordBase.CRC_OFFSET == layout.CRC_AT
    assert DefaultRecordBase.AFTER_LEN_OFFSET == layout.LOG_OVERHEAD_BYTES


def test_flags_are_those_of_others():
    assert DefaultRecordBase.CODEC_MASK == layout.CODEC_BITS
    assert DefaultRecordBase.TIMESTAMP_TYPE_MASK == layout.TIMESTAMP_BIT
    assert DefaultRecordBase.TRANSACTIONAL_MASK == layout.TRANSACTIONAL_BIT
    assert DefaultRecordBase.CONTROL_MASK == layout.CONTROL_BIT


def test_the_parts_make_up_the_whole():
    assert layout.PLACED.size == layout.CHECKED_AT
    assert layout.CHECKED_AT + layout.CHECKED.size == layout.HEADER_BYTES
    assert layout.TIMED.size == layout.PRODUCER_ID_AT
    assert BatchHeader._fields == tuple(layout.FIELDS)
