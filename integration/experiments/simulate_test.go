package main

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/internal/testing/shaped"
)

func TestSimulated(t *testing.T) {
	window, slot := predictedOrders(4)
	settle(t, simulated(simulateSize{
		chunks: 128, each: 64, shape: shaped.Shape{FirstByte: time.Millisecond, Total: 200e6},
		cases: []predicted{
			{window, datapath.PolicyPlan, 0.5, 2, 2, 1, 1},
			{window, datapath.PolicyLRU, 0.5, 2, 2, 1, 1},
			{slot, datapath.PolicyLRU, 0.5, 2, 2, 1, 1},
			{slot, datapath.PolicyPlan, 2, 1, 2, 1, 1},
		},
	}))
}
