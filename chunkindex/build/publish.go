package build

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
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
	has    map[[sha256.Size]byte]bool // segments of the generation that old names
	oldObj objstore.Object            // zero: no pointer existed
}

// publication is a generation that is ready to publish.
type publication struct {
	generation string
	root       []byte
	segments   []chunkindex.Segment
	binding    []byte

	repeatedKeys uint64
	repeatedKey  string
}

// publish writes the new segments, the index object, the binding and the pointer, in this order.
// unchanged is true if the pointer already named the same generation and binding.
func (p *publisher) publish(ctx context.Context, b publication) (unchanged bool, err error) {
	next := layout.Pointer{
		Version: layout.PointerVersion, Generation: b.generation, Binding: layout.BindingHash(b.binding), Data: p.data, Links: p.links,
		RepeatedKeys: b.repeatedKeys, RepeatedKey: b.repeatedKey,
	}
	if p.old == next {
		return true, nil
	}
	if err := p.noteOwner(ctx, b.generation); err != nil {
		return false, err
	}
	// Rewrite objects even if they exist, because gc removes objects by age if no pointer names
	// them yet.
	if p.old.Generation != b.generation {
		if err := p.putSegments(ctx, b); err != nil {
			return false, err
		}
		if err := p.put(ctx, layout.IndexObject(p.prefix, b.generation), b.root); err != nil {
			return false, err
		}
	}
	if err := p.put(ctx, layout.BindingObject(p.prefix, b.generation, next.Binding), b.binding); err != nil {
		return false, err
	}
	return false, p.point(ctx, next)
}

func (p *publisher) put(ctx context.Context, key string, b []byte) error {
	_, err := p.store.Put(ctx, key, bytes.NewReader(b), int64(len(b)), objstore.Condition{})
	return err
}

const segmentWrites = 4 // concurrent writes of segments

// putSegments stores the segments that the current generation of the index does not have.
func (p *publisher) putSegments(ctx context.Context, b publication) error {
	return parallel.Each(ctx, segmentWrites, len(b.segments), func(ctx context.Context, _, i int) error {
		s := b.segments[i]
		if p.has[s.Ref.Digest] {
			return nil
		}
		_, err := p.store.Put(ctx, layout.SegmentObject(p.prefix, s.Ref.Name()), s.Reader(), s.Ref.Size, objstore.Condition{})
		return err
	})
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
