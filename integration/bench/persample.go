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

// loosePieces returns many reads of whole objects, with one sample each, in random order.
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

// ranges returns many reads of single samples in the shards, in random order.
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

// waysToSamples holds three lists of store reads, each of which delivers samples of a set.
type waysToSamples struct {
	get    []piece // whole objects with one sample each
	ranged []piece // ranges of single samples in the shards
	whole  []piece // shards, in parts
}

func (d set) waysToSamples(ctx context.Context, store objstore.Store) (w waysToSamples, err error) {
	if w.get, err = d.loosePieces(ctx, store); err != nil {
		return w, err
	}
	if w.ranged, err = d.ranges(ctx, store); err != nil {
		return w, err
	}
	w.whole, err = d.parts(ctx, store, part)
	return w, err
}

// sampleRates holds samples per second, round by round.
type sampleRates struct{ warm, cold, get1, range1, hot, straight []float64 }

// into adds the rates as rows.
func (r *sampleRates) into(s *suite, set string) {
	if s.wants(6) {
		s.table.paired(6, "samples warm, "+set, "what HOT allows", r.warm, r.hot, perSecond())
		s.table.paired(6, "samples warm, "+set, "GET1", r.warm, r.get1, perSecond())
		s.table.paired(6, "samples warm, "+set, "RANGE1", r.warm, r.range1, perSecond())
	}
	if s.wants(7) {
		s.table.paired(7, "samples cold, "+set, "what STRAIGHT allows", r.cold, r.straight, perSecond())
		s.table.paired(7, "samples cold, "+set, "GET1", r.cold, r.get1, perSecond())
	}
}

func (s *suite) perSampleSet(ctx context.Context, d set) error {
	s.logf("one request per sample, %s: %d rounds", d.name, s.rounds)
	ways, err := d.waysToSamples(ctx, s.world.store)
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
	var rates sampleRates
	span := max(s.span, time.Second/2)
	for round := range s.rounds {
		g, err := s.fetch(ctx, ways.get, loose, span)
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
		r, err := s.fetch(ctx, ways.ranged, loose, span)
		if err != nil {
			return err
		}
		rates.hot, rates.warm = append(rates.hot, h.rate()/float64(d.stride())), append(rates.warm, w.sampleRate())
		rates.get1, rates.range1 = append(rates.get1, g.sampleRate()), append(rates.range1, r.sampleRate())
		if s.wants(7) {
			t, err := s.fetch(ctx, ways.whole, streams, 0)
			if err != nil {
				return err
			}
			c, _, err := s.coldEpoch(ctx, d, int64(round), "")
			if err != nil {
				return err
			}
			rates.cold, rates.straight = append(rates.cold, c.sampleRate()), append(rates.straight, t.rate()/float64(d.stride()))
		}
	}
	rates.into(s, d.name)
	return nil
}
