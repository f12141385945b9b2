package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// franz is github.com/twmb/franz-go.
type franz struct{}

const deadline = 60 * time.Second

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), deadline)
}

func (franz) client(request Request, options ...kgo.Opt) (*kgo.Client, error) {
	secured, err := request.Security.ofFranz()
	if err != nil {
		return nil, err
	}
	options = append(append(options, secured...), kgo.SeedBrokers(request.Bootstrap...))
	if request.ClientID != "" {
		options = append(options, kgo.ClientID(request.ClientID))
	}
	return kgo.NewClient(options...)
}

// admin calls what is given with an admin client that is closed afterwards.
func (f franz) admin(request Request, use func(context.Context, *kadm.Client) error) error {
	client, err := f.client(request)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := limited()
	defer cancel()
	return use(ctx, kadm.NewClient(client))
}

func (f franz) CreateTopic(request Request) error {
	return f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		answer, err := admin.CreateTopic(
			ctx, request.Partitions, request.Replicas, request.Configs, request.Topic)
		if err != nil {
			return fmt.Errorf("%w: %s", err, answer.ErrMessage)
		}
		return nil
	})
}

func (f franz) AddPartitions(request Request) error {
	return f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		answers, err := admin.UpdatePartitions(ctx, int(request.Partitions), request.Topic)
		return errors.Join(err, answers.Error())
	})
}

func (f franz) DeleteTopic(request Request) error {
	return f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.DeleteTopic(ctx, request.Topic)
		return err
	})
}

func (f franz) Describe(request Request) (Description, error) {
	seen := Description{Brokers: map[int32]string{}, Partitions: map[int32]*Partition{}}
	err := f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		metadata, err := admin.Metadata(ctx, request.Topic)
		if err != nil {
			return err
		}
		seen.Controller = metadata.Controller
		for _, broker := range metadata.Brokers {
			seen.Brokers[broker.NodeID] = fmt.Sprintf("%s:%d", broker.Host, broker.Port)
		}
		topic := metadata.Topics[request.Topic]
		for _, one := range topic.Partitions {
			if one.Err != nil {
				return one.Err
			}
			seen.Partitions[one.Partition] = &Partition{one.Leader, one.Replicas, one.ISR}
		}
		return topic.Err
	})
	return seen, err
}

// throttles keeps the longest throttle time that brokers told.
type throttles struct{ longest atomic.Int64 }

func (t *throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	for {
		before := t.longest.Load()
		if interval.Milliseconds() <= before {
			return
		}
		if t.longest.CompareAndSwap(before, interval.Milliseconds()) {
			return
		}
	}
}

func (franz) producing(request Request) []kgo.Opt {
	codecs := map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[request.Compression]),
		kgo.RequiredAcks(acks[request.Acks]),
	}
	if !request.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if request.BatchBytes > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(request.BatchBytes))
	}
	return options
}

func (f franz) Produce(request Request) (Transfer, error) {
	var told throttles
	client, err := f.client(request, append(f.producing(request), kgo.WithHooks(&told))...)
	if err != nil {
		return Transfer{}, err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(request.Records))
	for i, record := range request.Records {
		records[i] = toFranz(request.Topic, record)
	}
	ctx, cancel := limited()
	defer cancel()
	began := time.Now()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return Transfer{}, err
	}
	sent := Transfer{ElapsedMs: time.Since(began).Milliseconds(), ThrottleMs: told.longest.Load()}
	for _, record := range records {
		sent.Records = append(sent.Records, fromFranz(record))
	}
	return sent, nil
}

func (f franz) Consume(request Request) (Transfer, error) {
	offsets, err := f.Offsets(request)
	if err != nil {
		return Transfer{}, err
	}
	starts, left := map[int32]kgo.Offset{}, int64(0)
	for partition, bounds := range offsets {
		starts[partition] = kgo.NewOffset().AtStart()
		left += bounds.Latest - bounds.Earliest
	}
	var told throttles
	options := []kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{request.Topic: starts}),
		kgo.WithHooks(&told),
	}
	if request.BatchBytes > 0 {
		options = append(options, kgo.FetchMaxBytes(request.BatchBytes),
			kgo.FetchMaxPartitionBytes(request.BatchBytes))
	}
	client, err := f.client(request, options...)
	if err != nil {
		return Transfer{}, err
	}
	defer client.Close()
	ctx, cancel := limited()
	defer cancel()
	began := time.Now()
	var read Transfer
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return read, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			read.Records = append(read.Records, fromFranz(record))
			left--
		})
	}
	read.ElapsedMs, read.ThrottleMs = time.Since(began).Milliseconds(), told.longest.Load()
	return read, nil
}

func (f franz) Offsets(request Request) (map[int32]*Offsets, error) {
	found := map[int32]*Offsets{}
	err := f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		starts, err := admin.ListStartOffsets(ctx, request.Topic)
		if err = errors.Join(err, starts.Error()); err != nil {
			return err
		}
		ends, err := admin.ListEndOffsets(ctx, request.Topic)
		if err = errors.Join(err, ends.Error()); err != nil {
			return err
		}
		then, err := admin.ListOffsetsAfterMilli(ctx, request.TimestampMs, request.Topic)
		if err = errors.Join(err, then.Error()); err != nil {
			return err
		}
		for partition, start := range starts[request.Topic] {
			found[partition] = &Offsets{
				start.Offset, ends[request.Topic][partition].Offset,
				then[request.Topic][partition].Offset,
			}
		}
		return nil
	})
	return found, err
}

func (f franz) Configs(request Request) (map[string]string, error) {
	found := map[string]string{}
	err := f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		resources, err := admin.DescribeTopicConfigs(ctx, request.Topic)
		if err != nil {
			return err
		}
		resource, err := resources.On(request.Topic, nil)
		if err = errors.Join(err, resource.Err); err != nil {
			return err
		}
		for _, config := range resource.Configs {
			found[config.Key] = config.MaybeValue()
		}
		return nil
	})
	return found, err
}

func (f franz) AlterConfigs(request Request) error {
	return f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		var changes []kadm.AlterConfig
		for name, value := range request.Configs {
			change := kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: value}
			if value == nil {
				change.Op = kadm.DeleteConfig
			}
			changes = append(changes, change)
		}
		answers, err := admin.AlterTopicConfigs(ctx, changes, request.Topic)
		if err != nil {
			return err
		}
		answer, err := answers.On(request.Topic, nil)
		return errors.Join(err, answer.Err)
	})
}

func (f franz) Quotas(request Request) (map[string]float64, error) {
	found := map[string]float64{}
	err := f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		var filter []kadm.DescribeClientQuotaComponent
		for kind, name := range request.Entity {
			matches := kmsg.QuotasMatchTypeExact
			if name == nil {
				matches = kmsg.QuotasMatchTypeDefault
			}
			filter = append(filter, kadm.DescribeClientQuotaComponent{
				Type: kind, MatchName: name, MatchType: matches,
			})
		}
		entries, err := admin.DescribeClientQuotas(ctx, true, filter)
		for _, entry := range entries {
			for _, value := range entry.Values {
				found[value.Key] = value.Value
			}
		}
		return err
	})
	return found, err
}

func (f franz) AlterQuotas(request Request) error {
	return f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		var entry kadm.AlterClientQuotaEntry
		for kind, name := range request.Entity {
			entry.Entity = append(
				entry.Entity, kadm.ClientQuotaEntityComponent{Type: kind, Name: name})
		}
		for key, value := range request.Quotas {
			change := kadm.AlterClientQuotaOp{Key: key, Remove: value == nil}
			if value != nil {
				change.Value = *value
			}
			entry.Ops = append(entry.Ops, change)
		}
		answers, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{entry})
		for _, answer := range answers {
			err = errors.Join(err, answer.Err)
		}
		return err
	})
}

// paced has it look for a new leader more often than by default, which is every five seconds.
func paced(request Request) []kgo.Opt {
	if request.Defaults {
		return nil
	}
	return []kgo.Opt{kgo.MetadataMinAge(100 * time.Millisecond)}
}

// lasting is limited for a test, and not for a measurement, which ends with stdin.
func lasting(request Request) (context.Context, context.CancelFunc) {
	if request.Defaults {
		return context.WithCancel(context.Background())
	}
	return limited()
}

func (f franz) Stream(request Request, records <-chan Record, acknowledged func(Record)) error {
	client, err := f.client(request, append(f.producing(request), paced(request)...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := lasting(request)
	defer cancel()
	var lock sync.Mutex
	var failure error
	for record := range records {
		client.Produce(ctx, toFranz(request.Topic, record), func(sent *kgo.Record, err error) {
			if err == nil {
				acknowledged(fromFranz(sent))
				return
			}
			lock.Lock()
			defer lock.Unlock()
			failure = errors.Join(failure, err)
		})
	}
	err = client.Flush(ctx)
	lock.Lock()
	defer lock.Unlock()
	return errors.Join(err, failure)
}

func (f franz) Follow(request Request, ended <-chan struct{}, read func(Record)) error {
	starts := map[int32]kgo.Offset{}
	for partition := range request.Partitions {
		starts[partition] = kgo.NewOffset().AtStart()
	}
	options := append(paced(request),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{request.Topic: starts}))
	client, err := f.client(request, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := lasting(request)
	defer cancel()
	go func() {
		<-ended
		cancel()
	}()
	for {
		fetches := client.PollFetches(ctx)
		select {
		case <-ended:
			return nil
		default:
		}
		// It tells what it tries again by itself, too; only its records count here.
		if err := ctx.Err(); err != nil {
			return errors.Join(err, fetches.Err())
		}
		fetches.EachRecord(func(record *kgo.Record) { read(fromFranz(record)) })
	}
}

func toFranz(topic string, record Record) *kgo.Record {
	one := &kgo.Record{
		Topic: topic, Partition: record.Partition, Key: record.Key, Value: record.Value,
		Timestamp: time.UnixMilli(record.TimestampMs),
	}
	for _, header := range record.Headers {
		one.Headers = append(one.Headers, kgo.RecordHeader{Key: header.Key, Value: header.Value})
	}
	return one
}

func fromFranz(record *kgo.Record) Record {
	one := Record{
		Partition: record.Partition, Key: record.Key, Value: record.Value,
		TimestampMs: record.Timestamp.UnixMilli(), Offset: record.Offset,
	}
	for _, header := range record.Headers {
		one.Headers = append(one.Headers, Header{header.Key, header.Value})
	}
	return one
}
