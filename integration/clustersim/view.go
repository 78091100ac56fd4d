package clustersim

import (
	"context"
	"sync"
)

// view is a cluster.Discovery: it shows one machine a selection of the others.
type view struct {
	all []*machine

	mu      sync.Mutex // guards the fields below
	shown   func(machine int) bool
	changed chan struct{} // closed when shown changes
}

// show selects the machines for which the function returns true; nil selects all machines.
func (v *view) show(which func(machine int) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shown = which
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

// Again implements cluster.Discovery. It does nothing, because a view reports each change at once.
func (v *view) Again() {}

// Run implements cluster.Discovery.
func (v *view) Run(ctx context.Context, found func(addresses []string)) error {
	for {
		v.mu.Lock()
		shown := v.shown
		if v.changed == nil {
			v.changed = make(chan struct{})
		}
		changed := v.changed
		v.mu.Unlock()
		var addresses []string
		for _, m := range v.all {
			if shown == nil || shown(m.number) {
				addresses = append(addresses, m.address)
			}
		}
		found(addresses)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
