package datapath

import (
	"context"
	"sync"

	"github.com/millrace-data/millrace/internal/tracing"
)

// sampleReads reads samples by their ranges from the store. Each sample is read once at a time, however many batches ask for it:
//
//   - A batch joins the reads of its samples that are under way, and begins one read of all the others, a sampleGroup.
//   - A group fills the memory of the batch that began it. That memory stays reserved until no batch waits for the group any more.
//   - A group is cancelled when the last batch that waits for it leaves, never when the first does.
//   - Each batch copies what it has joined to its own memory, without a lock.
//   - The error of a sample goes to the batches that ask for that sample. Others that joined the group get their samples.
type sampleReads struct {
	mu    sync.Mutex // guards what follows, and the counts of groups and samples
	reads map[samplePlace]*sampleRead
}

// samplePlace is where a sample is stored.
type samplePlace struct {
	source *Source
	chunk  int
	offset int64
	length int
}

// sampleRead is a sample that is being read: the receiver of its portion.
type sampleRead struct {
	*portion
	place  samplePlace
	group  *sampleGroup
	joined int           // batches that wait for it, in addition to the one that began the group
	done   chan struct{} // closed when the portion is right or err is set
	err    error
}

// sampleGroup is the read of the samples that one batch has begun to read.
type sampleGroup struct {
	reads   *sampleReads
	samples []*sampleRead
	waits   int                // of the batch that began it, and one for each sample that another batch has joined
	room    room               // the memory of the samples
	cancel  context.CancelFunc // of the read
	ended   chan struct{}      // closed when the read has ended
	span    tracing.Span       // of the batch that began it
}

// read brings samples, each of them listed once, to the memory of a load.
func (r *sampleReads) read(ctx context.Context, l *load, samples []*portion) (err error) {
	reads, own := r.join(ctx, l, samples)
	defer r.leave(reads, own)
	if own != nil {
		own.begin(ctx, l)
	}
	if own == nil || len(own.samples) < len(samples) {
		var span tracing.Span
		_, span = tracing.Start(ctx, "wait for samples")
		linkGroups(span, reads, own)
		defer func() { span.Ended(err) }()
	}
	for i, x := range reads {
		select {
		case <-x.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if x.err != nil {
			return x.err
		}
		if x.group != own {
			copy(samples[i].data, x.data)
		}
	}
	return nil
}

// linkGroups links a wait to the batches that have begun the reads.
func linkGroups(span tracing.Span, reads []*sampleRead, own *sampleGroup) {
	linked := map[*sampleGroup]bool{own: true}
	for _, x := range reads {
		if span.Recorded() && !linked[x.group] {
			linked[x.group] = true
			span.Link(x.group.span)
		}
	}
}

// join returns the read of each sample. Those that are not under way are in a group of the caller's own, which it begins.
func (r *sampleReads) join(ctx context.Context, l *load, samples []*portion) (reads []*sampleRead, own *sampleGroup) {
	reads = make([]*sampleRead, len(samples))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range samples {
		place := samplePlace{l.source, p.chunk, p.offset, len(p.data)}
		x := r.reads[place]
		if x != nil {
			x.joined++
			x.group.waits++
		} else {
			if own == nil {
				own = &sampleGroup{reads: r, waits: 1, room: l.room.hold(), span: tracing.Of(ctx), ended: make(chan struct{})}
			}
			x = &sampleRead{portion: p, place: place, group: own, done: make(chan struct{})}
			p.receiver, r.reads[place] = x, x
			own.samples = append(own.samples, x)
		}
		reads[i] = x
	}
	return reads, own
}

// leave ends the wait of a batch. The last batch ends a group, waits for that and gives its memory back.
func (r *sampleReads) leave(reads []*sampleRead, own *sampleGroup) {
	var over []*sampleGroup
	r.mu.Lock()
	end := func(g *sampleGroup) {
		if g.waits--; g.waits == 0 {
			r.forget(g.samples...)
			over = append(over, g)
		}
	}
	for _, x := range reads {
		if x.group != own {
			x.joined--
			end(x.group)
		}
	}
	if own != nil {
		end(own)
	}
	r.mu.Unlock()
	for _, g := range over {
		g.cancel()
		<-g.ended
		g.room.close()
	}
}

// forget lets no other batch join reads. The caller holds mu.
func (r *sampleReads) forget(reads ...*sampleRead) {
	for _, x := range reads {
		if r.reads[x.place] == x {
			delete(r.reads, x.place)
		}
	}
}

// begin begins the read of a group, which goes on without the batch of ctx.
func (g *sampleGroup) begin(ctx context.Context, l *load) {
	samples := make([]*portion, len(g.samples))
	for i, x := range g.samples {
		samples[i] = x.portion
	}
	ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	source, spare := l.source, l.spare
	go func() {
		defer close(g.ended)
		_ = source.readEach(ctx, samples, source.path.cfg.PartSize, spare) // each sample has its error
		g.reads.mu.Lock()
		defer g.reads.mu.Unlock()
		g.reads.forget(g.samples...)
	}()
}

// Publish shows the sample to the batches that wait for it.
func (x *sampleRead) Publish() { close(x.done) }

// Fail gives the batches that wait for the sample an error.
func (x *sampleRead) Fail(err error) {
	x.err = err
	close(x.done)
}

// Wanted reports whether a batch has joined. The batch that began the group needs all its samples, and so has failed already.
func (x *sampleRead) Wanted() bool {
	r := x.group.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.joined == 0 {
		r.forget(x)
	}
	return x.joined > 0
}
