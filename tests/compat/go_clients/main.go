// Drives franz-go and sarama for tests/compat/test_go_clients.py and test_listeners_of_clients.py.
//
// Requests come as JSON, a line each, on stdin; answers leave as JSON, a line each, on stdout.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Record is one record of a partition. Keys and values are nil or base64, as JSON has them.
type Record struct {
	Partition   int32    `json:"partition"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []Header `json:"headers"`
	TimestampMs int64    `json:"timestamp_ms"`
	Offset      int64    `json:"offset"`
}

// Header of a record.
type Header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Request has what any action needs; each looks at its own part.
type Request struct {
	Action      string              `json:"action"`
	Library     string              `json:"library"`
	Bootstrap   []string            `json:"bootstrap"`
	Version     string              `json:"version"` // sarama: the Kafka version that it supposes
	ClientID    string              `json:"client_id"`
	Topic       string              `json:"topic"`
	Partitions  int32               `json:"partitions"`
	Replicas    int16               `json:"replicas"`
	Configs     map[string]*string  `json:"configs"`
	Records     []Record            `json:"records"`
	Compression string              `json:"compression"`
	Acks        string              `json:"acks"`
	Idempotent  bool                `json:"idempotent"`
	BatchBytes  int32               `json:"batch_bytes"` // of one batch or fetch at most; 0: the default
	TimestampMs int64               `json:"timestamp_ms"`
	Quotas      map[string]*float64 `json:"quotas"`   // nil removes
	Entity      map[string]*string  `json:"entity"`   // entity type to name; nil is the default
	Defaults    bool                `json:"defaults"` // stream and follow: at the library's own pace
	Security    Security            `json:"security"`
	MovedTo     []int32             `json:"moved_to"` // the replicas of a reassignment; nil cancels it
	Transaction
}

// Partition as metadata has it.
type Partition struct {
	Leader   int32   `json:"leader"`
	Replicas []int32 `json:"replicas"`
	ISR      []int32 `json:"isr"`
}

// Description of a cluster and one topic.
type Description struct {
	Controller int32                `json:"controller"`
	Brokers    map[int32]string     `json:"brokers"`
	Partitions map[int32]*Partition `json:"partitions"`
}

// Offsets of one partition.
type Offsets struct {
	Earliest    int64 `json:"earliest"`
	Latest      int64 `json:"latest"`
	AtTimestamp int64 `json:"at_timestamp"`
}

// Transfer is what came of producing or consuming.
type Transfer struct {
	Records    []Record `json:"records"`
	ElapsedMs  int64    `json:"elapsed_ms"`
	ThrottleMs int64    `json:"throttle_ms"` // the longest time that a response asked to wait
}

// Client is what both libraries are asked to do.
type Client interface {
	CreateTopic(Request) error
	AddPartitions(Request) error
	DeleteTopic(Request) error
	Describe(Request) (Description, error)
	Produce(Request) (Transfer, error)
	// Consume every partition of a topic from its beginning to its present end.
	Consume(Request) (Transfer, error)
	Offsets(Request) (map[int32]*Offsets, error)
	Configs(Request) (map[string]string, error)
	AlterConfigs(Request) error
	Quotas(Request) (map[string]float64, error)
	AlterQuotas(Request) error
	// Transactional gives a producer that the coordinator of its transactional id knows.
	Transactional(Request) (Transactional, error)
	// Copy reads as a member of a group, and writes in a transaction that has the group's offsets.
	Copy(Request) error
	// Read so many records of a topic, and for a while more if there are more.
	Read(Request) ([]string, error)
	// Stream sends what it takes from the channel, idempotently, and tells what was acknowledged.
	Stream(request Request, records <-chan Record, acknowledged func(Record)) error
	// Follow every partition from its beginning, whatever becomes of its leaders, until told to end.
	Follow(request Request, ended <-chan struct{}, read func(Record)) error
	Reassigning
}

var libraries = map[string]Client{"franz-go": franz{}, "sarama": saramas{}}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "members" {
		hostMembers()
		return
	}
	stdin := bufio.NewReader(os.Stdin)
	for {
		line, err := stdin.ReadBytes('\n')
		if err != nil {
			return // whoever asked has gone
		}
		if err := json.NewEncoder(os.Stdout).Encode(reply(line, stdin)); err != nil {
			os.Exit(1)
		}
	}
}

// Actions that go on until stdin ends, and write a line for each record; no answer but an error.
var lastingActions = map[string]func(Client, Request, <-chan struct{}) error{
	"stream": stream, "follow": follow,
}

// atEnd is closed when there is nothing more to read.
func atEnd(stdin io.Reader) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(ended)
	}()
	return ended
}

func reply(line []byte, stdin io.Reader) map[string]any {
	var request Request
	if err := json.Unmarshal(line, &request); err != nil {
		return map[string]any{"error": err.Error()}
	}
	client := libraries[request.Library]
	if lasting, found := lastingActions[request.Action]; found {
		if err := lasting(client, request, atEnd(stdin)); err != nil {
			return map[string]any{"error": err.Error()}
		}
		os.Exit(0)
	}
	answer, err := answer(client, request)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"answer": answer}
}

func answer(client Client, request Request) (any, error) {
	switch request.Action {
	case "create-topic":
		return nil, client.CreateTopic(request)
	case "add-partitions":
		return nil, client.AddPartitions(request)
	case "delete-topic":
		return nil, client.DeleteTopic(request)
	case "describe":
		return client.Describe(request)
	case "produce":
		return client.Produce(request)
	case "consume":
		return client.Consume(request)
	case "offsets":
		return client.Offsets(request)
	case "configs":
		return client.Configs(request)
	case "alter-configs":
		return nil, client.AlterConfigs(request)
	case "quotas":
		return client.Quotas(request)
	case "alter-quotas":
		return nil, client.AlterQuotas(request)
	case "reassign":
		return nil, client.Reassign(request)
	case "reassignments":
		return client.Reassignments(request)
	}
	if perform, found := transactionActions[request.Action]; found {
		return perform(client, request)
	}
	return nil, fmt.Errorf("no action %q", request.Action)
}

// stream produces numbered records, in turn to each partition, and writes what was acknowledged.
func stream(client Client, request Request, ended <-chan struct{}) error {
	records := make(chan Record)
	go func() {
		defer close(records)
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for number := int64(0); ; number++ {
			select {
			case <-ended:
				return
			case <-pace.C:
			}
			partition := int32(number % int64(request.Partitions))
			value := fmt.Appendf(nil, "%d", number)
			records <- Record{Partition: partition, Value: value, TimestampMs: time.Now().UnixMilli()}
		}
	}()
	return client.Stream(request, records, writeRecord())
}

// follow reads what others produce, and writes it.
func follow(client Client, request Request, ended <-chan struct{}) error {
	return client.Follow(request, ended, writeRecord())
}

// writeRecord gives a function that may be called from anywhere.
func writeRecord() func(Record) {
	var lock sync.Mutex
	output := json.NewEncoder(os.Stdout)
	return func(record Record) {
		lock.Lock()
		defer lock.Unlock()
		if err := output.Encode(record); err != nil {
			os.Exit(1) // whoever asked has gone
		}
	}
}
