package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Transaction is the part of a request that tests/compat/transaction_clients.py sends.
type Transaction struct {
	Producer        string `json:"producer"` // the name of a producer that is kept
	TransactionalID string `json:"transactional_id"`
	TimeoutMs       int64  `json:"timeout_ms"`
	Value           string `json:"value"`
	Partition       int32  `json:"partition"`
	Group           string `json:"group"`
	Source          string `json:"source"`
	Target          string `json:"target"`
	Count           int    `json:"count"`
	GraceMs         int64  `json:"grace_ms"`
	IsCommit        bool   `json:"is_commit"`
	IsCommitted     bool   `json:"is_committed"` // whether it reads what is committed only
}

// Transactional is a producer with a transactional id.
type Transactional interface {
	Begin() error
	// Send waits until the record is acknowledged.
	Send(topic string, partition int32, value string) error
	End(isCommit bool) error
	Close() error
}

var producers = map[string]Transactional{}

var transactionActions = map[string]func(Client, Request) (any, error){
	"init": func(client Client, request Request) (any, error) {
		producer, err := client.Transactional(request)
		if err == nil {
			producers[request.Producer] = producer
		}
		return nil, err
	},
	"begin": func(_ Client, request Request) (any, error) { return nil, producers[request.Producer].Begin() },
	"send": func(_ Client, request Request) (any, error) {
		return nil, producers[request.Producer].Send(request.Topic, request.Partition, request.Value)
	},
	"commit": func(_ Client, request Request) (any, error) { return nil, producers[request.Producer].End(true) },
	"abort":  func(_ Client, request Request) (any, error) { return nil, producers[request.Producer].End(false) },
	"close":  func(_ Client, request Request) (any, error) { return nil, producers[request.Producer].Close() },
	"copy":   func(client Client, request Request) (any, error) { return nil, client.Copy(request) },
	"read":   func(client Client, request Request) (any, error) { return client.Read(request) },
}

// -- franz-go ------------------------------------------------------------------------------------

type franzProducer struct{ client *kgo.Client }

func transactional(request Request) []kgo.Opt {
	options := []kgo.Opt{
		kgo.TransactionalID(request.TransactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if request.TimeoutMs > 0 {
		options = append(options, kgo.TransactionTimeout(time.Duration(request.TimeoutMs)*time.Millisecond))
	}
	return options
}

func (f franz) Transactional(request Request) (Transactional, error) {
	client, err := f.client(request, transactional(request)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := limited()
	defer cancel()
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return franzProducer{client}, nil
}

func (p franzProducer) Begin() error { return p.client.BeginTransaction() }

func (p franzProducer) Send(topic string, partition int32, value string) error {
	ctx, cancel := limited()
	defer cancel()
	record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
	return p.client.ProduceSync(ctx, record).FirstErr()
}

func (p franzProducer) End(isCommit bool) error {
	ctx, cancel := limited()
	defer cancel()
	return p.client.EndTransaction(ctx, kgo.TransactionEndTry(isCommit))
}

func (p franzProducer) Close() error {
	p.client.Close()
	return nil
}

func isolation(request Request) kgo.Opt {
	if request.IsCommitted {
		return kgo.FetchIsolationLevel(kgo.ReadCommitted())
	}
	return kgo.FetchIsolationLevel(kgo.ReadUncommitted())
}

func (f franz) Copy(request Request) error {
	secured, err := request.Security.ofFranz()
	if err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(append(append(transactional(request), secured...),
		kgo.SeedBrokers(request.Bootstrap...), isolation(request), kgo.RequireStableFetchOffsets(),
		kgo.ConsumerGroup(request.Group), kgo.ConsumeTopics(request.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer session.Close()
	ctx, cancel := limited()
	defer cancel()
	if err := session.Begin(); err != nil {
		return err
	}
	for left := request.Count; left > 0; {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, read := range fetches.Records() {
			written := &kgo.Record{
				Topic: request.Target, Partition: read.Partition,
				Value: []byte(strings.ToUpper(string(read.Value))),
			}
			if err := session.ProduceSync(ctx, written).FirstErr(); err != nil {
				return err
			}
			left--
		}
	}
	committed, err := session.End(ctx, kgo.TransactionEndTry(request.IsCommit))
	if err == nil && committed != request.IsCommit {
		err = fmt.Errorf("committed: %v", committed)
	}
	return err
}

func (f franz) Read(request Request) ([]string, error) {
	starts := map[int32]kgo.Offset{}
	for partition := range request.Partitions {
		starts[partition] = kgo.NewOffset().AtStart()
	}
	client, err := f.client(request, isolation(request),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{request.Topic: starts}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := limited()
	defer cancel()
	values := []string{}
	for len(values) < request.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return values, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	grace, end := context.WithTimeout(ctx, time.Duration(request.GraceMs)*time.Millisecond)
	defer end()
	for grace.Err() == nil {
		client.PollFetches(grace).EachRecord(
			func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, nil
}

// -- sarama --------------------------------------------------------------------------------------

type saramaProducer struct{ sarama.SyncProducer }

func (s saramas) transacting(request Request) (*sarama.Config, error) {
	config, err := s.config(request)
	if err != nil {
		return nil, err
	}
	config.Producer.Transaction.ID = request.TransactionalID
	if request.TimeoutMs > 0 {
		config.Producer.Transaction.Timeout = time.Duration(request.TimeoutMs) * time.Millisecond
	}
	config.Producer.Transaction.Retry.Backoff = 20 * time.Millisecond // it also repeats refusals
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Net.MaxOpenRequests = 1
	return config, nil
}

func (s saramas) Transactional(request Request) (Transactional, error) {
	config, err := s.transacting(request)
	if err != nil {
		return nil, err
	}
	producer, err := sarama.NewSyncProducer(request.Bootstrap, config)
	return saramaProducer{producer}, err
}

func (p saramaProducer) Begin() error { return p.BeginTxn() }

func (p saramaProducer) Send(topic string, partition int32, value string) error {
	_, _, err := p.SendMessage(&sarama.ProducerMessage{
		Topic: topic, Partition: partition, Value: sarama.StringEncoder(value)})
	return err
}

func (p saramaProducer) End(isCommit bool) error {
	if isCommit {
		return p.CommitTxn()
	}
	return p.AbortTxn()
}

func (s saramas) reading(request Request) (*sarama.Config, error) {
	config, err := s.config(request)
	if err != nil {
		return nil, err
	}
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 100 * time.Millisecond // its end waits for the last fetch
	if request.IsCommitted {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	return config, nil
}

func (s saramas) Copy(request Request) error {
	config, err := s.transacting(request)
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer(request.Bootstrap, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	config, err = s.reading(request)
	if err != nil {
		return err
	}
	group, err := sarama.NewConsumerGroup(request.Bootstrap, request.Group, config)
	if err != nil {
		return err
	}
	defer group.Close()
	ctx, cancel := limited()
	defer cancel()
	copies := &saramaCopies{request: request, producer: producer, left: request.Count, end: cancel}
	err = group.Consume(ctx, []string{request.Source}, copies)
	if copies.left > 0 {
		return errors.Join(err, copies.failure, fmt.Errorf("%d records left", copies.left))
	}
	return copies.failure
}

// saramaCopies handles the partitions of one generation, and ends it after its transaction.
type saramaCopies struct {
	request  Request
	producer sarama.SyncProducer
	lock     sync.Mutex
	left     int
	failure  error
	end      context.CancelFunc
}

func (c *saramaCopies) Setup(sarama.ConsumerGroupSession) error { return c.producer.BeginTxn() }

func (c *saramaCopies) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *saramaCopies) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			c.copy(message)
		}
	}
}

func (c *saramaCopies) copy(message *sarama.ConsumerMessage) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.left == 0 || c.failure != nil {
		return
	}
	copied := saramaProducer{c.producer}
	c.failure = copied.Send(
		c.request.Target, message.Partition, strings.ToUpper(string(message.Value)))
	if c.failure == nil {
		c.failure = c.producer.AddMessageToTxn(message, c.request.Group, nil)
	}
	c.left--
	if c.left == 0 && c.failure == nil {
		c.failure = copied.End(c.request.IsCommit)
	}
	if c.left == 0 || c.failure != nil {
		c.end()
	}
}

func (s saramas) Read(request Request) ([]string, error) {
	config, err := s.reading(request)
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumer(request.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	var readers sync.WaitGroup
	var partitions []sarama.PartitionConsumer
	messages := make(chan *sarama.ConsumerMessage, 1000)
	for partition := range request.Partitions {
		one, err := consumer.ConsumePartition(request.Topic, partition, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		partitions = append(partitions, one)
		readers.Go(func() {
			for message := range one.Messages() {
				messages <- message
			}
		})
	}
	values := []string{}
	patience := time.After(deadline)
	for err == nil && patience != nil {
		if len(values) >= request.Count {
			patience = time.After(time.Duration(request.GraceMs) * time.Millisecond)
		}
		select {
		case message := <-messages:
			values = append(values, string(message.Value))
		case <-patience:
			if len(values) < request.Count {
				err = fmt.Errorf("%d records only", len(values))
			}
			patience = nil
		}
	}
	for _, one := range partitions {
		one.AsyncClose()
	}
	readers.Wait()
	return values, errors.Join(err, consumer.Close())
}
