package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// saramas is github.com/IBM/sarama.
type saramas struct{}

func (saramas) config(request Request) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	if request.Version != "" {
		version, err := sarama.ParseKafkaVersion(request.Version)
		if err != nil {
			return nil, err
		}
		config.Version = version
	}
	if request.ClientID != "" {
		config.ClientID = request.ClientID
	}
	return config, request.Security.ofSarama(config)
}

// admin calls what is given with an admin client that is closed afterwards.
func (s saramas) admin(request Request, use func(sarama.ClusterAdmin) error) error {
	config, err := s.config(request)
	if err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdmin(request.Bootstrap, config)
	if err != nil {
		return err
	}
	return errors.Join(use(admin), admin.Close())
}

// client calls what is given with a client that is closed afterwards.
func (s saramas) client(request Request, use func(sarama.Client) error) error {
	config, err := s.config(request)
	if err != nil {
		return err
	}
	client, err := sarama.NewClient(request.Bootstrap, config)
	if err != nil {
		return err
	}
	return errors.Join(use(client), client.Close())
}

func (s saramas) CreateTopic(request Request) error {
	return s.admin(request, func(admin sarama.ClusterAdmin) error {
		return admin.CreateTopic(request.Topic, &sarama.TopicDetail{
			NumPartitions:     request.Partitions,
			ReplicationFactor: request.Replicas,
			ConfigEntries:     request.Configs,
		}, false)
	})
}

func (s saramas) AddPartitions(request Request) error {
	return s.admin(request, func(admin sarama.ClusterAdmin) error {
		return admin.CreatePartitions(request.Topic, request.Partitions, nil, false)
	})
}

func (s saramas) DeleteTopic(request Request) error {
	return s.admin(request, func(admin sarama.ClusterAdmin) error {
		return admin.DeleteTopic(request.Topic)
	})
}

func (s saramas) Describe(request Request) (Description, error) {
	seen := Description{Brokers: map[int32]string{}, Partitions: map[int32]*Partition{}}
	err := s.admin(request, func(admin sarama.ClusterAdmin) error {
		brokers, controller, err := admin.DescribeCluster()
		if err != nil {
			return err
		}
		seen.Controller = controller
		for _, broker := range brokers {
			seen.Brokers[broker.ID()] = broker.Addr()
		}
		topics, err := admin.DescribeTopics([]string{request.Topic})
		if err != nil {
			return err
		}
		for _, one := range topics[0].Partitions {
			if one.Err != sarama.ErrNoError {
				return one.Err
			}
			seen.Partitions[one.ID] = &Partition{one.Leader, one.Replicas, one.Isr}
		}
		if topics[0].Err != sarama.ErrNoError {
			return topics[0].Err
		}
		return nil
	})
	return seen, err
}

func (s saramas) producing(request Request) (*sarama.Config, error) {
	config, err := s.config(request)
	if err != nil {
		return nil, err
	}
	if err := config.Producer.Compression.UnmarshalText([]byte(request.Compression)); err != nil {
		return nil, err
	}
	acks := map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
	}
	config.Producer.RequiredAcks = acks[request.Acks]
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	if request.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	if request.BatchBytes > 0 {
		config.Producer.Flush.MaxMessages = 1
	}
	return config, nil
}

func (s saramas) Produce(request Request) (Transfer, error) {
	config, err := s.producing(request)
	if err != nil {
		return Transfer{}, err
	}
	producer, err := sarama.NewSyncProducer(request.Bootstrap, config)
	if err != nil {
		return Transfer{}, err
	}
	messages := make([]*sarama.ProducerMessage, len(request.Records))
	for i, record := range request.Records {
		messages[i] = toSarama(request.Topic, record)
	}
	began := time.Now()
	err = producer.SendMessages(messages)
	sent := Transfer{ElapsedMs: time.Since(began).Milliseconds(), ThrottleMs: throttled(config)}
	for i, message := range messages {
		record := request.Records[i]
		record.Partition, record.Offset = message.Partition, message.Offset
		sent.Records = append(sent.Records, record)
	}
	return sent, errors.Join(err, producer.Close())
}

// throttled is the longest throttle time that brokers told.
func throttled(config *sarama.Config) int64 {
	longest := int64(0)
	for name, values := range config.MetricRegistry.GetAll() {
		if told, _ := values["max"].(int64); strings.HasPrefix(name, "throttle-time-in-ms") {
			longest = max(longest, told)
		}
	}
	return longest
}

func (s saramas) Consume(request Request) (Transfer, error) {
	offsets, err := s.Offsets(request)
	if err != nil {
		return Transfer{}, err
	}
	config, err := s.config(request)
	if err != nil {
		return Transfer{}, err
	}
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 100 * time.Millisecond // its end waits for the last fetch
	if request.BatchBytes > 0 {
		config.Consumer.Fetch.Default = request.BatchBytes
	}
	consumer, err := sarama.NewConsumer(request.Bootstrap, config)
	if err != nil {
		return Transfer{}, err
	}
	began := time.Now()
	var read Transfer
	for partition, bounds := range offsets {
		err = s.consumeOne(consumer, request.Topic, partition, bounds, &read)
		if err != nil {
			break
		}
	}
	read.ElapsedMs, read.ThrottleMs = time.Since(began).Milliseconds(), throttled(config)
	return read, errors.Join(err, consumer.Close())
}

func (saramas) consumeOne(
	consumer sarama.Consumer, topic string, partition int32, bounds *Offsets, read *Transfer,
) error {
	messages, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	for left := bounds.Latest - bounds.Earliest; left > 0 && err == nil; {
		select {
		case message := <-messages.Messages():
			read.Records = append(read.Records, fromSarama(message))
			left--
		case failure := <-messages.Errors():
			err = failure
		case <-time.After(deadline):
			err = fmt.Errorf("nothing more of %s-%d", topic, partition)
		}
	}
	return errors.Join(err, messages.Close())
}

func (s saramas) Offsets(request Request) (map[int32]*Offsets, error) {
	found := map[int32]*Offsets{}
	err := s.client(request, func(client sarama.Client) error {
		partitions, err := client.Partitions(request.Topic)
		if err != nil {
			return err
		}
		for _, partition := range partitions {
			bounds := &Offsets{}
			for into, time := range map[*int64]int64{
				&bounds.Earliest:    sarama.OffsetOldest,
				&bounds.Latest:      sarama.OffsetNewest,
				&bounds.AtTimestamp: request.TimestampMs,
			} {
				if *into, err = client.GetOffset(request.Topic, partition, time); err != nil {
					return err
				}
			}
			found[partition] = bounds
		}
		return nil
	})
	return found, err
}

func (s saramas) Configs(request Request) (map[string]string, error) {
	found := map[string]string{}
	err := s.admin(request, func(admin sarama.ClusterAdmin) error {
		resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: request.Topic}
		entries, err := admin.DescribeConfig(resource)
		for _, entry := range entries {
			found[entry.Name] = entry.Value
		}
		return err
	})
	return found, err
}

func (s saramas) AlterConfigs(request Request) error {
	return s.admin(request, func(admin sarama.ClusterAdmin) error {
		changes := map[string]sarama.IncrementalAlterConfigsEntry{}
		for name, value := range request.Configs {
			operation := sarama.IncrementalAlterConfigsOperationSet
			if value == nil {
				operation = sarama.IncrementalAlterConfigsOperationDelete
			}
			changes[name] = sarama.IncrementalAlterConfigsEntry{Operation: operation, Value: value}
		}
		return admin.IncrementalAlterConfig(sarama.TopicResource, request.Topic, changes, false)
	})
}

func (s saramas) Quotas(request Request) (map[string]float64, error) {
	found := map[string]float64{}
	err := s.admin(request, func(admin sarama.ClusterAdmin) error {
		var filter []sarama.QuotaFilterComponent
		for kind, name := range request.Entity {
			one := sarama.QuotaFilterComponent{
				EntityType: sarama.QuotaEntityType(kind), MatchType: sarama.QuotaMatchDefault,
			}
			if name != nil {
				one.MatchType, one.Match = sarama.QuotaMatchExact, *name
			}
			filter = append(filter, one)
		}
		entries, err := admin.DescribeClientQuotas(filter, true)
		for _, entry := range entries {
			for key, value := range entry.Values {
				found[key] = value
			}
		}
		return err
	})
	return found, err
}

func (s saramas) AlterQuotas(request Request) error {
	return s.admin(request, func(admin sarama.ClusterAdmin) error {
		var entity []sarama.QuotaEntityComponent
		for kind, name := range request.Entity {
			one := sarama.QuotaEntityComponent{
				EntityType: sarama.QuotaEntityType(kind), MatchType: sarama.QuotaMatchDefault,
			}
			if name != nil {
				one.MatchType, one.Name = sarama.QuotaMatchExact, *name
			}
			entity = append(entity, one)
		}
		for key, value := range request.Quotas { // sarama sends one change at a time
			change := sarama.ClientQuotasOp{Key: key, Remove: value == nil}
			if value != nil {
				change.Value = *value
			}
			if err := admin.AlterClientQuotas(entity, change, false); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s saramas) Stream(request Request, records <-chan Record, acknowledged func(Record)) error {
	config, err := s.producing(request)
	if err != nil {
		return err
	}
	if !request.Defaults {
		config.Producer.Retry.Max = 1_000 // a dead leader is no reason to give up
	}
	producer, err := sarama.NewAsyncProducer(request.Bootstrap, config)
	if err != nil {
		return err
	}
	var failure error
	var readers sync.WaitGroup
	readers.Go(func() {
		for message := range producer.Successes() {
			value, _ := message.Value.Encode()
			acknowledged(Record{
				Partition: message.Partition, Value: value, Offset: message.Offset,
				TimestampMs: message.Timestamp.UnixMilli(),
			})
		}
	})
	readers.Go(func() {
		for one := range producer.Errors() {
			failure = errors.Join(failure, one)
		}
	})
	for record := range records {
		producer.Input() <- toSarama(request.Topic, record)
	}
	producer.AsyncClose()
	readers.Wait()
	return failure
}

func (s saramas) Follow(request Request, ended <-chan struct{}, read func(Record)) error {
	config, err := s.config(request)
	if err != nil {
		return err
	}
	if !request.Defaults {
		config.Consumer.MaxWaitTime = 100 * time.Millisecond
		config.Consumer.Retry.Backoff = 100 * time.Millisecond
	}
	consumer, err := sarama.NewConsumer(request.Bootstrap, config)
	if err != nil {
		return err
	}
	var partitions []sarama.PartitionConsumer
	var readers sync.WaitGroup
	for partition := range request.Partitions {
		one, failure := consumer.ConsumePartition(request.Topic, partition, sarama.OffsetOldest)
		if failure != nil {
			err = failure
			break
		}
		partitions = append(partitions, one)
		readers.Go(func() {
			for message := range one.Messages() {
				read(fromSarama(message))
			}
		})
	}
	if err == nil {
		<-ended
	}
	for _, one := range partitions {
		one.AsyncClose()
	}
	readers.Wait()
	return errors.Join(err, consumer.Close())
}

func toSarama(topic string, record Record) *sarama.ProducerMessage {
	one := &sarama.ProducerMessage{
		Topic: topic, Partition: record.Partition, Timestamp: time.UnixMilli(record.TimestampMs),
	}
	if record.Key != nil {
		one.Key = sarama.ByteEncoder(record.Key)
	}
	if record.Value != nil {
		one.Value = sarama.ByteEncoder(record.Value)
	}
	for _, header := range record.Headers {
		one.Headers = append(
			one.Headers, sarama.RecordHeader{Key: []byte(header.Key), Value: header.Value})
	}
	return one
}

func fromSarama(message *sarama.ConsumerMessage) Record {
	one := Record{
		Partition: message.Partition, Key: message.Key, Value: message.Value,
		TimestampMs: message.Timestamp.UnixMilli(), Offset: message.Offset,
	}
	for _, header := range message.Headers {
		one.Headers = append(one.Headers, Header{string(header.Key), header.Value})
	}
	return one
}
