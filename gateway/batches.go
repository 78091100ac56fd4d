package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/internal/budget"
)

// Constants of the stream of batches (docs/spec/framed.md).
const (
	streamMagic    = "MLRB"
	streamVersion  = 1
	streamHeader   = 80 // bytes before each batch, without its micro-batches
	streamContent  = "application/vnd.millrace.batches"
	maxBatches     = 1024 // per answer
	defaultBatches = 16
)

// streamEntry describes one batch of a stream before the first byte is sent.
type streamEntry struct {
	request batchRequest
	at      int64 // offset of the batch's header in the body
	size    int64 // size of the batch without its header
	crc     uint32
	samples uint64
	padded  uint64
	totals  plans.Totals
}

// begin returns the offset of the batch in the body.
func (s *streamEntry) begin() int64 { return s.at + streamHeader + 4*int64(len(s.totals.Micro)) }

// end returns the offset of the next batch's header.
func (s *streamEntry) end() int64 { return s.begin() + s.size }

// getBatches sends consecutive batches, each after a header.
func (g *Gateway) getBatches(x *exchange) error {
	a, count, err := g.decodeBatches(x)
	if err != nil {
		return err
	}
	x.w.Header().Set("Vary", "Accept")
	if accept := x.accept(); strings.Trim(accept, " \t,") != "" && address.Quality(accept, streamContent) == 0 {
		return address.Refuse(address.NotAcceptable, "available as %s; format= selects the format of each batch", streamContent)
	}
	if err := x.checkFields(a.dataset, a.View); err != nil {
		return err
	}
	etag := a.BatchesETag(count)
	h := x.w.Header()
	describeEpoch(x, a.Batch, etag)
	h.Set("Content-Location", a.BatchesURL(a.Number, count))
	if a.Number+count < a.Batching().Batches() {
		h.Set("Link", "<"+a.BatchesURL(a.Number+count, count)+`>; rel="next"`)
	}
	if answered, err := g.settled(x, etag); answered || err != nil {
		return err
	}
	if err := checkWork(g.work(a, count), maxWork); err != nil {
		return err
	}
	list, crc, err := g.measureBatches(x, a, count)
	if err != nil {
		return err
	}
	if err := g.await(x, &x.held, 2*planningBytes(a)); err != nil { // one batch is sent while the next is read
		return err
	}
	return g.sendBatches(x, list, crc, etag)
}

// decodeBatches decodes the address of count consecutive batches and returns the first one.
func (g *Gateway) decodeBatches(x *exchange) (a batchRequest, count uint64, err error) {
	defer x.log.Leave(x.log.Enter(timing.Decode))
	q := address.ParseQuery(x.r.URL.RawQuery, append(address.EpochNames(), "from", "count")...)
	b := address.DecodeEpoch(q, x.dataset.Address, chi.URLParam(x.r, "epoch"))
	b.Number = q.Number("from", 0, 0, math.MaxUint64)
	count = q.Number("count", defaultBatches, 1, maxBatches)
	if a, err = g.resolve(x, q, b); err != nil {
		return a, 0, err
	}
	x.log.hasBatch = true
	if err := a.CheckEnd(); err != nil {
		return a, 0, err
	}
	count = min(count, a.Batching().Batches()-a.Number)
	if _, positions := a.Share(); positions.Count > body.MaxSamples/count {
		return a, 0, address.Refuse(address.TooLarge,
			"%d batches have %d samples each, but a response can have at most %d samples: request fewer batches", count, positions.Count, body.MaxSamples).
			Above(body.MaxSamples)
	}
	return a, count, nil
}

// measureBatches computes the size and checksum of each batch, and the checksum of the whole
// response. It reads samples only if their values have another form in the answer.
func (g *Gateway) measureBatches(x *exchange, a batchRequest, count uint64) (list []streamEntry, crc uint32, err error) {
	list = make([]streamEntry, 0, count)
	at := int64(0)
	err = g.measure(x, a, count, func(a batchRequest, b *body.Body) error {
		s := streamEntry{request: a, at: at, size: b.Size, crc: b.CRC, samples: uint64(b.Count()), padded: b.Padded(a.Samples), totals: b.Totals}
		header := s.header()
		crc = g.bodies.CombineCRC(crc, body.Checksum(header), int64(len(header)))
		crc = g.bodies.CombineCRC(crc, s.crc, s.size)
		list, at = append(list, s), s.end()
		return b.CheckFits(g.cfg.Budget.Total())
	})
	return list, crc, err
}

// laidOut locates a batch and lays out its body. Both are valid until held is dropped.
func (g *Gateway) laidOut(ctx context.Context, x *exchange, held *plans.Holds, a batchRequest) (plans.BatchOrder, *body.Body, error) {
	r, b, err := g.locate(ctx, x, held, a)
	if err == nil {
		err = g.layOut(ctx, x, a.dataset, a.answer(), r.Cursor, b)
	}
	return r, b, err
}

// header returns the header of a batch in the stream.
func (s *streamEntry) header() []byte {
	h := make([]byte, s.begin()-s.at)
	copy(h, streamMagic)
	binary.LittleEndian.PutUint16(h[4:], streamVersion)
	binary.LittleEndian.PutUint16(h[6:], uint16(len(h)))
	binary.LittleEndian.PutUint64(h[8:], s.request.Number)
	binary.LittleEndian.PutUint64(h[16:], uint64(s.size))
	binary.LittleEndian.PutUint32(h[24:], s.crc)
	binary.LittleEndian.PutUint32(h[28:], uint32(s.samples))
	binary.LittleEndian.PutUint32(h[32:], uint32(s.padded))
	binary.LittleEndian.PutUint32(h[36:], uint32(s.totals.Samples))
	binary.LittleEndian.PutUint64(h[72:], s.totals.Cost)
	for i, n := range s.totals.Micro {
		binary.LittleEndian.PutUint32(h[streamHeader+4*i:], n)
	}
	etag := s.request.ETag()
	if _, err := hex.Decode(h[40:], []byte(etag[1:len(etag)-1])); err != nil {
		panic(fmt.Sprintf("gateway: ETag %s is no digest: %v", etag, err))
	}
	return h
}

// loadedBatch is a batch of a stream whose bytes are in memory.
type loadedBatch struct {
	*streamEntry
	held  loadedPart
	parts net.Buffers
	close func()
	err   error
	tiers []batch.TierTime // tiers that it was read from, if the access log line does not include them yet
}

// settle reduces the memory of the batch, like loadedPart.settle. It does nothing for a batch
// outside the requested range.
func (b *loadedBatch) settle(sent int64) net.Buffers {
	if len(b.parts) > 0 {
		b.parts = b.held.settle(sent)
	}
	return b.parts
}

// sendBatches sends the batches, or the part that Range selects. It reads the next batch while it
// sends one.
func (g *Gateway) sendBatches(x *exchange, list []streamEntry, crc uint32, etag string) error {
	h := x.w.Header()
	h.Set("Content-Type", streamContent)
	h.Set("Millrace-Crc32c", fmt.Sprintf("%08x", crc))
	last := &list[len(list)-1]
	part, status, err := x.part(etag, last.end(), "batches")
	if err != nil {
		return err
	}
	if x.r.Method == http.MethodHead {
		h.Set("Server-Timing", x.log.ServerTiming())
		x.w.WriteHeader(status)
		return nil
	}
	for len(list) > 0 && list[0].end() <= part.Start {
		list = list[1:]
	}
	for len(list) > 0 && list[len(list)-1].at >= part.End() {
		list = list[:len(list)-1]
	}
	now, err := g.take(x.r.Context(), x, &list[0], part)
	if err != nil {
		return err
	}
	h.Set("Server-Timing", x.log.ServerTiming()) // timing of the first batch; the access log line has the totals
	x.w.WriteHeader(status)
	x.w.Renew(now.size)
	return g.pump(x, now, list[1:], part)
}

// pump sends a loaded batch and the batches after it. After a send error it stops reading.
func (g *Gateway) pump(x *exchange, now loadedBatch, rest []streamEntry, part body.Span) error {
	defer func() { now.close() }() // again after each batch, which does nothing
	ctx, cancel := context.WithCancel(x.whole.Context())
	defer cancel()
	for {
		var next chan loadedBatch
		if len(rest) > 0 {
			next = make(chan loadedBatch, 1)
			go func(x *exchange, s *streamEntry) { next <- g.takeLater(ctx, x, s, part) }(x.fork(), &rest[0])
		}
		err := sendInHand(x, now, next, part)
		if err != nil {
			cancel()
		}
		now.close()
		if next == nil {
			return err
		}
		later := x.awaitNext(next)
		if errors.Is(later.err, budget.ErrOverloaded) { // the batch just sent has freed its memory: retry once
			before := x.log.Enter(timing.Read)
			later = g.takeLater(ctx, x.fork(), &rest[0], part)
			x.log.Leave(before)
		}
		x.log.Came(later.tiers)
		if later.close != nil {
			now = later
		}
		if err = errors.Join(err, later.err); err != nil {
			x.refused = errors.Is(err, errRevoked)
			return err
		}
		rest = rest[1:]
		x.w.Renew(now.size)
	}
}

// awaitNext waits for the batch that is being read.
func (x *exchange) awaitNext(next <-chan loadedBatch) loadedBatch {
	defer x.log.Leave(x.log.Enter(timing.Read))
	return <-next
}

// sendInHand sends the part of a batch and its header that the range selects. If the client is
// slow, the next batch releases memory as well, since it waits equally long.
func sendInHand(x *exchange, b loadedBatch, next chan loadedBatch, part body.Span) error {
	head := []byte(nil)
	if from, to := max(part.Start-b.at, 0), min(part.End(), b.begin())-b.at; from < to {
		head = b.header()[from:to]
	}
	return x.w.Send(append(net.Buffers{head}, b.parts...), func(sent int64) net.Buffers {
		select {
		case n := <-next:
			n.settle(0)
			next <- n
		default:
		}
		if sent < int64(len(head)) {
			return nil
		}
		return b.settle(sent - int64(len(head)))
	})
}

// fork returns an exchange for concurrent work on the same request. It has its own timing record,
// because the phases overlap.
func (x *exchange) fork() *exchange {
	own := *x
	own.log, own.held = accessLog{}, nil
	own.log.Begin(time.Now(), x.log.Left())
	return &own
}

// takeLater loads a batch after the first byte of the response was sent, with a separate deadline.
// x must be from fork.
func (g *Gateway) takeLater(ctx context.Context, x *exchange, s *streamEntry, part body.Span) (b loadedBatch) {
	defer func() {
		x.log.End()
		b.tiers = x.log.Tiers
	}()
	defer func() {
		if v := recover(); v != nil {
			b.err = fmt.Errorf("batch %d: panic: %v", s.request.Number, v)
		}
	}()
	if err := g.permitAgain(x); err != nil {
		b.err = fmt.Errorf("batch %d: %w", s.request.Number, err)
		return b
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.FirstByteTimeout)
	defer cancel()
	b, b.err = g.take(ctx, x, s, part)
	return b
}

// take loads the part of a batch that the range selects. The caller must close it.
func (g *Gateway) take(ctx context.Context, x *exchange, s *streamEntry, part body.Span) (out loadedBatch, err error) {
	var held plans.Holds
	defer held.Drop()
	defer func() {
		if err != nil {
			err = fmt.Errorf("batch %d: %w", s.request.Number, err)
		}
	}()
	r, b, err := g.laidOut(ctx, x, &held, s.request)
	if err != nil {
		return out, err
	}
	if b.Size != s.size || b.CRC != s.crc {
		return out, errors.New("the layout differs from the measured one")
	}
	begin := s.begin()
	mine := body.Span{Start: max(part.Start-begin, 0)}
	mine.Length = max(min(part.End()-begin, s.size)-mine.Start, 0)
	hand := loadedPart{part: b.Part(mine), read: batch.NewBody(nil, nil, nil)}
	var parts net.Buffers
	if mine.Length > 0 {
		if hand.read, err = g.read(ctx, x, s.request.dataset, r.Cursor, b, hand.part); err != nil {
			return out, err
		}
		held = append(held, hand.read.Close)
		parts = hand.part.Fill(hand.read.Segments)
	}
	return loadedBatch{streamEntry: s, held: hand, parts: parts, close: held.Keep()}, nil
}
