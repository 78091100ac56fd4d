package build

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
)

// probe creates a temporary object to check whether the index store honours conditional writes.
func probe(ctx context.Context, at Place) error {
	key := at.Prefix + layout.ProbeDir + rand.Text()
	put := func(text string, cond objstore.Condition) (objstore.Object, error) {
		return at.Store.Put(ctx, key, strings.NewReader(text), int64(len(text)), cond)
	}
	// A leftover probe is harmless, and gc removes it.
	defer func() { _ = at.Store.Delete(context.WithoutCancel(ctx), key) }()
	failed := func(err error) error {
		if errors.Is(err, ErrReadOnly) {
			return err
		}
		return fmt.Errorf("check that the store supports conditional writes (not required with --single-writer): %w", err)
	}
	obj, err := put("1", objstore.Condition{IfAbsent: true})
	if err != nil {
		return failed(err)
	}
	_, absent := put("2", objstore.Condition{IfAbsent: true})
	_, match := put("3", objstore.Condition{IfMatch: obj.ETag + "0"})
	for _, err := range []error{absent, match} {
		if err == nil {
			return errors.New("the store ignores conditions on writes, so two index runs could overwrite each other: use --single-writer if only one index run writes here")
		}
		if !errors.Is(err, objstore.ErrChanged) {
			return failed(err)
		}
	}
	return nil
}

// publisher publishes a new generation.
type publisher struct {
	store  objstore.Store
	prefix string
	name   string // index name; empty: the default index
	single bool
	data   string // address of the shards, if the index is stored elsewhere
	links  bool   // the index run follows links
	old    layout.Pointer
	oldObj objstore.Object   // zero: no pointer existed
	index  *chunkindex.Index // index that the old pointer names; nil: that index is unreadable
}

// publish writes the index, the binding and the pointer, in this order. unchanged is true if the
// pointer already named the same generation and binding, and the index was intact.
func (p *publisher) publish(ctx context.Context, b *indexFile, binding []byte) (unchanged bool, err error) {
	next := layout.Pointer{Version: layout.PointerVersion, Generation: b.generation, Binding: layout.BindingHash(binding), Data: p.data, Links: p.links}
	if p.old == next && p.intact(ctx, b) {
		return true, nil
	}
	if err := p.noteOwner(ctx, b.generation); err != nil {
		return false, err
	}
	if p.old.Generation != b.generation || !p.intact(ctx, b) {
		// Rewrite the index even if it exists, because gc removes objects by age if no
		// pointer names them yet.
		if _, err := p.store.Put(ctx, layout.IndexObject(p.prefix, b.generation), b.file, b.size, objstore.Condition{}); err != nil {
			return false, err
		}
	}
	key := layout.BindingObject(p.prefix, b.generation, next.Binding)
	if _, err := p.store.Put(ctx, key, bytes.NewReader(binding), int64(len(binding)), objstore.Condition{}); err != nil {
		return false, err
	}
	return false, p.point(ctx, next)
}

// intact reports whether the stored index object exists and is undamaged. It does not read again
// the pages that this run has already read and verified.
func (p *publisher) intact(ctx context.Context, b *indexFile) bool {
	obj, err := p.store.Stat(ctx, layout.IndexObject(p.prefix, b.generation))
	if err != nil || obj.Size != b.size {
		return false
	}
	return p.index == nil || p.index.Prove(ctx) == nil
}

func (p *publisher) point(ctx context.Context, next layout.Pointer) error {
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	var cond objstore.Condition
	switch {
	case p.single:
	case p.oldObj.ETag == "":
		cond.IfAbsent = true
	default:
		cond.IfMatch = p.oldObj.ETag
	}
	_, err = p.store.Put(ctx, layout.PointerObject(p.prefix, p.name), bytes.NewReader(text), int64(len(text)), cond)
	if !errors.Is(err, objstore.ErrChanged) {
		return err
	}
	now, _, rerr := layout.ReadPointer(ctx, p.store, p.prefix, p.name)
	if rerr != nil {
		return fmt.Errorf("another index run published a generation during this run: %w", err)
	}
	if now == next {
		return nil // the other run found the same data, or the response to this run's first attempt was lost
	}
	return fmt.Errorf("another index run published generation %s while this run made %s: run again to index the current objects: %w", now.Generation, next.Generation, err)
}

// noteOwner records that a generation is about to become current in the publisher's index. It runs
// before the index is written, so that a generation without an owner object belongs to the default
// index.
func (p *publisher) noteOwner(ctx context.Context, generation string) error {
	names, err := layout.Owners(ctx, p.store, p.prefix, generation)
	if err != nil {
		return err
	}
	put := func(name string) error {
		text := chunkindex.NameText(name) + "\n"
		_, err := p.store.Put(ctx, layout.OwnerObject(p.prefix, generation, name), strings.NewReader(text), int64(len(text)), objstore.Condition{})
		return err
	}
	if len(names) == 0 {
		if p.name == "" {
			return nil
		}
		_, err := p.store.Stat(ctx, layout.IndexObject(p.prefix, generation))
		if err == nil {
			err = put("")
		}
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return err
		}
	}
	return put(p.name)
}
