package main

import (
	"context"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
)

// Reassignment of one partition that is not completed.
type Reassignment struct {
	Replicas []int32 `json:"replicas"`
	Adding   []int32 `json:"adding"`
	Removing []int32 `json:"removing"`
}

// Reassigning is what actions on partition 0 of a topic ask of both libraries.
type Reassigning interface {
	// Reassign begins a reassignment, or cancels it if there is no target.
	Reassign(Request) error
	// Reassignments are those of the topic, by partition.
	Reassignments(Request) (map[int32]Reassignment, error)
}

func (f franz) Reassign(request Request) error {
	return f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		var asked kadm.AlterPartitionAssignmentsReq
		if request.MovedTo == nil {
			asked.CancelAssign(request.Topic, 0)
		} else {
			asked.Assign(request.Topic, 0, request.MovedTo)
		}
		answers, err := admin.AlterPartitionAssignments(ctx, asked)
		if err != nil {
			return err
		}
		return answers.Error()
	})
}

func (f franz) Reassignments(request Request) (map[int32]Reassignment, error) {
	found := map[int32]Reassignment{}
	err := f.admin(request, func(ctx context.Context, admin *kadm.Client) error {
		var asked kadm.TopicsSet
		asked.Add(request.Topic, 0)
		answers, err := admin.ListPartitionReassignments(ctx, asked)
		for number, each := range answers[request.Topic] {
			found[number] = Reassignment{each.Replicas, each.AddingReplicas, each.RemovingReplicas}
		}
		return err
	})
	return found, err
}

func (s saramas) Reassign(request Request) error {
	return s.admin(request, func(admin sarama.ClusterAdmin) error {
		return admin.AlterPartitionReassignments(request.Topic, [][]int32{request.MovedTo})
	})
}

func (s saramas) Reassignments(request Request) (map[int32]Reassignment, error) {
	found := map[int32]Reassignment{}
	err := s.admin(request, func(admin sarama.ClusterAdmin) error {
		answers, err := admin.ListPartitionReassignments(request.Topic, []int32{0})
		for number, each := range answers[request.Topic] {
			found[number] = Reassignment{each.Replicas, each.AddingReplicas, each.RemovingReplicas}
		}
		return err
	})
	return found, err
}
