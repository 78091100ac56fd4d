package client

import (
	"context"
	"net"
)

// AnswerSRV makes a client use these SRV records instead of a name server's.
func AnswerSRV(c *Client, records func() ([]*net.SRV, error)) {
	c.fleet.lookupSRV = func(context.Context, string, string, string) (string, []*net.SRV, error) {
		found, err := records()
		return "", found, err
	}
}

// ReadFrame parses the framed form of a batch with count samples, and reads every range in its
// table.
func ReadFrame(body []byte, count int) error {
	b := &Batch{data: body, count: count}
	if err := b.readFrame(); err != nil {
		return err
	}
	for i := range count {
		b.Sample(i)
		for j := range b.frame.parts {
			for _, p := range b.frame.parts[j] {
				b.Part(j, p.name)
			}
		}
	}
	return nil
}

// WithManifest returns a batch with these samples, the last of which are padding.
func WithManifest(padded uint64, samples ...Sample) *Batch {
	return &Batch{Padded: padded, manifest: samples}
}

// Nearer and CompareNear compare two latencies of gateways.
var Nearer, CompareNear = nearer, compareNear

// Deliveries and NewDeliveries are the proof of ReadEpoch.
type Deliveries = deliveries

var NewDeliveries = newDeliveries

// Skipped returns the number of samples of the first batch that Resume omits.
func Skipped(o Options) uint64 { return o.skip }

// PartOf returns a batch without samples that begins at an offset of the global batch.
func PartOf(epoch, number, skip uint64) *Batch {
	return &Batch{Epoch: epoch, Number: number, skip: skip}
}
