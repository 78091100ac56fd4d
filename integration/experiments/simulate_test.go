package main

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/testing/shaped"
)

func TestSimulated(t *testing.T) {
	window, slot := predictedOrders(4)
	settle(t, simulated(simulateSize{
		chunks: 128, each: 64, shape: shaped.Shape{FirstByte: time.Millisecond, Total: 200e6},
		cases: []predicted{
			{window, policy.Plan, 0.5, 2, 2, 1, 1},
			{window, policy.LRU, 0.5, 2, 2, 1, 1},
			{slot, policy.LRU, 0.5, 2, 2, 1, 1},
			{slot, policy.Plan, 2, 1, 2, 1, 1},
		},
	}))
}
