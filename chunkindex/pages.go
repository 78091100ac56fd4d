package chunkindex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
)

const (
	recentPages  = 16      // number of pages cached in memory; neighbouring blocks share pages
	mostAtOnce   = 4 << 20 // maximum bytes per store read
	piecesAtOnce = 8       // concurrent store reads
)

// fetch reads bytes of a stored segment.
type fetch func(ctx context.Context, off int64, b []byte) error

// pages reads the sections of a segment and verifies every page by its digest. A page that is
// missing or wrong in the local file is fetched from the store and written there. Offsets are those
// in the segment.
type pages struct {
	name       string // name of the segment
	file       *os.File
	base       int64 // offset of the segment in the file
	from       fetch // nil: the local file is the only source
	complete   bool  // the local file was whole and verified on open
	begin, end int64 // range of the sections in the segment
	digests    []byte
	recent     *recent

	mu      sync.Mutex
	proved  []bool    // pages verified so far
	streams [8]stream // recent fetch positions, reused round-robin
	oldest  int
}

// recent caches pages of the segments in one file.
type recent struct {
	mu    sync.Mutex
	pages [recentPages]struct {
		at int64  // offset in the file
		b  []byte // nil: empty
	}
}

var errPage = fmt.Errorf("a page does not match its digest: %w", ErrCorrupt)

// stream tracks a sequential reader, such as one that reads the names of consecutive chunks.
type stream struct {
	next  int64 // page that a sequential reader would fetch next
	pages int64 // pages of the last fetch; the next fetch doubles this number
}

// read fills b with verified bytes from an offset of the segment.
func (p *pages) read(ctx context.Context, off int64, b []byte) error {
	if off < p.begin || off > p.end || int64(len(b)) > p.end-off {
		return layout.ErrMalformed
	}
	for len(b) > 0 {
		n := (off - p.begin) / layout.ProofSize
		if len(b) >= layout.ProofSize && off == p.begin+n*layout.ProofSize && p.direct(n, b[:layout.ProofSize]) {
			b, off = b[layout.ProofSize:], off+layout.ProofSize
			continue
		}
		page, err := p.page(ctx, n, off+int64(len(b)))
		if err != nil {
			return err
		}
		k := copy(b, page[off-p.begin-n*layout.ProofSize:])
		b, off = b[k:], off+int64(k)
	}
	return nil
}

// direct reads a whole page from the local file, without a copy. It returns false if the page is
// missing or wrong there.
func (p *pages) direct(n int64, b []byte) bool {
	_, err := p.file.ReadAt(b, p.base+p.begin+n*layout.ProofSize)
	return err == nil && p.proves(n, b)
}

// ReadAt implements io.ReaderAt for readers of whole sections, such as the parser.
func (p *pages) ReadAt(b []byte, off int64) (int, error) {
	n := int(max(0, min(int64(len(b)), p.end-off)))
	if err := p.read(context.Background(), off, b[:n]); err != nil {
		return 0, err
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// page returns page n. If it is missing, page fetches pages up to until, the end of the reader's
// range.
func (p *pages) page(ctx context.Context, n, until int64) ([]byte, error) {
	if b := p.kept(n); b != nil {
		return b, nil
	}
	b := make([]byte, min(layout.ProofSize, p.end-p.begin-n*layout.ProofSize))
	at := p.begin + n*layout.ProofSize
	if _, err := p.file.ReadAt(b, p.base+at); err == nil && p.proves(n, b) {
		p.keep(n, b)
		return b, nil
	} else if p.from == nil {
		if err == nil || errors.Is(err, io.EOF) {
			err = errPage
		}
		return nil, fmt.Errorf("at offset %d: %w", at, err)
	}
	return p.load(ctx, n, until)
}

// load fetches the pages from n up to an offset, and writes them to the local file. It ignores
// write errors, because the next read fetches these pages again.
func (p *pages) load(ctx context.Context, n, until int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at := p.begin + n*layout.ProofSize
	all := make([]byte, min(p.count(n, layout.PagesOf(until-at))*layout.ProofSize, p.end-at))
	if err := p.from(ctx, at, all); err != nil {
		return nil, err
	}
	first := bytes.Clone(all[:min(layout.ProofSize, len(all))])
	for i := n; len(all) > 0; i++ {
		b := all[:min(layout.ProofSize, len(all))]
		if !p.proves(i, b) {
			return nil, fmt.Errorf("at offset %d: %w", p.begin+i*layout.ProofSize, errPage)
		}
		_, _ = p.file.WriteAt(b, p.base+p.begin+i*layout.ProofSize)
		all = all[len(b):]
	}
	p.keep(n, first)
	return first, nil
}

// count returns the number of pages to fetch from page n on: at least the requested number, and
// twice the previous number for a sequential reader.
func (p *pages) count(n, wanted int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, count := -1, int64(0)
	for i, s := range p.streams {
		if s.pages > 0 && s.next == n {
			at, count = i, 2*s.pages
		}
	}
	if at < 0 {
		at = p.oldest
		p.oldest = (p.oldest + 1) % len(p.streams)
	}
	count = min(max(count, wanted), mostAtOnce/layout.ProofSize)
	p.streams[at] = stream{n + count, count}
	return count
}

func (p *pages) proves(n int64, b []byte) bool {
	if sha256.Sum256(b) != [sha256.Size]byte(p.digests[sha256.Size*n:]) {
		return false
	}
	p.mu.Lock()
	p.proved[n] = true
	p.mu.Unlock()
	return true
}

// piece is a part of a segment, at most mostAtOnce bytes long. It begins with a page.
type piece struct {
	of *pages
	at int64 // distance from the first page
}

// pieces returns the pieces that cover ranges of the segment.
func (p *pages) pieces(ranges []layout.Section) (all []piece) {
	found := map[int64]bool{}
	for _, r := range ranges {
		for at := (r.Offset - p.begin) / mostAtOnce * mostAtOnce; at < r.End()-p.begin; at += mostAtOnce {
			found[at] = true
		}
	}
	for _, at := range slices.Sorted(maps.Keys(found)) {
		all = append(all, piece{p, at})
	}
	return all
}

// unproved returns the pieces with pages that are not verified yet.
func (p *pages) unproved() (all []piece) {
	const each = mostAtOnce / layout.ProofSize
	for at := 0; !p.complete && at < len(p.proved); at += each {
		if slices.Contains(p.proved[at:min(len(p.proved), at+each)], false) {
			all = append(all, piece{p, int64(at) * layout.ProofSize})
		}
	}
	return all
}

// fetchPieces fetches pieces concurrently. visit receives the offset of a piece in its segment.
func fetchPieces(ctx context.Context, pieces []piece, visit func(p *pages, at int64, b []byte) error) error {
	return parallel.Each(ctx, piecesAtOnce, len(pieces), func(ctx context.Context, _, i int) error {
		p := pieces[i].of
		at := p.begin + pieces[i].at
		b := make([]byte, min(mostAtOnce, p.end-at))
		if err := p.from(ctx, at, b); err != nil {
			return err
		}
		return visit(p, at, b)
	})
}

// copyPieces fetches pieces into the local file. Their pages are verified on read.
func copyPieces(ctx context.Context, pieces []piece) error {
	return fetchPieces(ctx, pieces, func(p *pages, at int64, b []byte) error {
		_, _ = p.file.WriteAt(b, p.base+at) // load explains why write errors are ignored
		return nil
	})
}

// provePieces fetches pieces and compares their pages with the digests.
func provePieces(ctx context.Context, pieces []piece) error {
	return fetchPieces(ctx, pieces, func(p *pages, at int64, b []byte) error {
		for n := (at - p.begin) / layout.ProofSize; len(b) > 0; n++ {
			page := b[:min(layout.ProofSize, len(b))]
			if !p.proves(n, page) {
				return fmt.Errorf("%s: at offset %d: %w: remove this object, then run 'millrace index'", layout.SegmentObject("", p.name), p.begin+n*layout.ProofSize, errPage)
			}
			b = b[len(page):]
		}
		return nil
	})
}

func (p *pages) kept(n int64) []byte {
	at := p.base + p.begin + n*layout.ProofSize
	p.recent.mu.Lock()
	defer p.recent.mu.Unlock()
	if r := &p.recent.pages[at/layout.ProofSize%recentPages]; r.at == at {
		return r.b
	}
	return nil
}

func (p *pages) keep(n int64, b []byte) {
	at := p.base + p.begin + n*layout.ProofSize
	p.recent.mu.Lock()
	defer p.recent.mu.Unlock()
	r := &p.recent.pages[at/layout.ProofSize%recentPages]
	r.at, r.b = at, b
}
