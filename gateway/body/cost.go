package body

import (
	"time"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/shuffle"
)

// LayBytes is about the memory to lay out so many samples in a form that is not the dataset's own.
func LayBytes(d *plans.Dataset, v address.View, samples uint64) int64 {
	if v.Plain() {
		return 0
	}
	const perSample, perColumn = 256, 16
	each := perSample + partsOf(d)*layoutOf(v.Form).perPart
	if v.Form.Name == formArrow { // a column has a row where a sample lacks the part, too
		each += perColumn * int64(len(d.Index.Fields()))
	}
	return int64(samples) * each
}

// partsOf is about how many parts a sample of a dataset has, at most.
func partsOf(d *plans.Dataset) int64 {
	return d.Index.MeanParts()
}

// GroupBytes is about the memory of so many samples of a group, without that to lay one batch out.
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

// Processor time, as measured on a core of 2024: to read a row of a sample table, a key and a part from an index, and to
// find and lay out one sample.
const (
	rowTime  = 15 * time.Nanosecond
	keyTime  = 35 * time.Nanosecond
	partTime = 60 * time.Nanosecond
	findTime = 700 * time.Nanosecond
	showTime = 2500 * time.Nanosecond // more, with key and parts
)

// Work is about the processor time to find and lay out so many samples of a batch, which follow each other in the order unless the
// caller names their positions. Of each chunk that has one of them all rows are read.
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
	chunks := samples // at most: each in a chunk of its own
	switch run := samples/max(1, perChunk) + 2; {
	case b.At != nil:
	case b.Params.Shuffle == shuffle.None:
		chunks = run
	case b.Params.Shuffle == shuffle.Window || b.Params.Shuffle == shuffle.Slot:
		chunks = b.Params.Window + run
	}
	chunks = min(chunks, samples, uint64(d.Index.Chunks()))
	return time.Duration(chunks*perChunk)*perRow + time.Duration(samples)*perSample
}
