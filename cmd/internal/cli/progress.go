package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-isatty"

	"github.com/millrace-data/millrace/chunkindex"
)

// Bar shows the progress of a long job as one line on stderr. A terminal shows the current line.
// Otherwise a line follows every 30 s, so that a log shows that the job is alive without being filled
// by it.
type Bar struct {
	name  string
	start time.Time
	kept  atomic.Int64 // bytes done by an earlier run
	done  atomic.Int64
	total atomic.Int64

	lines sync.WaitGroup // waits for the goroutine that prints lines
	end   chan struct{}
}

const (
	lineEvery   = 30 * time.Second
	redrawEvery = time.Second / 5 // on a terminal
	clearLine   = "\r\x1b[K"
)

// NewBar starts a bar on stderr. End must be called.
func (a *App) NewBar(name string) *Bar {
	b := &Bar{name: name, start: time.Now(), end: make(chan struct{})}
	b.lines.Go(func() { b.print(a.Stderr) })
	return b
}

// print prints lines until the bar ends, and removes the one of a terminal.
func (b *Bar) print(w io.Writer) {
	every, before, after := lineEvery, "", "\n"
	if terminal(w) {
		every, before, after = redrawEvery, clearLine, ""
	}
	tick := time.Tick(every)
	for {
		select {
		case <-tick:
			fmt.Fprintf(w, "%s%s: %s%s", before, b.name, b.line(), after)
		case <-b.end:
			if before != "" {
				_, _ = io.WriteString(w, before)
			}
			return
		}
	}
}

// line describes the progress of the job. The total is unknown until the first bytes are done.
func (b *Bar) line() string {
	took, done, total := time.Since(b.start), b.done.Load(), b.total.Load()
	if total == 0 {
		return fmt.Sprintf("nothing done yet after %s", took.Round(time.Second))
	}
	return fmt.Sprintf("%s / %s%s", humanize.IBytes(uint64(done)), humanize.IBytes(uint64(total)), pace(done, b.kept.Load(), total, took))
}

// pace returns the rate of this run and the remaining time, formatted.
func pace(done, kept, total int64, took time.Duration) string {
	rate := float64(done-kept) / took.Seconds()
	if done <= kept || took <= 0 {
		return ""
	}
	left := time.Duration(float64(total-done) / rate * float64(time.Second))
	return fmt.Sprintf("  %s/s  left %s", humanize.IBytes(uint64(rate)), left.Round(time.Second))
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Update sets the progress. It has the signature that index, pack and verify call.
func (b *Bar) Update(p chunkindex.Progress) {
	b.kept.Store(p.Kept)
	b.Set(p.Done, p.Total)
}

// Set sets the number of bytes done, and the total.
func (b *Bar) Set(done, total int64) {
	b.done.Store(done)
	b.total.Store(max(total, done, 1))
}

// End removes the bar, whether or not the job is complete, and waits for its goroutine.
func (b *Bar) End() {
	close(b.end)
	b.lines.Wait()
}
