package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/budget"
)

// Many batches in one answer, as docs/answers.md describes them.
const (
	streamMagic    = "MLRB"
	streamVersion  = 1
	streamHeader   = 72 // bytes before each batch
	streamContent  = "application/vnd.millrace.batches"
	maxBatches     = 1024 // of one answer
	defaultBatches = 16
)

// streamed is one batch of an answer that has many, as it is known before the first byte.
type streamed struct {
	request batchRequest
	at      int64 // where its header begins in the body
	size    int64 // of the batch without it
	crc     uint32
	samples uint64
	padded  uint64
}

// getBatches answers with consecutive batches, each behind a header of its own.
func (g *Gateway) getBatches(x *exchange) error {
	b, count, err := g.decodeBatches(x)
	if err != nil {
		return err
	}
	x.w.Header().Set("Vary", "Accept")
	if accept := strings.Join(x.r.Header.Values("Accept"), ","); strings.Trim(accept, " \t,") != "" && quality(accept, streamContent) == 0 {
		return &problem{Status: http.StatusNotAcceptable, Code: codeNotAcceptable, Detail: "this is served as " + streamContent + "; format= says what each batch is"}
	}
	if err := b.dataset.checkFields(x, b.view); err != nil {
		return err
	}
	if err := g.acceptSplit(x, b.planRequest); err != nil {
		return err
	}
	etag := b.etag(fmt.Sprintf("batches %d", count))
	b.describeStream(x.w.Header(), count, etag)
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	share, all := b.share()
	release, err := g.await(x, 2*(b.planningBytes(share, all)+b.formBytes(share.Count))) // one is sent, one is read
	if err != nil {
		return err
	}
	defer release()
	list, crc, err := g.measureBatches(x, b, count)
	if err != nil {
		return err
	}
	return g.sendBatches(x, list, crc, etag)
}

// decodeBatches reads the address of consecutive batches. b is the first of them.
func (g *Gateway) decodeBatches(x *exchange) (b batchRequest, count uint64, err error) {
	defer x.log.spent(phaseResolve, time.Now())
	d, err := g.findDataset(x)
	if err != nil {
		return b, 0, err
	}
	q := parseQuery(x.r.URL.RawQuery, append(batchNames(), "from", "count")...)
	b.planRequest = decodePlan(q, d)
	b.epoch = q.decimal("epoch", chi.URLParam(x.r, "epoch"), 0, math.MaxUint64)
	b.batch = q.number("from", 0, 0, math.MaxUint64)
	count = q.number("count", defaultBatches, 1, maxBatches)
	if err := d.check(q); err != nil {
		return b, 0, err
	}
	if err := g.complete(x.r.Context(), &b.planRequest); err != nil {
		return b, 0, err
	}
	x.log.setPlan(b.planRequest, b.epoch)
	x.log.batch, x.log.hasBatch = b.batch, true
	if err := b.checkEnd(); err != nil {
		return b, 0, err
	}
	count = min(count, b.batching().Batches()-b.batch)
	if _, all := b.share(); all.Count > maxShare/count {
		limit := int64(maxShare)
		return b, 0, &problem{
			Status: http.StatusBadRequest, Code: codeBatchTooLarge, Limit: &limit,
			Detail: fmt.Sprintf("%d batches of %d samples; at most %d samples can be sent in one answer", count, all.Count, maxShare),
		}
	}
	return b, count, nil
}

// describeStream sets the headers that follow from the plan alone.
func (b batchRequest) describeStream(h http.Header, count uint64, etag string) {
	num := func(n uint64) string { return strconv.FormatUint(n, 10) }
	url := func(from uint64) string {
		return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches?%s&from=%d&count=%d", b.dataset.Name, b.epoch, b.canonical(), from, count)
	}
	batches := b.batching().Batches()
	h.Set("ETag", etag)
	h.Set("Cache-Control", cacheControl(b.pinned))
	h.Set("Content-Location", url(b.batch))
	h.Set("Millrace-Generation", b.dataset.Index.Generation())
	h.Set("Millrace-Epoch", num(b.epoch))
	h.Set("Millrace-Batch", num(b.batch))
	h.Set("Millrace-Batches", num(batches))
	if b.batch+count < batches {
		h.Set("Link", "<"+url(b.batch+count)+`>; rel="next"`)
	}
}

// measureBatches works out what each batch is, and the checksum of all of them: from the index alone, one after the other.
func (g *Gateway) measureBatches(x *exchange, b batchRequest, count uint64) (list []streamed, crc uint32, err error) {
	list = make([]streamed, 0, count)
	at := int64(0)
	for ; count > 0; count-- {
		r, l, err := g.laidOut(x.r.Context(), x, b)
		if err != nil {
			return nil, 0, fmt.Errorf("batch %d: %w", b.batch, err)
		}
		s := streamed{request: b, at: at, size: l.size, crc: l.crc, samples: uint64(len(l.samples)), padded: l.padded(b.samples)}
		err = g.checkFits(l)
		g.recycle(l)
		r.leave()
		if err != nil {
			return nil, 0, err
		}
		header := s.header()
		crc = g.crc.combine(crc, crc32.Checksum(header, castagnoli()), streamHeader)
		crc = g.crc.combineLong(crc, s.crc, s.size)
		list = append(list, s)
		at += streamHeader + s.size
		b.batch++
	}
	return list, crc, nil
}

// laidOut locates a batch and lays its body out.
func (g *Gateway) laidOut(ctx context.Context, x *exchange, b batchRequest) (reading, *located, error) {
	_, all := b.share()
	start := time.Now()
	r, err := g.reading(ctx, b)
	if err != nil {
		return reading{}, nil, err
	}
	l, err := g.locateShare(ctx, b, r, all)
	x.log.spent(phasePlan, start)
	if err == nil {
		err = g.lay(ctx, x, b.answering(), l)
	}
	if err != nil {
		r.leave()
		return reading{}, nil, err
	}
	return r, l, nil
}

// answering is a batch as forms see it.
func (b batchRequest) answering() *answering {
	return &answering{dataset: b.dataset, view: b.view, etag: b.etag(batchBody)}
}

// header is what stands before a batch.
func (s *streamed) header() []byte {
	h := make([]byte, streamHeader)
	copy(h, streamMagic)
	binary.LittleEndian.PutUint16(h[4:], streamVersion)
	binary.LittleEndian.PutUint16(h[6:], streamHeader)
	binary.LittleEndian.PutUint64(h[8:], s.request.batch)
	binary.LittleEndian.PutUint64(h[16:], uint64(s.size))
	binary.LittleEndian.PutUint32(h[24:], s.crc)
	binary.LittleEndian.PutUint32(h[28:], uint32(s.samples))
	binary.LittleEndian.PutUint32(h[32:], uint32(s.padded))
	etag := s.request.etag(batchBody)
	if _, err := hex.Decode(h[40:], []byte(etag[1:len(etag)-1])); err != nil {
		panic(fmt.Sprintf("gateway: ETag %s is no digest: %v", etag, err))
	}
	return h
}

// inHand is a batch whose bytes are all there.
type inHand struct {
	*streamed
	part  span // of it, without its header
	parts [][]byte
	close func()
	err   error
}

// sendBatches sends the batches, or the part of them that Range asks for: while one is sent, the next one is read.
func (g *Gateway) sendBatches(x *exchange, list []streamed, crc uint32, etag string) error {
	h := x.w.Header()
	h.Set("Content-Type", streamContent)
	h.Set("Millrace-Crc32c", fmt.Sprintf("%08x", crc))
	last := &list[len(list)-1]
	part, status, err := x.part(etag, last.at+streamHeader+last.size)
	if err != nil {
		return err
	}
	if x.r.Method == http.MethodHead {
		h.Set("Server-Timing", x.log.serverTiming())
		x.w.WriteHeader(status)
		return nil
	}
	end := part.start + part.length
	for len(list) > 0 && list[0].at+streamHeader+list[0].size <= part.start {
		list = list[1:]
	}
	for len(list) > 0 && list[len(list)-1].at >= end {
		list = list[:len(list)-1]
	}
	now := g.take(x.r.Context(), x, &list[0], part)
	if now.err != nil {
		return now.err
	}
	h.Set("Server-Timing", x.log.serverTiming()) // of the first batch; the access line has the sums
	x.w.WriteHeader(status)
	return g.pump(x, now, list[1:], part)
}

// pump sends a batch that is in hand, and those after it. Once the client can be sent no more, nothing is read for it.
func (g *Gateway) pump(x *exchange, now inHand, rest []streamed, part span) error {
	defer func() { now.close() }()
	ctx, cancel := context.WithCancel(x.whole.Context())
	defer cancel()
	for {
		var next chan inHand
		if len(rest) > 0 {
			next = make(chan inHand, 1)
			go func(s *streamed) { next <- g.takeLater(ctx, x, s, part) }(&rest[0])
		}
		err := sendInHand(x, now, part)
		if err != nil {
			cancel()
		}
		now.close()
		if next == nil {
			now.close = func() {}
			return err
		}
		now = <-next
		if errors.Is(now.err, budget.ErrOverloaded) { // for want of the memory that has just been given back, it may be
			now = g.takeLater(ctx, x, &rest[0], part)
		}
		if err = errors.Join(err, now.err); err != nil {
			return err
		}
		rest = rest[1:]
		x.w.renew()
	}
}

// sendInHand sends a batch with its header, no more of it than part holds.
func sendInHand(x *exchange, b inHand, part span) error {
	header := b.header()
	from, to := max(part.start-b.at, 0), min(part.start+part.length-b.at, streamHeader)
	parts := b.parts
	if from < to {
		parts = append([][]byte{header[from:to]}, parts...)
	}
	return x.w.send(parts)
}

// takeLater takes a batch after the first byte was sent: under a deadline of its own, as long as the client is there.
func (g *Gateway) takeLater(ctx context.Context, x *exchange, s *streamed, part span) (b inHand) {
	defer func() {
		if v := recover(); v != nil {
			b = inHand{close: func() {}, err: fmt.Errorf("batch %d: panic: %v", s.request.batch, v)}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Deadline)
	defer cancel()
	return g.take(ctx, x, s, part)
}

// take brings what part holds of a batch.
func (g *Gateway) take(ctx context.Context, x *exchange, s *streamed, part span) inHand {
	fail := func(err error) inHand {
		return inHand{streamed: s, close: func() {}, err: fmt.Errorf("batch %d: %w", s.request.batch, err)}
	}
	r, l, err := g.laidOut(ctx, x, s.request)
	if err != nil {
		return fail(err)
	}
	if l.size != s.size || l.crc != s.crc {
		r.leave()
		return fail(errors.New("is laid out in two ways"))
	}
	begin := s.at + streamHeader
	mine := span{start: max(part.start-begin, 0)}
	mine.length = max(min(part.start+part.length-begin, s.size)-mine.start, 0)
	lo, hi, at := l.overlap(mine)
	body := chunkindex.NewBody(nil, nil, nil)
	if mine.length > 0 {
		if body, err = g.read(ctx, x, s.request.dataset, r.Cursor, l, lo, hi); err != nil {
			r.leave()
			return fail(err)
		}
		l.fill(body.Segments, lo, hi, mine, at)
	}
	open := true
	return inHand{streamed: s, part: mine, parts: l.out, close: func() {
		if !open {
			return
		}
		open = false
		body.Close()
		g.recycle(l)
		r.leave()
	}}
}
