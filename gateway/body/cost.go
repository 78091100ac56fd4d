package body

import (
	"time"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/shuffle"
)

// LayOutBytes estimates the memory needed to lay out samples in a form other than the dataset's
// own.
func LayOutBytes(d *plans.Dataset, v address.View, samples uint64) int64 {
	if v.Plain() {
		return 0
	}
	const perSample, perColumn = 256, 16
	each := perSample + partsOf(d)*layoutOf(v.Form).perPart
	if v.Form.Name == formArrow { // a column has a row even for samples without the part
		each += perColumn * int64(len(d.Index.Fields()))
	}
	return int64(samples) * each
}

// partsOf returns an upper estimate of the mean number of parts per sample.
func partsOf(d *plans.Dataset) int64 { return d.Index.MeanParts() }

// GroupBytes estimates the memory of samples in a group, without the memory needed to lay out one
// batch.
func GroupBytes(d *plans.Dataset, v address.View, samples uint64) int64 {
	const bare, ofKey, ofParts, ofPart = 96, 48, 24, 64
	each := int64(bare)
	keys, parts, _ := Answer{Dataset: d, View: v}.shows()
	if keys {
		each += ofKey
	}
	if parts {
		each += ofParts + ofPart*d.Index.MeanParts()
	}
	return int64(samples) * each
}

// Processor time on a core of 2024: per row of a sample table, per key and per part of an index,
// and per sample to locate and lay it out.
const (
	rowTime  = 15 * time.Nanosecond
	keyTime  = 35 * time.Nanosecond
	partTime = 60 * time.Nanosecond
	findTime = 700 * time.Nanosecond
	showTime = 2500 * time.Nanosecond // additional time for samples with keys and parts
	sortTime = 350 * time.Nanosecond  // per sample of a block that is sorted by cost
)

// Work estimates the processor time to locate and lay out samples of a batch. The samples are
// consecutive in the order, unless the caller lists positions. All rows of each chunk that contains
// one of them are read.
func Work(d *plans.Dataset, b address.Batch, samples uint64) time.Duration {
	perRow, perSample := rowTime, findTime
	if keys, parts, _ := (Answer{Dataset: d, View: b.View}).shows(); keys || parts {
		perSample += showTime
		if keys {
			perRow += keyTime
		}
		if parts {
			perRow += partTime
		}
	}
	perChunk := d.Index.Samples() / uint64(max(1, d.Index.Chunks()))
	chunks := samples // upper bound: one chunk per sample
	switch run := samples/max(1, perChunk) + 2; {
	case b.At != nil:
	case b.Params.Shuffle == shuffle.None:
		chunks = run
	case b.Params.Shuffle == shuffle.Window || b.Params.Shuffle == shuffle.Slot:
		chunks = b.Params.Window + run
	}
	chunks = min(chunks, samples, uint64(d.Index.Chunks()))
	sorted := uint64(0)
	if _, ok := b.Buckets(); ok {
		sorted = samples + b.Bucket*b.BatchSize
	}
	return time.Duration(sorted)*sortTime + time.Duration(chunks*perChunk)*perRow + time.Duration(samples)*perSample
}
