package auth

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/watch"
)

// maxFile is the maximum size of an access file. 16 MiB are enough for 100,000 tokens.
const maxFile = 16 << 20

// file returns the access file.
func (g *Guard) file() watch.File {
	return watch.File{What: "access file", Name: g.cfg.File, MaxBytes: maxFile}
}

// parsed parses a content of the access file. Each fault starts with the file name.
func (g *Guard) parsed(c watch.Content) (*policy, error) {
	if c.Err != nil {
		return nil, c.Err
	}
	return parse(g.cfg.File, c.Text)
}

// Reload reads the access file now. It returns an error if its content is not in use.
func (g *Guard) Reload() error {
	if g.cfg.File == "" {
		return nil
	}
	g.reading.Lock()
	defer g.reading.Unlock()
	g.apply(g.file().Read())
	return g.fault
}

// apply activates a content, or records its error. It ignores a content that it has already
// processed. The caller holds g.reading.
func (g *Guard) apply(c watch.Content) {
	if c.Same(g.seen) {
		return
	}
	p, err := g.parsed(c)
	g.seen, g.fault = c, err
	if err == nil {
		g.use(p)
		g.reloads.Add(1)
	} else {
		g.fileOK.Store(false)
		g.faults.Add(1)
	}
	g.cfg.Changed(err)
}

// use activates a policy. Known issuers retain their keys.
func (g *Guard) use(p *policy) {
	rings := map[string]*keyring{}
	for i := range p.issuers {
		is := &p.issuers[i]
		if is.keys = g.rings[is.url]; is.keys == nil {
			is.keys = &keyring{}
		}
		rings[is.url] = is.keys
	}
	g.rings = rings
	g.policy.Store(p)
	g.loaded.Store(g.cfg.Now().UnixNano())
	g.fileOK.Store(true)
}

// Run reloads the access file when it changes, and fetches issuers' keys, until ctx ends. Requests
// do not wait for either.
func (g *Guard) Run(ctx context.Context) error {
	var fetching sync.WaitGroup
	defer fetching.Wait()
	tick := time.NewTicker(watch.LookEvery)
	defer tick.Stop()
	for g.cfg.File != "" {
		g.fetchDue(ctx, &fetching)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.look(ctx)
		}
	}
	<-ctx.Done()
	return nil
}

// look checks the file for a change and applies it.
func (g *Guard) look(ctx context.Context) {
	g.reading.Lock()
	defer g.reading.Unlock()
	if c, changed := g.file().Changed(ctx, g.seen); changed {
		g.apply(c)
	}
}
