package main

import (
	"context"
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/millrace-data/millrace/chunkindex"
)

// bar shows how far a long job is, on a terminal only: in a log it would be noise.
type bar struct {
	all *mpb.Progress
	one *mpb.Bar
}

// newBar starts a bar on stderr. A nil bar, which it returns without a terminal, does nothing.
func (a *app) newBar(ctx context.Context, name string) *bar {
	if !terminal(a.stderr) {
		return nil
	}
	all := mpb.NewWithContext(ctx, mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	one := all.AddBar(0,
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(
			decor.CountersKibiByte("% .1f / % .1f"), decor.Name("  "),
			decor.AverageSpeed(decor.SizeB1024(0), "% .1f"), decor.Name("  left "),
			decor.AverageETA(decor.ET_STYLE_GO)))
	return &bar{all, one}
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// update has the form that index, pack and verify call.
func (b *bar) update(p chunkindex.Progress) {
	if b != nil {
		b.set(p.Done, p.Total)
	}
}

func (b *bar) set(done, total int64) {
	if b == nil {
		return
	}
	b.one.SetTotal(max(total, done, 1), false)
	b.one.SetCurrent(done)
}

// end removes the bar, finished or not, and waits for it.
func (b *bar) end() {
	if b == nil {
		return
	}
	b.one.Abort(false)
	b.all.Wait()
}
