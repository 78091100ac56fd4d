package simulate

import (
	"fmt"
	"math"

	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// limits bounds the size of a simulation. A larger setting is scaled down to them.
type limits struct {
	samples  uint64 // samples in all epochs; with more, one sample represents several, until there are at most a quarter as many
	requests uint64 // requests in all epochs and of all ranks; with more, one request represents several, until there are at most a sixteenth as many
	chunks   int    // chunks in all epochs
	ranged   uint64 // samples per epoch that are read one by one
	gateways int    // gateways in a cluster
}

func standard() limits {
	return limits{samples: 6 << 20, requests: 1 << 20, chunks: 1 << 17, ranged: 1 << 18, gateways: 16}
}

// scaledQuestion is a setting and its data, scaled down. Its data path is the same, with less data
// and fewer gateways and ranks.
type scaledQuestion struct {
	data   *Data
	set    Setting
	fits   bool    // all data fits into memory
	fleet  float64 // scaling factor of gateways, data, ranks and store
	beyond float64 // scaling factor of the bytes from other gateways
	parts  float64 // scaling factor of the data for the same gateways
	bodies float64 // part of a request's bytes that is in memory at the same time: one request represents several
	soon   int64   // bytes of memory that are not scaled
	note   string
}

// scale scales a setting down to the limits.
func scale(d *Data, s Setting, most limits) *scaledQuestion {
	q := &scaledQuestion{data: d, set: s, fits: s.held(d) <= policy.Ahead(s.CacheSize), fleet: 1, beyond: 1, parts: 1, bodies: 1}
	large := s.large(d, most)
	if large {
		q.fewerGateways(most.gateways)
	}
	chunks := len(q.data.Chunks) * s.Epochs
	k := (chunks + most.chunks - 1) / most.chunks
	byOne := s.Order.Shuffle == shuffle.Full && !q.fits
	if byOne { // all batches are alike, and each sample costs a read
		k = max(k, int((q.data.Samples()+most.ranged-1)/most.ranged))
	}
	q.fewerChunks(min(k, max(len(q.data.Chunks)/thinRun, 1)))
	if large && !byOne {
		q.fewerSamples(most)
	}
	return q
}

// large reports whether a setting is too large to be simulated sample by sample.
func (s *Setting) large(d *Data, most limits) bool {
	batches := shuffle.Batching{Samples: d.Samples(), BatchSize: s.BatchSize, Tail: shuffle.Short}.Batches()
	requests := batches * uint64(s.Epochs*s.Ranks)
	questions := requests * uint64(min(s.cluster(), int(s.BatchSize)/s.Ranks))
	return d.Samples()*uint64(s.Epochs) > most.samples || requests > most.requests || questions > 4*most.requests
}

// fewerGateways represents a large cluster by some of its gateways. With the corresponding part of
// the data, lanes, ranks and store bandwidth, and unchanged memory, disk, link and fetchers, they
// take as long as all of them. Only the part of a rank's samples that other gateways own is
// smaller, so those bytes are multiplied by the factor beyond.
func (q *scaledQuestion) fewerGateways(most int) {
	s, all := &q.set, q.set.Gateways
	if s.Alone || all <= most {
		return
	}
	n := most
	for n > most/2 && all%n != 0 {
		n--
	}
	if all%n != 0 {
		n = most
	}
	by := float64(n) / float64(all)
	of := func(x uint64) uint64 { return max(uint64(math.Round(float64(x)*by)), 1) }
	t := q.data.thin(n, all)
	q.fleet = float64(q.data.Bytes()) / float64(t.Bytes())
	q.data = t
	q.beyond = (1 - 1/float64(all)) / (1 - 1/float64(n))
	s.Gateways, s.Ranks = n, max(int(of(uint64(s.Ranks))), n)
	if k := s.Order.Strata; k > 0 {
		s.Order.Strata, s.Order.Window = of(k), of(k)*(s.Order.Window/k)
	} else if s.Order.Window > 0 {
		s.Order.Window = of(s.Order.Window)
	}
	s.BatchSize, s.Rate, s.StoreRate = max(of(s.BatchSize), uint64(s.Ranks)), s.Rate*by, s.StoreRate*by
	q.say("%d gateways represent all, with the same share of the data, the ranks and the store", n)
}

// fewerChunks represents a large number of chunks by an evenly spread part of them. The memory for
// chunks that readers need soon is unchanged. The memory above it is scaled like the data.
func (q *scaledQuestion) fewerChunks(k int) {
	if k <= 1 {
		return
	}
	s, d := &q.set, q.data
	soon := policy.Budget(s.Needed(d))
	q.data = d.thin(1, k)
	q.parts = float64(d.Bytes()) / float64(q.data.Bytes())
	q.soon = min(soon, s.CacheSize)
	if s.CacheSize > soon {
		s.CacheSize = soon + int64(float64(s.CacheSize-soon)/q.parts)
	}
	s.DiskSize = int64(float64(s.DiskSize) / q.parts)
	q.say("1 chunk in %d represents all", k)
}

// fewerSamples represents several samples of a chunk by one sample, the ranks of a gateway by up to
// four ranks, and several batches by one.
func (q *scaledQuestion) fewerSamples(most limits) {
	const ranksOfOne = 4 // ranks that represent all ranks of a gateway
	s, before := &q.set, q.data.Samples()
	each := max(4*before*uint64(s.Epochs)/most.samples, 1)
	q.data = q.data.join(each)
	by := float64(q.data.Samples()) / float64(before)
	n := min(s.Ranks, max(ranksOfOne*s.Gateways/s.cluster(), s.Gateways))
	batch := float64(s.BatchSize) * by
	requests := most.requests / 16
	s.BatchSize = max(uint64(math.Round(batch)), uint64(n), q.data.Samples()*uint64(s.Epochs*n)/requests)
	q.bodies = min(batch/float64(s.BatchSize), 1)
	q.say("one sample represents %d of its chunk, one batch %.3g, and %d ranks all %d", each, 1/q.bodies, n, s.Ranks)
	s.Rate, s.Ranks = s.Rate*by, n
}

// join returns data in which one sample represents the given number of samples of its chunk.
func (d *Data) join(each uint64) *Data {
	t := &Data{First: []uint64{0}, Chunks: d.Chunks, Digest: d.Digest, joined: int64(each)}
	for i := range d.Chunks {
		n := d.First[i+1] - d.First[i]
		t.First = append(t.First, t.First[i]+(n+each-1)/each)
	}
	return t
}

// restore converts the results of a scaled setting to those of the original one.
func (q *scaledQuestion) restore(r *Result) {
	r.Coarse = q.note
	for i := range r.Epochs {
		e := &r.Epochs[i]
		e.scale(q.parts)
		e.Counts.scale(q.fleet)
		if q.data.joined > 0 && e.PeerReads > 0 {
			e.PeerReads = q.questions(r, e)
		}
	}
	if r.Peak > q.soon {
		r.Peak = q.soon + int64(float64(r.Peak-q.soon)*q.parts)
	}
}

// pieces returns the maximum number of pieces of a transfer: fewer if one sample represents several.
func (q *scaledQuestion) pieces() int64 {
	if q.data.joined > 1 {
		return 4
	}
	return 16
}

// say adds to the note how the setting was scaled.
func (q *scaledQuestion) say(format string, args ...any) {
	if q.note != "" {
		q.note += "; "
	}
	q.note += fmt.Sprintf(format, args...)
}

// questions estimates the number of queries between gateways if batches and ranks represent
// several. Each run of a rank's batches needs one query to every gateway that owns some of its
// samples.
func (q *scaledQuestion) questions(r *Result, e *Epoch) int64 {
	s := &r.Setting
	samples := float64(r.Samples)
	mean := float64(r.Bytes) / samples
	batches := math.Ceil(samples / float64(s.BatchSize))
	others := float64(s.Gateways - 1)
	foreign := float64(s.BatchSize) / float64(s.Ranks) * float64(e.PeerBytes) / float64(max(e.Served, 1))
	l := &lookahead.Limits{Memory: s.CacheSize, Fits: q.fits}
	begun := float64(s.BatchSize) / samples * float64(len(q.data.Chunks)) * q.parts * q.fleet / float64(s.Gateways) // number of chunks that a batch begins with, of one owner
	bytes := foreign / others * (mean + lookahead.SampleCost)
	joined := max(min(lookahead.RunBatches, float64(l.Chunks())/begun, lookahead.QuestionBytes/bytes, float64(l.Run())/(foreign*mean)), 1)
	runs := min(batches, 1+(batches-1)/joined)
	return int64(runs * float64(s.Ranks) * others * (1 - math.Pow(1-1/others, foreign*batches/runs)))
}
