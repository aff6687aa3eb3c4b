// sarama, told to speak as with a Kafka release.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"lakelog/clients/wire"
)

type library struct{ version string }

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func (l library) config() *sarama.Config {
	config := sarama.NewConfig()
	version, err := sarama.ParseKafkaVersion(l.version)
	if err != nil {
		panic(err)
	}
	config.Version = version
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	return config
}

type producer struct {
	sarama.SyncProducer
	topic   string
	waiting []*sarama.ProducerMessage
}

func (l library) Producer(bootstrap, topic, codec, id string) (wire.Producer, error) {
	config := l.config()
	config.Producer.Compression = codecs[codec]
	if id != "-" {
		config.Producer.Idempotent = true
		config.Producer.Transaction.ID = id
		config.Net.MaxOpenRequests = 1
	}
	sync, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	return &producer{SyncProducer: sync, topic: topic}, err
}

func (p *producer) Send(record wire.Record) error {
	message := &sarama.ProducerMessage{Topic: p.topic, Key: encoder(record.Key), Value: encoder(record.Value)}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
	}
	p.waiting = append(p.waiting, message)
	return nil
}

func encoder(value []byte) sarama.Encoder {
	if value == nil {
		return nil
	}
	return sarama.ByteEncoder(value)
}

func (p *producer) Flush() error {
	sent := p.waiting
	p.waiting = nil
	return p.SendMessages(sent)
}

func (p *producer) Begin() error { return p.BeginTxn() }

func (p *producer) End(commit bool) error {
	if err := p.Flush(); err != nil {
		return err
	}
	if commit {
		return p.CommitTxn()
	}
	return p.AbortTxn()
}

func (l library) Fetch(bootstrap, topic string, start wire.Start, count int, committed bool) error {
	config := l.config()
	if committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	client, err := sarama.NewClient([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer client.Close()
	offset := start.Offset
	if !start.Time.IsZero() {
		if offset, err = client.GetOffset(topic, 0, start.Time.UnixMilli()); err != nil {
			return err
		}
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	partition, err := consumer.ConsumePartition(topic, 0, offset)
	if err != nil {
		return err
	}
	for range count {
		emit(<-partition.Messages())
	}
	return partition.Close()
}

func emit(message *sarama.ConsumerMessage) {
	record := wire.Record{Key: message.Key, Value: message.Value}
	for _, header := range message.Headers {
		record.Headers = append(record.Headers, wire.Header{Name: string(header.Key), Value: header.Value})
	}
	wire.Emit(message.Partition, message.Offset, record)
}

// member is in a group until it is closed; each of its sessions is a generation.
type member struct {
	group   sarama.ConsumerGroup
	topic   string
	current chan sarama.ConsumerGroupSession
	ended   chan struct{}
}

func (l library) Member(bootstrap, topic, name string) (wire.Member, error) {
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, name, l.config())
	if err != nil {
		return nil, err
	}
	m := &member{group, topic, make(chan sarama.ConsumerGroupSession, 1), make(chan struct{})}
	go func() {
		defer close(m.ended)
		for {
			err := group.Consume(context.Background(), []string{topic}, m)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if err != nil { // as while the broker is away
				fmt.Fprintln(os.Stderr, err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return m, nil
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	partitions := slices.Clone(session.Claims()[m.topic])
	slices.Sort(partitions)
	wire.Assigned(partitions)
	m.current <- session
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	<-m.current
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		emit(message)
	}
	return nil
}

func (m *member) Commit() error {
	session := <-m.current
	session.Commit()
	m.current <- session
	return nil
}

func (m *member) Close() error {
	err := m.group.Close()
	<-m.ended
	return err
}

func main() { wire.Run(func(version string) wire.Library { return library{version} }) }
