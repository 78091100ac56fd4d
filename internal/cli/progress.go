package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/millrace-data/millrace/chunkindex"
)

// Bar shows how far a long job is, on a terminal only: in a log it would be noise.
type Bar struct {
	all   *mpb.Progress
	one   *mpb.Bar
	start time.Time
	kept  atomic.Int64 // bytes that an earlier run has done
}

// NewBar starts a bar on stderr. A nil bar, which it returns without a terminal, does nothing.
func (a *App) NewBar(ctx context.Context, name string) *Bar {
	if !terminal(a.Stderr) {
		return nil
	}
	b := &Bar{all: mpb.NewWithContext(ctx, mpb.WithOutput(a.Stderr), mpb.WithWidth(40)), start: time.Now()}
	b.one = b.all.AddBar(0,
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(
			decor.CountersKibiByte("% .1f / % .1f"),
			decor.Any(func(s decor.Statistics) string { return pace(s.Current, b.kept.Load(), s.Total, time.Since(b.start)) })))
	return b
}

// pace says how fast a job goes and how long it still takes, going by what this run has done itself.
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

// Update has the form that index, pack and verify call.
func (b *Bar) Update(p chunkindex.Progress) {
	if b != nil {
		b.kept.Store(p.Kept)
		b.Set(p.Done, p.Total)
	}
}

func (b *Bar) Set(done, total int64) {
	if b == nil {
		return
	}
	b.one.SetTotal(max(total, done, 1), false)
	b.one.SetCurrent(done)
}

// End removes the bar, finished or not, and waits for it.
func (b *Bar) End() {
	if b == nil {
		return
	}
	b.one.Abort(false)
	b.all.Wait()
}
