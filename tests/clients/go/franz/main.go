// franz-go, held to the requests of a Kafka release.
package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"lakelog/clients/wire"
)

type franz struct{ version string }

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func (f franz) client(bootstrap string, more ...kgo.Opt) (*kgo.Client, error) {
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap)}
	if f.version != "latest" {
		options = append(options, kgo.MaxVersions(kversion.FromString(f.version)))
	}
	if strings.HasPrefix(f.version, "0.") && f.version != "0.11.0" {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return kgo.NewClient(append(options, more...)...)
}

type producer struct {
	*kgo.Client
	sync.Mutex
	failed error
}

func (f franz) Producer(bootstrap, topic, codec, id string) (wire.Producer, error) {
	options := []kgo.Opt{
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[codec]),
	}
	if id != "-" {
		options = append(options, kgo.TransactionalID(id))
	}
	client, err := f.client(bootstrap, options...)
	return &producer{Client: client}, err
}

func (p *producer) Send(record wire.Record) error {
	sent := &kgo.Record{Key: record.Key, Value: record.Value}
	for _, header := range record.Headers {
		sent.Headers = append(sent.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
	}
	p.Produce(context.Background(), sent, func(_ *kgo.Record, err error) {
		p.Lock()
		defer p.Unlock()
		p.failed = errors.Join(p.failed, err)
	})
	return nil
}

func (p *producer) Flush() error {
	return errors.Join(p.Client.Flush(context.Background()), p.failed)
}

func (p *producer) Begin() error { return p.BeginTransaction() }

func (p *producer) End(commit bool) error {
	if err := p.Flush(); err != nil {
		return err
	}
	return p.EndTransaction(context.Background(), kgo.TransactionEndTry(commit))
}

func (p *producer) Close() error { p.Client.Close(); return nil }

func (f franz) Fetch(bootstrap, topic string, start wire.Start, count int, committed bool) error {
	offset := kgo.NewOffset().At(start.Offset)
	if !start.Time.IsZero() {
		offset = kgo.NewOffset().AfterMilli(start.Time.UnixMilli())
	}
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	client, err := f.client(bootstrap, kgo.FetchIsolationLevel(level),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: offset}}))
	if err != nil {
		return err
	}
	defer client.Close()
	for seen := 0; seen < count; {
		polled := client.PollRecords(context.Background(), count-seen)
		if err := polled.Err(); err != nil {
			return err
		}
		polled.EachRecord(emit)
		seen += polled.NumRecords()
	}
	return nil
}

func emit(r *kgo.Record) {
	record := wire.Record{Key: r.Key, Value: r.Value}
	for _, header := range r.Headers {
		record.Headers = append(record.Headers, wire.Header{Name: header.Key, Value: header.Value})
	}
	wire.Emit(r.Partition, r.Offset, record)
}

type member struct{ *kgo.Client }

func (f franz) Member(bootstrap, topic, group string) (wire.Member, error) {
	owned := map[int32]bool{}
	changed := func(there bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			for _, part := range parts[topic] {
				if delete(owned, part); there {
					owned[part] = true
				}
			}
			wire.Assigned(slices.Sorted(maps.Keys(owned)))
		}
	}
	client, err := f.client(bootstrap, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.OnPartitionsAssigned(changed(true)),
		kgo.OnPartitionsRevoked(changed(false)), kgo.OnPartitionsLost(changed(false)))
	if err != nil {
		return nil, err
	}
	go func() {
		for !polled(client).IsClientClosed() {
		}
	}()
	return member{client}, nil
}

func polled(client *kgo.Client) kgo.Fetches {
	fetches := client.PollFetches(context.Background())
	fetches.EachRecord(emit)
	return fetches
}

func (m member) Commit() error { return m.CommitUncommittedOffsets(context.Background()) }

func (m member) Close() error { m.Client.Close(); return nil }

func main() { wire.Run(func(version string) wire.Library { return franz{version} }) }
