// segmentio's kafka-go, which asks the broker what it may speak.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/segmentio/kafka-go"
	_ "github.com/segmentio/kafka-go/gzip"
	_ "github.com/segmentio/kafka-go/lz4"
	_ "github.com/segmentio/kafka-go/snappy"
	_ "github.com/segmentio/kafka-go/zstd"

	"lakelog/clients/wire"
)

type library struct{}

var codecs = map[string]kafka.Compression{
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

type producer struct {
	*kafka.Writer
	waiting []kafka.Message
}

func (library) Producer(bootstrap, topic, codec, _ string) (wire.Producer, error) {
	return &producer{Writer: &kafka.Writer{
		Addr:         kafka.TCP(bootstrap),
		Topic:        topic,
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
		Compression:  codecs[codec],
		RequiredAcks: kafka.RequireAll,
	}}, nil
}

func (p *producer) Send(record wire.Record) error {
	message := kafka.Message{Key: record.Key, Value: record.Value}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, kafka.Header{Key: header.Name, Value: header.Value})
	}
	p.waiting = append(p.waiting, message)
	return nil
}

func (p *producer) Flush() error {
	sent := p.waiting
	p.waiting = nil
	return p.WriteMessages(context.Background(), sent...)
}

var errNone = errors.New("this library has no transactions")

func (p *producer) Begin() error { return errNone }

func (p *producer) End(bool) error { return errNone }

func (library) Fetch(bootstrap, topic string, start wire.Start, count int, committed bool) error {
	level := kafka.ReadUncommitted
	if committed {
		level = kafka.ReadCommitted
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, IsolationLevel: level, MaxBytes: 4 << 20,
	})
	defer reader.Close()
	err := reader.SetOffset(start.Offset)
	if !start.Time.IsZero() {
		err = reader.SetOffsetAt(context.Background(), start.Time)
	}
	if err != nil {
		return err
	}
	return read(context.Background(), reader, count, func(int, int64) {})
}

func read(ctx context.Context, reader *kafka.Reader, count int, seen func(int, int64)) error {
	for range count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return err
		}
		record := wire.Record{Key: message.Key, Value: message.Value}
		for _, header := range message.Headers {
			record.Headers = append(record.Headers, wire.Header{Name: header.Key, Value: header.Value})
		}
		seen(message.Partition, message.Offset)
		wire.Emit(int32(message.Partition), message.Offset, record)
	}
	return nil
}

// member is in a group until it is closed, with a reader for each of its partitions.
type member struct {
	group *kafka.ConsumerGroup
	topic string
	marks sync.Mutex
	owner *kafka.Generation
	next  map[int]int64
}

func (library) Member(bootstrap, topic, name string) (wire.Member, error) {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: name, Brokers: []string{bootstrap}, Topics: []string{topic}, StartOffset: kafka.FirstOffset,
	})
	m := &member{group: group, topic: topic}
	go func() {
		for {
			generation, err := group.Next(context.Background())
			if errors.Is(err, kafka.ErrGroupClosed) {
				return
			}
			if err == nil { // else the broker may be away
				m.own(generation, bootstrap)
			}
		}
	}()
	return m, err
}

func (m *member) own(generation *kafka.Generation, bootstrap string) {
	m.marks.Lock()
	defer m.marks.Unlock()
	m.owner, m.next = generation, map[int]int64{}
	partitions := []int32{}
	for _, one := range generation.Assignments[m.topic] {
		partitions = append(partitions, int32(one.ID))
		generation.Start(func(ctx context.Context) {
			reader := kafka.NewReader(kafka.ReaderConfig{
				Brokers: []string{bootstrap}, Topic: m.topic, Partition: one.ID,
			})
			defer reader.Close()
			if err := reader.SetOffset(one.Offset); err != nil {
				panic(err)
			}
			for ctx.Err() == nil { // an error may be a broker that is away
				if err := read(ctx, reader, 1, m.seen); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
		})
	}
	slices.Sort(partitions)
	wire.Assigned(partitions)
}

func (m *member) seen(partition int, offset int64) {
	m.marks.Lock()
	defer m.marks.Unlock()
	m.next[partition] = offset + 1
}

func (m *member) Commit() error {
	m.marks.Lock()
	defer m.marks.Unlock()
	return m.owner.CommitOffsets(map[string]map[int]int64{m.topic: m.next})
}

func (m *member) Close() error { return m.group.Close() }

func main() { wire.Run(func(string) wire.Library { return library{} }) }
