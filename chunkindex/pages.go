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
	"github.com/millrace-data/millrace/internal/tempfile"
)

const (
	recentPages  = 16      // number of pages cached in memory; neighbouring blocks share pages
	mostAtOnce   = 4 << 20 // maximum bytes per store read
	piecesAtOnce = 8       // concurrent store reads
)

// fetch reads bytes of the stored index object.
type fetch func(ctx context.Context, off int64, b []byte) error

// pages reads the sections of an index and verifies every page by its digest. A page that is
// missing or wrong in the local file is fetched from the store and written there.
type pages struct {
	file       *os.File
	from       fetch // nil: the local file is the only source
	complete   bool  // the local file was whole and verified on open
	begin, end int64 // range of the sections in the file
	digests    []byte

	mu      sync.Mutex
	proved  []bool    // pages verified so far
	streams [8]stream // recent fetch positions, reused round-robin
	oldest  int
	recent  [recentPages]struct {
		page int64
		b    []byte // nil: empty
	}
}

var errPage = fmt.Errorf("a page does not match its digest: %w", ErrCorrupt)

// stream tracks a sequential reader, such as one that reads the names of consecutive chunks.
type stream struct {
	next  int64 // page that a sequential reader would fetch next
	pages int64 // pages of the last fetch; the next fetch doubles this number
}

// read fills b with verified bytes from an offset of the file.
func (p *pages) read(ctx context.Context, off int64, b []byte) error {
	if off < p.begin || off > p.end || int64(len(b)) > p.end-off {
		return layout.ErrMalformed
	}
	for len(b) > 0 {
		n := (off - p.begin) / layout.ProofSize
		page, err := p.page(ctx, n, off+int64(len(b)))
		if err != nil {
			return err
		}
		k := copy(b, page[off-p.begin-n*layout.ProofSize:])
		b, off = b[k:], off+int64(k)
	}
	return nil
}

// ReadAt implements io.ReaderAt for readers of the whole local index, such as the parser.
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
	if _, err := p.file.ReadAt(b, at); err == nil && p.proves(n, b) {
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
		_, _ = p.file.WriteAt(b, p.begin+i*layout.ProofSize)
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

// copy fetches ranges of the file concurrently, rounded to whole pieces so that their pages can be
// verified on read.
func (p *pages) copy(ctx context.Context, ranges []layout.Section) error {
	pieces := map[int64]bool{}
	for _, r := range ranges {
		for at := (r.Offset - p.begin) / mostAtOnce * mostAtOnce; at < r.End()-p.begin; at += mostAtOnce {
			pieces[at] = true
		}
	}
	return p.fetchPieces(ctx, slices.Sorted(maps.Keys(pieces)), func(at int64, b []byte) error {
		_, _ = p.file.WriteAt(b, at) // load explains why write errors are ignored
		return nil
	})
}

// proveRest reads all pages that are not verified yet and compares them with their digests.
func (p *pages) proveRest(ctx context.Context) error {
	if p.complete {
		return nil
	}
	var pieces []int64
	const each = mostAtOnce / layout.ProofSize
	for at := 0; at < len(p.proved); at += each {
		if slices.Contains(p.proved[at:min(len(p.proved), at+each)], false) {
			pieces = append(pieces, int64(at)*layout.ProofSize)
		}
	}
	return p.fetchPieces(ctx, pieces, func(at int64, b []byte) error {
		for n := (at - p.begin) / layout.ProofSize; len(b) > 0; n++ {
			page := b[:min(layout.ProofSize, len(b))]
			if !p.proves(n, page) {
				return fmt.Errorf("at offset %d: %w", p.begin+n*layout.ProofSize, errPage)
			}
			b = b[len(page):]
		}
		return nil
	})
}

// fetchPieces fetches pieces of at most mostAtOnce bytes concurrently. pieces lists their offsets
// from the first page.
func (p *pages) fetchPieces(ctx context.Context, pieces []int64, visit func(at int64, b []byte) error) error {
	return parallel.Each(ctx, piecesAtOnce, len(pieces), func(ctx context.Context, _, i int) error {
		at := p.begin + pieces[i]
		b := make([]byte, min(mostAtOnce, p.end-at))
		if err := p.from(ctx, at, b); err != nil {
			return err
		}
		return visit(at, b)
	})
}

// release frees a range of the local file, except the last page of the range, which the next range
// may share.
func (p *pages) release(r layout.Section) {
	from, to := (r.Offset-p.begin)/layout.ProofSize*layout.ProofSize, (r.End()-p.begin)/layout.ProofSize*layout.ProofSize
	if from < to {
		tempfile.Release(p.file, p.begin+from, to-from)
	}
}

func (p *pages) kept(n int64) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := &p.recent[n%recentPages]; r.page == n {
		return r.b
	}
	return nil
}

func (p *pages) keep(n int64, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.recent[n%recentPages]
	r.page, r.b = n, b
}

// resident returns the maximum memory size of the pages. Small files have fewer pages than
// recentPages.
func (p *pages) resident() int {
	return len(p.digests) + len(p.proved) + int(min(recentPages*layout.ProofSize, p.end-p.begin))
}
