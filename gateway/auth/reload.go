package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	lookEvery = time.Second            // how long a change of the file may go unnoticed
	settle    = 100 * time.Millisecond // a file that changes within it is being written

	// maxFile bounds what is read, in bytes: 16 MiB hold 100,000 tokens.
	maxFile = 16 << 20
)

// version is what the access file holds at one moment.
type version struct {
	text []byte
	err  error // why the text could not be read, or is not to be trusted
}

func (v version) same(w version) bool {
	if v.err != nil || w.err != nil {
		return v.err != nil && w.err != nil && v.err.Error() == w.err.Error()
	}
	return bytes.Equal(v.text, w.text)
}

// parse makes a policy of the text. The name of the file begins each fault.
func (v version) parse(file string) (*policy, error) {
	if v.err != nil {
		return nil, v.err
	}
	return parse(file, v.text)
}

func (g *Guard) read() version {
	text, err := readFile(g.cfg.File)
	return version{text, err}
}

func readFile(name string) ([]byte, error) {
	if name == "" {
		return nil, errors.New("access file: no file is named")
	}
	info, err := os.Stat(name) // before it is opened: to open a pipe would wait for its writer
	if err != nil {
		return nil, fmt.Errorf("access file: %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("access file %s: not a regular file, so it cannot be read again", name)
	case info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf("access file %s: every user of this machine may write it (mode %04o): chmod o-w", name, info.Mode().Perm())
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("access file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("access file: %w", err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("access file %s: more than %d bytes", name, maxFile)
	}
	return text, nil
}

// Reload reads the access file now. It returns why the file is not in use, if so.
func (g *Guard) Reload() error {
	if g.cfg.File == "" {
		return nil
	}
	g.reading.Lock()
	defer g.reading.Unlock()
	g.apply(g.read())
	return g.fault
}

// apply takes a version into use, or notes why not. A version that was seen is not looked at again.
// g.reading is held.
func (g *Guard) apply(v version) {
	if v.same(g.seen) {
		return
	}
	p, err := v.parse(g.cfg.File)
	g.seen, g.fault = v, err
	if err == nil {
		g.use(p)
		g.reloads.Add(1)
	} else {
		g.fileOK.Store(false)
		g.faults.Add(1)
	}
	g.cfg.Changed(err)
}

// use takes a policy into use. An issuer that was known keeps its keys.
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

// Run reads the access file again when it changes, and fetches the keys of issuers, until the
// context ends. No request waits for either.
func (g *Guard) Run(ctx context.Context) error {
	var fetching sync.WaitGroup
	defer fetching.Wait()
	tick := time.NewTicker(lookEvery)
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

// look applies a change of the file once two readings agree: a file that is being written may
// parse, and lack the half that is still to come.
func (g *Guard) look(ctx context.Context) {
	g.reading.Lock()
	defer g.reading.Unlock()
	v := g.read()
	if v.same(g.seen) {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(settle):
	}
	if again := g.read(); again.same(v) {
		g.apply(v)
	}
}
