package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// perSample compares batches with one request per sample.
func (s *suite) perSample(ctx context.Context) error {
	for _, d := range []set{s.world.photos, s.world.text} {
		if err := s.perSampleSet(ctx, d); err != nil {
			return fmt.Errorf("one request per sample, %s: %w", d.name, err)
		}
	}
	return nil
}

// loosePieces are whole objects of one sample each, in random order, again and again.
func (d set) loosePieces(ctx context.Context, store objstore.Store) ([]piece, error) {
	refs := make([]objstore.Ref, d.objects)
	i := 0
	err := store.List(ctx, "loose-"+d.name+"/", func(o objstore.Object) error {
		if i < len(refs) {
			refs[i] = o.Ref()
			i++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	pieces := make([]piece, 1<<16)
	for k := range pieces {
		pieces[k] = piece{refs[rand.IntN(i)], 0, d.payload}
	}
	return pieces, nil
}

// ranges are single samples of the shards, in random order.
func (d set) ranges(ctx context.Context, store objstore.Store) ([]piece, error) {
	refs := make([]objstore.Ref, d.shards)
	for i := range refs {
		obj, err := store.Stat(ctx, d.shard(i))
		if err != nil {
			return nil, err
		}
		refs[i] = obj.Ref()
	}
	pieces := make([]piece, 1<<16)
	for k := range pieces {
		pieces[k] = piece{refs[rand.IntN(len(refs))], rand.Int64N(d.each) * d.stride(), d.stride()}
	}
	return pieces, nil
}

func (s *suite) perSampleSet(ctx context.Context, d set) error {
	s.logf("one request per sample, %s: %d rounds", d.name, s.rounds)
	get, err := d.loosePieces(ctx, s.world.store)
	if err != nil {
		return err
	}
	ranged, err := d.ranges(ctx, s.world.store)
	if err != nil {
		return err
	}
	gw, err := s.world.serve(ctx, s.room(), nil)
	if err != nil {
		return err
	}
	defer gw.stop()
	if _, err := read(ctx, gw.addr, conns, 0, d.once(0)); err != nil {
		return err
	}
	if _, err := d.genuine(ctx, s.world.store, gw.addr, d.path(0, 0)); err != nil {
		return err
	}
	bare, err := startYardstick(ctx, d.body(), s.mib<<20)
	if err != nil {
		return err
	}
	defer bare.stop()
	whole, err := d.parts(ctx, s.world.store, part)
	if err != nil {
		return err
	}
	var warm, cold, get1, range1, hot, straight []float64
	span := max(s.span, time.Second/2)
	for round := range s.rounds {
		g, err := s.fetch(ctx, get, loose, span)
		if err != nil {
			return err
		}
		w, err := read(ctx, gw.addr, conns, s.span, d.epoch(int64(round*1000)))
		if err != nil {
			return err
		}
		h, err := s.measure(ctx, bare, func(int64) string { return "/hot" })
		if err != nil {
			return err
		}
		r, err := s.fetch(ctx, ranged, loose, span)
		if err != nil {
			return err
		}
		hot = append(hot, h.rate()/float64(d.stride()))
		get1, range1, warm = append(get1, g.sampleRate()), append(range1, r.sampleRate()), append(warm, w.sampleRate())
		if s.wants(7) {
			t, err := s.fetch(ctx, whole, streams, 0)
			if err != nil {
				return err
			}
			c, _, err := s.coldEpoch(ctx, d, int64(round), "")
			if err != nil {
				return err
			}
			cold, straight = append(cold, c.sampleRate()), append(straight, t.rate()/float64(d.stride()))
		}
	}
	if s.wants(6) {
		s.table.paired(6, "samples warm, "+d.name, "what HOT allows", warm, hot, perSecond())
		s.table.paired(6, "samples warm, "+d.name, "GET1", warm, get1, perSecond())
		s.table.paired(6, "samples warm, "+d.name, "RANGE1", warm, range1, perSecond())
	}
	if s.wants(7) {
		s.table.paired(7, "samples cold, "+d.name, "what STRAIGHT allows", cold, straight, perSecond())
		s.table.paired(7, "samples cold, "+d.name, "GET1", cold, get1, perSecond())
	}
	return nil
}
