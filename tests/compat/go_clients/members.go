package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Members of consumer groups: `go_clients members`, for tests/compat/member_hosts.py.
//
// Orders come as JSON, a line each, on stdin: to start a member, or to have it leave. What happens to
// a member is written as JSON, a line each. When stdin ends, all leave.

const (
	heartbeat = 500 * time.Millisecond
	pollTime  = 100 * time.Millisecond
)

// Order is about one member.
type Order struct {
	Do        string   `json:"do"` // start or leave
	Member    string   `json:"member"`
	Client    string   `json:"client"`
	Bootstrap []string `json:"bootstrap"`
	Group     string   `json:"group"`
	Topics    []string `json:"topics"`
	Strategy  string   `json:"strategy"`
	SessionMs int64    `json:"session_ms"`
	Instance  string   `json:"instance"`
}

func (o Order) session() time.Duration { return time.Duration(o.SessionMs) * time.Millisecond }

// Place is a topic and a partition, as JSON has tuples.
type Place [2]any

// teller writes what happens to one member.
type teller struct {
	member string
	output *json.Encoder
	lock   *sync.Mutex
	had    string
}

func (t *teller) tell(event string, facts map[string]any) {
	facts["event"], facts["member"] = event, t.member
	t.lock.Lock()
	defer t.lock.Unlock()
	if err := t.output.Encode(facts); err != nil {
		os.Exit(1) // whoever asked has gone
	}
}

// assigned tells the partitions when they are others than before.
func (t *teller) assigned(claims map[string][]int32) {
	places := []Place{}
	for topic, partitions := range claims {
		for _, partition := range partitions {
			places = append(places, Place{topic, partition})
		}
	}
	sort.Slice(places, func(i, j int) bool {
		if places[i][0] != places[j][0] {
			return places[i][0].(string) < places[j][0].(string)
		}
		return places[i][1].(int32) < places[j][1].(int32)
	})
	now, _ := json.Marshal(places)
	if string(now) != t.had {
		t.had = string(now)
		t.tell("assigned", map[string]any{"partitions": places})
	}
}

func (t *teller) record(topic string, partition int32, offset int64, value []byte) {
	t.tell("record", map[string]any{
		"topic": topic, "partition": partition, "offset": offset, "value": string(value),
	})
}

func (t *teller) commitFailed(err error) {
	t.tell("commit failed", map[string]any{"text": err.Error()})
}

// hostMembers carries out orders until stdin ends.
func hostMembers() {
	run := map[string]func(context.Context, Order, *teller) error{
		"franz-go": runFranz, "sarama": runSarama, "sarama-2.8": runSarama,
	}
	stdin := bufio.NewReader(os.Stdin)
	output, lock := json.NewEncoder(os.Stdout), &sync.Mutex{}
	leave := map[string]context.CancelFunc{}
	var members sync.WaitGroup
	for {
		line, err := stdin.ReadBytes('\n')
		if err != nil {
			break
		}
		var order Order
		if err := json.Unmarshal(line, &order); err != nil {
			panic(err)
		}
		if order.Do == "leave" {
			leave[order.Member]()
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		leave[order.Member] = cancel
		members.Go(func() {
			told := &teller{member: order.Member, output: output, lock: lock}
			if err := run[order.Client](ctx, order, told); err != nil {
				told.tell("failed", map[string]any{"text": err.Error()})
				return
			}
			told.tell("closed", map[string]any{})
		})
	}
	for _, cancel := range leave {
		cancel()
	}
	members.Wait()
}

// -- franz-go -----------------------------------------------------------------------------------

// holding is what a franz-go member has: it is told of changes only.
type holding map[string]map[int32]bool

func (h holding) change(claims map[string][]int32, has bool) {
	for topic, partitions := range claims {
		for _, partition := range partitions {
			if h[topic] == nil {
				h[topic] = map[int32]bool{}
			}
			if has {
				h[topic][partition] = true
			} else {
				delete(h[topic], partition)
			}
		}
	}
}

func (h holding) claims() map[string][]int32 {
	found := map[string][]int32{}
	for topic, partitions := range h {
		for partition := range partitions {
			found[topic] = append(found[topic], partition)
		}
	}
	return found
}

func runFranz(ctx context.Context, order Order, told *teller) error {
	balancers := map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"sticky":             kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	held := holding{}
	var lock sync.Mutex
	changed := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, claims map[string][]int32) {
			lock.Lock()
			defer lock.Unlock()
			held.change(claims, has)
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(order.Bootstrap...), kgo.ClientID(order.Client),
		kgo.ConsumerGroup(order.Group), kgo.ConsumeTopics(order.Topics...),
		kgo.Balancers(balancers[order.Strategy]),
		kgo.SessionTimeout(order.session()), kgo.HeartbeatInterval(heartbeat),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(changed(true)),
		kgo.OnPartitionsRevoked(changed(false)), kgo.OnPartitionsLost(changed(false)),
	}
	if order.Instance != "" {
		options = append(options, kgo.InstanceID(order.Instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		polling, cancel := context.WithTimeout(ctx, pollTime)
		fetches := client.PollFetches(polling)
		cancel()
		fetches.EachRecord(func(one *kgo.Record) {
			told.record(one.Topic, one.Partition, one.Offset, one.Value)
		})
		for _, failure := range fetches.Errors() {
			if errors.Is(failure.Err, kerr.FencedInstanceID) {
				return failure.Err
			}
		}
		if !fetches.Empty() {
			// Also when it is to leave: what it has told is committed.
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				told.commitFailed(err)
			}
		}
		lock.Lock()
		now := held.claims()
		lock.Unlock()
		client.AllowRebalance()
		told.assigned(now)
	}
	client.CloseAllowingRebalance()
	return nil
}

// -- sarama -------------------------------------------------------------------------------------

func runSarama(ctx context.Context, order Order, told *teller) error {
	strategies := map[string]sarama.BalanceStrategy{
		"range":      sarama.NewBalanceStrategyRange(),
		"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"sticky":     sarama.NewBalanceStrategySticky(),
	}
	config := sarama.NewConfig()
	if order.Client == "sarama" { // else it supposes one, which is 2.8
		config.Version = sarama.MaxVersion
	}
	config.ClientID = order.Client
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{
		strategies[order.Strategy],
	}
	config.Consumer.Group.Session.Timeout = order.session()
	config.Consumer.Group.Heartbeat.Interval = heartbeat
	config.Consumer.Group.InstanceId = order.Instance
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = pollTime
	config.Consumer.Retry.Backoff = 100 * time.Millisecond
	config.Metadata.Retry.Backoff = 100 * time.Millisecond
	group, err := sarama.NewConsumerGroup(order.Bootstrap, order.Group, config)
	if err != nil {
		return err
	}
	defer group.Close()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, order.Topics, telling{told}); err != nil {
			return err
		}
	}
	return nil
}

// telling reads the partitions of a sarama member, until the group rebalances.
type telling struct{ told *teller }

func (t telling) Setup(session sarama.ConsumerGroupSession) error {
	t.told.assigned(session.Claims())
	return nil
}

func (telling) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (t telling) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for one := range claim.Messages() {
		t.told.record(one.Topic, one.Partition, one.Offset, one.Value)
		session.MarkMessage(one, "")
		session.Commit()
	}
	return nil
}
